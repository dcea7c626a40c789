"""Servers of another make, right and wrong: the kit passes the right one, and tells each wrong one by its clause."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quipu.cli.conformance_wire import Wire
from quipu.client.patience import Patience
from quipu.client.transport import Transport
from quipu.testing.scenarios import SCENARIOS, Result, played
from quipu.testing.scenarios_wire import WireSubject
from tests.conformance.other_make import OtherMake, Refused, now, served
from tests.conformance.test_command import _told
from tests.requirement import requirement

#: What a server without Quipu's additions can be asked.
PLAYED = (
    "basic_remember_recall",
    "remember_recall_by_user_filter",
    "type_filter",
    "forget_by_ids",
    "forget_no_scope_raises",
    "expire_empty_policy_raises",
    "expire_empty_policy_object_raises",
    "expire_by_age",
    "merge_keep_canonical",
    "capabilities_declared",
    "recall_returns_score_metadata",
    "fresher_than_days_filter",
    "multi_remember_then_recall",
    "Q1_cross_agent_isolation",
    "Q2_filter_before_top_k",
    "Q3_dead_and_unapproved",
    "Q4_many_users",
    "Q7_k",
    "Q10_expires_at",
    "Q11_confidence",
    "Q44_nothing_given_away",
    "Q6_forget_scope",
    "Q9_v0_superset",
    "Q16_merge_into_nothing",
    "Q37_first_calls",
)


@asynccontextmanager
async def asked(memory: OtherMake) -> AsyncIterator[WireSubject]:
    with served(memory) as address:
        patience = Patience(total_s=30.0, retries=0)
        transport = Transport(address, token="", patience=patience, jitter=lambda: 0.0)
        wire = Wire(transport)
        subject = WireSubject(wire, wire.promises(await wire.described()), label="test", clock=now)
        subject.brief_ms = 500
        yield subject
        await transport.close()


async def result_of(memory: OtherMake, name: str) -> Result:
    (scenario,) = [scenario for scenario in SCENARIOS if scenario.name == name]
    async with asked(memory) as subject:
        return await played(subject, scenario)


@requirement("memorywire:conformance.command")
async def test_a_right_server_of_another_make_passes_what_v0_can_tell() -> None:
    memory = OtherMake()
    async with asked(memory) as subject:
        results = [await played(subject, scenario) for scenario in SCENARIOS]
    assert {one.name: one.detail for one in results if one.name in PLAYED and not one.passed} == {}
    rest = {one.name: one.detail for one in results if one.name not in PLAYED}
    assert {name: detail for name, detail in rest.items() if not detail.startswith("not run, ")} == {}
    assert rest["Q8_misspelt_field"] == "not run, the store does not promise what Quipu adds to v0"
    assert rest["Q36_idempotency"].endswith("lacks idempotency_key, which v0 does not have in remember")
    assert memory.rows == {}, "what was written is gone again"


@requirement("memorywire:conformance.command")
def test_the_command_plays_a_server_of_another_make(tmp_path: Path) -> None:
    names = ("basic_remember_recall", "Q1_cross_agent_isolation", "Q36_idempotency")
    with served(OtherMake()) as address:
        report, told = _told(tmp_path, address, *(word for name in names for word in ("--only", name)))
    assert report["counts"] == {"passed": 2, "failed": 0, "not_run": 1}, told


class OneTooMany(OtherMake):
    def recall(self, body: Any) -> Any:
        return super().recall({**body, "k": min(1000, body.get("k", 5) + 1)})


class AnyUser(OtherMake):
    def recall(self, body: Any) -> Any:
        return super().recall({**body, "user_id": None})


class EmptyUserIsAnybody(OtherMake):
    def recall(self, body: Any) -> Any:
        return super().recall({**body, "user_id": body.get("user_id") or None})


class UserAfterTheCut(OtherMake):
    def recall(self, body: Any) -> Any:
        told = super().recall({**body, "user_id": None})
        mine = body.get("user_id")
        kept = [hit for hit in told["results"] if mine in (None, self.rows[hit["id"]]["user_id"])]
        return {**told, "results": kept}


class FilterAfterTheCut(OtherMake):
    def recall(self, body: Any) -> Any:
        told = super().recall({**body, "filter": None})
        wanted = body.get("filter")
        return {
            **told,
            "results": [hit for hit in told["results"] if self.holds(self.rows[hit["id"]], wanted)],
        }


class AnyAgent(OtherMake):
    def reached(self, body: Any) -> Any:
        agents = {row["agent_id"] for row in self.rows.values()}
        return [row for agent in agents for row in super(AnyAgent, self).reached({**body, "agent_id": agent})]


class NothingIsForgotten(OtherMake):
    def drop(self, ids: Any) -> None: ...


class ExpiredIsFound(OtherMake):
    def remember(self, body: Any) -> Any:
        return super().remember({**body, "expires_at": None})


class WorstFirst(OtherMake):
    def ranked(self, body: Any) -> Any:
        return super().ranked(body)[::-1]


class AnotherOrderEachTime(OtherMake):
    turned = False

    def ranked(self, body: Any) -> Any:
        self.turned = not self.turned
        found = super().ranked(body)
        return found if self.turned else found[::-1]


class Normalised(OtherMake):
    def remember(self, body: Any) -> Any:
        content = body["content"]
        return super().remember(
            {
                **body,
                "content": unicodedata.normalize("NFC", content) if isinstance(content, str) else content,
            }
        )


class Stripped(OtherMake):
    def remember(self, body: Any) -> Any:
        content = body["content"]
        return super().remember({**body, "content": content.strip() if isinstance(content, str) else content})


class TruthsAreNumbers(OtherMake):
    def hit(self, row: Any, score: float) -> Any:
        told = {name: int(one) if one is True else one for name, one in row["metadata"].items()}
        return {**super().hit(row, score), "metadata": told}


class WholesAreBroken(OtherMake):
    def hit(self, row: Any, score: float) -> Any:
        told = {name: float(one) if type(one) is int else one for name, one in row["metadata"].items()}
        return {**super().hit(row, score), "metadata": told}


class EmptyIsDropped(OtherMake):
    def hit(self, row: Any, score: float) -> Any:
        told = {name: one for name, one in row["metadata"].items() if one not in ("", None)}
        return {**super().hit(row, score), "metadata": told}


class ScoresAreTexts(OtherMake):
    def hit(self, row: Any, score: float) -> Any:
        return {**super().hit(row, score), "score": str(score)}


class ScoresAreHundreds(OtherMake):
    def hit(self, row: Any, score: float) -> Any:
        return super().hit(row, 100 * score)


class Successes(OtherMake):
    """Refuses with a success."""

    def answered(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        return 200, super().answered(method, path, body)[1]


class Conflicts(OtherMake):
    """Whatever is wrong is a conflict."""

    def answered(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        status, told = super().answered(method, path, body)
        return (status, told) if status < 400 else (409, Refused(409, "conflict", told["reason"]).body)


class ForgetsWithoutAScope(OtherMake):
    def forget(self, body: Any) -> Any:
        return super().forget({"ids": ["x"], **{name: one for name, one in body.items() if one}})


class MergesIntoNothing(OtherMake):
    def merge(self, body: Any) -> Any:
        try:
            return super().merge(body)
        except Refused:
            self.drop({row["id"] for row in self.reached(body)} & set(body["duplicates"]))
            told = {"canonical": body["canonical"], "merged_count": 1, "strategy_used": "keep_canonical"}
            return {**told, "stores": ["other"], "pending_approval": False, "approval_url": None}


class Ageless(OtherMake):
    def recall(self, body: Any) -> Any:
        return super().recall({name: one for name, one in body.items() if name != "fresher_than_days"})


class ExpiresByOneKey(OtherMake):
    def expire(self, body: Any) -> Any:
        policy = body.get("policy") or {}
        return super().expire({**body, "policy": dict(list(policy.items())[:1])})


class SecondsForMilliseconds(OtherMake):
    def hit(self, row: Any, score: float) -> Any:
        return {**super().hit(row, score), "created_at": row["created_at"] // 1000}


WRONG: dict[type[OtherMake], tuple[str, str]] = {
    OneTooMany: ("multi_remember_then_recall", "the best three, and no more (k, 2.4)"),
    AnyUser: ("remember_recall_by_user_filter", "purple is not"),
    EmptyUserIsAnybody: ("remember_recall_by_user_filter", "a user without a name (2.1)"),
    UserAfterTheCut: ("Q4_many_users", "whose the hits of"),
    FilterAfterTheCut: ("Q2_filter_before_top_k", "of another metadata"),
    AnyAgent: ("Q1_cross_agent_isolation", "what the agent recalls"),
    NothingIsForgotten: ("forget_by_ids", "what is found after"),
    ExpiredIsFound: ("Q10_expires_at", "what is found before it expires"),
    WorstFirst: ("multi_remember_then_recall", "the one that is named comes first"),
    AnotherOrderEachTime: ("multi_remember_then_recall", "the same order when it is asked again (5.4)"),
    Normalised: ("recall_returns_score_metadata", "the text, as it was given (2.3)"),
    Stripped: ("recall_returns_score_metadata", "the text, as it was given (2.3)"),
    TruthsAreNumbers: ("recall_returns_score_metadata", "the metadata, without loss (2.3)"),
    WholesAreBroken: ("recall_returns_score_metadata", "the metadata, without loss (2.3)"),
    EmptyIsDropped: ("recall_returns_score_metadata", "the metadata, without loss (2.3)"),
    ScoresAreTexts: ("basic_remember_recall", "the answer to recall is not v0's: results"),
    ScoresAreHundreds: ("recall_returns_score_metadata", "rrf scores by rank"),
    Successes: ("forget_no_scope_raises", "the answer to forget is not v0's: forgotten_ids is missing"),
    Conflicts: ("forget_no_scope_raises", "expected 'validation_error', found 'conflict'"),
    ForgetsWithoutAScope: ("forget_no_scope_raises", "expected validation_error, and nothing was refused"),
    MergesIntoNothing: ("Q16_merge_into_nothing", "expected not_found, and nothing was refused"),
    Ageless: ("fresher_than_days_filter", "what is found with it"),
    ExpiresByOneKey: ("expire_by_age", "(4.2)"),
    SecondsForMilliseconds: ("recall_returns_score_metadata", "(created_at, 2.4)"),
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda kind: kind.__name__)
async def test_a_server_that_breaks_one_clause_is_told_by_the_clause(wrong: type[OtherMake]) -> None:
    name, says = WRONG[wrong]
    result = await result_of(wrong(), name)
    assert not result.passed
    assert says in result.detail
