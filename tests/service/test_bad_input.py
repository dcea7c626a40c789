"""What bad input gets: a clear error with a stable code and place, nothing written, nothing of it repeated."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from quipu import (
    BackendUnavailableError,
    ConflictError,
    Embedding,
    ExpirePolicy,
    ExpireRequest,
    ForgetRequest,
    InvalidError,
    Link,
    Memory,
    MemoryType,
    MergeRequest,
    NotFoundError,
    QuipuError,
    RecallRequest,
    RememberRequest,
)
from quipu.testing.builders import FixedClock
from tests.service.looks import ids, kept, standing, verifies

CANARY = "hunter2canary"
SURROGATE = f"{CANARY}\ud800"
NUL = f"{CANARY}\0"
HUGE = 1 << 70


@dataclass(frozen=True)
class Case:
    call: Callable[[Memory, dict[str, str]], Awaitable[Any]]
    reason: str
    pointer: str | None
    error: type[QuipuError] = InvalidError


def deep(levels: int) -> Any:
    value: Any = CANARY
    for _ in range(levels):
        value = {"x": value}
    return value


def remember(content: Any = CANARY, **fields: Any) -> Callable[[Memory, dict[str, str]], Awaitable[Any]]:
    return lambda memory, _: memory.remember(content, **fields)


def recall(query: Any = CANARY, **fields: Any) -> Callable[[Memory, dict[str, str]], Awaitable[Any]]:
    return lambda memory, _: memory.recall(query, **fields)


def filtered(filter: Any) -> Callable[[Memory, dict[str, str]], Awaitable[Any]]:
    return lambda memory, _: memory.recall(CANARY, filter=filter)


def submit(operation: str, **body: Any) -> Callable[[Memory, dict[str, str]], Awaitable[Any]]:
    return lambda memory, _: memory.submit(operation, body)


#: `known["mine"]` is a record of the agent, `known["theirs"]` another agent's.
CASES: dict[str, Case] = {
    # remember
    "empty content": Case(remember(""), "bad_value", "/content"),
    "content over the limit": Case(remember(CANARY * 100_000), "too_large", "/content"),
    "content that is an object": Case(remember({"x": CANARY}), "wrong_type", "/content"),
    "content that is nothing": Case(remember(None), "wrong_type", "/content"),
    "content that is a number": Case(remember(5, type="procedural"), "invalid_procedure", "/content"),
    "content with U+0000": Case(remember(NUL), "bad_value", "/content"),
    "content with half a character": Case(remember(SURROGATE), "bad_value", "/content"),
    "unknown type": Case(remember(type=CANARY), "bad_value", "/type"),
    "a procedure that is prose": Case(remember(type="procedural"), "invalid_procedure", "/content"),
    "a procedure that is a list": Case(
        remember(f'["{CANARY}"]', type="procedural"), "invalid_procedure", "/content"
    ),
    "a procedure nested without end": Case(
        remember("[" * 100_000, type="procedural"), "invalid_procedure", "/content"
    ),
    "a procedure with NaN": Case(remember('{"x": NaN}', type="procedural"), "bad_value", "/content/x"),
    "empty agent": Case(
        lambda m, _: m.remember(RememberRequest(agent_id="", type=MemoryType.SEMANTIC, content=CANARY)),
        "bad_value",
        "/agent_id",
    ),
    "agent over the limit": Case(
        lambda m, _: m.remember(
            RememberRequest(agent_id=CANARY * 30, type=MemoryType.SEMANTIC, content=CANARY)
        ),
        "too_large",
        "/agent_id",
    ),
    "user over the limit": Case(remember(user_id=CANARY * 30), "too_large", "/user_id"),
    "user that is a number": Case(remember(user_id=7), "bad_value", "/user_id"),
    "user with U+0000": Case(remember(user_id=NUL), "bad_value", "/user_id"),
    "session over the limit": Case(remember(session_id=CANARY * 30), "too_large", "/session_id"),
    "source with half a character": Case(remember(source=SURROGATE), "bad_value", "/source"),
    "confidence NaN": Case(remember(confidence=float("nan")), "bad_value", "/confidence"),
    "confidence infinite": Case(remember(confidence=float("inf")), "bad_value", "/confidence"),
    "confidence above 1": Case(remember(confidence=1.01), "bad_value", "/confidence"),
    "confidence that is text": Case(remember(confidence=CANARY), "bad_value", "/confidence"),
    "confidence that is a truth": Case(remember(confidence=True), "bad_value", "/confidence"),
    "importance below 0": Case(remember(importance=-0.01), "bad_value", "/importance"),
    "expiry that is a float": Case(remember(expires_at=1.5), "bad_value", "/expires_at"),
    "expiry beyond 64 bits": Case(remember(expires_at=HUGE), "bad_value", "/expires_at"),
    "metadata with NaN": Case(remember(metadata={"a": [float("nan")]}), "bad_value", "/metadata/a/0"),
    "metadata beyond 64 bits": Case(remember(metadata={"a": HUGE}), "bad_value", "/metadata/a"),
    "metadata with U+0000": Case(remember(metadata={"a": NUL}), "bad_value", "/metadata/a"),
    "metadata with a key that is no text": Case(remember(metadata={1: CANARY}), "bad_value", "/metadata"),
    "metadata with half a character in a key": Case(
        remember(metadata={"\ud800": CANARY}), "bad_value", "/metadata"
    ),
    "metadata that is not JSON": Case(remember(metadata={"a": {CANARY}}), "bad_value", "/metadata/a"),
    "metadata too deep": Case(remember(metadata=deep(40)), "too_large", None),
    "metadata over the limit": Case(remember(metadata={"a": CANARY * 30_000}), "too_large", "/metadata"),
    "metadata that is a list": Case(remember(metadata=[CANARY]), "bad_value", "/metadata"),
    "metadata that is text": Case(remember(metadata=CANARY), "bad_value", "/metadata"),
    "a store that is a number": Case(remember(store=5), "bad_value", "/store"),
    "an id that is a number": Case(remember(id=5), "bad_value", "/id"),
    "approval that is a word": Case(remember(approval_required="no"), "bad_value", "/approval_required"),
    "tags that contradict the metadata": Case(
        remember(tags=["a"], metadata={"tags": [CANARY]}), "bad_value", "/tags"
    ),
    "an empty tag": Case(remember(tags=["a", ""]), "bad_value", "/tags/1"),
    "a long tag": Case(remember(tags=[CANARY * 20]), "too_large", "/tags/0"),
    "too many tags": Case(remember(tags=[f"{CANARY}{n}" for n in range(65)]), "too_large", "/tags"),
    "tags that are one text": Case(remember(tags=CANARY), "bad_value", "/tags"),
    "links that are one text": Case(remember(links=CANARY), "bad_value", "/links"),
    "links that are one link": Case(remember(links={"to": CANARY, "rel": "x"}), "bad_value", "/links"),
    "a link that is text": Case(remember(links=[CANARY]), "bad_value", "/links/0"),
    "a link without a name": Case(remember(links=[Link("mem_x", "")]), "bad_value", "/links/0/rel"),
    "a link without an end": Case(remember(links=[{"to": CANARY}]), "missing_field", "/links/0"),
    "a link into nothing": Case(remember(links=[Link(CANARY, "x")]), "bad_value", "/links/0/to"),
    "a link to half a character": Case(remember(links=[Link(SURROGATE, "x")]), "bad_value", "/links/0/to"),
    "a link to another agent's record": Case(
        lambda m, known: m.remember(CANARY, links=[Link(known["theirs"], "x")]), "bad_value", "/links/0/to"
    ),
    "too many links": Case(remember(links=[Link(CANARY, "x")] * 65), "too_large", "/links"),
    "a field of another type": Case(remember(location=CANARY), "wrong_type", "/location"),
    "an event without a time": Case(remember(type="episodic", event_time=CANARY), "bad_value", "/event_time"),
    "participants that are one text": Case(
        remember(type="episodic", participants=CANARY), "bad_value", "/participants"
    ),
    "a participant with U+0000": Case(
        remember(type="episodic", participants=["a", NUL]), "bad_value", "/participants/1"
    ),
    "a place that is a number": Case(remember(type="episodic", location=7), "bad_value", "/location"),
    "a place with U+0000": Case(remember(type="episodic", location=NUL), "bad_value", "/location"),
    "an unknown sentiment": Case(remember(type="emotional", sentiment=CANARY), "bad_value", "/sentiment"),
    "valence beyond 1": Case(remember(type="emotional", valence=1.5), "bad_value", "/valence"),
    "arousal below 0": Case(remember(type="emotional", arousal=-0.5), "bad_value", "/arousal"),
    "arousal that is a truth": Case(remember(type="emotional", arousal=True), "bad_value", "/arousal"),
    "a key over the limit": Case(remember(idempotency_key=CANARY * 10), "too_large", "/idempotency_key"),
    "a consent over the limit": Case(
        remember(privacy_intent={"consent_id": CANARY * 30}), "too_large", "/privacy_intent/consent_id"
    ),
    "an unknown privacy member": Case(
        remember(privacy_intent={"sharing": CANARY}), "unknown_field", "/privacy_intent/sharing"
    ),
    "an unknown sensitivity": Case(
        remember(privacy_intent={"sensitivity": CANARY}), "bad_value", "/privacy_intent/sensitivity"
    ),
    "a retention that is none": Case(
        remember(privacy_intent={"retain": CANARY}), "bad_value", "/privacy_intent/retain"
    ),
    "a wrong vector": Case(
        remember(embedding=Embedding("words-64", [1.0])), "embedding_mismatch", "/embedding"
    ),
    "a vector of another model": Case(
        remember(embedding=Embedding(CANARY, [1.0] * 64)), "embedding_mismatch", "/embedding"
    ),
    "a vector without a model": Case(
        remember(embedding={"vector": [1.0] * 64}), "missing_field", "/embedding"
    ),
    "a vector without anything": Case(remember(embedding=[1.0] * 64), "bad_value", "/embedding"),
    "a vector of a model that is a number": Case(
        remember(embedding={"model": 5, "vector": [1.0] * 64}), "bad_value", "/embedding/model"
    ),
    "a vector that is nothing": Case(
        recall(embedding={"model": "words-64", "vector": None}), "bad_value", "/embedding/vector"
    ),
    "a privacy that is text": Case(remember(privacy_intent=CANARY), "bad_value", "/privacy_intent"),
    "a version that is text": Case(
        lambda m, known: m.remember(CANARY, id=known["mine"], if_version=CANARY), "bad_value", "/if_version"
    ),
    "a strategy without an id": Case(remember(update_strategy="append"), "bad_value", "/update_strategy"),
    "an unknown strategy": Case(remember(update_strategy=CANARY), "bad_value", "/update_strategy"),
    "a version without an id": Case(remember(if_version=1), "bad_value", "/if_version"),
    "an unknown store": Case(remember(store=CANARY), "store", None, NotFoundError),
    "an unknown id": Case(remember(id=CANARY), "record", None, NotFoundError),
    "a malformed id": Case(remember(id=SURROGATE), "record", None, NotFoundError),
    "another agent's id": Case(
        lambda m, known: m.remember(CANARY, id=known["theirs"]), "record", None, NotFoundError
    ),
    "appending to a procedure": Case(
        lambda m, known: m.remember(
            {"name": CANARY, "initial": "a", "states": ["a"], "transitions": []},
            id=known["mine"],
            type="procedural",
            update_strategy="append",
        ),
        "bad_value",
        "/update_strategy",
    ),
    "another type for a record": Case(
        lambda m, known: m.remember(CANARY, id=known["mine"], type="episodic"),
        "type_mismatch",
        None,
        ConflictError,
    ),
    "an old version": Case(
        lambda m, known: m.remember(CANARY, id=known["mine"], if_version=9),
        "version_mismatch",
        None,
        ConflictError,
    ),
    # recall
    "an empty query": Case(recall(""), "bad_value", "/query"),
    "a query over the limit": Case(recall(CANARY * 3_000), "too_large", "/query"),
    "a query with U+0000": Case(recall(NUL), "bad_value", "/query"),
    "a query with half a character": Case(recall(SURROGATE), "bad_value", "/query"),
    "a query that is a number": Case(recall(5), "bad_value", "/query"),
    "k 0": Case(recall(k=0), "bad_value", "/k"),
    "k 1001": Case(recall(k=1_001), "bad_value", "/k"),
    "k that is a fraction": Case(recall(k=2.5), "bad_value", "/k"),
    "k that is nothing": Case(recall(k=None), "bad_value", "/k"),
    "hops that are nothing": Case(recall(hops=None), "bad_value", "/hops"),
    "a floor that is nothing": Case(recall(min_relevance=None), "bad_value", "/min_relevance"),
    "kinds that are one text": Case(recall(types="semantic"), "bad_value", "/types"),
    "k that is text": Case(recall(k=CANARY), "bad_value", "/k"),
    "k that is a truth": Case(recall(k=True), "bad_value", "/k"),
    "hops 4": Case(recall(hops=4), "bad_value", "/hops"),
    "negative days": Case(recall(fresher_than_days=-1), "bad_value", "/fresher_than_days"),
    "a floor above 1": Case(recall(min_relevance=1.5), "bad_value", "/min_relevance"),
    "a floor that is NaN": Case(recall(min_relevance=float("nan")), "bad_value", "/min_relevance"),
    "a floor with another name": Case(recall(min_relevance=CANARY), "bad_value", "/min_relevance"),
    "no tokens": Case(recall(max_tokens=0), "bad_value", "/max_tokens"),
    "a quorum of none": Case(
        lambda m, _: m.recall(RecallRequest(agent_id="ana", query=CANARY, quorum_k=0)),
        "bad_value",
        "/quorum_k",
    ),
    "a deadline of nothing": Case(
        lambda m, _: m.recall(RecallRequest(agent_id="ana", query=CANARY, deadline_ms=1)),
        "bad_value",
        "/deadline_ms",
    ),
    "an unknown fusion": Case(recall(fusion=CANARY), "bad_value", "/fusion"),
    "an unknown redaction": Case(recall(redact=CANARY), "bad_value", "/redact"),
    "an unknown kind": Case(recall(types=[CANARY]), "bad_value", "/types"),
    "a user with half a character": Case(recall(user_id=SURROGATE), "bad_value", "/user_id"),
    "a moment that is none": Case(recall(as_of=CANARY), "bad_value", "/as_of"),
    "a position ahead": Case(recall(as_of=10**9), "bad_value", "/as_of"),
    "an unknown place to look": Case(recall(store=CANARY), "store", None, NotFoundError),
    # filters, which are the same everywhere
    "an unknown operator": Case(filtered({"x": {"$near": CANARY}}), "unknown_operator", "/filter/x/$near"),
    "an unknown logic": Case(filtered({"$xor": [{"x": CANARY}]}), "unknown_operator", "/filter/$xor"),
    "operators among keys": Case(filtered({"x": {"$gt": 1, "y": CANARY}}), "bad_filter", "/filter/x"),
    "an empty or": Case(filtered({"$or": []}), "bad_filter", "/filter/$or"),
    "an empty not": Case(filtered({"$not": {}}), "bad_filter", "/filter/$not"),
    "a filter that is text": Case(filtered(CANARY), "bad_filter", "/filter"),
    "a list that is none": Case(filtered({"x": {"$in": CANARY}}), "bad_filter", "/filter/x/$in"),
    "a filter with U+0000": Case(filtered({"x": NUL}), "bad_value", "/filter/x"),
    "a filter in a forget": Case(
        lambda m, _: m.forget(filter={"x": {"$near": CANARY}}), "unknown_operator", "/filter/x/$near"
    ),
    "a filter in an expiry": Case(
        lambda m, _: m.expire({"type": "semantic"}, filter={"$x": CANARY}), "unknown_operator", "/filter/$x"
    ),
    "a filter in a list": Case(lambda m, _: m.list(filter={"$x": CANARY}), "unknown_operator", "/filter/$x"),
    # forget
    "forget without scope": Case(lambda m, _: m.forget(reason=CANARY), "no_scope", "/ids"),
    "forget with empty scope": Case(lambda m, _: m.forget(ids=[], filter={}), "no_scope", "/ids"),
    "forget a user": Case(lambda m, _: m.forget(user_id=CANARY, hard_delete=True), "no_scope", "/ids"),
    "forget a store": Case(lambda m, _: m.forget(store="main"), "no_scope", "/ids"),
    "forget one text": Case(lambda m, _: m.forget(ids=CANARY), "bad_value", "/ids"),
    "forget half a character": Case(lambda m, _: m.forget(ids=["a", SURROGATE]), "bad_value", "/ids/1"),
    "forget a number": Case(lambda m, _: m.forget(ids=[7]), "bad_value", "/ids/0"),
    "forget what is no list": Case(lambda m, _: m.forget(ids=7), "bad_value", "/ids"),
    "erase with a word": Case(
        lambda m, known: m.forget(ids=[known["mine"]], hard_delete="no"), "bad_value", "/hard_delete"
    ),
    "try with a word": Case(
        lambda m, known: m.forget(ids=[known["mine"]], dry_run=""), "bad_value", "/dry_run"
    ),
    "forget too many": Case(lambda m, _: m.forget(ids=[CANARY] * 1_001), "too_large", "/ids"),
    "forget with a long key": Case(
        lambda m, _: m.forget(ids=["a"], idempotency_key=CANARY * 10), "too_large", "/idempotency_key"
    ),
    "forget as half a character": Case(
        lambda m, _: m.forget(ForgetRequest(agent_id=SURROGATE, ids=("a",))), "bad_value", "/agent_id"
    ),
    # merge
    "merge nothing": Case(lambda m, known: m.merge(known["mine"], []), "bad_value", "/duplicates"),
    "merge one text": Case(lambda m, known: m.merge(known["mine"], CANARY), "bad_value", "/duplicates"),
    "merge too many": Case(
        lambda m, known: m.merge(known["mine"], [CANARY] * 1_001), "too_large", "/duplicates"
    ),
    "merge half a character": Case(
        lambda m, known: m.merge(known["mine"], [SURROGATE]), "bad_value", "/duplicates/0"
    ),
    "merge into half a character": Case(
        lambda m, known: m.merge(SURROGATE, [known["mine"]]), "bad_value", "/canonical"
    ),
    "merge into an unknown id": Case(
        lambda m, known: m.merge(CANARY, [known["mine"]]), "canonical", None, NotFoundError
    ),
    "merge into another agent's": Case(
        lambda m, known: m.merge(known["theirs"], [known["mine"]]), "canonical", None, NotFoundError
    ),
    "merge in an unknown way": Case(
        lambda m, known: m.merge(known["mine"], ["x"], strategy=CANARY), "bad_value", "/strategy"
    ),
    "merge as half a character": Case(
        lambda m, known: m.merge(MergeRequest(agent_id=SURROGATE, canonical="x", duplicates=("y",))),
        "bad_value",
        "/agent_id",
    ),
    "try a merge with a word": Case(
        lambda m, known: m.merge(known["mine"], ["x"], dry_run="yes"), "bad_value", "/dry_run"
    ),
    # expire
    "expire with a number": Case(lambda m, _: m.expire(5), "bad_value", "/policy"),
    "try an expiry with a number": Case(
        lambda m, _: m.expire({"type": "semantic"}, dry_run=0), "bad_value", "/dry_run"
    ),
    "expire without a policy": Case(lambda m, _: m.expire(), "empty_policy", "/policy"),
    "expire with an empty policy": Case(lambda m, _: m.expire({}), "empty_policy", "/policy"),
    "expire with nothing set": Case(lambda m, _: m.expire(ExpirePolicy()), "empty_policy", "/policy"),
    "an unknown policy key": Case(
        lambda m, _: m.expire({"older_than_days": 1, "older": 2}), "unknown_policy_key", "/policy/older"
    ),
    "an age of no days": Case(
        lambda m, _: m.expire({"older_than_days": 0}), "bad_value", "/policy/older_than_days"
    ),
    "an age that is text": Case(
        lambda m, _: m.expire({"no_recall_in_days": CANARY}), "bad_value", "/policy/no_recall_in_days"
    ),
    "a policy of an unknown type": Case(lambda m, _: m.expire({"type": CANARY}), "bad_value", "/policy/type"),
    "a policy of NaN": Case(
        lambda m, _: m.expire({"confidence_below": float("nan")}), "bad_value", "/policy/confidence_below"
    ),
    "a policy of text": Case(
        lambda m, _: m.expire({"confidence_below": CANARY}), "bad_value", "/policy/confidence_below"
    ),
    "an unknown action": Case(
        lambda m, _: m.expire({"type": "semantic"}, action=CANARY), "bad_value", "/action"
    ),
    "expire in half a store": Case(
        lambda m, _: m.expire({"type": "semantic"}, store=SURROGATE), "bad_value", "/store"
    ),
    "a reason that is a number": Case(
        lambda m, known: m.forget(ids=[known["mine"]], reason=5), "bad_value", "/reason"
    ),
    "a reason of half a character": Case(
        lambda m, known: m.forget(ids=[known["mine"]], reason=SURROGATE), "bad_value", "/reason"
    ),
    "reasoning that is a number": Case(remember(reasoning=5), "bad_value", "/reasoning"),
    # many, and reads
    "a backup into nothing": Case(lambda m, _: m.backup(None), "bad_value", "/target"),
    "a proof into a number": Case(lambda m, _: m.export_journal(5), "bad_value", "/folder"),
    "lines that are one text": Case(lambda m, _: m.import_records(CANARY), "bad_value", "/lines"),
    "lines that are a number": Case(lambda m, _: m.import_records(5), "bad_value", "/lines"),
    "many that are one text": Case(lambda m, _: m.remember_many(CANARY), "bad_value", "/items"),
    "many that are one object": Case(
        lambda m, _: m.remember_many({"content": CANARY}), "bad_value", "/items"
    ),
    "a number among many": Case(lambda m, _: m.remember_many(["a", 5], atomic=True), "bad_value", "/items/1"),
    "a page of nothing": Case(lambda m, _: m.list(limit=None), "bad_value", "/limit"),
    "a cursor that is a number": Case(lambda m, _: m.list(cursor=5), "bad_value", "/cursor"),
    "reading a number": Case(lambda m, _: m.get(5), "bad_value", "/id"),
    "the history of a number": Case(lambda m, _: m.history(5), "bad_value", "/id"),
    "restoring nothing": Case(lambda m, _: m.restore(None), "bad_value", "/id"),
    "a store that is called nothing": Case(lambda m, _: m.create_store(None), "bad_value", "/name"),
    "a journal beyond 64 bits": Case(lambda m, _: m.journal(after=HUGE), "bad_value", "/after"),
    "a journal of a word": Case(lambda m, _: m.journal(limit=CANARY), "bad_value", "/limit"),
    "a history that ends in the future": Case(
        lambda m, _: m.vacuum(keep_history_days=-1), "bad_value", "/keep_history_days"
    ),
    # as JSON
    "a request that is a list": Case(lambda m, _: m.submit("recall", [CANARY]), "bad_value", ""),
    "an unknown field": Case(
        submit("remember", type="semantic", content=CANARY, approval_requird=True),
        "unknown_field",
        "/approval_requird",
    ),
    "an unknown field of a recall": Case(submit("recall", query=CANARY, limit=5), "unknown_field", "/limit"),
    "an unknown field of a forget": Case(submit("forget", ids=[CANARY], hard=True), "unknown_field", "/hard"),
    "a missing field": Case(submit("remember", type="semantic"), "missing_field", "/content"),
    "no scope as JSON": Case(submit("forget", ids=[], filter={}), "no_scope", "/ids"),
    "no policy as JSON": Case(submit("expire"), "empty_policy", "/policy"),
    "an unknown policy key as JSON": Case(
        submit("expire", policy={"older_than_days": 1, "older": 2}), "unknown_policy_key", "/policy/older"
    ),
    "k out of range as JSON": Case(submit("recall", query=CANARY, k=1_001), "bad_value", "/k"),
    "an unknown operation": Case(submit(CANARY), "bad_value", "/operation"),
    # reads and stores
    "reading half a character": Case(lambda m, _: m.get(SURROGATE), "record", None, NotFoundError),
    "reading U+0000": Case(lambda m, _: m.get(NUL), "record", None, NotFoundError),
    "the history of half a character": Case(lambda m, _: m.history(SURROGATE), "record", None, NotFoundError),
    "restoring half a character": Case(lambda m, _: m.restore(SURROGATE), "record", None, NotFoundError),
    "a page of none": Case(lambda m, _: m.list(limit=0), "bad_value", "/limit"),
    "a page of too many": Case(lambda m, _: m.list(limit=1_001), "bad_value", "/limit"),
    "an unknown state": Case(lambda m, _: m.list(states=[CANARY]), "bad_value", "/states"),
    "a wild cursor": Case(lambda m, _: m.list(cursor=f"{CANARY}é"), "bad_value", "/cursor"),
    "a store without a name": Case(lambda m, _: m.create_store(""), "bad_value", "/name"),
    "a store with a long name": Case(lambda m, _: m.create_store(CANARY * 30), "too_large", "/name"),
    "a store of half a character": Case(lambda m, _: m.create_store(SURROGATE), "bad_value", "/name"),
    "a store with U+0000 about it": Case(
        lambda m, _: m.create_store("x", description=NUL), "bad_value", "/description"
    ),
    "a store in half a namespace": Case(
        lambda m, _: m.create_store("x", namespace=SURROGATE), "bad_value", "/namespace"
    ),
    "a store of an unknown scope": Case(
        lambda m, _: m.create_store("x", scope=CANARY), "bad_value", "/scope"
    ),
    "deleting an unknown store": Case(
        lambda m, _: m.delete_store(CANARY, confirm=CANARY), "store", None, NotFoundError
    ),
    "deleting a store without its name": Case(
        lambda m, _: m.delete_store("main", confirm=CANARY), "bad_value", "/confirm"
    ),
    "deciding on nothing": Case(
        lambda m, _: m.decide(CANARY, approved=True), "proposal", None, NotFoundError
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_bad_input_is_refused_clearly_and_leaves_no_trace(memory: Memory, name: str) -> None:
    case = CASES[name]
    theirs = RememberRequest(agent_id="bo", type=MemoryType.SEMANTIC, content="theirs")
    known = {"mine": await kept(memory, "mine"), "theirs": (await memory.remember(theirs)).id}
    before = await standing(memory)

    with pytest.raises(case.error) as caught:
        await case.call(memory, known)

    error = caught.value
    assert (error.reason, error.code) == (case.reason, case.error.code)
    if case.error is InvalidError:
        assert isinstance(error, ValueError)
        assert case.pointer in (None, error.faults[0].pointer)
        assert error.faults[0].reason == case.reason
    assert error.message.endswith((".", "?"))
    told = f"{error} {error.hint} {[(fault.pointer, fault.accepted) for fault in error.faults]}"
    assert CANARY not in told
    assert await standing(memory) == before
    assert await ids(memory, all_agents=True) == set(known.values())


async def test_an_unknown_python_argument_is_a_type_error(memory: Memory) -> None:
    with pytest.raises(TypeError):
        await memory.remember("x", colour="red")


async def test_every_fault_is_told_at_once(memory: Memory) -> None:
    with pytest.raises(InvalidError) as caught:
        await memory.remember("", confidence=7, tags=[""], expires_at=HUGE)
    assert [fault.pointer for fault in caught.value.faults] == [
        "/content",
        "/confidence",
        "/expires_at",
        "/tags/0",
    ]


async def test_lenient_json_ignores_only_what_is_unknown(memory: Memory) -> None:
    body = {"type": "semantic", "content": "x", "colour": "red"}
    answer = await memory.submit("remember", body, strict=False)
    assert answer.extensions["warnings"] == ["ignored field: colour"]
    with pytest.raises(InvalidError):
        await memory.submit("remember", {**body, "confidence": 7}, strict=False)


async def test_v0_requests_at_the_edge_of_what_is_allowed_are_accepted(memory: Memory) -> None:
    long = "x" * 50_000
    assert len(await memory.recall(RecallRequest(agent_id=long, query="q", user_id=long))) == 0
    assert len(await memory.recall(RecallRequest(agent_id="", query="q"))) == 0
    assert (await memory.forget(ForgetRequest(agent_id="", ids=("",)))).forgotten_ids == ()
    with pytest.raises(NotFoundError):
        await memory.merge(MergeRequest(agent_id="", canonical="", duplicates=("",)))
    policy = ExpirePolicy(older_than_days=1 << 40)
    assert (await memory.expire(ExpireRequest(agent_id=long, policy=policy))).matched_count == 0
    record = await memory.get(await kept(memory, "x", source=long, expires_at=(1 << 63) - 1))
    assert (record.source, record.expires_at) == (long, (1 << 63) - 1)
    assert await verifies(memory)


# -- files that are no memory -------------------------------------------------------------------------------------


async def refused(memory: Memory) -> QuipuError:
    with pytest.raises(QuipuError) as caught:
        await memory.remember("x")
    assert caught.value.hint or caught.value.faults
    return caught.value


async def test_a_file_that_is_not_a_database_is_left_alone(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("my shopping list, which is long enough to look like something " * 10)
    error = await refused(opened(file))
    assert (error.code, error.reason) == ("backend_unavailable", "not_a_database")
    assert file.read_text().startswith("my shopping list")


async def test_another_program_s_database_is_left_alone(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    connection = apsw.Connection(str(file))
    connection.execute("CREATE TABLE song (title TEXT)")
    connection.close()
    before = file.read_bytes()
    error = await refused(opened(file))
    assert (error.code, error.reason) == ("backend_unavailable", "not_a_database")
    assert file.read_bytes() == before


async def test_a_file_of_a_newer_version_is_left_alone(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file)
    await memory.remember("x")
    await memory.close()
    connection = apsw.Connection(str(file))
    connection.pragma("user_version", 999)
    connection.close()
    error = await refused(opened(file))
    assert (error.code, error.reason) == ("backend_unavailable", "newer_schema")
    assert "Upgrade" in (error.hint or "")


async def test_a_directory_is_no_memory(opened: Any, tmp_path: Path) -> None:
    error = await refused(opened(tmp_path))
    assert (error.code, error.faults[0].pointer) == ("validation_error", "/stores")


async def test_a_damaged_file_is_told_and_not_made_worse(
    opened: Any, tmp_path: Path, clock: FixedClock
) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file)
    await memory.remember_many([f"note {number} " + "x" * 500 for number in range(300)])
    await memory.vacuum()
    await memory.close()
    data = bytearray(file.read_bytes())
    data[8192:-8192] = b"\xa5" * (len(data) - 16384)
    file.write_bytes(bytes(data))
    before = bytes(data)
    shutil.copy(file, tmp_path / "copy.db")
    damaged: Memory = opened(tmp_path / "copy.db")
    with pytest.raises(QuipuError) as caught:
        await damaged.recall("note")
    assert (caught.value.code, caught.value.reason) == ("backend_unavailable", "corrupt")
    assert caught.value.hint
    assert file.read_bytes() == before


async def test_a_key_that_is_none_is_told(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "memory.db.key").write_text("not a key")
    memory: Memory = opened(tmp_path / "memory.db")
    with pytest.raises(BackendUnavailableError) as caught:
        await memory.checkpoint()
    assert (caught.value.reason, bool(caught.value.hint)) == ("bad_key", True)
    with suppress(BackendUnavailableError):  # nor can the journal be signed on closing
        await memory.close()
