"""Every example runs in an empty folder and says what it should."""

import runpy
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

FOLDER = ROOT / "examples"
#: What each example is there to show.
SAYS = {
    "chat_history.py": ["The 14th of June suits everybody.", " fit"],
    "erase.py": ["before: True", "after:  False", "faults in the journal: 0"],
    "memorywire_example.py": ["semantic User prefers concise answers", "merged 1", "forgotten 1"],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("example", SAYS)
def test_an_example_does_what_it_says(
    example: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [example])
    runpy.run_path(str(FOLDER / example), run_name="__main__")
    printed = capsys.readouterr().out
    for said in SAYS[example]:
        assert said in printed


def test_every_example_is_listed_and_short() -> None:
    index = (FOLDER / "README.md").read_text("utf-8")
    assert {example.name for example in FOLDER.glob("*.py")} == set(SAYS)
    for example in SAYS:
        assert f"({example})" in index
        assert len((FOLDER / example).read_text("utf-8").splitlines()) < 45
