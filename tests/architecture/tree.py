"""The files of this repository, as the architecture tests see them."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "quipu"
TESTS = ROOT / "tests"
BINARY = {".db", ".gif", ".gz", ".ico", ".jpg", ".npy", ".npz", ".onnx", ".png", ".safetensors", ".zip"}


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that git keeps or would keep."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    names = {name for name in listing.stdout.decode("utf-8").split("\0") if name}
    return tuple(file for file in sorted(ROOT / name for name in names) if file.is_file())


def texts() -> list[Path]:
    """The tracked files that hold text."""
    return [file for file in tracked() if file.suffix not in BINARY]


def pythons() -> list[Path]:
    """The tracked Python files."""
    return [file for file in tracked() if file.suffix == ".py"]


def shown(file: Path) -> str:
    """A path as people write it."""
    return file.relative_to(ROOT).as_posix()
