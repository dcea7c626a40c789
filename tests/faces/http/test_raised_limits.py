"""A memory that the settings allow to be longer than usual gets through every door of the server."""

from __future__ import annotations

import json

from quipu.config import Config
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
