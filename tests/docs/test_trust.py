"""The table of docs/explanation/trust.md is true: each row is done to a real file, and the fault it names is found."""

import re
from pathlib import Path

import apsw
import pytest

from quipu.sync import Memory
from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "explanation" / "trust.md"
#: What somebody does → what they write into the file, past its triggers.
DEEDS = {
    "edits an entry": "UPDATE journal SET actor = 'x' WHERE seq = 3",
    "edits an entry and gives it a fitting hash": None,
    "removes an entry from the middle": "DELETE FROM journal WHERE seq = 3",
    "edits a record's text, metadata, scope, times": "UPDATE record SET user_id = 'x' WHERE row = 1",
    "edits a held write that waits for a decision": "UPDATE proposal SET request = replace(request, 'ten', '1')",
    "adds a record without an entry": None,
    "deletes a record's row": "DELETE FROM record WHERE row = 2",
    "empties a record without an erasure": "UPDATE record SET content = '', salt = NULL WHERE row = 2",
    "ends or revives a version quietly, or says that it ended otherwise": "UPDATE record SET ending = 'expired' WHERE row = 3",
    "takes a held write away, adds a yes to it, or turns a decision round": "DELETE FROM proposal",
    "edits a link, a rank, a rule, a token, a reason": "UPDATE reason SET text = 'x'",
    "renames a store, sends notices elsewhere, swaps a registered secret": "UPDATE store SET name = 'x' WHERE name = 'attic'",
    "edits which events the log of a run tells": None,
    "hides a record from search by its row": "UPDATE record SET emptied = 5 WHERE row = 2",
    "edits the search index, so that a record is not found": "UPDATE record SET terms = x'' WHERE row = 2",
    "cuts off the end of the journal": "DELETE FROM journal WHERE seq >= 5",
    "puts an older copy in the place of the file": None,
    "writes the whole journal anew, with fitting hashes": None,
    "flips bits on the disk": None,
}


def rows() -> dict[str, list[str]]:
    """What the page says: deed → kinds of fault."""
    section = PAGE.read_text("utf-8").split("## What is found")[1].split("\n## ")[0]
    found = re.findall(r"^\| (?!somebody|-)(.+?) \| (.+?) \|$", section, re.M)
    return {deed: re.findall(r"`(\w+)`", told) for deed, told in found}


def test_the_table_has_the_rows_that_are_tried() -> None:
    assert set(rows()) == set(DEEDS)


@pytest.mark.parametrize(("deed", "statement"), [(deed, sql) for deed, sql in DEEDS.items() if sql])
def test_what_somebody_does_to_the_file_is_found(deed: str, statement: str, place: Path) -> None:
    with Memory(agent_id="a", stores="memory.db", embedder="none") as memory:
        memory.create_store("attic")
        memory.remember("one two three")
        memory.remember("four five six")
        gone = memory.remember("seven eight nine")
        memory.forget(ids=[gone.id], reason="no longer so")
        memory.remember("ten eleven twelve", approval_required=True)
        memory.checkpoint()
    database = apsw.Connection("memory.db")
    for (trigger,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {trigger}")
    database.execute(statement)
    database.close()
    with Memory(agent_id="a", stores="memory.db", embedder="none") as memory:
        found = [fault.kind for fault in memory.verify().faults]
    assert set(rows()[deed]) <= set(found)
