"""What an operation is, and `dispatch`, the only way to run one."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from difflib import get_close_matches
from threading import RLock
from typing import Any, Generic, Literal, Protocol, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from quipu.errors import Fault, ForbiddenError, InvalidError, QuipuError, may_repeat
from quipu.fields import Name
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record

#: Milliseconds since 1970, UTC. Handed in, so that tests need not sleep.
Clock: TypeAlias = Callable[[], int]
#: How a credential's limits bind an operation; see `authorised`.
Limits: TypeAlias = Literal["named", "filtered", "whole", "server"]
NAMED: Limits = "named"
FILTERED: Limits = "filtered"
WHOLE: Limits = "whole"
SERVER: Limits = "server"


_BUILDING = RLock()


class _Value(BaseModel):
    """A frozen value whose fields are written once; every face is derived from them."""

    # A validator is built when it is first needed: a command uses few of all the messages.
    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,
        defer_build=True,
    )

    @classmethod
    def model_rebuild(cls, *, _parent_namespace_depth: int = 2, **given: Any) -> bool | None:
        """Build the validator. One thread at a time: pydantic takes it away for a moment while it is built."""
        with _BUILDING:
            return super().model_rebuild(_parent_namespace_depth=_parent_namespace_depth + 1, **given)


class Message(_Value):
    """What callers send."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, given: Any) -> Any:
        """memorywire's own models send null for what is absent, inside of objects too."""
        if isinstance(given, dict) and None in given.values():  # pyright: ignore[reportUnknownMemberType]  any object
            known = cls.model_fields
            return {name: value for name, value in given.items() if value is not None or name not in known}  # pyright: ignore[reportUnknownVariableType]
        return given  # pyright: ignore[reportUnknownVariableType]


class Request(Message):
    """What a caller asks for."""

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """The request, or an InvalidError. Every face comes through here, so all refuse alike."""
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False)
            raise invalid([_fault(cls, detail) for detail in details]) from None


class ScopedRequest(Request):
    """A request on behalf of an agent, and perhaps of one of its users."""

    agent_id: Name | None = Field(
        default=None, description="Whose memory. Left out, the credential's own agent."
    )
    user_id: Name | None = Field(default=None, description="About whom. Left out, all users of the agent.")

    @property
    def agent(self) -> str:
        """The agent, once `dispatch` has bound the request to its caller."""
        if self.agent_id is None:
            raise invalid([Fault("/agent_id", "missing_field", "the name of an agent")])
        return self.agent_id


class Response(_Value):
    """What a caller gets. Every field is always there, also one with a default, and the schema says so."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    @property
    def is_held(self) -> bool:
        """Whether nothing happened yet because a person decides. An outcome, not an error."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they stand on the wire."""
        return self.model_dump(mode="json")


class FilePart(Response):
    """A piece of a file. The first one says what the file is."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    data: bytes = Field(description="What is in it.")
    file_name: str | None = Field(default=None, description="Its name.")
    media_type: str | None = Field(default=None, description="What kind of file it is.")
    size: int | None = Field(default=None, description="How many bytes it has, if that is known.")
    sha256: str | None = Field(default=None, description="Its digest, in hex, if that is known.")
    report: dict[str, Any] | None = Field(default=None, description="What else is known of it.")


RequestT = TypeVar("RequestT", bound=Request)
ResponseT = TypeVar("ResponseT", bound=Response)
ItemT = TypeVar("ItemT", bound=Response)


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """A route. A field named in the path comes from there; the rest from the body, or from the query of a GET."""

    method: str
    path: str
    #: Its name under /memorywire/v0, where it is one of v0's.
    v0: str | None = None
    #: Header to field.
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    #: `lines` and `bytes` are read by the handler as they come: `Context.upload`.
    body: Literal["json", "lines", "bytes"] = "json"
    #: `file`: the handler yields `FilePart`s.
    answers: Literal["json", "lines", "events", "file"] = "json"
    #: The list that may also be the whole body, or come as one item a line; then each is answered by a line.
    lines: str | None = None
    #: Whether it answers without a credential.
    is_public: bool = False


def get(path: str, **options: Any) -> Http:
    return Http(method="GET", path=path, **options)


def post(path: str, **options: Any) -> Http:
    return Http(method="POST", path=path, **options)


def put(path: str, **options: Any) -> Http:
    return Http(method="PUT", path=path, **options)


def patch(path: str, **options: Any) -> Http:
    return Http(method="PATCH", path=path, **options)


def delete(path: str, **options: Any) -> Http:
    return Http(method="DELETE", path=path, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """An MCP tool. The fields it shows; all others are unknown to it."""

    profile: Literal["readonly", "default", "admin"] = "default"
    shows: tuple[str, ...] | None = None
    #: Fields that a model must say though the request has a default for them.
    requires: tuple[str, ...] = ()
    is_read_only: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False
    #: Whether a person at the client may approve a held write in place.
    asks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command. The named fields are its arguments, all others its options."""

    #: Its words, where they are not the operation's name: `store create`.
    name: str | None = None
    arguments: tuple[str, ...] = ()
    #: Fields of the answer, or of each item of its list, that its table shows.
    columns: tuple[str, ...] = ()
    #: What a person reads when it is done, instead of every field of the answer: `Remembered {id}`; a function of the
    #: answer where that is more than a line.
    says: str | Callable[[Mapping[str, Any]], str] | None = None
    examples: tuple[str, ...] = ()
    #: Whether it may be the first command of all: it creates the memory file that is not there yet.
    creates: bool = False
    #: A field that is not typed but read from standard input: others see what is typed, and a shell remembers it.
    hidden: str | None = None


#: What OpenTelemetry's GenAI memory proposal calls it; None: no span of that kind.
Span: TypeAlias = Literal[
    "search_memory", "update_memory", "delete_memory", "create_memory_store", "delete_memory_store"
]
#: Spans of our own: a decision about a held write, a pass of consolidation.
OwnSpan: TypeAlias = Literal["quipu.memory.review", "quipu.consolidate"]
#: Where that depends on the request, a function of it; it is also asked before there is one.
SpanOf: TypeAlias = Span | OwnSpan | Callable[[Any], Span] | None
#: Whether a client may send it again when an answer was lost: always, with an idempotency key, never.
Repeat: TypeAlias = Literal["safe", "with_key", "never"]
PermissionOf: TypeAlias = Permission | Callable[[Any], Permission | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[RequestT, ResponseT]):
    """Declared once, in its capability's operations.py. None for a face means: not reached from there."""

    name: str
    request: type[RequestT]
    response: type[ResponseT]
    #: What a credential must have; a function where that depends on the request; None: any credential.
    permission: PermissionOf
    limits: Limits
    http: Http | None = None
    mcp: Tool | None = None
    cli: Command | None = None
    span: SpanOf = None
    repeat: Repeat = "never"
    #: The handler yields answers one by one.
    is_stream: bool = False

    @property
    def summary(self) -> str:
        """The first paragraph of the request's docstring."""
        return " ".join((self.request.__doc__ or "").partition("\n\n")[0].split())

    @property
    def description(self) -> str:
        """The request's whole docstring."""
        lines = (self.request.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)


@dataclass(slots=True)
class Facts:
    """What is known of a call while it runs; filled by handlers, read by telemetry. Nothing is looked up for it."""

    operation: str = ""
    #: `ok`, `held`, or the code of the error.
    outcome: str = "internal_error"
    #: As far as it came: None where it was refused before it was read, or before it was answered.
    request: Request | None = None
    response: Response | None = None
    store: Any = None
    #: Versions that ended, and versions that began; and the stores they are in, by id.
    before: tuple[Record, ...] = ()
    after: tuple[Record, ...] = ()
    stores: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: The position of the secrets that its texts were checked with.
    checked_at: int | None = None
    #: Ids of the records that were written, found or removed.
    record_ids: tuple[str, ...] = ()
    proposal_id: str | None = None
    seq: int | None = None


class RateLimiter(Protocol):
    """How fast a caller may ask."""

    def charge(self, principal: Principal, operation: str, now: int) -> None:
        """Raises RateLimitedError."""
        ...


class Observed(Protocol):
    """A call that somebody looks at."""

    async def ready(self) -> None:
        """After the work: what names are checked with is read, where it is not known as of now. Never fails."""
        ...


class Telemetry(Protocol):
    """Opens the span of a call, and records how long it took and how it ended. None: nobody looks."""

    def observe(
        self, operation: "AnyOperation", ctx: "Context"
    ) -> AbstractContextManager["Observed | None"]: ...


Handler: TypeAlias = Callable[["Context", RequestT], Awaitable[ResponseT]]
StreamHandler: TypeAlias = Callable[["Context", RequestT], AsyncIterator[ItemT]]


@dataclass(frozen=True, slots=True)
class Binding(Generic[RequestT, ResponseT]):
    """An operation and the function that does it; the type checker compares the two."""

    operation: Operation[RequestT, ResponseT]
    handler: Handler[RequestT, ResponseT] | StreamHandler[RequestT, ResponseT]


AnyOperation: TypeAlias = Operation[Any, Any]
AnyBinding: TypeAlias = Binding[Any, Any]


@dataclass(frozen=True, slots=True)
class Services:
    """What `dispatch` itself needs. A capability's own needs go to its constructor, in bootstrap."""

    bindings: Mapping[str, AnyBinding]
    rates: RateLimiter
    telemetry: Telemetry

    @classmethod
    def of(cls, bindings: tuple[AnyBinding, ...], rates: RateLimiter, telemetry: Telemetry) -> Self:
        by_name = {binding.operation.name: binding for binding in bindings}
        if len(by_name) != len(bindings):
            raise ValueError("two operations have one name")
        return cls(by_name, rates, telemetry)


@dataclass(frozen=True, slots=True)
class Context:
    """One call: who asks, what time it is, what there is to answer with."""

    principal: Principal
    clock: Clock
    services: Services
    facts: Facts = field(default_factory=Facts)
    #: What is sent along, as it comes: the lines or the bytes of an operation whose body is one of these.
    upload: AsyncIterator[bytes] | None = None
    #: Memories that a page shows are collected here; otherwise each read leaves an entry of its own in the journal.
    shown: list[Record] | None = None

    @property
    def tenant(self) -> str:
        return self.principal.tenant


async def dispatch(
    ctx: Context, operation: Operation[RequestT, ResponseT], given: RequestT | Mapping[str, Any]
) -> ResponseT:
    """Run an operation: span, validate, authorise, rate, handler. What is refused is seen in the span too."""
    facts = ctx.facts
    with ctx.services.telemetry.observe(operation, ctx) as observed:
        try:
            request = _admitted(ctx, operation, given)
            response: ResponseT = await _handler(ctx, operation)(ctx, request)
            facts.response = response
            facts.outcome = "held" if response.is_held else "ok"
            if observed is not None:
                await observed.ready()
            return response
        except QuipuError as error:
            facts.outcome = error.code
            raise


async def dispatch_stream(
    ctx: Context, operation: Operation[RequestT, ResponseT], given: RequestT | Mapping[str, Any]
) -> AsyncIterator[ResponseT]:
    """The same for an operation whose handler yields. Faces authorise anew at every heartbeat (`authorised`)."""
    facts = ctx.facts
    with ctx.services.telemetry.observe(operation, ctx):
        try:
            request = _admitted(ctx, operation, given)
            async for item in _handler(ctx, operation)(ctx, request):
                yield item
            facts.outcome = "ok"
        except QuipuError as error:
            facts.outcome = error.code
            raise


def _admitted(
    ctx: Context, operation: Operation[RequestT, ResponseT], given: RequestT | Mapping[str, Any]
) -> RequestT:
    """The request: read, authorised, counted."""
    request: RequestT = given if isinstance(given, Request) else operation.request.parse(given)
    ctx.facts.request = request
    ctx.facts.request = request = authorised(ctx.principal, operation, request)
    ctx.services.rates.charge(ctx.principal, operation.name, ctx.clock())
    return request


def _handler(ctx: Context, operation: AnyOperation) -> Callable[..., Any]:
    ctx.facts.operation = operation.name
    return ctx.services.bindings[operation.name].handler


def authorised(
    principal: Principal, operation: Operation[RequestT, ResponseT], request: RequestT
) -> RequestT:
    """The request, bound to the caller's agent and user; or ForbiddenError, in the same words whatever is missing.

    NAMED: the request names agent and user, which are checked here. FILTERED: the handler shows only what
    `access.rules.visible` lets through. WHOLE: refused to a credential that does not reach the whole tenant.
    SERVER: not about memories.
    """
    permission = operation.permission
    needed = permission(request) if callable(permission) else permission
    if needed is not None and not principal.may(needed):
        raise ForbiddenError(reason="permission", hint=f"It needs the permission {needed}.")
    if operation.limits == WHOLE and not principal.is_whole:
        raise ForbiddenError(hint="It needs a credential without limits to agents, users or stores.")
    if operation.limits == NAMED and isinstance(request, ScopedRequest):
        return bound(principal, request)
    return request


def bound(principal: Principal, request: RequestT) -> RequestT:
    """The request with the agent and the user that the credential stands for; an argument narrows, never widens."""
    assert isinstance(request, ScopedRequest)
    agent_id = request.agent_id or principal.default_agent
    if agent_id is not None and not principal.may_act_for(agent_id):
        raise ForbiddenError(hint="The credential may not act for this agent.")
    user_id = request.user_id
    if principal.user_id is not None:
        if user_id not in (None, principal.user_id):
            raise ForbiddenError(hint="The credential is bound to one user.")
        user_id = principal.user_id
    if (agent_id, user_id) == (request.agent_id, request.user_id):
        return request
    return request.model_copy(update={"agent_id": agent_id, "user_id": user_id})


#: Pydantic's kinds of errors to the stable reasons that callers see; all others are a `bad_value`.
_REASONS = {
    "extra_forbidden": "unknown_field",
    "missing": "missing_field",
    "string_too_long": "too_large",
    "too_long": "too_large",
}


def invalid(faults: list[Fault]) -> InvalidError:
    """The error that names each field and what would be accepted."""
    said = "; ".join(f"{fault.pointer or 'request'}: {fault.accepted}" for fault in faults[:5])
    return InvalidError(f"The request is not valid. {said}", faults=faults)


def _fault(request: type[Request], detail: Any) -> Fault:
    """Pydantic's finding in our words. It holds names and limits, never a value that the caller sent."""
    # A union adds the name of its arm to the place; only what the request itself names is shown.
    parts = [str(part) for part in detail["loc"] if not str(part).startswith(("function-", "constrained-"))]
    pointer = "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)[:200]
    context = detail.get("ctx", {})
    pointer += context.get("pointer", "")
    reason = context.get("reason") or _REASONS.get(detail["type"], "bad_value")
    message = str(detail["msg"])
    if reason == "unknown_field":
        known = request.model_fields if len(parts) == 1 else {}
        near = get_close_matches(parts[-1], known, n=1)
        if not near and not may_repeat(parts[-1]):
            pointer = pointer.rpartition("/")[0]
        names = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}" if known else ""
        message = f"there is no such field; {names}".removesuffix("; ")
    elif reason == "missing_field":
        message = "this field is required"
    return Fault(pointer, reason, message)
