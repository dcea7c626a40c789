"""Stores that break one clause each: the kit tells every one of them, in the words of the clause.

A wrong store is Quipu's own memory behind a layer that spoils one field of a request or of an answer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from quipu import Memory
from quipu.faces.memorywire import wire
from quipu.model.operations import ExpireAction, ExpirePolicy, Fusion, MergeStrategy, Redact, UpdateStrategy
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import LEAST, SCENARIOS, MemorySubject, Opening, Scenario, played
from quipu.testing.scenarios_subject import AGENT
from tests.conformance.test_scenarios import Lent, real, reply

__all__ = ["real"]  # a fixture

Spoiling = Callable[[Any], Any]
_DAYS_MS = 10 * 86_400_000


@dataclass(frozen=True)
class Wrong:
    """What is spoilt, and which scenario says so with which words."""

    operation: str
    scenario: str
    says: str
    asked: Spoiling | None = None
    told: Spoiling | None = None


class WrongStore:
    """A memory whose five operations are spoilt; everything else is as it is."""

    def __init__(self, memory: Memory, wrong: Wrong | None) -> None:
        self._memory, self._wrong = memory, wrong

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    def _spoilt(self, operation: str, value: Any, *, is_asked: bool) -> Any:
        wrong = self._wrong
        if wrong is None or operation != wrong.operation:
            return value
        spoil = wrong.asked if is_asked else wrong.told
        return value if spoil is None else spoil(value)

    async def _done(self, operation: str, request: Any) -> Any:
        request = self._spoilt(operation, request, is_asked=True)
        return self._spoilt(operation, await getattr(self._memory, operation)(request), is_asked=False)

    async def remember(self, request: Any, /) -> Any:
        return await self._done("remember", request)

    async def recall(self, request: Any, /) -> Any:
        return await self._done("recall", request)

    async def forget(self, request: Any, /) -> Any:
        return await self._done("forget", request)

    async def merge(self, request: Any, /) -> Any:
        return await self._done("merge", request)

    async def expire(self, request: Any, /) -> Any:
        return await self._done("expire", request)

    async def submit(self, operation: str, body: Any, /, *, strict: bool = True) -> Any:
        request, _ = wire.parsed(operation, body, strict=strict)
        return await self._done(operation, request)

    async def remember_many(self, items: Sequence[Any], /) -> Any:
        return await self._memory.remember_many(
            [self._spoilt("remember", item, is_asked=True) for item in items]
        )


def without(**fields: Any) -> Spoiling:
    """A request that says nothing of these, as a store reads it that does not know them."""
    return lambda request: replace(request, **fields)


def on_hits(**fields: Any) -> Spoiling:
    """Every hit has these instead of its own; a function makes it of the hit."""

    def spoilt(answer: Any) -> Any:
        changed = [
            replace(hit, **{name: make(hit) if callable(make) else make for name, make in fields.items()})
            for hit in answer.results
        ]
        return replace(answer, results=tuple(changed))

    return spoilt


def _one_key_less(request: Any) -> Any:
    """An expiry that looks at the age alone where more is asked."""
    policy = request.policy
    if policy is None or policy.older_than_days is None:
        return request
    return replace(request, policy=ExpirePolicy(older_than_days=policy.older_than_days))


SCORES, RETURNED = "recall_returns_score_metadata", "Q41_everything_comes_back"
WRONG: dict[str, Wrong] = {
    # -- what hits say
    "fusion is ignored": Wrong("recall", SCORES, "fusion_used (2.4)", asked=without(fusion=Fusion.RRF)),
    "fusion is told and not used": Wrong(
        "recall",
        SCORES,
        "max scores by likeness, not by rank (5.4)",
        told=on_hits(score=lambda hit: 1 / (59 + hit.rank)),
    ),
    "likeness is told as ranks": Wrong(
        "recall",
        SCORES,
        "rrf scores by rank, from 0.0167 to 0.0167 (5.4)",
        told=on_hits(score=lambda hit: hit.relevance),
    ),
    "another fusion is used": Wrong(
        "recall", SCORES, "fusion_used (2.4)", told=lambda answer: replace(answer, fusion_used=Fusion.RRF)
    ),
    "created_at of now": Wrong(
        "recall",
        "fresher_than_days_filter",
        "(created_at, 2.4)",
        told=on_hits(created_at=lambda hit: hit.created_at + 1),
    ),
    "created_at in seconds": Wrong(
        "recall", SCORES, "(created_at, 2.4)", told=on_hits(created_at=lambda hit: hit.created_at // 1000)
    ),
    "updated_at never moves": Wrong(
        "recall", RETURNED, "(updated_at, 2.4)", told=on_hits(updated_at=lambda hit: hit.created_at)
    ),
    "source is lost in hits": Wrong("recall", RETURNED, "source of the hit", told=on_hits(source=None)),
    "source is not kept": Wrong("remember", RETURNED, "source of the", asked=without(source=None)),
    "tags are lost in hits": Wrong("recall", RETURNED, "tags of the hit", told=on_hits(tags=())),
    "session_id is lost in hits": Wrong(
        "recall", RETURNED, "session_id of the hit", told=on_hits(session_id=None)
    ),
    "expires_at is lost in hits": Wrong(
        "recall", RETURNED, "expires_at of the hit", told=on_hits(expires_at=None)
    ),
    "the agent of hits is another": Wrong("recall", RETURNED, "whose the hit is", told=on_hits(agent_id="x")),
    "the store of hits is another": Wrong("recall", RETURNED, "the memory store", told=on_hits(store="x")),
    "version is always 1": Wrong("recall", RETURNED, "the version of the hit", told=on_hits(version=1)),
    "ranks count half": Wrong(
        "recall", SCORES, "rrf scores by rank", told=on_hits(score=lambda hit: hit.score / 2)
    ),
    "hits of its own are told as foreign": Wrong(
        "recall", RETURNED, "(demoted, foreign", told=on_hits(foreign=True)
    ),
    "rank is always 1": Wrong("recall", RETURNED, "the ranks of the hits (2.4)", told=on_hits(rank=1)),
    "source_store was not asked": Wrong(
        "recall", SCORES, "(stores_queried, 2.4)", told=on_hits(source_store="x")
    ),
    "stores of hits are empty": Wrong("recall", SCORES, "among its stores", told=on_hits(stores=())),
    "nobody was queried": Wrong(
        "recall", SCORES, "(stores_queried, 2.4)", told=lambda answer: replace(answer, stores_queried=())
    ),
    "texts are normalised": Wrong(
        "recall",
        SCORES,
        "the text, as it was given (2.3)",
        told=on_hits(content=lambda hit: unicodedata.normalize("NFC", str(hit.content))),
    ),
    "truths are told as numbers": Wrong(
        "recall",
        SCORES,
        "the metadata, without loss (2.3)",
        told=on_hits(
            metadata=lambda hit: {
                name: int(one) if one is True else one for name, one in hit.metadata.items()
            }
        ),
    ),
    "relevance is a percentage": Wrong(
        "recall",
        SCORES,
        "relevance is from 0 to 1 (2.4)",
        told=on_hits(relevance=lambda hit: 100 * hit.relevance),
    ),
    # -- what recall is asked
    "recall ignores as_of": Wrong("recall", RETURNED, "(as_of, 2.4)", asked=without(as_of=None)),
    "recall returns one more": Wrong(
        "recall",
        "multi_remember_then_recall",
        "(k, 2.4)",
        asked=lambda request: replace(request, k=request.k + 1),
    ),
    "the empty user is anybody": Wrong(
        "recall",
        "remember_recall_by_user_filter",
        "a user without a name (2.1)",
        asked=lambda request: replace(request, user_id=request.user_id or None),
    ),
    "recall ignores session_id": Wrong(
        "recall", "Q2_filter_before_top_k", "(session_id, 2.4)", asked=without(session_id=None)
    ),
    "recall ignores max_tokens": Wrong(
        "recall", RETURNED, "(max_tokens, 2.4)", asked=without(max_tokens=None)
    ),
    "a cut text does not say so": Wrong(
        "recall", RETURNED, "(max_tokens, 2.4)", told=on_hits(truncated=False)
    ),
    "recall shows secrets": Wrong("recall", RETURNED, "(redact, 2.10)", asked=without(redact=Redact.NONE)),
    "recall masks what it should omit": Wrong(
        "recall", RETURNED, "(redact, 2.10)", asked=without(redact=Redact.MASK)
    ),
    "a masked text does not say so": Wrong(
        "recall", RETURNED, "(redact, 2.10)", told=on_hits(redacted=False)
    ),
    "recall ignores quorum_k": Wrong(
        "recall", RETURNED, "expected validation_error", asked=without(quorum_k=1)
    ),
    "recall is never held": Wrong(
        "recall", "Q29_held_removals", "expected forbidden", asked=without(approval_required=False)
    ),
    # -- what is written
    "session_id is not kept": Wrong(
        "remember", "Q2_filter_before_top_k", "(session_id, 2.4)", asked=without(session_id=None)
    ),
    "append overwrites": Wrong(
        "remember",
        RETURNED,
        "after an append",
        asked=without(update_strategy=UpdateStrategy.OVERWRITE),
    ),
    "if_version is ignored": Wrong("remember", RETURNED, "expected conflict", asked=without(if_version=None)),
    "privacy_intent is ignored": Wrong(
        "remember", RETURNED, "(redact, 2.10)", asked=without(privacy_intent=None)
    ),
    "stored_at in seconds": Wrong(
        "remember",
        SCORES,
        "(created_at, 2.4)",
        told=lambda answer: replace(answer, stored_at=answer.stored_at // 1000),
    ),
    "remember names no store": Wrong(
        "remember", SCORES, "(stores, 2.3)", told=lambda answer: replace(answer, stores=())
    ),
    # -- what is removed
    "hard_delete is not echoed": Wrong(
        "forget",
        "Q36_idempotency",
        "hard_delete, as it was asked for (2.5)",
        told=lambda answer: replace(answer, hard_delete=False),
    ),
    "hard_delete is always told": Wrong(
        "forget",
        "forget_by_ids",
        "hard_delete, as it was asked for (2.5)",
        told=lambda answer: replace(answer, hard_delete=True),
    ),
    "the reason of forgetting is lost": Wrong(
        "forget", "Q13_archive", "(reason, 2.5)", asked=without(reason=None)
    ),
    "the reason of expiry is lost": Wrong(
        "expire", "Q13_archive", "(reason, 2.7)", asked=without(reason=None)
    ),
    "forget ignores store": Wrong(
        "forget", "Q2_filter_before_top_k", "(store, 2.5)", asked=without(store=None)
    ),
    "merge ignores store": Wrong("merge", "Q2_filter_before_top_k", "the error's", asked=without(store=None)),
    "expire ignores store": Wrong(
        "expire", "Q2_filter_before_top_k", "(store, 2.7)", asked=without(store=None)
    ),
    "expire ignores user_id": Wrong("expire", "expire_by_age", "(user_id, 2.7)", asked=without(user_id=None)),
    "expire looks at one key": Wrong("expire", "expire_by_age", "(4.2)", asked=_one_key_less),
    "a dry run forgets": Wrong(
        "forget", "Q15_unknown_policy_key", "(dry_run, 2.5)", asked=without(dry_run=False)
    ),
    "a dry run merges": Wrong(
        "merge", "Q15_unknown_policy_key", "(dry_run, 2.6)", asked=without(dry_run=False)
    ),
    "a dry run expires": Wrong(
        "expire", "Q15_unknown_policy_key", "(dry_run, 2.7)", asked=without(dry_run=False)
    ),
    "merge ignores its key": Wrong(
        "merge", "Q17_merge_strategies", "(3.3)", asked=without(idempotency_key=None)
    ),
    "expire ignores its key": Wrong("expire", "Q12_demote", "(3.3)", asked=without(idempotency_key=None)),
    "a held removal does not say where": Wrong(
        "forget",
        "Q29_held_removals",
        "(approval_url, 2.5 to 2.7)",
        told=lambda answer: replace(answer, approval_url=None),
    ),
    "the reviewer is told no reason": Wrong(
        "merge", "Q29_held_removals", "(reasoning, 2.6)", asked=without(reasoning=None)
    ),
    "another canonical is told": Wrong(
        "merge",
        "merge_keep_canonical",
        "canonical, as it was sent (2.6)",
        told=lambda answer: replace(answer, canonical="x"),
    ),
    "another strategy is told": Wrong(
        "merge",
        "Q17_merge_strategies",
        "strategy_used (2.6)",
        told=lambda answer: replace(answer, strategy_used=MergeStrategy.KEEP_CANONICAL),
    ),
    "another action is told": Wrong(
        "expire",
        "Q12_demote",
        "action_taken (2.7)",
        told=lambda answer: replace(answer, action_taken=ExpireAction.FORGET),
    ),
    "merge names no store": Wrong(
        "merge", "merge_keep_canonical", "(stores, 2.6)", told=lambda answer: replace(answer, stores=())
    ),
    "expire names no store": Wrong(
        "expire", "expire_by_age", "(stores, 2.7)", told=lambda answer: replace(answer, stores=())
    ),
}


def _subject(wrong: Wrong | None, real: Lent) -> MemorySubject:
    def memory(scenario: Scenario, clock: FixedClock) -> Any:
        embedder: Any = real if scenario.embedder == "real" else WordEmbedder()
        return WrongStore(
            Memory(agent_id=AGENT, stores="sqlite://:memory:", embedder=embedder, clock=clock), wrong
        )

    subject = MemorySubject(Opening(memory, reply))
    subject.size = LEAST
    return subject


def _named(name: str) -> Scenario:
    return next(scenario for scenario in SCENARIOS if scenario.name == name)


@pytest.mark.parametrize("name", WRONG)
async def test_a_store_that_breaks_one_clause_is_told_by_the_clause(name: str, real: Lent) -> None:
    wrong = WRONG[name]
    result = await played(_subject(wrong, real), _named(wrong.scenario))
    assert not result.passed
    assert wrong.says in result.detail


@pytest.mark.parametrize("name", sorted({wrong.scenario for wrong in WRONG.values()}))
async def test_the_same_store_passes_unspoilt(name: str, real: Lent) -> None:
    result = await played(_subject(None, real), _named(name))
    assert result.passed, result.detail
