"""What a router shows counts as recalled with its peers, and nothing that it only looked at."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quipu import Memory, QuipuError, Router
from quipu.testing.embedders import WordEmbedder
from tests.conformance.conftest import opened as servers
from tests.fixtures.memories import Clock
from tests.router.conftest import opened
from tests.router.puppet import Puppet

TEXTS = [f"the ferry to island number {number} leaves at noon" for number in range(8)]
ASKED: dict[str, Any] = {"query": "ferry to island number 3", "k": 1, "min_relevance": "off"}


async def counts(memory: Memory) -> dict[str, int]:
    """How often each text was recalled. What is waiting to be noted is written by an expiry that looks at it."""
    await memory.expire({"no_recall_in_days": 36_500}, agent_id="ana", dry_run=True)
    return {
        str(record.content): record.recall_count for record in (await memory.list(agent_id="ana")).records
    }


def only(*texts: str) -> dict[str, int]:
    return {text: int(text in texts) for text in TEXTS}


async def filled(peers: dict[str, Any], **options: Any) -> Router:
    router = Router(peers, agent_id="ana", **options)
    for text in TEXTS:
        await router.remember(content=text)
    return router


async def test_only_what_was_shown_counts_as_recalled(peers: dict[str, Memory]) -> None:
    router = await filled(peers)
    (hit,) = await router.recall(**ASKED)
    assert hit.content == TEXTS[3]
    assert [await counts(memory) for memory in peers.values()] == [only(TEXTS[3])] * 3
    await router.recall(**{**ASKED, "count_recall": False})
    assert await counts(peers["a"]) == only(TEXTS[3])
    noted = await router.note_recalled([hit.id, "mem_unknown"])
    assert noted.counted == 1
    assert (await counts(peers["b"]))[TEXTS[3]] == 2


async def test_only_what_was_shown_counts_with_peers_on_servers_too(tmp_path: Path) -> None:
    async with (
        servers(WordEmbedder(), str(tmp_path / "a.db")) as one,
        servers(WordEmbedder(), str(tmp_path / "b.db")) as two,
    ):
        router = await filled({"a": one.remote(), "b": two.remote()})
        (hit,) = await router.recall(**ASKED)
        assert hit.content == TEXTS[3]
        for at in (one, two):
            assert await counts(at.memory()) == only(TEXTS[3])


async def test_one_peer_alone_counts_by_itself(peers: dict[str, Memory]) -> None:
    router = await filled({"a": peers["a"]})
    await router.recall(**ASKED)
    assert await counts(peers["a"]) == only(TEXTS[3])


async def test_what_was_cut_for_the_budget_was_not_recalled(peers: dict[str, Memory]) -> None:
    router = await filled(peers)
    shown = await router.recall(**{**ASKED, "k": 8, "max_tokens": 25})
    assert 0 < len(shown) < 8
    assert sum((await counts(peers["a"])).values()) == len(shown)


async def test_routers_over_routers_count_what_the_outermost_shows(
    memories: Callable[[str], dict[str, Memory]],
) -> None:
    three = memories("abc")
    inner = Router({name: three[name] for name in "ab"})
    router = await filled({"inner": inner, "c": three["c"]})
    (hit,) = await router.recall(**ASKED)
    assert hit.content == TEXTS[3]
    for memory in three.values():
        assert await counts(memory) == only(TEXTS[3])


async def test_a_recall_that_fails_recalls_nothing(peers: dict[str, Memory]) -> None:
    broken = Puppet(peers["b"])
    router = await filled({"a": peers["a"], "broken": broken})
    broken.fails = True
    with pytest.raises(QuipuError):
        await router.recall(**ASKED, quorum_k=2)
    assert await counts(peers["a"]) == only()


async def test_a_peer_that_cannot_be_told_what_was_shown_fails_nothing(peers: dict[str, Memory]) -> None:
    class Untold(Puppet):
        async def note_recalled(self, ids: list[str]) -> Any:
            raise OSError("away")

    router = await filled({"a": peers["a"], "untold": Untold(peers["b"])})
    assert [hit.content for hit in await router.recall(**ASKED)] == [TEXTS[3]]
    assert await counts(peers["a"]) == only(TEXTS[3])


async def test_expiry_goes_by_what_was_shown() -> None:
    """What was only looked at is as unused as it was."""
    clock = Clock()
    two = {name: opened(clock=clock) for name in "ab"}
    router = Router(two, agent_id="ana")
    kept = {text: (await router.remember(content=text)).id for text in TEXTS}
    clock.now += 30 * 86_400_000
    await router.recall(**ASKED)
    found = await router.expire(policy={"no_recall_in_days": 10}, dry_run=True)
    assert set(found.ids) == set(kept.values()) - {kept[TEXTS[3]]}
    for memory in two.values():
        await memory.close()
