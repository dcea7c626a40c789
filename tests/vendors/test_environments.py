"""Each environment holds what its tests are about, and nothing that spoils it."""

from pathlib import Path

import pytest

from tests.vendors.environments import ROOT, python_of

_SYSTEMS = [
    pytest.param("cognee", "cognee", marks=pytest.mark.vendor(name="cognee")),
    pytest.param("graphiti", "graphiti-core", marks=pytest.mark.vendor(name="graphiti")),
    pytest.param("langgraph", "langgraph", marks=pytest.mark.vendor(name="langgraph")),
    pytest.param("letta", "letta", marks=pytest.mark.vendor(name="letta")),
    pytest.param("mcp1", "mcp", marks=pytest.mark.vendor(name="mcp1")),
    pytest.param("mem0", "mem0ai", marks=pytest.mark.vendor(name="mem0")),
]


@pytest.mark.parametrize(("system", "package"), _SYSTEMS)
def test_an_environment_holds_what_is_pinned_and_not_two_that_overwrite_each_other(
    system: str, package: str
) -> None:
    installed = _installed(python_of(system))
    pins = (ROOT / f"vendors/{system}.txt").read_text("utf-8")
    assert f"{package}=={installed[package]} " in pins
    # Cognee's wheel writes a `kuzu` of its own over the real one.
    assert not {"cognee", "kuzu"} <= installed.keys()


def _installed(python: str) -> dict[str, str]:
    """Packages and their versions."""
    found = Path(python).parents[1].glob("lib/*/site-packages/*.dist-info")
    parts = (folder.name.removesuffix(".dist-info").partition("-") for folder in found)
    return {name.lower().replace("_", "-"): version for name, _, version in parts}
