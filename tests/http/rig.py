"""Operations made for testing the server itself: every manner a real one may have, and nothing of their own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from pydantic import Field

from quipu.fields import JsonObject, Name
from quipu.model.principal import Permission
from quipu.operation import (
    SERVER,
    AnyBinding,
    AnyOperation,
    Binding,
    Context,
    FilePart,
    Http,
    Operation,
    Request,
    Response,
    get,
    post,
)

#: Never to be found in an answer, a log or a metric unless it was asked for.
SECRET = "zqsecretmark"


#: What a request leaves in its context, for the next one to find if it begins inside of it.
_SEEN: ContextVar[str | None] = ContextVar("_SEEN", default=None)


class Ask(Request):
    """Ask for something."""

    value: JsonObject = Field(default_factory=dict, description="Given back.")
    id: Name | None = Field(default=None, description="A name in the path.")


class Told(Response):
    """What is answered."""

    value: dict[str, Any] = Field(default_factory=dict, description="As it was given.")
    id: str | None = Field(default=None, description="The name that was in the path.")
    seq: int | None = Field(default=None, description="A number.")
    type: str = Field(default="told", description="The kind of event.")
    pending_approval: bool = Field(default=False, description="Whether a person decides.")

    @property
    def is_held(self) -> bool:
        return self.pending_approval


def _operation(name: str, http: Http, **options: Any) -> AnyOperation:
    response = FilePart if http.answers == "file" else Told
    return Operation(
        name=name,
        request=Ask,
        response=response,
        permission=Permission.READ,
        limits=SERVER,
        http=http,
        **options,
    )


class Rig:
    """The operations, and what tests hold in their hands while they work."""

    def __init__(self) -> None:
        #: Requests that have come to `wait` or to a stream, and those that went out of it in peace.
        self.waiting = self.finished = self.ended = 0
        self.gate = asyncio.Event()
        self.error: Exception = RuntimeError(SECRET)
        self.holds = False

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(_operation("rig_echo", post("/rig/echo")), self.echo),
            Binding(_operation("rig_item", get("/rig/items/{id}")), self.echo),
            Binding(_operation("rig_deep", get("/rig/items/{id}/deep")), self.deep),
            Binding(_operation("rig_rest", get("/rig/rest/{id:path}")), self.echo),
            Binding(_operation("rig_public", get("/rig/public", is_public=True)), self.echo),
            Binding(_operation("rig_wait", post("/rig/wait")), self.wait),
            Binding(_operation("rig_fail", post("/rig/fail")), self.fail),
            Binding(_operation("rig_large", get("/rig/large")), self.large),
            Binding(_operation("rig_who", get("/rig/who")), self.who),
            Binding(
                _operation("rig_events", get("/rig/events", answers="events"), is_stream=True), self.events
            ),
            Binding(
                _operation("rig_lines", post("/rig/lines", body="lines", answers="lines"), is_stream=True),
                self.lines,
            ),
            Binding(_operation("rig_many", post("/rig/many", answers="lines"), is_stream=True), self.many),
            Binding(_operation("rig_upload", post("/rig/upload", body="bytes")), self.upload),
            Binding(_operation("rig_file", get("/rig/file", answers="file"), is_stream=True), self.file),
        )

    @property
    def operations(self) -> tuple[AnyOperation, ...]:
        return tuple(binding.operation for binding in self.bindings)

    async def echo(self, ctx: Context, request: Ask) -> Told:
        return Told(value=request.value, id=request.id, pending_approval=self.holds)

    async def deep(self, ctx: Context, request: Ask) -> Told:
        return Told(id=request.id, type="deep")

    async def who(self, ctx: Context, request: Ask) -> Told:
        seen = _SEEN.get()
        _SEEN.set("an earlier request")
        return Told(id=ctx.principal.name, value={} if seen is None else {"seen": seen})

    async def wait(self, ctx: Context, request: Ask) -> Told:
        """Until the test opens the gate; a wait that was cancelled is no finished one."""
        self.waiting += 1
        try:
            await self.gate.wait()
            self.finished += 1
        finally:
            self.ended += 1
        return Told(type="done")

    async def fail(self, ctx: Context, request: Ask) -> Told:
        raise self.error

    async def large(self, ctx: Context, request: Ask) -> Told:
        return Told(value={"text": "x" * 100_000})

    async def events(self, ctx: Context, request: Ask) -> AsyncIterator[Told]:
        """Three at once, then one each time the gate is opened."""
        self.waiting += 1
        try:
            for number in range(1, 4):
                yield Told(seq=number)
            while True:
                await self.gate.wait()
                self.gate.clear()
                number += 1
                yield Told(seq=number)
        finally:
            self.ended += 1

    async def lines(self, ctx: Context, request: Ask) -> AsyncIterator[Told]:
        """An answer for each line, and how many there were."""
        assert ctx.upload is not None
        count = 0
        async for text in ctx.upload:
            count += 1
            yield Told(seq=count, value={"size": len(text)})
        yield Told(type="summary", seq=count)

    async def many(self, ctx: Context, request: Ask) -> AsyncIterator[Told]:
        """Two lines, and then what the test wants."""
        if request.id == "at once":
            raise self.error
        yield Told(seq=1)
        yield Told(seq=2)
        if request.id == "later":
            raise self.error

    async def upload(self, ctx: Context, request: Ask) -> Told:
        assert ctx.upload is not None
        size = 0
        async for piece in ctx.upload:
            size += len(piece)
        return Told(seq=size)

    async def file(self, ctx: Context, request: Ask) -> AsyncIterator[FilePart]:
        if request.id is not None:
            raise self.error
        yield FilePart(data=b"first ", file_name='a "b"/ü.zip', media_type="application/zip", size=12)
        yield FilePart(data=b"second")


async def until(happened: Callable[[], object], *, seconds: float = 30.0) -> None:
    """Wait for a state, with a bound."""
    async with asyncio.timeout(seconds):
        while not happened():  # noqa: ASYNC110  a state of the server, which tells nobody
            await asyncio.sleep(0)


Asgi = Callable[[Any, Any, Any], Awaitable[None]]


class Call:
    """One request to an application, with its pieces in the hands of the test."""

    def __init__(
        self,
        app: Asgi,
        method: str,
        path: str,
        headers: Mapping[str, str | None] | None = None,
        client: str = "127.0.0.1",
    ) -> None:
        self.sent: list[Any] = []
        self._incoming: asyncio.Queue[Any] = asyncio.Queue()
        raw, _, query = path.partition("?")
        rows = {"host": "127.0.0.1", "authorization": "Bearer good", **(headers or {})}
        if method not in ("GET", "HEAD") and "content-length" not in rows:
            rows["transfer-encoding"] = "chunked"
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": raw,
            "raw_path": raw.encode(),
            "query_string": query.encode(),
            "headers": [
                (name.lower().encode(), value.encode("latin-1"))
                for name, value in rows.items()
                if value is not None
            ],
            "client": (client, 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        self.task = asyncio.ensure_future(app(scope, self._incoming.get, self._take))

    async def _take(self, message: Any) -> None:
        self.sent.append(message)

    def give(self, body: bytes, *, more: bool = True) -> None:
        """A piece of the body."""
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def hang_up(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    @property
    def is_read(self) -> bool:
        """Whether everything that was sent has been taken."""
        return self._incoming.empty()

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode().lower(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def is_done(self) -> bool:
        return len(self.sent) > 1 and not self.sent[-1].get("more_body", False)

    async def said(self, text: bytes) -> None:
        """Until it has been said."""
        await until(lambda: text in self.body)

    async def done(self) -> "Call":
        async with asyncio.timeout(30):
            await self.task
        return self

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
