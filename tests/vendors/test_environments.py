"""Each environment holds what its tests are about, and nothing that spoils it."""

import re
from pathlib import Path

import pytest

from tests.vendors.environments import ROOT, python_of

_SYSTEMS = [file.stem for file in sorted((ROOT / "vendors").glob("*.in"))]


@pytest.mark.parametrize(
    "system", [pytest.param(name, marks=pytest.mark.vendor(name=name)) for name in _SYSTEMS]
)
def test_an_environment_holds_what_is_pinned_and_not_two_that_overwrite_each_other(system: str) -> None:
    installed = _installed(python_of(system))
    wanted, pins = ((ROOT / f"vendors/{system}{end}").read_text("utf-8") for end in (".in", ".txt"))
    package = re.findall(r"^[a-z0-9-]+", wanted, re.M)[0]
    assert f"{package}=={installed[package]} " in pins
    # Cognee's wheel writes a `kuzu` of its own over the real one.
    assert not {"cognee", "kuzu"} <= installed.keys()


def _installed(python: str) -> dict[str, str]:
    """Packages and their versions."""
    found = Path(python).parents[1].glob("lib/*/site-packages/*.dist-info")
    parts = (folder.name.removesuffix(".dist-info").partition("-") for folder in found)
    return {name.lower().replace("_", "-"): version for name, _, version in parts}
