"""What a pass says beforehand is what it does, and what was said beside the words is not lost."""

from __future__ import annotations

from typing import Any

import pytest

from quipu.model.operations import RememberRequest
from quipu.model.record import MemoryType
from quipu.service.memory import MemoryService
from tests.consolidation.conftest import OWNER, Push
from tests.consolidation.test_consolidating import HEAVY, live, settle


async def known(service: MemoryService, content: str) -> str:
    """A long-term memory."""
    request = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=content)
    return (await service.remember(OWNER, request)).id


async def test_a_dry_run_tells_what_is_known_already(service: MemoryService, push: Push) -> None:
    there = await known(service, "Mara lives in Bonn")
    await push("Mara lives in Bonn", **HEAVY)
    await push("Jon keeps bees", **HEAVY)
    would = await settle(service, dry_run=True)
    done = await settle(service)
    assert would.counts == done.counts == {"known": 1, "promoted": 1}
    assert [one.into for one in would.settled if one.outcome == "known"] == [there]


@pytest.mark.parametrize("given", [{"tags": ("vip",)}, {"metadata": {"source_page": 7}}])
async def test_what_an_older_saying_adds_is_not_lost_with_the_newest(
    service: MemoryService, push: Push, given: dict[str, Any]
) -> None:
    await known(service, "Mara lives in Bonn")
    await push("Mara lives in Bonn", **HEAVY, **given)
    await push("Mara lives in Bonn", **HEAVY)
    assert (await settle(service)).counts == {"promoted": 2}
    (kept,) = [one for one in await live(service) if one.source == "consolidation"]
    assert (kept.tags, kept.metadata) == (given.get("tags", ()), given.get("metadata", {}))
