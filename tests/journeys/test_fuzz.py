"""Every operation of the published OpenAPI document, asked for at random: no failure of ours, nothing told that must not be.

schemathesis makes the requests from the document, valid and invalid ones; a second pass sends bytes that no document
describes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.core.transport import Response

from tests.faces.serving import Served, served

pytestmark = pytest.mark.slow

#: Asked in test_fuzz_streams.py: never ends by itself, moves files, locks people out or speaks JSON-RPC.
LEFT_OUT = ("/memorywire/v0/changes", "/quipu/v1/backup", "/mcp", "/quipu/v1/tenants/{id}/suspend")
CANARY = "canary-of-another-tenant"


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx: object, value: object) -> bytes:
    """One line of what was made up, or the text of it."""
    return value if isinstance(value, bytes) else json.dumps(value, default=str).encode() + b"\n"


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


def tells_nothing(response: Response, secret: str) -> None:
    """Whatever was asked: no traceback, no token, nothing of the other tenant."""
    text = response.content.decode("utf-8", "replace")
    for forbidden in (CANARY, secret, "Traceback", 'File "/', "apsw", "psycopg"):
        assert forbidden not in text, forbidden
    if response.status_code >= 400:
        kinds = response.headers.get("content-type", [""])
        assert kinds[0].startswith(("application/problem+json", "text/html")), kinds


def test_no_operation_fails_us(server: Served) -> None:
    document = httpx.get(f"{server.url}/openapi.json").json()
    for path in [path for path in document["paths"] if path in LEFT_OUT]:
        del document["paths"][path]
    schema = schemathesis.openapi.from_dict(document)
    asked = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=12,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        )
        @given(case=operation.as_strategy())
        def ask(case: Case) -> None:
            response = case.call(base_url=server.url, headers=server.headers())
            # 501 says that there is no embedder here.
            ours = response.status_code >= 500 and response.status_code != 501
            assert not ours, f"{case.method} {case.path}: {response.status_code} {response.text[:300]}"
            tells_nothing(response, server.admin_token)

        ask()
        asked += 1
    assert asked >= 50


def test_bytes_that_nobody_describes(server: Served) -> None:
    chance = random.Random(7)  # noqa: S311  a fixed seed for repeatable bytes, not a secret
    document = httpx.get(f"{server.url}/openapi.json").json()
    with server.client() as client:
        for path, item in document["paths"].items():
            if path in LEFT_OUT:
                continue
            for method in item:
                if method not in ("get", "post", "put", "delete"):
                    continue
                for kind in ("application/json", "application/x-ndjson", "text/plain", "nonsense"):
                    body = chance.choice(
                        [
                            b"",
                            b"{",
                            b"[" * 500,
                            b"null",
                            b'{"agent_id":"\\ud800"}',
                            chance.randbytes(40),
                            b'"x"',
                        ]
                    )
                    address = path.replace("{id}", "%00%ff").replace("{name}", "../../etc/passwd")
                    answer = client.request(method, address, content=body, headers={"Content-Type": kind})
                    assert answer.status_code < 500 or answer.status_code == 501, (
                        method,
                        path,
                        body,
                        answer.text,
                    )
                    assert CANARY not in answer.text
                    assert "Traceback" not in answer.text
    assert httpx.get(f"{server.url}/healthz").status_code == 200
