"""What the base install weighs: under 250 MB and without torch. `make size` weighs a real one; this one asks the pins."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tests.architecture.test_pins import pins
from tests.architecture.tree import ROOT, SOURCE

LIMIT = 250 * 1_000_000
#: Ours is run from its folder, where its own bytecode lies about in several versions.
BYTECODE_FACTOR = 2.5


def weight(package: str) -> int:
    """The bytes of an installed package; one for another platform weighs nothing here."""
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return 0
    return sum(
        Path(str(file.locate())).stat().st_size for file in files if Path(str(file.locate())).is_file()
    )


def test_the_base_install_stays_small_and_without_torch() -> None:
    base = pins(ROOT / "requirements-base.txt")
    assert "torch" not in base
    weights = {package: weight(package) for package in base}
    assert weights["onnxruntime"] > 1_000_000  # else nothing was weighed
    own = sum(file.stat().st_size for file in SOURCE.rglob("*") if file.is_file() and file.suffix != ".pyc")
    total = sum(weights.values()) + int(own * BYTECODE_FACTOR)
    heaviest = sorted(weights.items(), key=lambda item: -item[1])[:5]
    assert total < LIMIT, (total, heaviest)
