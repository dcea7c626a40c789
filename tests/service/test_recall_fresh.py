"""What recall keeps from one question to the next never outlives what it was made from."""

from __future__ import annotations

from pathlib import Path

from quipu import Memory
from tests.service.conftest import Opened
from tests.service.looks import found, kept


async def test_a_store_that_was_deleted_has_no_name_whoever_asked_before(
    opened: Opened, tmp_path: Path
) -> None:
    """As of a position before, the record is still there, and a reader that comes new knows no name either."""
    early, other = opened(tmp_path / "m.db"), opened(tmp_path / "m.db")
    await early.create_store("attic")
    record_id = await kept(early, "harbour", store="attic", metadata={"n": 1})
    then = (await early.recall("harbour")).extensions["seq"]
    asked = {"as_of": then, "filter": {"store": "attic", "n": 1}}
    unnamed = {"as_of": then, "filter": {"store": "", "record.version": 1}}
    for memory in (early, other):
        assert await found(memory, "harbour", **asked) == [record_id]
    await other.delete_store("attic", confirm="attic")
    await other.create_store("attic")
    late = opened(tmp_path / "m.db")
    for memory in (late, other, early):
        assert await found(memory, "harbour", **asked) == []
        assert await found(memory, "harbour", **unnamed) == [record_id]
        (hit,) = await memory.recall("harbour", as_of=then, filter={"n": 1})
        assert (hit.id, hit.store) == (record_id, "")


async def test_recall_as_of_a_position_ranks_as_it_did_then(memory: Memory) -> None:
    """Whatever was said between two turns since, and whoever came that is called alike."""
    for number, said in enumerate(("Shall we meet at the quay?", "Yes, at noon.", "Bring the rope.")):
        await kept(memory, said, type="episodic", session_id="s", event_time=1_000 * number, user_id="mara")
    await kept(memory, "Bo mends nets", user_id="bo")

    async def told(**asked: int) -> list[tuple[str, float, float]]:
        answer = await memory.recall("What does Mara say of the quay?", min_relevance=0, **asked)
        return [(hit.id, hit.score, hit.relevance) for hit in answer]

    then = (await memory.recall("quay", min_relevance=0)).extensions["seq"]
    before = await told()
    for number in range(6):
        await kept(memory, "No.", type="episodic", session_id="s", event_time=500, user_id=f"mara.{number}x")
    assert await told(as_of=int(str(then))) == before


async def test_a_word_is_found_however_its_accents_are_written(memory: Memory) -> None:
    apart = await kept(memory, "Zoe\u0308 keeps her re\u0301sume\u0301 in the attic")
    whole = await kept(memory, "Zo\u00eb sent a r\u00e9sum\u00e9")
    await kept(memory, "something else")
    for asked in ("re\u0301sume\u0301", "r\u00e9sum\u00e9", "resume"):
        answer = await memory.recall(asked, min_relevance=0, explain=True)
        covered = {hit.id for hit in answer if hit.why is not None and hit.why["coverage"] == 1.0}
        assert covered == {apart, whole}
