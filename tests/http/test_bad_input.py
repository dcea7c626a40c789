"""Everything that can be wrong with a request, at every address: a problem with a stable code, never a failure of ours."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quipu.bootstrap import OPERATIONS, http_app, open_container
from quipu.config import Settings
from quipu.http.problems import STATUS
from quipu.http.v0 import v0_operations
from quipu.operation import AnyOperation
from quipu.schemas import fields
from tests.http.conftest import Server
from tests.http.rig import Call

JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}
#: Values of every wrong kind, for each field.
VALUES: list[Any] = [
    True,
    -1,
    10**30,
    "x" * 70_000,
    "\ud800",
    [],
    {},
    {"$bad": 1},
    [None],
    [[1]],
    "\0",
    1e308,
]
#: Bodies, with the headers that they come with, and the status that each must get.
BODIES: list[tuple[bytes, dict[str, str], set[int]]] = [
    (b"", JSON, {200, 400}),
    (b"{", JSON, {400}),
    (b"[1]", JSON, {400}),
    (b"null", JSON, {400}),
    (b"\xff\xfe", JSON, {400}),
    (b"\xef\xbb\xbf{}", JSON, {400}),
    (b'{"a":1,"a":2}', JSON, {400}),
    (b'{"content":NaN}', JSON, {400}),
    (b"[" * 100_000, JSON, {400}),
    (b'{"a":' * 70_000, JSON, {400}),
    (b'{"\\u0000":1}', JSON, {400}),
    (b'{"\\ud800":1}', JSON, {400}),
    (b'{"' + b"n" * 100_000 + b'":1}', JSON, {400}),
    (b'{"a":' + b"9" * 5_000 + b"}", JSON, {400}),
    (b"x" * (5 << 20), JSON, {413}),
    (b"{}", {}, {415}),
    (b"{}", {"content-type": "text/plain"}, {415}),
    (b"{}", {"content-type": "\xff"}, {415}),
    (b"{}", {**JSON, "content-encoding": "br"}, {415}),
    (b"{}", {**JSON, "content-encoding": "gzip"}, {400}),
    (b"{}\n{", NDJSON, {200, 415}),
    (b"\0" * 100, NDJSON, {200, 415}),
]
#: Headers that no request needs to be refused for, or that are refused with 400.
HEADERS: list[dict[str, str]] = [
    {"idempotency-key": "\xff"},
    {"idempotency-key": ""},
    {"idempotency-key": "k" * 10_000},
    {"if-match": "*"},
    {"if-match": 'W/"x"'},
    {"if-match": '"99999999999999999999999999"'},
    {"last-event-id": "x"},
    {"last-event-id": "-1"},
    {"last-event-id": "9" * 5_000},
    {"prefer": "wait=x"},
    {"prefer": "wait=" + "9" * 5_000},
    {"prefer": "\xff;=,,;"},
    {"accept": "\xff"},
    {"accept-encoding": "gzip;q=x, \xff"},
    {"content-length": "x"},
    {"quipu-extensions": "\xff"},
    {"host": "\xff"},
    {"origin": "http://[::1"},
    {"expect": "100-continue"},
    {"traceparent": "\xff"},
]
QUERIES = [
    *(
        "x=1",
        "=",
        "&&&",
        "%00=1",
        "limit=%00",
        "limit=1&limit=2",
        "agent_id=%FF",
        "filter=%7B",
        "filter=null",
    ),
    *(
        "filter=" + "%5B" * 5_000,
        "limit=" + "9" * 5_000,
        "x" * 20_000,
        "limit=1e400",
        "as_of=-1",
        "user_id=%ED%A0%80",
    ),
]


def addresses() -> list[tuple[AnyOperation, str, str]]:
    """Every operation at its own address, and at v0's; with names of every kind in the path."""
    both = [*OPERATIONS, *v0_operations(OPERATIONS).values()]
    return [
        (operation, operation.http.method, re.sub(r"{[^}]+}", name, operation.http.path))
        for operation in both
        if operation.http is not None
        for name in (("mem_1", "%00", "%ED%A0%80", "x" * 1000) if "{" in operation.http.path else ("",))
    ]


ADDRESSES = addresses()
PLAIN = [one for one in ADDRESSES if "%" not in one[2] and "xxx" not in one[2] and not one[0].is_stream]


FAILURES = (500, 502, 503, 504)


class Judge:
    """Notes every answer that is none of ours."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.wrong: list[str] = []
        self.count = 0

    async def ask(
        self, method: str, path: str, about: str, statuses: set[int] | None = None, **request: Any
    ) -> None:
        self.count += 1
        call = Call(self._app, method, path, {"authorization": None, **request.get("headers", {})})
        body = request.get("content", b"")
        call.give(body, more=False)
        try:
            await call.done()
        except Exception as error:  # noqa: BLE001  whatever leaves the application is wrong
            self.wrong.append(f"{method} {path[:60]} {about}: {type(error).__name__}")
            return
        problem = call.headers.get("content-type") == "application/problem+json"
        is_refused = (call.status or 500) >= 400
        # 501 is told on purpose: a part that this installation has not.
        if (call.status or 500) in FAILURES or (statuses is not None and call.status not in statuses):
            self.wrong.append(f"{method} {path[:60]} {about}: {call.status} {call.body[:200]!r}")
        elif is_refused != problem or (is_refused and json.loads(call.body)["code"] not in STATUS):
            self.wrong.append(f"{method} {path[:60]} {about}: no problem body")


@pytest.fixture
async def judge() -> AsyncIterator[Judge]:
    """Over the whole product, every room of it."""
    container = await open_container(Settings(), stores=[":memory:"], embedder="none")
    yield Judge(http_app(container, is_open=True))
    await container.close()


async def test_every_body_is_refused_alike_everywhere_and_never_fails(judge: Judge) -> None:
    for operation, method, path in PLAIN:
        if method in ("GET", "DELETE"):
            continue
        assert operation.http is not None
        for number, (body, headers, statuses) in enumerate(BODIES):
            expected = statuses - {415} if operation.http.lines and headers is NDJSON else statuses - {200}
            if body == b"":
                expected = statuses | {404, 501}
            if operation.http.lines and body == b"[1]":
                expected = {400}
            if operation.http.body == "bytes":  # whatever comes is a file, and it says what is in it
                expected = statuses | {200, 400}
            await judge.ask(method, path, f"body {number}", expected, content=body, headers=headers)
    assert judge.wrong == []
    assert judge.count > 200


async def test_no_header_and_no_query_makes_any_address_fail(judge: Judge) -> None:
    for _, method, path in PLAIN:
        for headers in HEADERS:
            await judge.ask(method, path, f"{headers}", content=b"{}", headers={**JSON, **headers})
        for query in QUERIES:
            await judge.ask(method, f"{path}?{query}", "query", content=b"{}", headers=JSON)
    for path in (
        "/openapi.json",
        "/docs",
        "/docs/start.js",
        "/metrics",
        "/readyz",
        "/memorywire/v0/schemas/x",
    ):
        for headers in HEADERS:
            await judge.ask("GET", path, f"{headers}", headers=headers)
    assert judge.wrong == []
    assert judge.count > 1000


async def test_no_name_in_a_path_and_no_method_makes_any_address_fail(judge: Judge) -> None:
    for operation, method, path in ADDRESSES:
        if not operation.is_stream:
            await judge.ask(method, path, "path", content=b"{}", headers=JSON)
    for method in ("GET", "PUT", "OPTIONS", "TRACE", "CONNECT", "QUIPU", "\xff"):
        for path in ("*", "/", "//", "/v1", "/v1/memories/../..", "/%", "/%2", "/v1/memories/%2F%2F", ""):
            await judge.ask(method, path, "odd", {200, 400, 404, 405}, content=b"")
    assert judge.wrong == []


async def test_every_field_refuses_bad_values_and_never_fails(judge: Judge) -> None:
    for operation, method, path in PLAIN:
        for name in fields(operation.request):
            for value in VALUES:
                about = f"{name}={str(value)[:20]!r}"
                if method in ("GET", "DELETE"):
                    from urllib.parse import quote

                    text = quote(json.dumps(value)[:60_000])
                    await judge.ask(method, f"{path}?{name}={text}", about)
                else:
                    body = json.dumps({name: value}).encode()
                    await judge.ask(method, path, about, content=body, headers=JSON)
    assert judge.wrong == []
    assert judge.count > 1000


async def test_a_stream_refuses_before_it_begins(server: Server) -> None:
    for query in ("since=x", "since=-1", "since=99999", "types=%00", "x=1", "store=nowhere"):
        answer = await server.http.get(f"/v1/changes?{query}")
        assert answer.status_code in (400, 404), query
    late = await server.http.get("/v1/changes", headers={"Last-Event-ID": "x"})
    assert late.status_code == 400
