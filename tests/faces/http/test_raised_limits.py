"""A memory that the settings allow to be longer than usual gets through every door of the server."""

from __future__ import annotations

import json

from quipu.config import PUBLISHED_LIMITS, SETTINGS, Config
from quipu.model.limits import Limits
from tests.faces.serving import served

LONG = "tea and cake " * 400_000
_MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def test_a_raised_limit_of_content_holds_over_http_and_mcp() -> None:
    with served(limit_content_bytes=8 << 20) as server, server.client() as client:
        body = {"agent_id": "ana", "type": "semantic", "content": LONG}
        assert client.post("/memorywire/v0/remember", json=body).status_code == 200
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "remember", "arguments": {"type": "semantic", "content": LONG}},
        }
        hello = {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        }
        session = client.post("/mcp", json=hello, headers=_MCP).headers.get("mcp-session-id")
        told = client.post("/mcp", json=call, headers=_MCP | ({"Mcp-Session-Id": session} if session else {}))
        assert told.status_code == 200, told.text[:200]
        line = next(line for line in told.text.splitlines() if line.startswith("data: {"))
        assert not json.loads(line.removeprefix("data: "))["result"].get("isError"), line[:300]


def test_the_limit_of_a_body_stands_where_content_has_the_usual_one() -> None:
    assert Config(limit_body_bytes=1_000).body_bytes == 1_000
    assert Config(limit_content_bytes=8 << 20).body_bytes == 32 << 20
    assert Config(limit_content_bytes=8 << 20, limit_body_bytes=64 << 20).body_bytes == 64 << 20


def test_a_lowered_limit_of_a_batch_holds_over_http() -> None:
    with served(limit_batch=2) as server, server.client() as client:
        item = {"agent_id": "ana", "type": "semantic", "content": "tea at noon"}
        assert client.post("/memorywire/v0/remember/batch", json={"items": [item] * 2}).status_code == 200
        refused = client.post("/memorywire/v0/remember/batch", json={"items": [item] * 3})
        assert (refused.status_code, refused.json()["reason"]) == (413, "too_large")


_ITEM = {"agent_id": "ana", "type": "semantic", "content": "tea"}
#: What is too much by default, by limit; and whether the published schema states the default, so that it cannot be raised.
_MORE: dict[str, tuple[str, dict[str, object], bool]] = {
    "metadata_bytes": ("remember", {**_ITEM, "metadata": {"x": "y" * (300 << 10)}}, False),
    "metadata_depth": ("remember", {**_ITEM, "metadata": json.loads('{"a":' * 33 + "1" + "}" * 33)}, False),
    "query_bytes": ("recall", {"agent_id": "ana", "query": "tea " * 9_000}, False),
    "ids_per_call": ("forget", {"agent_id": "ana", "ids": [f"mem_{n}" for n in range(1_001)]}, False),
    "tags": ("remember", {**_ITEM, "tags": [f"t{n}" for n in range(65)]}, True),
    "tag_length": ("remember", {**_ITEM, "tags": ["t" * 129]}, True),
    "links": (
        "remember",
        {**_ITEM, "links": [{"to": "mem_1", "relation": f"r{n}"} for n in range(65)]},
        True,
    ),
    "name_length": ("remember", {**_ITEM, "agent_id": "a" * 257}, True),
    "key_length": ("remember", {**_ITEM, "idempotency_key": "k" * 129}, True),
    "batch": ("remember/batch", {"items": [_ITEM] * 1_001}, True),
    "k": ("recall", {"agent_id": "ana", "query": "tea", "k": 1_001}, True),
}


def test_a_limit_is_raised_over_http_or_its_help_says_that_it_is_not() -> None:
    assert {name for name, (_, _, is_published) in _MORE.items() if is_published} == PUBLISHED_LIMITS
    helped = {one.name.removeprefix("limit_"): one.help for one in SETTINGS if one.name.startswith("limit_")}
    raised = {f"limit_{name}": 4 * getattr(Limits(), name) for name in _MORE}
    with served() as usual, served(**raised) as server, usual.client() as before, server.client() as client:
        for name, (path, body, is_published) in _MORE.items():
            assert before.post(f"/memorywire/v0/{path}", json=body).status_code in (400, 413), name
            is_taken = client.post(f"/memorywire/v0/{path}", json=body).status_code == 200
            assert is_taken is not is_published, name
            assert ("over HTTP" in helped[name]) is is_published, name
