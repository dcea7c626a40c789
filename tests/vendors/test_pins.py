"""What `vendors/` holds: exact versions with hashes, no addresses, and nothing that no test uses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[2]
_VENDORS = _ROOT / "vendors"
_PYTHON = sorted(_VENDORS.glob("*.in"))
_NODE = sorted(_VENDORS.glob("*/package.json"))


def _name(file: Path) -> str:
    return file.stem if file.suffix == ".in" else file.parent.name


@pytest.mark.parametrize("wanted", _PYTHON, ids=_name)
def test_python_packages_are_pinned_with_hashes(wanted: Path) -> None:
    pins = wanted.with_suffix(".txt").read_text("utf-8")
    assert "://" not in pins
    entries = re.split(r"\n(?=\S)", pins)
    packages = [entry for entry in entries if not entry.startswith("#")]
    assert packages
    for package in packages:
        assert re.match(r"[A-Za-z0-9._\[\],-]+==\S+ ", package), package.splitlines()[0]
        assert "--hash=sha256:" in package, package.splitlines()[0]


@pytest.mark.skipif(not _NODE, reason="there is no system of Node's")
@pytest.mark.parametrize("wanted", _NODE, ids=_name)
def test_node_packages_are_pinned_with_hashes(wanted: Path) -> None:
    asked: dict[str, str] = json.loads(wanted.read_text("utf-8")).get("dependencies", {})
    assert asked
    assert all(re.match(r"\d", version) for version in asked.values()), "exact versions"
    pins = json.loads(wanted.with_name("package-lock.json").read_text("utf-8"))
    packages: dict[str, dict[str, Any]] = {name: one for name, one in pins["packages"].items() if name}
    assert packages
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert package["integrity"].startswith("sha512-"), name


@pytest.mark.parametrize("wanted", [*_PYTHON, *_NODE], ids=_name)
def test_each_system_has_tests(wanted: Path) -> None:
    mark = f'vendor(name="{_name(wanted)}")'
    assert any(mark in file.read_text("utf-8") for file in (_ROOT / "tests").rglob("*.py"))


def test_every_pin_says_what_was_wanted() -> None:
    for pins in _VENDORS.glob("*.txt"):
        assert pins.with_suffix(".in").exists(), pins.name
