"""Every example runs in an empty folder, says what it should, and is short."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from quipu.sync import Memory
from tests.architecture.tree import ROOT, shown

FOLDER = ROOT / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
#: What each example is there to show.
SAYS = {
    "chat_history.py": ["The 14th of June suits everybody.", " fit"],
    "erase.py": ["before: True", "after:  False", "the journal holds: True"],
    "import_export.py": ["read 3, stored 3, failed 0", "stored 1, failed 1: line 2"],
    "memorywire_example.py": ["semantic User prefers concise answers", "merged 1", "forgotten 1"],
    "quickstart.py": [
        "What does Mara eat? -> Mara is vegetarian",
        "Who won the chess game? -> nothing matches",
    ],
    "shared_store.py": ["writer finds: The deadline is Friday - by researcher", "writer finds 0 of"],
    "sync_quickstart.py": ["mara -> Mara is vegetarian", "2 memories are tagged food"],
    "time_travel.py": ["now:  Mara lives in Porto", "then: Mara lives in Lisbon", "restored as version 3"],
    "verify_offline.py": ["entries that hold: 2"],
}


@pytest.mark.parametrize("example", EXAMPLES, ids=shown)
def test_an_example_does_what_it_says(
    example: Path, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    printed = capsys.readouterr().out
    for said in SAYS[example.name]:
        assert said in printed


def test_every_example_is_listed_and_short() -> None:
    index = (FOLDER / "README.md").read_text("utf-8")
    assert {example.name for example in EXAMPLES} == set(SAYS)
    for example in EXAMPLES:
        assert f"({example.name})" in index
        assert len(example.read_text("utf-8").splitlines()) < 40


def test_the_offline_check_finds_an_altered_entry(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["verify_offline.py"])
    check = runpy.run_path(str(FOLDER / "verify_offline.py"))["check"]
    runpy.run_path(str(FOLDER / "verify_offline.py"), run_name="__main__")
    journal = place / "proof" / "journal.ndjson"
    journal.write_text(journal.read_text("utf-8").replace('"op":"remember"', '"op":"recall"'), "utf-8")
    with pytest.raises(SystemExit, match="entry 2 was altered"):
        check(place / "proof")


def test_the_offline_check_is_of_the_folder_that_it_is_given(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = str(FOLDER / "verify_offline.py")
    monkeypatch.setattr(sys, "argv", [program])
    runpy.run_path(program, run_name="__main__")
    theirs = (place / "proof").rename(place / "theirs")
    keys = (theirs / "keys.json").rename(place / "trusted.json")
    monkeypatch.setattr(sys, "argv", [program, str(theirs), str(keys)])
    capsys.readouterr()
    runpy.run_path(program, run_name="__main__")
    assert capsys.readouterr().out == "entries that hold: 2\n"
    assert not (place / "proof").exists()  # nothing was made to check something else
    first, *rest = (theirs / "journal.ndjson").read_text("utf-8").splitlines(keepends=True)
    altered = json.dumps({**json.loads(first), "actor": "somebody"}) + "\n"
    (theirs / "journal.ndjson").write_text(altered + "".join(rest), "utf-8")
    with pytest.raises(SystemExit, match="entry 1 was altered"):
        runpy.run_path(program, run_name="__main__")


def test_the_offline_check_takes_a_line_for_what_it_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text may hold what some readers take for the end of a line."""
    monkeypatch.setattr(sys, "argv", ["verify_offline.py"])
    check = runpy.run_path(str(FOLDER / "verify_offline.py"))["check"]
    with Memory(agent_id="a\u2028b\u0085c", stores="memory.db", embedder="none") as memory:
        memory.remember("Deploys happen on Tuesdays")
        memory.export_journal("proof")
    assert check(place / "proof") == 2


def test_the_offline_check_wants_the_end_signed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["verify_offline.py"])
    check = runpy.run_path(str(FOLDER / "verify_offline.py"))["check"]
    with Memory(agent_id="a", stores="memory.db", embedder="none") as memory:
        memory.checkpoint()
        memory.remember("Deploys happen on Tuesdays")
        memory.export_journal("proof")
    points = place / "proof" / "checkpoints.ndjson"
    first, _ = points.read_text("utf-8").splitlines(keepends=True)
    for left, behind in ((first, 1), ("", 0)):
        points.write_text(left, "utf-8")
        with pytest.raises(SystemExit, match=f"nobody has signed the entries behind {behind}"):
            check(place / "proof")
