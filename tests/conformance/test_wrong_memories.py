"""Memories that break one promise each, and one for every scenario: it says so, in its own words.

A wrong memory is Quipu's own behind a connection that spoils one operation.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from quipu.api import Memory
from quipu.errors import InvalidError, NotFoundError
from quipu.memory import model as m
from quipu.opening import Connection
from quipu.operation import AnyOperation, Response
from quipu.schemas import fields
from quipu.testing.scenarios import SCENARIOS
from quipu.testing.scenarios.scenario import played
from tests.conformance.conftest import Open, named

Call = Callable[[Mapping[str, Any]], Awaitable[Any]]
Does = Callable[[Call, dict[str, Any]], Awaitable[Any]]


@dataclass(frozen=True)
class Wrong:
    """Which operation is spoilt and how, and what its scenario says then."""

    operation: str
    does: Does
    says: str


def without(*names: str) -> Does:
    """As one that does not know these fields."""

    async def does(call: Call, given: dict[str, Any]) -> Any:
        return await call({name: value for name, value in given.items() if name not in names})

    return does


def with_(**more: Any) -> Does:
    """As one that hears these fields, whatever was asked."""

    async def does(call: Call, given: dict[str, Any]) -> Any:
        return await call({**given, **more})

    return does


def answers(**more: Any) -> Does:
    """As one that answers these fields, whatever was done."""

    async def does(call: Call, given: dict[str, Any]) -> Any:
        return (await call(given)).model_copy(update=more)

    return does


def hits(**more: Any) -> Does:
    async def does(call: Call, given: dict[str, Any]) -> Any:
        answer = await call(given)
        changed = tuple(hit.model_copy(update=more) for hit in answer.results)
        return answer.model_copy(update={"results": changed})

    return does


async def scopeless(call: Call, given: dict[str, Any]) -> Any:
    return await call({**given, "ids": given.get("ids") or ["mem_any"]})


async def policyless(call: Call, given: dict[str, Any]) -> Any:
    return await call({**given, "policy": given.get("policy") or {"type": "emotional"}})


async def emptied(call: Call, given: dict[str, Any]) -> Any:
    known = {name: value for name, value in given["policy"].items() if value is not None}
    return await call({**given, "policy": known or {"type": "emotional"}})


async def one_condition(call: Call, given: dict[str, Any]) -> Any:
    return await call({**given, "policy": dict(list(given["policy"].items())[:1])})


async def few(call: Call, given: dict[str, Any]) -> Any:
    return await call({**given, "k": min(given.get("k", 5), 100)})


async def one_more(call: Call, given: dict[str, Any]) -> Any:
    return await call({**given, "k": given.get("k", 5) + 1})


async def telling(call: Call, given: dict[str, Any]) -> Any:
    try:
        return await call(given)
    except InvalidError as error:
        raise InvalidError(f"{given['query']}: {error}", faults=error.faults) from None


async def lenient(call: Call, given: dict[str, Any]) -> Any:
    return await call({name: value for name, value in given.items() if name in fields(m.RememberRequest)})


async def merges_anything(call: Call, given: dict[str, Any]) -> Any:
    try:
        return await call(given)
    except NotFoundError:
        return m.MergeResponse(canonical=given["canonical"], merged_count=0, strategy_used="keep_canonical")


async def strict_merge(call: Call, given: dict[str, Any]) -> Any:
    answer = await call(given)
    if answer.not_found:
        raise NotFoundError
    return answer


async def plain_texts(call: Call, given: dict[str, Any]) -> Any:
    kind = {"type": "semantic"} if given.get("type") == "procedural" else {}
    return await call({**given, **kind})


WRONG: dict[str, Wrong] = {
    "basic_remember_recall": Wrong("recall", answers(results=()), "finds something"),
    "remember_recall_by_user_filter": Wrong("recall", without("user_id"), "nobody else's"),
    "type_filter": Wrong("recall", without("types"), "the types of the hits"),
    "forget_by_ids": Wrong("forget", answers(hard_delete=True), "hard_delete, as it was asked for"),
    "forget_no_scope_raises": Wrong("forget", scopeless, "nothing was refused"),
    "expire_empty_policy_raises": Wrong("expire", policyless, "nothing was refused"),
    "expire_empty_policy_object_raises": Wrong("expire", emptied, "nothing was refused"),
    "expire_by_age": Wrong("expire", one_condition, "two conditions that must both hold"),
    "merge_keep_canonical": Wrong("merge", answers(canonical="x"), "canonical, as it was sent"),
    "approval_required_pending": Wrong("remember", without("approval_required"), "it is pending"),
    "capabilities_declared": Wrong("recall", without("hops"), "what supports a linked hit"),
    "health_returns_status": Wrong("health", answers(status="degraded"), "status"),
    "recall_returns_score_metadata": Wrong("recall", without("fusion"), "fusion_used"),
    "fresher_than_days_filter": Wrong("recall", without("fresher_than_days"), "what is found with it"),
    "multi_remember_then_recall": Wrong("recall", one_more, "k: the best three"),
    "agents_are_apart": Wrong("forget", answers(forgotten_ids=("mem_x",)), "what it forgets"),
    "restrictions_come_before_the_cut": Wrong("recall", without("session_id"), "out of reach"),
    "stores_are_apart": Wrong("forget", without("store"), "what goes from the store"),
    "dead_and_unapproved": Wrong("forget", with_(dry_run=True), "forgotten ones"),
    "many_users": Wrong("recall", without("user_id"), "whose the hits"),
    "k_up_to_1000": Wrong("recall", few, "distinct hits"),
    "expires_at": Wrong("remember", without("expires_at"), "before it expires"),
    "confidence": Wrong("remember", without("confidence"), "the order of the hits"),
    "hops": Wrong("recall", without("hops"), "what supports a hit"),
    "no_match": Wrong("recall", with_(min_relevance="off"), "what answers"),
    "reads_are_noted": Wrong("recall", with_(count_recall=False), "what was not marked"),
    "nothing_given_away": Wrong("recall", telling, "no memory text"),
    "as_of": Wrong("recall", without("as_of"), "what it was in the past"),
    "procedures": Wrong("remember", plain_texts, "nothing was refused"),
    "everything_comes_back": Wrong("recall", hits(importance=None), "its importance"),
    "labels_come_back": Wrong("recall", hits(tags=()), "tags of the hit"),
    "changes": Wrong("update", with_(replace=True), "after an update"),
    "keyed_facts": Wrong("remember", without("key"), "outdated by a fact of the same key"),
    "idempotency": Wrong("remember", without("idempotency_key"), "ten equal requests"),
    "batches": Wrong("remember_many", without("atomic"), "nothing was refused"),
    "misspelt_field": Wrong("remember", lenient, "nothing was refused"),
    "v0_superset": Wrong("merge", strict_merge, "not_found"),
    "max_tokens": Wrong("recall", without("max_tokens"), "a budget for two texts"),
    "privacy": Wrong("remember", without("privacy_intent"), "what is shown of a secret"),
    "concurrent_writers": Wrong("remember", answers(id="mem_x"), "records written 2 at a time"),
    "forget_scope": Wrong("forget", without("user_id"), "what carol loses"),
    "demote": Wrong("expire", with_(action="archive"), "action_taken"),
    "archive": Wrong("forget", without("reason"), "why it was forgotten"),
    "no_recall_in_days": Wrong("recall", without("count_recall"), "what matches"),
    "only_tried": Wrong("forget", without("dry_run"), "when it is only tried"),
    "merge_into_nothing": Wrong("merge", merges_anything, "nothing was refused"),
    "merge_strategies": Wrong("merge", without("idempotency_key"), "the same answer again"),
    "erasure": Wrong("forget", without("hard_delete"), "what was erased"),
    "journal": Wrong("update", with_(dry_run=True), "what the journal says"),
    "first_calls": Wrong("remember", answers(id="mem_x"), "twenty first calls"),
    "approvals": Wrong("remember", without("approval_required"), "a held write says so"),
    "held_removals": Wrong("forget", without("approval_required"), "says where to approve it"),
}


class Spoilt:
    """A connection that does one operation wrong."""

    def __init__(self, inner: Connection, wrong: Wrong) -> None:
        self._inner, self._wrong = inner, wrong
        self.check, self.stream, self.close = inner.check, inner.stream, inner.close

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        if operation.name != self._wrong.operation:
            return await self._inner.call(operation, given)

        async def call(changed: Mapping[str, Any]) -> Response:
            return await self._inner.call(operation, changed)

        return await self._wrong.does(call, dict(given))


async def test_every_scenario_fails_on_a_memory_that_breaks_its_promise() -> None:
    without_one = {scenario.name for scenario in SCENARIOS} - WRONG.keys()
    assert without_one == {"isinstance_protocol"}


@pytest.mark.parametrize("name", WRONG)
async def test_a_memory_that_breaks_one_promise_is_told_by_it(at_file: Open, name: str) -> None:
    wrong = WRONG[name]
    memory = at_file.memory(lambda connection: Spoilt(connection, wrong))
    result = await played(at_file.subject(memory), named(SCENARIOS, name))
    assert result.outcome == "fail"
    assert wrong.says in result.detail


async def test_an_object_whose_methods_want_more_than_a_request_is_no_store(at_file: Open) -> None:
    class Demanding(Memory):
        async def expire(self, policy: Any, action: str) -> Any:  # type: ignore[override]
            raise NotImplementedError

    subject = at_file.subject(at_file.memory())
    subject.memory.__class__ = Demanding
    result = await played(subject, named(SCENARIOS, "isinstance_protocol"))
    assert (result.outcome, result.detail) == ("fail", "expire needs no more")
