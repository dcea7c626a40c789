"""The routes that the fuzz by the OpenAPI document cannot ask: they never end, move files, lock people out or speak JSON-RPC.

Each is asked with hostile words of its own kind. The same holds: no failure of ours, nothing told that must not be.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

from tests.faces.serving import Served, served

pytestmark = pytest.mark.slow

CANARY = "canary-of-another-tenant"
#: Words for names, ids, positions and cursors.
WORDS = (
    "", "0", "-1", "18446744073709551616", "1e309", "NaN", "null", "%00", "%ff", "\u202e", "a" * 5000,
    "../../etc/passwd", "' OR 1=1 --", "{{7*7}}", "<script>", "default/../other", "other", "ana", "\U0001f4a5",
)  # fmt: skip
MCP_METHODS = (
    "initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read", "resources/subscribe",
    "prompts/get", "completion/complete", "logging/setLevel", "server/discover", "nonsense", "", "__class__",
)  # fmt: skip

_HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "fuzz", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(rate_per_minute=0, recall_budget=0) as server:
        with server.client() as admin:
            assert admin.post("/quipu/v1/tenants", json={"tenant": "other"}).status_code == 201
            body = {"name": "other", "roles": ["admin"], "tenant": "other"}
            token = admin.post("/quipu/v1/tokens", json=body).json()["text"]
        with server.client(token) as other:
            fact = {"agent_id": "ana", "type": "semantic", "content": CANARY}
            assert other.post("/memorywire/v0/remember", json=fact).status_code == 200
        yield server


def harmless(server: Served, answer: httpx.Response, text: str) -> None:
    """What must hold of every answer."""
    assert answer.status_code < 500 or answer.status_code == 501, (answer.request.url, text[:300])
    for forbidden in (CANARY, server.admin_token, "Traceback", 'File "/'):
        assert forbidden not in text, (answer.request.url, forbidden)


def test_the_change_feed(server: Served) -> None:
    with server.client() as client:
        for name in ("agent_id", "store", "types", "since", "nonsense"):
            for word in WORDS:
                _followed(server, client, {name: word}, {})
        for word in WORDS:
            if word.isascii():
                _followed(server, client, {}, {"Last-Event-ID": word})


def _followed(server: Served, client: httpx.Client, params: dict[str, str], headers: dict[str, str]) -> None:
    with client.stream("GET", "/memorywire/v0/changes", params=params, headers=headers) as answer:
        text = next(answer.iter_text(), "")
        harmless(server, answer, text)
        kind = "text/event-stream" if answer.status_code == 200 else "application/problem+json"
        assert answer.headers["content-type"].startswith(kind)


def test_backup(server: Served) -> None:
    bodies = [b"", b"{", b"null", b'{"path":"/etc/passwd"}', b"[" * 500, bytes(range(256))]
    with server.client() as client:
        for body in bodies:
            for kind in ("application/json", "text/plain", "nonsense"):
                answer = client.post("/quipu/v1/backup", content=body, headers={"Content-Type": kind})
                if answer.status_code == 200:
                    assert answer.content.startswith(b"SQLite format 3\x00")
                else:
                    harmless(server, answer, answer.text)


def test_suspending_whom_there_is_not(server: Served) -> None:
    with server.client() as client:
        for word in WORDS:
            if word in ("", "other"):
                continue
            address = f"/quipu/v1/tenants/{quote(word, safe='')}/suspend"
            harmless(server, answer := client.post(address), answer.text)
        assert client.get("/quipu/v1/tenants").status_code == 200
        assert client.get("/memorywire/v0/list", params={"agent_id": "ana"}).status_code in (200, 404)


def test_json_rpc_that_nobody_writes(server: Served) -> None:
    chance = random.Random(11)  # noqa: S311  a fixed seed for repeatable messages, not a secret
    accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    statuses: set[int] = set()
    with server.client() as client:
        opened = client.post("/mcp", json=_HELLO, headers=accepted)
        assert opened.status_code == 200, opened.text
        session = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": opened.headers["mcp-session-id"]}
        client.post(
            "/mcp",
            json={"jsonrpc": "2.0", "method": "notifications/initialized"},
            headers={**accepted, **session},
        )
        for _ in range(250):
            message = _made_up(chance)
            headers = {**accepted, **session}
            if chance.random() < 0.3:
                version = chance.choice(["2025-06-18", "2026-07-28", "nonsense", ""])
                id = chance.choice([word for word in WORDS if word.isascii()])
                headers |= {"MCP-Protocol-Version": version, "Mcp-Session-Id": id}
            with client.stream(
                "POST",
                chance.choice(["/mcp", "/mcp", "/mcp/ana", "/mcp/%00"]),
                content=message,
                headers=headers,
            ) as answer:
                text = "".join(piece for piece, _ in zip(answer.iter_text(), range(3), strict=False))
                harmless(server, answer, text)
                statuses.add(answer.status_code)
    # Some were understood: the words reached the tools.
    assert {200, 400} <= statuses
    assert httpx.get(f"{server.url}/healthz").status_code == 200


def _made_up(chance: random.Random) -> bytes:
    """A message that is right in some members and wrong in others."""
    if chance.random() < 0.15:
        return chance.choice([b"", b"{", b"[" * 400, b"[]", b"null", chance.randbytes(60)])
    word = chance.choice(WORDS)
    arguments = chance.choice(
        [
            {},
            [],
            None,
            word,
            {"content": word},
            {"query": word, "tenant": "other"},
            {"agent_id": "ana", "k": 10**9},
        ]
    )
    params = chance.choice(
        [
            None,
            [],
            word,
            {"name": chance.choice(["remember", "recall", "forget", word]), "arguments": arguments},
            {"uri": chance.choice(["quipu://other/ana", "file:///etc/passwd", word])},
            {
                "protocolVersion": word,
                "capabilities": arguments,
                "clientInfo": {"name": word, "version": word},
            },
        ]
    )
    message = {
        "jsonrpc": chance.choice(["2.0", "1.0", 2, None]),
        "id": chance.choice([1, "a", None, word, [], 1.5]),
        "method": chance.choice(MCP_METHODS),
        "params": params,
    }
    for name in chance.sample(sorted(message), chance.randrange(3)):
        del message[name]
    return json.dumps(message).encode()
