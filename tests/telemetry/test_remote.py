"""The client's span and the server's of one call: beneath each other, and agreeing."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from quipu import ForbiddenError, InvalidError, Memory
from tests.fixtures.spans import Shown, values
from tests.requirement import requirement
from tests.telemetry.conftest import Served

P = "gen_ai.memory."
#: What only one of the two sides can know.
_OF_ONE_SIDE = {"quipu.memory.side", "server.address", "server.port"}


def sides(spans: list[ReadableSpan]) -> tuple[list[ReadableSpan], list[ReadableSpan]]:
    """The caller's spans and the server's."""
    memory = [span for span in spans if "quipu.memory.side" in values(span)]
    return (
        [span for span in memory if values(span)["quipu.memory.side"] == "caller"],
        [span for span in memory if values(span)["quipu.memory.side"] == "server"],
    )


async def _calls(memory: Memory) -> dict[str, Any]:
    """One call of each kind."""
    await memory.create_store("prefs", scope="user", namespace="org_acme")
    done = await memory.remember("Ana likes tea.", importance=0.5, expires_at="30d")
    other = await memory.remember("Ana likes green tea.", store="prefs", user_id="u1")
    await memory.update(done.id, tags=["drinks"])
    await memory.recall("tea", store="prefs")
    await memory.recall("tea")
    await memory.remember_many([{"content": "one"}, {"content": "two"}])
    await memory.merge(done.id, [other.id, (await memory.remember("Tea.")).id][1:])
    await memory.forget(ids=[done.id])
    await memory.restore(done.id)
    await memory.forget(filter={"tags": "drinks"})
    await memory.expire(policy={"type": "semantic"}, action="archive", store="prefs")
    await memory.delete_store("prefs", confirm="prefs")
    return {}


@requirement("opentelemetry:sides.agree")
@pytest.mark.parametrize("tenant", ["default", "acme"])
async def test_both_spans_of_a_call_agree(served: Served, shown: Shown, tenant: str) -> None:
    memory = await served.client(await served.token(tenant))
    await _calls(memory)
    callers, servers = sides(shown.taken())
    servers = [span for span in servers if span.name != "create_memory_store main"]
    assert len(callers) == len(servers) == 14
    for caller, server in zip(callers, servers, strict=True):
        mine, theirs = values(caller), values(server)
        assert (caller.name, caller.kind, caller.status.status_code) == (
            server.name,
            server.kind,
            server.status.status_code,
        )
        differing = {name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)}
        # The server has the record that is changed or restored; the answer does not say whose it is or when it expires.
        is_change = mine["quipu.memory.operation"] in ("update", "restore")
        allowed = {f"{P}expiration_date", "gen_ai.agent.id"} if is_change else set[str]()
        assert differing - _OF_ONE_SIDE <= allowed, (mine, theirs)
        assert (mine["server.address"], mine["server.port"]) == ("127.0.0.1", 8321)
    assert shown.findings() == []


@requirement("opentelemetry:propagation.http")
async def test_a_call_is_one_trace(served: Served, shown: Shown) -> None:
    memory = await served.client(await served.token())
    await memory.remember("Ana likes tea.")
    await memory.remember("Ana likes green tea.")
    shown.taken()
    await memory.recall("tea", store="main")
    caller, request, server = shown.taken()
    assert [span.name for span in (caller, request, server)] == [
        "search_memory main",
        "POST /v1/memories/recall",
        "search_memory main",
    ]
    assert (request.kind.name, values(request)["http.response.status_code"]) == ("SERVER", 200)
    assert request.parent is not None
    assert server.parent is not None
    assert request.parent.span_id == caller.get_span_context().span_id
    assert server.parent.span_id == request.get_span_context().span_id
    assert len({span.get_span_context().trace_id for span in (caller, request, server)}) == 1


@requirement("opentelemetry:spans.refused")
async def test_what_the_server_refuses_is_a_span_on_both_sides(served: Served, shown: Shown) -> None:
    memory = await served.client(await served.token(permissions=["memory:read"], agents=["ana"]))
    await memory.recall("tea")
    shown.taken()
    with pytest.raises(ForbiddenError):
        await memory.remember("Ana likes tea.", user_id="u1")
    caller, request, server = shown.taken()
    for span in (caller, server):
        assert (span.name, span.status.status_code.name) == ("update_memory", "ERROR")
        assert values(span)["error.type"] == "forbidden"
        assert f"{P}store.name" not in values(span)
        assert values(span)[f"{P}namespace"] == "u1"  # as the request says
    assert (values(request)["http.response.status_code"], request.status.status_code.name) == (403, "UNSET")


@requirement("opentelemetry:spans.refused")
async def test_over_http_a_request_is_refused_inside_of_its_span(served: Served, shown: Shown) -> None:
    import httpx

    token = await served.token()
    shown.taken()
    async with httpx.AsyncClient(transport=served.network, base_url="http://127.0.0.1:8321") as http:
        answer = await http.post(
            "/v1/memories", json={"content": 5}, headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 400
        request, refused = shown.taken()
        assert (refused.name, values(refused)["error.type"]) == ("update_memory", "validation_error")
        assert refused.parent is not None
        assert refused.parent.span_id == request.get_span_context().span_id
        # Who has no credential reaches no operation, and an odd method is nobody's label.
        assert (await http.post("/v1/memories", json={"content": "x"})).status_code == 401
        (stranger,) = shown.taken()
        assert stranger.name == "POST /v1/memories"
        await http.request("MADEUP", "/v1/memories")
        assert [values(span)["http.request.method"] for span in shown.taken()] == ["_OTHER"]
        assert (await http.get("/healthz")).status_code == 200
        assert shown.taken() == []  # probes are no requests of anybody


@requirement("opentelemetry:propagation.http")
async def test_a_span_that_is_there_already_is_not_doubled(served: Served, shown: Shown) -> None:
    memory = await served.client(await served.token())
    tracer = shown.tracers.get_tracer("framework")
    app: Any = served.network

    class Instrumented:
        """An application that somebody else traces."""

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            with tracer.start_as_current_span("framework"):
                await app.app(scope, receive, send)

    import httpx

    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(Instrumented()), base_url="http://127.0.0.1:8321"
    ) as http:
        await http.get("/v1/capabilities")
    assert [span.name for span in shown.taken()] == ["framework"]
    assert memory is not None


async def test_telemetry_must_be_what_it_says() -> None:
    with pytest.raises(InvalidError, match="telemetry"):
        Memory("ana", ":memory:", telemetry=object())
