"""Every row of the table of errors, and nothing of the caller's in any of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quipu.errors import BackendUnavailableError
from quipu.model.search import Found, Search
from quipu.testing.embedders import WordEmbedder
from tests.faces.memorywire.test_rest_operations import TEA
from tests.faces.memorywire.wired import (
    ADMIN,
    DELETE,
    READ,
    REVIEW,
    WRITE,
    Caller,
    Wired,
    is_problem,
    wired,
)
from tests.requirement import requirement

CANARY = "zimtstern"
RECALL = {"agent_id": "ana", "query": "tea"}

#: operation, body, reason, pointer
INVALID: dict[str, tuple[str, Any, str, str]] = {
    "a field that does not exist": ("remember", TEA | {"colour": CANARY}, "unknown_field", "/colour"),
    "a field that is missing": (
        "remember",
        {"agent_id": "ana", "type": "semantic"},
        "missing_field",
        "/content",
    ),
    "a value that is none": ("recall", RECALL | {"k": CANARY}, "bad_value", "/k"),
    "no object": ("remember", [CANARY], "bad_value", ""),
    "a field of another type": ("remember", TEA | {"location": CANARY}, "wrong_type", "/location"),
    "forgetting without scope": ("forget", {"agent_id": "ana", "ids": [], "filter": {}}, "no_scope", "/ids"),
    "no policy": ("expire", {"agent_id": "ana"}, "empty_policy", "/policy"),
    "an empty policy": ("expire", {"agent_id": "ana", "policy": {}}, "empty_policy", "/policy"),
    "a policy with an unknown key": (
        "expire",
        {"agent_id": "ana", "policy": {"type": "semantic", "older": 3}},
        "unknown_policy_key",
        "/policy/older",
    ),
    "an unknown operator": (
        "recall",
        RECALL | {"filter": {"a": {"$like": CANARY}}},
        "unknown_operator",
        "/filter/a/$like",
    ),
    "a filter that is none": ("recall", RECALL | {"filter": {"$and": []}}, "bad_filter", "/filter/$and"),
    "no machine": (
        "remember",
        TEA | {"type": "procedural", "content": CANARY},
        "invalid_procedure",
        "/content",
    ),
    "a vector of another model": (
        "recall",
        RECALL | {"embedding": {"model": CANARY, "vector": [1.0]}},
        "embedding_mismatch",
        "/embedding",
    ),
    "more backends than there are": ("recall", RECALL | {"quorum_k": 2}, "quorum_unreachable", "/quorum_k"),
    "a moment to come": ("recall", RECALL | {"as_of": "99999999"}, "bad_value", "/as_of"),
}


@requirement("memorywire:rest.errors")
@pytest.mark.parametrize("name", INVALID)
async def test_what_is_not_valid_is_told_by_pointer_and_reason(ada: Caller, name: str) -> None:
    await ada.kept("something")  # so that there is a vector space
    operation, sent, reason, pointer = INVALID[name]
    answer = await ada.post(f"/{operation}", sent)
    body = is_problem(answer, 400, "validation_error", reason)
    assert pointer in [error["pointer"] for error in body["errors"]]
    assert CANARY not in answer.text.replace("/colour", "")
    assert body["retryable"] is False


BROKEN = {
    "no JSON": (b'{"content": "zimtstern"', "bad_json"),
    "a name twice": (b'{"agent_id": "a", "agent_id": "b"}', "bad_json"),
    "NaN": (b'{"confidence": NaN}', "bad_json"),
    "not UTF-8": (b'{"content": "\xff"}', "bad_json"),
    "nothing": (b"", "bad_json"),
    "U+0000": (b'{"content": "\\u0000"}', "bad_value"),
    "an integer too large": (b'{"expires_at": 9223372036854775808}', "bad_value"),
    "deep nesting": (b"[" * 100 + b"]" * 100, "too_deep"),
}


@requirement("memorywire:rest.errors")
@pytest.mark.parametrize("name", BROKEN)
async def test_a_body_that_cannot_be_read_is_refused(ada: Caller, name: str) -> None:
    sent, reason = BROKEN[name]
    answer = await ada.ask("POST", "/remember", content=sent, headers={"Content-Type": "application/json"})
    is_problem(answer, 400, "validation_error", reason)
    assert CANARY not in answer.text


@requirement("memorywire:rest.errors")
async def test_method_size_and_media_type_have_statuses_of_their_own(ada: Caller, server: Wired) -> None:
    is_problem(await ada.get("/remember"), 405, "validation_error", "method")
    plain = await ada.ask("POST", "/remember", content=b"{}", headers={"Content-Type": "text/plain"})
    is_problem(plain, 415, "validation_error", "media_type")
    large = TEA | {"content": "x" * ((1 << 20) + 1)}
    is_problem(await ada.post("/remember", large), 413, "validation_error", "too_large")
    huge = await ada.ask(
        "POST", "/remember", content=b" " * (5 << 20), headers={"Content-Type": "application/json"}
    )
    is_problem(huge, 413, "validation_error", "too_large")
    is_problem(await ada.get("/nothing"), 404, "not_found", "route")


@requirement("memorywire:rest.errors")
@pytest.mark.parametrize("path", ["/rules/other", "/recover"])
async def test_what_is_not_there_yet_is_not_found(ada: Caller, path: str) -> None:
    is_problem(await ada.get(path), 404, "not_found", "route")


@requirement("memorywire:rest.errors")
async def test_a_bad_credential_is_401_and_says_how_to_show_one(server: Wired) -> None:
    body = is_problem(await server.stranger.post("/recall", RECALL), 401, "unauthenticated")
    assert body["retryable"] is False
    bad = Caller(server.client, "qp_default_" + "x" * 43)
    answer = await bad.post("/recall", RECALL)
    is_problem(answer, 401, "unauthenticated", "bad_token")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@requirement("memorywire:rest.errors")
async def test_403_tells_the_missing_scope_the_foreign_agent_and_the_own_write(server: Wired) -> None:
    reader = await server.caller("reader", READ)
    is_problem(await reader.post("/remember", TEA), 403, "forbidden", "missing_scope")
    shop = await server.caller("shop", READ, WRITE, agents=("shop-*",))
    is_problem(await shop.post("/remember", TEA), 403, "forbidden", "agent_not_allowed")
    bound = await server.caller("bound", READ, WRITE, user_id="mara")
    is_problem(await bound.post("/remember", TEA | {"user_id": "bo"}), 403, "forbidden", "user_not_allowed")
    judge = await server.caller("judge", WRITE, REVIEW)
    held = (await judge.post("/remember", TEA | {"approval_required": True})).json()
    proposal = held["approval_url"].rpartition("/")[2]
    own = await judge.post(f"/proposals/{proposal}/decision", {"approved": True})
    is_problem(own, 403, "forbidden", "self_approval")


@requirement("memorywire:rest.errors")
async def test_404_names_what_is_not_there(ada: Caller) -> None:
    cases = {
        "record": await ada.get("/records/mem_unknown"),
        "store": await ada.post("/remember", TEA | {"store": "attic"}),
        "canonical": await ada.post("/merge", {"agent_id": "ana", "canonical": "x", "duplicates": ["y"]}),
        "proposal": await ada.get("/proposals/prp_unknown"),
        "snapshot_unavailable": await ada.post("/recall", RECALL | {"as_of": "run_unknown"}),
        "schema": await ada.get("/schemas/operations/remind"),
    }
    for reason, answer in cases.items():
        is_problem(answer, 404, "not_found", reason)


@requirement("memorywire:rest.errors")
async def test_409_tells_what_contradicts(ada: Caller, server: Wired) -> None:
    one = await ada.kept("one", user_id="mara", metadata={"entity_name": "Ann"})
    two = await ada.kept("two", user_id="bo", metadata={"entity_name": "Ann"})
    event = await ada.post("/remember", TEA | {"type": "episodic", "user_id": "mara"})
    judge = await server.caller("judge", REVIEW)
    held = (await ada.post("/remember", TEA | {"approval_required": True})).json()
    decision = f"/proposals/{held['approval_url'].rpartition('/')[2]}/decision"
    assert (await judge.post(decision, {"approved": False})).status_code == 200
    key = {"Idempotency-Key": "k"}
    await ada.post("/remember", TEA, headers=key)
    merge = {"agent_id": "ana", "canonical": one}
    cases = {
        "version_mismatch": await ada.post("/remember", TEA | {"id": one}, headers={"If-Match": '"9"'}),
        "idempotency_key_mismatch": await ada.post("/remember", TEA | {"content": "x"}, headers=key),
        "scope_mismatch": await ada.post("/merge", merge | {"duplicates": [two]}),
        "ambiguous_name": await ada.post("/merge", merge | {"canonical": "Ann", "duplicates": [one]}),
        "already_decided": await judge.post(decision, {"approved": True}),
        "not_forgotten": await ada.post(f"/records/{one}/restore", {}),
    }
    strategy = {"duplicates": [event.json()["id"]], "strategy": "merge_content"}
    cases["type_mismatch"] = await ada.post("/merge", merge | strategy)
    for reason, answer in cases.items():
        is_problem(answer, 409, "conflict", reason)


@requirement("memorywire:rest.errors")
async def test_422_is_a_secret_where_a_name_should_be(ada: Caller, server: Wired) -> None:
    from quipu.model.principal import local

    hidden = "zimtstern-geheim-4711-abc"
    await server.running.service.secrets.register(local(), label="key", value=hidden)
    answer = await ada.post("/remember", TEA | {"user_id": hidden})
    is_problem(answer, 422, "secret_leakage")
    assert hidden not in answer.text
    await ada.post("/remember", TEA | {"content": f"the key is {hidden}"})
    assert hidden not in str(await ada.recalled("the key"))


@requirement("memorywire:rest.errors")
async def test_429_says_when_to_come_back(server: Wired) -> None:
    slow = await server.caller("slow", READ, rate=2)
    answers = [await slow.post("/recall", RECALL) for _ in range(4)]
    answer = next(answer for answer in answers if answer.status_code != 200)
    assert is_problem(answer, 429, "rate_limited")["retryable"] is True
    assert int(answer.headers["retry-after"]) >= 1
    ada = await server.caller("ada")
    for number in range(3):
        await ada.kept(f"tea {number}")
    frugal = await server.caller("frugal", READ, recall_budget=2)
    first = await frugal.post("/recall", RECALL | {"min_relevance": 0})
    assert first.status_code == 200
    spent = await frugal.post("/recall", RECALL | {"min_relevance": 0})
    is_problem(spent, 429, "quota_exceeded", "recall_budget")
    assert int(spent.headers["retry-after"]) >= 1


class _Broken(WordEmbedder):
    async def embed(self, texts: Any) -> Any:
        raise RuntimeError(CANARY)


class _Slow(WordEmbedder):
    async def embed(self, texts: Any) -> Any:
        await asyncio.sleep(5)
        return await super().embed(texts)


@requirement("memorywire:rest.errors")
async def test_500_tells_the_request_id_and_nothing_else() -> None:
    async with wired(embedder=_Broken()) as server:
        ada = await server.caller("ada")
        answer = await ada.post("/recall", RECALL)
        body = is_problem(answer, 500, "internal_error")
        assert set(body) == {"type", "title", "status", "code", "retryable", "request_id"}
        assert CANARY not in answer.text


@requirement("memorywire:rest.errors")
async def test_a_recall_that_waits_for_a_person_is_forbidden_until_then(ada: Caller) -> None:
    answer = await ada.post("/recall", RECALL | {"approval_required": True})
    told = is_problem(answer, 403, "forbidden", "approval_pending")
    assert told["approval_url"].endswith(f"/review/{told['proposal_id']}")
    again = await ada.post("/recall", RECALL | {"approval_required": True})
    assert again.json()["proposal_id"] == told["proposal_id"], "asking twice makes one proposal"


@requirement("memorywire:rest.errors")
async def test_503_is_a_ledger_that_is_gone_and_never_an_empty_list(server: Wired, ada: Caller) -> None:
    ledger: Any = server.running.parts.ledger

    async def gone(search: Search) -> Found:
        raise BackendUnavailableError("zimtstern", reason="ledger")

    await ada.kept("tea")
    ledger.search = gone
    answer = await ada.post("/recall", RECALL)
    assert is_problem(answer, 503, "backend_unavailable", "ledger")["retryable"] is True
    assert answer.headers["retry-after"] == "1"


@requirement("memorywire:rest.errors")
async def test_504_is_a_recall_past_its_deadline() -> None:
    async with wired(embedder=_Slow()) as server:
        ada = await server.caller("ada")
        answer = await ada.post("/recall", RECALL | {"deadline_ms": 20})
        assert is_problem(answer, 504, "timeout", "deadline")["retryable"] is True


# -- who may ------------------------------------------------------------------------------------------------------

SCOPES: dict[str, tuple[str, str, Any, Any]] = {
    "remember": ("POST", "/remember", TEA, WRITE),
    "recall": ("POST", "/recall", RECALL, READ),
    "forget": ("POST", "/forget", {"agent_id": "ana", "ids": ["x"]}, DELETE),
    "erase": ("POST", "/forget", {"agent_id": "ana", "ids": ["x"], "hard_delete": True}, ADMIN),
    "merge": ("POST", "/merge", {"agent_id": "ana", "canonical": "x", "duplicates": ["y"]}, WRITE),
    "expire": ("POST", "/expire", {"agent_id": "ana", "policy": {"type": "semantic"}}, DELETE),
    "archive": (
        "POST",
        "/expire",
        {"agent_id": "ana", "policy": {"type": "semantic"}, "action": "archive"},
        WRITE,
    ),
    "demote": (
        "POST",
        "/expire",
        {"agent_id": "ana", "policy": {"type": "semantic"}, "action": "demote"},
        WRITE,
    ),
    "batch": ("POST", "/remember/batch", {"items": [TEA], "atomic": True}, WRITE),
    "import": ("POST", "/import", None, WRITE),
    "export": ("GET", "/export", None, ADMIN),
    "record": ("GET", "/records/mem_x", None, READ),
    "history": ("GET", "/records/mem_x/history", None, READ),
    "restore": ("POST", "/records/mem_x/restore", {}, WRITE),
    "step": ("POST", "/records/mem_x/step", {"trigger": "send"}, WRITE),
    "proposals": ("GET", "/proposals", None, REVIEW),
    "decision": ("POST", "/proposals/prp_x/decision", {"approved": True}, REVIEW),
    "rules": ("GET", "/rules", None, REVIEW),
    "new rules": ("PUT", "/rules", {"rules": []}, ADMIN),
    "trying rules": ("POST", "/rules/test", {"last": 1}, REVIEW),
    "suggested rules": ("GET", "/rules/suggested", None, REVIEW),
    "accepting": ("POST", "/rules/suggested/prp_x", {"accept": True}, ADMIN),
    "audit": ("GET", "/audit", None, REVIEW),
    "capabilities": ("GET", "/capabilities", None, READ),
}


@requirement("memorywire:rest.scopes")
@pytest.mark.parametrize("name", SCOPES)
async def test_each_endpoint_needs_its_scope(server: Wired, name: str) -> None:
    method, path, body, needed = SCOPES[name]
    given: dict[str, Any] = {"json": body}
    if name == "import":
        given = {"content": b"", "headers": {"Content-Type": "application/x-ndjson"}}
    is_problem(await server.stranger.ask(method, path, **given), 401, "unauthenticated")
    without = await server.caller("without", *({READ, WRITE, DELETE, REVIEW} - {needed}))
    is_problem(await without.ask(method, path, **given), 403, "forbidden", "missing_scope")
    allowed = await server.caller("allowed", needed)
    assert (await allowed.ask(method, path, **given)).status_code in (200, 404)


@requirement("memorywire:rest.scopes")
async def test_changes_are_for_readers(server: Wired) -> None:
    is_problem(await server.stranger.get("/changes"), 401, "unauthenticated")
    writer = await server.caller("writer", WRITE)
    is_problem(await writer.get("/changes"), 403, "forbidden", "missing_scope")


@requirement("memorywire:rest.scopes")
async def test_every_endpoint_is_in_the_table() -> None:
    from quipu.faces.memorywire import paths
    from quipu.faces.memorywire.openapi import described

    tested = {path.replace("mem_x", "{id}").replace("prp_x", "{id}") for _, path, _, _ in SCOPES.values()}
    tested |= {"/changes", "/proposals/{id}", "/schemas", "/schemas/{name}", "/health"}
    assert {path.removeprefix(paths.PREFIX) for path in described().paths} == tested
