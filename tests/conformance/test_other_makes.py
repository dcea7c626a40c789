"""Servers of another make, right and wrong: the kit passes the right one, and tells each wrong one by its clause."""

import unicodedata
from typing import Any

import pytest

from quipu.client.transport import Call
from quipu.errors import ConflictError, QuipuError
from quipu.testing.scenarios import SCENARIOS
from quipu.testing.scenarios.others import StoreSubject, WireSubject, described
from quipu.testing.scenarios.scenario import Result, Scenario, played
from quipu.testing.scenarios.subject import MovedClock
from tests.conformance.conftest import START, Open, named
from tests.conformance.other_make import OtherMake

#: What a server can be asked that speaks v0 alone.
PLAYED = {
    *("basic_remember_recall", "remember_recall_by_user_filter", "type_filter", "forget_by_ids"),
    *("forget_no_scope_raises", "expire_empty_policy_raises", "expire_empty_policy_object_raises"),
    *("expire_by_age", "merge_keep_canonical", "capabilities_declared", "health_returns_status"),
    *("recall_returns_score_metadata", "fresher_than_days_filter", "multi_remember_then_recall"),
    *("agents_are_apart", "restrictions_come_before_the_cut", "dead_and_unapproved", "many_users"),
    *("k_up_to_1000", "expires_at", "confidence", "nothing_given_away", "procedures"),
    *("concurrent_writers", "forget_scope", "merge_into_nothing", "first_calls"),
}


async def asked(memory: OtherMake) -> WireSubject:
    promises = set((await described(memory))["capabilities"])
    return WireSubject(memory, promises, label="other", clock=memory.clock)


async def result_of(memory: OtherMake, name: str) -> Result:
    return await played(await asked(memory), named(SCENARIOS, name))


async def test_a_right_server_of_another_make_passes_what_v0_can_tell_and_keeps_nothing() -> None:
    memory = OtherMake(MovedClock(START))
    subject = await asked(memory)
    results = [await played(subject, scenario) for scenario in SCENARIOS]
    assert {one.name: one.detail for one in results if one.outcome == "fail"} == {}
    assert {one.name for one in results if one.outcome == "pass"} == PLAYED
    told = {one.name: one.detail for one in results if one.outcome == "not promised"}
    assert told["approval_required_pending"] == "it does not promise governance"
    assert told["idempotency"].startswith("it speaks memorywire v0 alone")
    assert memory.rows == {}
    assert subject.left_behind == []


async def test_what_will_not_go_is_named() -> None:
    class NeverErases(OtherMake):
        def forget(self, body: Any) -> Any:
            if body.get("hard_delete"):
                raise ConflictError
            return super().forget(body)

    subject = await asked(NeverErases(MovedClock(START)))
    await played(subject, named(SCENARIOS, "confidence"))
    assert subject.left_behind == ["2 memories of conformance-other-confidence: forgotten, not erased"]


class OneTooMany(OtherMake):
    def recall(self, body: Any) -> Any:
        return super().recall({**body, "k": min(1000, body.get("k", 5) + 1)})


class AnyUser(OtherMake):
    def recall(self, body: Any) -> Any:
        return super().recall({**body, "user_id": None})


class UserAfterTheCut(OtherMake):
    def recall(self, body: Any) -> Any:
        told = super().recall({**body, "user_id": None})
        mine = body.get("user_id")
        kept = [hit for hit in told["results"] if mine in (None, self.rows[hit["id"]]["user_id"])]
        return {**told, "results": kept}


class FilterAfterTheCut(OtherMake):
    def recall(self, body: Any) -> Any:
        told = super().recall({**body, "filter": None})
        kept = [hit for hit in told["results"] if self.holds(self.rows[hit["id"]], body.get("filter"))]
        return {**told, "results": kept}


class AnyAgent(OtherMake):
    def reached(self, body: Any) -> Any:
        agents = {row["agent_id"] for row in self.rows.values()}
        return [row for agent in agents for row in super(AnyAgent, self).reached({**body, "agent_id": agent})]


class NothingIsForgotten(OtherMake):
    def drop(self, ids: Any) -> None:
        return


class ExpiredIsFound(OtherMake):
    def reached(self, body: Any) -> Any:
        return super().reached({**body, "hard_delete": True})


class WorstFirst(OtherMake):
    def ranked(self, body: Any) -> Any:
        return super().ranked(body)[::-1]


class AnotherOrderEachTime(OtherMake):
    turn = False

    def ranked(self, body: Any) -> Any:
        self.turn = not self.turn
        return super().ranked(body)[:: 1 if self.turn else -1]


class Normalised(OtherMake):
    def hit(self, row: Any, score: float) -> Any:
        hit = super().hit(row, score)
        return {**hit, "content": unicodedata.normalize("NFC", str(hit["content"]))}


class TruthsAreNumbers(OtherMake):
    def hit(self, row: Any, score: float) -> Any:
        known = {name: int(one) if one is True else one for name, one in row["metadata"].items()}
        return {**super().hit(row, score), "metadata": known}


class ScoresAreTexts(OtherMake):
    def hit(self, row: Any, score: float) -> Any:
        return {**super().hit(row, score), "score": str(score)}


class ScoresAreHundreds(OtherMake):
    def hit(self, row: Any, score: float) -> Any:
        return {**super().hit(row, score), "score": score * 100}


class RefusesWithSuccess(OtherMake):
    async def send(self, call: Call) -> Any:
        try:
            return await super().send(call)
        except QuipuError as refused:
            return {"code": refused.code, "reason": refused.reason}


class ConflictsOnly(OtherMake):
    async def send(self, call: Call) -> Any:
        try:
            return await super().send(call)
        except QuipuError as refused:
            raise ConflictError(reason=refused.reason) from refused


class ForgetsWithoutAScope(OtherMake):
    def forget(self, body: Any) -> Any:
        return super().forget({"ids": ["x"], **{name: one for name, one in body.items() if one}})


class MergesIntoNothing(OtherMake):
    def merge(self, body: Any) -> Any:
        try:
            return super().merge(body)
        except QuipuError:
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


class PromisesTooMuch(OtherMake):
    def capabilities(self) -> Any:
        return {"capabilities": ["semantic", "vector"]}


class Unwell(OtherMake):
    def health(self) -> Any:
        return {"status": "error"}


WRONG: dict[type[OtherMake], tuple[str, str]] = {
    OneTooMany: ("multi_remember_then_recall", "the best three, and no more"),
    AnyUser: ("remember_recall_by_user_filter", "of Alice, and nobody else's"),
    UserAfterTheCut: ("many_users", "whose the hits of"),
    FilterAfterTheCut: ("restrictions_come_before_the_cut", "what is found in reach"),
    AnyAgent: ("agents_are_apart", "what the agent recalls"),
    NothingIsForgotten: ("forget_by_ids", "what is found after"),
    ExpiredIsFound: ("expires_at", "what is found before it expires"),
    WorstFirst: ("confidence", "the order of the hits"),
    AnotherOrderEachTime: ("multi_remember_then_recall", "the same order when it is asked again"),
    Normalised: ("recall_returns_score_metadata", "the text, as it was given"),
    TruthsAreNumbers: ("recall_returns_score_metadata", "the metadata, without loss"),
    ScoresAreTexts: ("basic_remember_recall", "the answer to recall is not v0's: results"),
    ScoresAreHundreds: ("recall_returns_score_metadata", "rrf scores by rank"),
    RefusesWithSuccess: ("forget_no_scope_raises", "forgotten_ids is missing"),
    ConflictsOnly: ("forget_no_scope_raises", "expected 'validation_error', found 'conflict'"),
    ForgetsWithoutAScope: ("forget_no_scope_raises", "expected validation_error, and nothing was refused"),
    MergesIntoNothing: ("merge_into_nothing", "expected not_found, and nothing was refused"),
    Ageless: ("fresher_than_days_filter", "what is found with it"),
    ExpiresByOneKey: ("expire_by_age", "two conditions that must both hold"),
    SecondsForMilliseconds: ("recall_returns_score_metadata", "created_at"),
    PromisesTooMuch: ("capabilities_declared", "the paraphrase"),
    Unwell: ("health_returns_status", "status"),
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda kind: kind.__name__)
async def test_a_server_that_breaks_one_clause_is_told_by_the_clause(wrong: type[OtherMake]) -> None:
    name, says = WRONG[wrong]
    result = await result_of(wrong(MovedClock(START)), name)
    assert result.outcome == "fail"
    assert says in result.detail


@pytest.mark.parametrize(
    "scenario", [one for one in SCENARIOS if not one.is_large], ids=lambda scenario: scenario.name
)
async def test_any_object_that_speaks_memorywire_plays_what_its_five_operations_can_tell(
    at_file: Open, scenario: Scenario
) -> None:
    subject = StoreSubject(at_file.memory(), label="object", clock=at_file.clock)
    result = await played(subject, scenario)
    is_of_v0 = scenario.name in PLAYED | {"isinstance_protocol"}
    assert result.outcome == "pass" if is_of_v0 else result.outcome in ("pass", "not promised"), result.detail
    assert subject.left_behind == []
