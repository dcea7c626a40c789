"""What a merge leaves to be found: the canonical by its meaning, and whoever led to a duplicate by the canonical."""

from __future__ import annotations

from typing import Any

import pytest

from quipu import Memory
from tests.service.looks import kept, verifies


@pytest.mark.parametrize("strategy", ["merge_content", "keep_highest_confidence"])
@pytest.mark.parametrize("given", [{"tags": ["evening"]}, {"type": "episodic", "location": "Porto"}])
async def test_a_merge_that_changes_no_word_of_the_text_is_still_found_by_its_meaning(
    memory: Memory, strategy: str, given: dict[str, Any]
) -> None:
    fields = {"type": "semantic", "tags": ["noon"], **given}
    one = await kept(memory, "tea at noon", type=fields["type"], confidence=0.5)
    two = await kept(memory, "tea at noon", **fields, confidence=0.9)
    await memory.merge(one, [two], strategy=strategy)
    (hit,) = await memory.recall("tea", min_relevance=0, explain=True)
    assert (hit.id, hit.version) == (one, 2)
    assert hit.why is not None
    assert hit.why["cosine"] is not None
    counts = await memory.statistics()
    assert counts["vectors"] == counts["versions"] == 3
    assert await verifies(memory)


async def test_a_link_follows_its_target_through_every_merge_also_when_it_is_written_again(
    memory: Memory,
) -> None:
    first, second, last = [await kept(memory, f"harbour {name}") for name in ("one", "two", "three")]
    linked = await kept(memory, "harbour four", links=[{"to": first, "rel": "about"}])
    await memory.merge(second, [first])
    await memory.merge(last, [second])
    for tags in (["old"], ["new"]):
        hits = {hit.id: hit for hit in await memory.recall("harbour", hops=1, min_relevance=0)}
        assert hits[linked].supporting == (last,)
        await memory.remember("harbour four", id=linked, update_strategy="merge", tags=tags)
    assert await verifies(memory)
