"""A record that goes while somebody is about to change it stays gone."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from quipu import ConflictError, NotFoundError, RememberRequest
from quipu.model.operations import (
    ExpireAction,
    ExpirePolicy,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    MergeStrategy,
)
from quipu.model.principal import DEFAULT_TENANT, local
from quipu.model.record import MemoryType, State
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from tests.service.ledgers import watched_service

ME = local()


def fact(text: str, **fields: Any) -> RememberRequest:
    return RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=text, **fields)


def changing(service: MemoryService, way: str, one: str, other: str) -> Awaitable[Any]:
    """Something that ends in another version of the record, or in another standing."""
    if way == "merge":
        strategy = MergeStrategy.MERGE_CONTENT
        asked = MergeRequest(agent_id="ana", canonical=one, duplicates=(other,), strategy=strategy)
        return service.merge(ME, asked)
    if way in ("archive", "demote"):
        policy = ExpirePolicy(confidence_below=0.5)
        return service.expire(ME, ExpireRequest(agent_id="ana", policy=policy, action=ExpireAction(way)))
    return service.remember(ME, fact("cake", id=one, if_version=1 if way == "guarded change" else None))


@pytest.mark.parametrize("way", ["change", "guarded change", "merge", "archive", "demote"])
@pytest.mark.parametrize("going", ["forgotten", "merged away"])
async def test_what_goes_while_it_is_being_changed_stays_gone(
    clock: FixedClock, way: str, going: str
) -> None:
    async with watched_service(clock) as (service, ledger):
        one = (await service.remember(ME, fact("tea", confidence=0.1))).id
        other, third = [(await service.remember(ME, fact(text))).id for text in ("coffee", "water")]

        async def gone() -> None:
            ledger.before = None
            if going == "forgotten":
                await service.forget(ME, ForgetRequest(agent_id="ana", ids=(one,)))
            else:
                await service.merge(ME, MergeRequest(agent_id="ana", canonical=third, duplicates=(one,)))

        ledger.before = lambda _: gone()
        if way in ("archive", "demote"):
            assert (await changing(service, way, one, other)).matched_count == 0
        else:
            with pytest.raises((NotFoundError, ConflictError)):
                await changing(service, way, one, other)
        newest = (await ledger.read(DEFAULT_TENANT, [one]))[one]
        assert (newest.version, newest.standing) == (1, State.FORGOTTEN)
        assert not (await service.reading.marks(ME, one)).is_demoted
        assert (await ledger.read(DEFAULT_TENANT, [other]))[other].standing is State.LIVE
        assert (await service.audit.verify(ME)).holds
