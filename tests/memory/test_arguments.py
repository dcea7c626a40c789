"""Values that would once have been taken for something else, or have ended in a raw error."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import quipu.sync
from quipu import InvalidError, Memory

HALF = "\ud800"
CASES: dict[str, tuple[Callable[[Memory], Awaitable[Any]], str]] = {
    "an empty text as a filter": (lambda m: m.recall("x", filter=_any("")), "/filter"),
    "an empty list as a filter": (lambda m: m.list(filter=_any([])), "/filter"),
    "an empty text as a filter of what goes": (
        lambda m: m.expire({"type": "semantic"}, filter=_any("")),
        "/filter",
    ),
    "an empty text among what goes": (lambda m: m.forget(ids=["mem_1"], filter=_any("")), "/filter"),
    "an empty text as types": (lambda m: m.recall("x", types=""), "/types"),
    "an empty object as types": (lambda m: m.list(types=_any({})), "/types"),
    "an empty text as ids": (lambda m: m.forget(ids="", filter={"tags": "old"}), "/ids"),
    "a floor that is no word": (lambda m: m.recall("x", min_relevance="high"), "/min_relevance"),
    "a status that is no word": (lambda m: m.proposals("aproved"), "/status"),
    "a status of half a character": (lambda m: m.proposals("\ud800"), "/status"),
    "a tenant of half a character": (lambda m: m.list_tokens(tenant="\ud800"), "/tenant"),
    "a store erased by a word": (
        lambda m: m.delete_store("x", confirm="x", hard_delete=_any("no")),
        "/hard_delete",
    ),
    "a decision by a word": (lambda m: m.decide("prp_1", approved=_any("no")), "/approved"),
    "a decision for a number": (lambda m: m.decide("prp_1", approved=False, reason=_any(7)), "/reason"),
    "a decision for half a character": (lambda m: m.decide("prp_1", approved=False, reason=HALF), "/reason"),
    "an import decided by a word": (lambda m: m.decide_import("imp_1", approved=_any("no")), "/approved"),
    "what a run did erased by a word": (lambda m: m.recover(run_id="r", hard=_any("no")), "/hard"),
    "what a run did undone by a word": (lambda m: m.recover(run_id="r", apply=_any("no")), "/apply"),
    "a pass tried by a word": (lambda m: m.consolidate(dry_run=_any("")), "/dry_run"),
    "a moment that is a word": (lambda m: m.neighbours("mem_1", valid_at=_any("now")), "/valid_at"),
    "progress of a check": (lambda m: m.verify(_any(5)), "/progress"),
    "progress of an import": (lambda m: m.import_records([{"content": "x"}], progress=_any(5)), "/progress"),
    "progress of a pass": (lambda m: m.consolidate(progress=_any(5)), "/progress"),
    "a backup without a name": (lambda m: m.backup(""), "/target"),
    "a proof without a name": (lambda m: m.export_journal(""), "/folder"),
    "a proof with U+0000 in its name": (lambda m: m.export_journal("a\0b"), "/folder"),
    "a file without a name": (lambda m: m.export_file(""), "/file"),
    "a file of half a character": (lambda m: m.export_file("\ud800"), "/file"),
    "a file that is a directory": (lambda m: m.export_file("."), "/file"),
    "a file with U+0000 in its name": (lambda m: m.import_file("a\0b"), "/file"),
    "a passphrase of half a character": (lambda m: m.export_file("x", passphrase=HALF), "/passphrase"),
    "a file of a user who is a number": (lambda m: m.export_file("x", user_id=_any(5)), "/user_id"),
}


def _any(value: object) -> Any:
    return value


def names(folder: Path) -> set[str]:
    return {item.name for item in folder.iterdir()}


@pytest.mark.parametrize(("call", "place"), CASES.values(), ids=CASES)
async def test_it_is_told_with_its_place_and_nothing_changes(
    call: Callable[[Memory], Awaitable[Any]], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        await memory.remember("Deploys happen on Tuesdays")
        before = (await memory.journal(limit=100))[-1].seq
        with pytest.raises(InvalidError) as refused:
            await call(memory)
        assert refused.value.faults[0].pointer == place
        assert (await memory.journal(limit=100))[-1].seq == before
    assert names(tmp_path) <= {"memory.db", "memory.db.key"}


async def test_a_wrong_floor_names_the_numbers_too(tmp_path: Path) -> None:
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        with pytest.raises(InvalidError) as refused:
            await memory.recall("x", min_relevance="high")
    assert refused.value.faults[0].accepted == ("auto", "strict", "off", "a number from 0 to 1")


def test_a_traceback_says_what_to_do() -> None:
    """`str()` stays the bare message; what is accepted, or the hint, stands below it where nobody caught it."""
    wrong = InvalidError.at("/k", "bad_value", "k is wrong.", accepted=["1 … 1000"])
    shown = "".join(traceback.format_exception_only(wrong)).splitlines()
    assert (str(wrong), shown[-1]) == ("k is wrong.", "Accepted: 1 … 1000.")
    hinted = InvalidError("No.", hint="Try again.").within("/items/1")
    assert "".join(traceback.format_exception_only(hinted)).splitlines()[-1] == "Try again."
    assert not hasattr(InvalidError("No."), "__notes__")


async def test_every_field_can_be_named(tmp_path: Path) -> None:
    """As the reference says, and as code that was written for memorywire's own package does."""
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        kept = await memory.remember(content="Deploys happen on Tuesdays")
        again = await memory.remember(content="Deploys happen on Tuesday")
        assert [hit.id for hit in await memory.recall(query="deploys", k=1)]
        merged = await memory.merge(canonical=kept.id, duplicates=[again.id])
        assert merged.merged_count == 1
        assert (await memory.expire(policy={"older_than_days": 1})).matched_count == 0


def test_every_field_can_be_named_without_awaiting(tmp_path: Path) -> None:
    with quipu.sync.Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        kept = memory.remember(content="Deploys happen on Tuesdays")
        assert memory.recall(query="deploys")[0].id == kept.id
        assert memory.merge(canonical=kept.id, duplicates=["mem_1"]).merged_count == 0
        assert memory.expire(policy={"older_than_days": 1}).matched_count == 0


async def test_who_forgets_an_id_is_told_how(tmp_path: Path) -> None:
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        with pytest.raises(InvalidError) as refused:
            await memory.forget(_any("mem_1"))
    assert "ids=" in (refused.value.hint or "")


async def test_fields_of_a_type_may_be_none_as_all_others_may(tmp_path: Path) -> None:
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        plain = await memory.remember("Tea at noon", valence=None, event_time=None)
        felt = await memory.remember("Glad of tea", type="emotional", valence=0.5, arousal=None)
        assert (await memory.get(plain.id)).details == {}
        assert (await memory.get(felt.id)).details == {"valence": 0.5}
