"""Requirements and tests trace each other: nothing is promised untested, nothing is tested unpromised."""

import re
import tomllib
from pathlib import Path

TESTS = Path(__file__).parent.parent
MANIFESTS = sorted((TESTS / "requirements").glob("*.toml"))
CLAIM = re.compile(r"^\s*@requirement\(\"(.+?)\"\)", re.M)
ENTRY = {"source", "behaviour", "divergence", "deferred"}


def entries(file: Path) -> dict[str, dict[str, str]]:
    """Requirement → its entry."""
    return tomllib.loads(file.read_text("utf-8")).get("requirement", {})


def test_requirements_and_tests_trace_each_other() -> None:
    promised = {
        f"{file.stem}:{name}"
        for file in MANIFESTS
        for name, entry in entries(file).items()
        if "deferred" not in entry
    }
    claimed = {name for file in TESTS.rglob("test_*.py") for name in CLAIM.findall(file.read_text("utf-8"))}
    assert promised == claimed


def test_a_manifest_says_what_it_is_and_each_entry_says_what_is_promised() -> None:
    for file in MANIFESTS:
        manifest = tomllib.loads(file.read_text("utf-8"))
        assert {"contract", "version"} <= manifest.keys(), file.name
        for name, entry in entries(file).items():
            place = f"{file.stem}:{name}"
            assert {"source", "behaviour"} <= entry.keys() <= ENTRY, place
            assert all(isinstance(text, str) and text.strip() for text in entry.values()), place
