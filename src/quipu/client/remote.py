"""Operations on a server: operation → request by its HTTP binding → response model."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from secrets import token_urlsafe
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from quipu import catalogue
from quipu.client import streams
from quipu.client.failures import misunderstood
from quipu.client.transport import ANYTHING, Call, Transport
from quipu.errors import Fault, UnsupportedError
from quipu.operation import AnyOperation, Facts, Response, invalid
from quipu.schemas import Field, fields
from quipu.telemetry.describe import Caller
from quipu.telemetry.spans import Spans

_ACCEPTED = {"events": "text/event-stream", "lines": "application/x-ndjson", "file": ANYTHING}
#: A large file is checked as a whole before anything is answered.
_UPLOAD_READ_S = 300.0

ModelT = TypeVar("ModelT", bound=BaseModel)


class RemoteConnection:
    """Runs operations on a server. Give it to `Memory.over`, or to the commands."""

    def __init__(
        self,
        transport: Transport,
        *,
        new_key: Callable[[], str] | None = None,
        spans: Spans | None = None,
    ) -> None:
        """`new_key` makes the idempotency keys of writes that have none."""
        self.transport = transport
        self._spans = spans
        #: Who we are there, as the server has said it.
        self._caller = Caller()
        self._new_key: Callable[[], str] = new_key or (lambda: token_urlsafe(18))

    def __repr__(self) -> str:
        return f"RemoteConnection({self.transport.server!r})"

    async def check(self) -> None:
        """See that the server is there and lets us in."""
        if "whoami" in catalogue.PLACES:
            await self.call(catalogue.operation("whoami"), {})

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        if self._spans is None:
            return await self._called(operation, given, Facts())
        facts = Facts(operation=operation.name)
        with self._spans.remote(operation, facts, lambda: self._caller):
            facts.response = response = await self._called(operation, given, facts)
        if operation.name == "whoami":
            tenant, user = getattr(response, "tenant", None), getattr(response, "user_id", None)
            self._caller = Caller(tenant, user, getattr(response, "default_agent", None))
        return response

    async def _called(self, operation: AnyOperation, given: Mapping[str, Any], facts: Facts) -> Response:
        known = request_body(operation, given, facts)
        may_repeat = operation.repeat == "safe"
        if operation.repeat == "with_key" and "idempotency_key" in fields(operation.request):
            # Before it is first sent: when the answer is lost, the same request is made again and happens once.
            known.setdefault("idempotency_key", self._new_key())
            may_repeat = True
        answer = await self.transport.send(rendered(operation, known, may_repeat=may_repeat))
        return understood(operation.response, answer)

    async def send(
        self, operation: AnyOperation, given: Mapping[str, Any], upload: AsyncIterator[bytes]
    ) -> Response:
        """The same with a file. It is sent once: nobody has it any more when an answer was lost."""
        known = request_body(operation, given, Facts())
        answer = await self.transport.send(rendered(operation, known, upload=upload))
        return understood(operation.response, answer)

    async def stream(self, operation: AnyOperation, given: Mapping[str, Any]) -> AsyncGenerator[Response]:
        known = request_body(operation, given, Facts())

        def call_with(known: Mapping[str, Any]) -> Call:
            return rendered(operation, known, may_repeat=operation.repeat == "safe")

        assert operation.http is not None
        if operation.http.answers == "events":
            resumes = operation.http.headers.get("Last-Event-ID")
            items = streams.events(self.transport, call_with, known, resumes_by=resumes)
        elif operation.http.answers == "file":
            items = streams.file(self.transport, call_with(known))
        else:
            items = streams.lines(self.transport, call_with(known))
        async with aclosing(items):
            async for item in items:
                yield understood(operation.response, item)

    async def close(self) -> None:
        await self.transport.close()


def request_body(operation: AnyOperation, given: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    """What the caller gave, checked here as it will be there, in plain JSON values."""
    facts.request = request = operation.request.parse(given)
    return request.model_dump(mode="json", exclude_unset=True)


def rendered(
    operation: AnyOperation,
    known: Mapping[str, Any],
    *,
    may_repeat: bool = False,
    upload: AsyncIterator[bytes] | None = None,
) -> Call:
    """The request by the operation's HTTP binding: path first, the rest in the body, or in the query of a GET and beside
    a file."""
    http = operation.http
    if http is None:
        raise UnsupportedError(
            f"{operation.name} is not offered over HTTP.", hint="Run it where the memory is."
        )
    if (http.body != "json") != (upload is not None):
        raise UnsupportedError(f"{operation.name} moves a file, which this call cannot.")
    path, rest = http.path, dict(known)
    for name in known:
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", segment(str(rest.pop(name))))
    accept = _ACCEPTED.get(http.answers, "application/json")
    if http.method in ("GET", "DELETE") or upload is not None:
        about = fields(operation.request)
        query = {name: _texts(about[name], value) for name, value in rest.items()}
        call = Call(method=http.method, path=path, query=query, may_repeat=may_repeat, accept=accept)
        if upload is None:
            return call
        kind = "application/x-ndjson" if http.body == "lines" else "application/octet-stream"
        return replace(call, upload=upload, upload_type=kind, read_s=_UPLOAD_READ_S)
    return Call(method=http.method, path=path, body=rest, may_repeat=may_repeat, accept=accept)


def segment(name: str) -> str:
    """A name as one part of a path, whatever it holds: `..` is a name here too, and does not lead elsewhere."""
    return quote(name, safe="").replace(".", "%2E")


def _texts(field: Field, value: Any) -> list[str]:
    """A value as the query has it: a list of words is repeated, everything else that is no text is JSON."""
    if isinstance(value, list):
        if not value and field.default:
            accepted = "something in the list; an empty one cannot be written into an address"
            raise invalid([Fault(f"/{field.name}", "bad_value", accepted)])
        if field.schema.get("items", {}).get("type") == "string":
            return value  # pyright: ignore[reportUnknownVariableType]  a list of texts, as its schema says
    if isinstance(value, str):
        return [value]
    return [json.dumps(value, ensure_ascii=False, separators=(",", ":"))]


def understood(model: type[ModelT], answer: Any) -> ModelT:
    """The answer, or an error that says that it is none. What a newer server says beyond it is passed over."""
    try:
        return model.model_validate(answer, strict=False, extra="ignore")
    except ValidationError:
        raise misunderstood() from None  # the cause may hold memory text
