"""Requests are refused alike, bound to their caller, and run only by `dispatch`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import Field

from quipu.errors import ForbiddenError, InvalidError
from quipu.fields import Count, JsonObject, Name
from quipu.memory.operations import EXPIRE, FORGET, LIST, OPERATIONS, RECALL, REMEMBER
from quipu.model.principal import Permission, Principal, local
from quipu.operation import (
    NAMED,
    WHOLE,
    AnyOperation,
    Binding,
    Context,
    Operation,
    Request,
    Response,
    ScopedRequest,
    Services,
    authorised,
    dispatch,
)


class EchoRequest(ScopedRequest):
    """Say it again."""

    text: Name = Field(description="What to say.")


class EchoResponse(Response):
    """What was said."""

    text: str = Field(description="The same.")
    agent_id: str | None = Field(description="For whom.")


ECHO = Operation(
    name="echo", request=EchoRequest, response=EchoResponse, permission=Permission.READ, limits=NAMED
)


class Unlimited:
    def charge(self, principal: Principal, operation: str, now: int) -> None:
        return


class Recorded:
    """Keeps how each call ended."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[str, str]] = []

    @contextmanager
    def observe(self, operation: AnyOperation, ctx: Context) -> Iterator[None]:
        try:
            yield
        finally:
            self.outcomes.append((operation.name, ctx.facts.outcome))


def context(principal: Principal, telemetry: Recorded) -> Context:
    async def echo(ctx: Context, request: EchoRequest) -> EchoResponse:
        return EchoResponse(text=request.text, agent_id=request.agent_id)

    services = Services.of((Binding(ECHO, echo),), Unlimited(), telemetry)
    return Context(principal, lambda: 0, services)


def reasons(operation: AnyOperation, fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidError) as refused:
        operation.request.parse(fields)
    return [(fault.pointer, fault.reason) for fault in refused.value.faults]


async def test_dispatch_runs_the_handler_and_says_how_it_ended() -> None:
    telemetry = Recorded()
    answer = await dispatch(context(local(agent_id="a"), telemetry), ECHO, {"text": "hello"})
    assert (answer.text, answer.agent_id) == ("hello", "a")
    with pytest.raises(InvalidError):
        await dispatch(context(local(), telemetry), ECHO, {"text": ""})
    nobody = Principal(tenant="t", name="n", permissions=frozenset())
    with pytest.raises(ForbiddenError):
        await dispatch(context(nobody, telemetry), ECHO, {"text": "hello"})
    assert telemetry.outcomes == [("echo", "ok"), ("echo", "validation_error"), ("echo", "forbidden")]


def test_an_argument_narrows_and_never_widens_what_a_credential_stands_for() -> None:
    reader = Principal(
        tenant="t",
        name="n",
        permissions=frozenset({Permission.READ}),
        agents=("a", "b-*"),
        default_agent="a",
        user_id="ana",
    )
    bound = authorised(reader, ECHO, EchoRequest(text="x"))
    assert (bound.agent_id, bound.user_id) == ("a", "ana")
    assert authorised(reader, ECHO, EchoRequest(text="x", agent_id="b-1")).agent_id == "b-1"
    for beyond in ({"agent_id": "c"}, {"user_id": "bob"}):
        with pytest.raises(ForbiddenError):
            authorised(reader, ECHO, EchoRequest(text="x", **beyond))


def test_what_concerns_the_whole_tenant_is_refused_to_a_credential_with_limits() -> None:
    whole = Operation(
        name="whole", request=Request, response=Response, permission=Permission.READ, limits=WHOLE
    )
    unlimited = Principal(tenant="t", name="n", permissions=frozenset({Permission.READ}))
    authorised(unlimited, whole, Request())
    for limits in (
        {"agents": ("a",)},
        {"user_id": "ana"},
        {"review_stores": ("main",)},
        {"review_operations": ("forget",)},
    ):
        limited = Principal(tenant="t", name="n", permissions=frozenset({Permission.READ}), **limits)
        with pytest.raises(ForbiddenError):
            authorised(limited, whole, Request())


def test_who_has_review_limits_is_no_admin_whatever_the_credential_says() -> None:
    admin = Principal(
        tenant="t", name="n", permissions=frozenset({Permission.ADMIN}), review_operations=("forget",)
    )
    assert not admin.may(Permission.ADMIN)
    assert not admin.may(Permission.WRITE)
    assert Principal(tenant="t", name="n", permissions=frozenset({Permission.ADMIN})).may(Permission.WRITE)


def test_the_permission_may_depend_on_the_request() -> None:
    deleter = Principal(tenant="t", name="n", permissions=frozenset({Permission.DELETE}), default_agent="a")
    authorised(deleter, FORGET, FORGET.request.parse({"ids": ["mem_1"]}))
    with pytest.raises(ForbiddenError):
        authorised(deleter, FORGET, FORGET.request.parse({"ids": ["mem_1"], "hard_delete": True}))
    reader = Principal(tenant="t", name="n", permissions=frozenset({Permission.READ}), default_agent="a")
    with pytest.raises(ForbiddenError):
        authorised(reader, LIST, LIST.request.parse({"all_agents": True}))


def test_every_fault_names_its_field_and_a_stable_reason() -> None:
    cases: list[tuple[AnyOperation, dict[str, Any], tuple[str, str]]] = [
        (REMEMBER, {}, ("/content", "missing_field")),
        (REMEMBER, {"content": "x", "contnt": 1}, ("/contnt", "unknown_field")),
        (REMEMBER, {"content": "x", "type": "dream"}, ("/type", "bad_value")),
        (REMEMBER, {"content": "x\0"}, ("/content", "bad_value")),
        (REMEMBER, {"content": "x", "metadata": {"a": float("nan")}}, ("/metadata", "bad_value")),
        (REMEMBER, {"content": "x", "metadata": {"a": 2**70}}, ("/metadata", "bad_value")),
        (REMEMBER, {"content": "x", "metadata": {"a": "\ud800"}}, ("/metadata", "bad_value")),
        (REMEMBER, {"content": "x", "tags": ["t"] * 65}, ("/tags", "too_large")),
        (REMEMBER, {"content": "x", "valence": 0.5}, ("/valence", "wrong_type")),
        (REMEMBER, {"content": "x", "expires_at": "soon"}, ("/expires_at", "bad_value")),
        (REMEMBER, {"content": "x", "replace": True}, ("/id", "bad_value")),
        (RECALL, {"query": "x", "k": 1001}, ("/k", "bad_value")),
        (RECALL, {"query": "x", "k": 5.5}, ("/k", "bad_value")),
        (FORGET, {}, ("/ids", "no_scope")),
        (FORGET, {"ids": [], "filter": {}}, ("/ids", "no_scope")),
        (EXPIRE, {}, ("/policy", "empty_policy")),
        (EXPIRE, {"policy": {"older_than_days": None}}, ("/policy", "empty_policy")),
        (EXPIRE, {"policy": {"older": 3}}, ("/policy", "unknown_policy_key")),
    ]
    wrong = [
        (operation.name, fields, found)
        for operation, fields, expected in cases
        if expected not in (found := reasons(operation, fields))
    ]
    assert not wrong


def test_a_refusal_never_repeats_what_was_sent() -> None:
    with pytest.raises(InvalidError) as refused:
        REMEMBER.request.parse({"content": "x", "metadata": "hunter2", "tags": "hunter2", "type": "hunter2"})
    assert "hunter2" not in str(refused.value) + repr(refused.value.faults)


def test_null_means_absent_and_five_point_zero_means_five() -> None:
    parsed = RECALL.request.parse({"query": "x", "k": 5.0, "types": None, "filter": None, "user_id": None})
    assert (parsed.k, parsed.types) == (5, ())
    assert EXPIRE.request.parse({"policy": {"older_than_days": 3, "type": None}}).policy.older_than_days == 3


def test_every_operation_says_how_limits_bind_it_and_describes_every_field() -> None:
    bare = [
        f"{operation.name}.{message.__name__}.{name}"
        for operation in OPERATIONS
        for message in (operation.request, operation.response)
        for name, field in message.model_fields.items()
        if not field.description
    ]
    assert not bare
    assert all(operation.summary for operation in OPERATIONS)


def test_two_operations_of_one_name_are_refused() -> None:
    async def echo(ctx: Context, request: EchoRequest) -> EchoResponse:
        raise AssertionError

    with pytest.raises(ValueError, match="one name"):
        Services.of((Binding(ECHO, echo), Binding(ECHO, echo)), Unlimited(), Recorded())


def test_free_json_is_kept_within_its_depth() -> None:
    class Free(Request):
        """Free JSON."""

        value: JsonObject = Field(description="Anything.")
        count: Count = Field(default=1, description="A number.")

    deep: Any = "leaf"
    for _ in range(31):
        deep = {"a": deep}
    Free.parse({"value": deep})
    with pytest.raises(InvalidError):
        Free.parse({"value": {"a": {"a": deep}}})
