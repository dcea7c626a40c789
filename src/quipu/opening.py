"""How a `Memory` is opened and closed, and how its methods run an operation.

`api.Memory` extends `OpenMemory` by one method per operation. A memory runs operations through a `Connection`: in this
process, or on a server. It is opened at the first call, once, however many calls come at the same time.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, Self, TypeAlias, cast, runtime_checkable

from quipu import catalogue
from quipu.config import Settings, load
from quipu.errors import BackendUnavailableError, Fault, InvalidError, UnsupportedError
from quipu.memory.memory_store import CAPABILITIES, MemoryStore, in_kind, is_request, request_fields
from quipu.model.principal import Principal, local
from quipu.operation import AnyOperation, Context, Response, dispatch, dispatch_stream, invalid
from quipu.schemas import fields
from quipu.telemetry.settings import Telemetry

if TYPE_CHECKING:
    from quipu.transfer.model import ImportReport

Fusion: TypeAlias = Literal["rrf", "max", "weighted"]
_SERVER_SCHEMES = ("quipu+https://", "quipu+http://")
#: Files are read and sent in such pieces.
_PIECE = 1 << 20
_POLICIES = ("all", "primary_only")


class Connection(Protocol):
    """Runs operations: here, or on a server."""

    async def check(self) -> None:
        """See that it answers, and to us."""
        ...

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response: ...

    def stream(self, operation: AnyOperation, given: Mapping[str, Any]) -> AsyncIterator[Response]:
        """For an operation that answers one by one."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class FileConnection(Protocol):
    """Runs also what takes a file."""

    async def send(
        self, operation: AnyOperation, given: Mapping[str, Any], upload: AsyncIterator[bytes]
    ) -> Response: ...


OpenConnection: TypeAlias = Callable[[], Awaitable[Connection]]


class Container(Protocol):
    """What bootstrap puts together, as far as it is needed here."""

    def context(self, principal: Principal) -> Context: ...
    async def close(self) -> None: ...


class EmbeddedConnection:
    """Runs operations in this process."""

    def __init__(self, container: Container, principal: Principal) -> None:
        self._container, self._principal = container, principal

    async def check(self) -> None:
        """Opening it has shown that."""

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        return await dispatch(self._container.context(self._principal), operation, given)

    async def send(
        self, operation: AnyOperation, given: Mapping[str, Any], upload: AsyncIterator[bytes]
    ) -> Response:
        ctx = replace(self._container.context(self._principal), upload=upload)
        return await dispatch(ctx, operation, given)

    def stream(self, operation: AnyOperation, given: Mapping[str, Any]) -> AsyncIterator[Response]:
        return dispatch_stream(self._container.context(self._principal), operation, given)

    async def close(self) -> None:
        await self._container.close()


def embedded(settings: Settings, principal: Principal, **given: Any) -> OpenConnection:
    """Opens the memory of this process; what is not given, bootstrap takes from the settings."""

    async def opened() -> Connection:
        # By name: this module stands below the one that puts all capabilities together.
        container: Container = await import_module("quipu.bootstrap").open_container(
            settings, **{name: value for name, value in given.items() if value is not None}
        )
        return EmbeddedConnection(container, principal)

    return opened


def remote(server: str | None = None, **options: Any) -> OpenConnection:
    """Reaches a server. The address is checked now, and nothing is sent before the first call."""
    # By name: the client stands above this module, and an embedded memory does not load it.
    connection = import_module("quipu.client").connection(server, **options)

    async def opened() -> Connection:
        return connection

    return opened


class Runner:
    """Opens a connection at the first call, once, and runs operations through it for one agent."""

    def __init__(
        self,
        opener: OpenConnection,
        *,
        agent_id: str | None = None,
        fusion: Fusion = "rrf",
        capabilities: frozenset[str] = CAPABILITIES,
    ) -> None:
        if agent_id == "":
            raise invalid([Fault("/agent_id", "bad_value", "the name of an agent")])
        if fusion not in ("rrf", "max", "weighted"):
            raise invalid([Fault("/fusion", "bad_value", "one of rrf, max, weighted")])
        self.agent_id = agent_id
        self.capabilities = capabilities
        self._opener, self._fusion = opener, fusion
        self._connection: Connection | None = None
        self._is_closed = False
        self._feeds: set[asyncio.Task[None]] = set()
        #: Each `asyncio.run` has a loop of its own, and a lock belongs to the loop on which somebody waits for it.
        self._opening: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    # -- open and close -------------------------------------------------------------------------------------------

    async def open(self) -> None:
        await (await self._opened()).check()

    async def close(self) -> None:
        self._is_closed = True
        async with self._lock():  # what is just being opened is closed too
            connection, self._connection = self._connection, None
        await self._end_feeds()
        if connection is not None:
            await connection.close()

    async def _end_feeds(self) -> None:
        for feed in tuple(self._feeds):
            loop = feed.get_loop()
            if loop is asyncio.get_running_loop():
                feed.cancel()
                await asyncio.wait({feed})
            elif not loop.is_closed():
                loop.call_soon_threadsafe(feed.cancel)

    async def _opened(self) -> Connection:
        self._check_open()
        if self._connection is None:
            async with self._lock():
                self._check_open()
                if self._connection is None:
                    self._connection = await self._opener()
                return self._connection
        return self._connection

    def _lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening[0] is not loop:
            self._opening = (loop, asyncio.Lock())
        return self._opening[1]

    def _check_open(self) -> None:
        if self._is_closed:
            raise BackendUnavailableError("This memory is closed.", reason="closed", hint="Open another one.")

    # -- operations -----------------------------------------------------------------------------------------------

    async def call(self, name: str, given: Mapping[str, Any], *, strict: bool = True) -> Any:
        """Run an operation by its name; `strict` off leaves out fields that it does not have."""
        operation = declared(name)
        if operation.is_stream:
            raise InvalidError(
                f"{name} answers without end.", reason="bad_value", hint=f"Use `memory.{name}(…)` in a loop."
            )
        ignored = [] if strict else sorted(given.keys() - fields(operation.request).keys())
        known = {field: value for field, value in given.items() if field not in ignored}
        response = await self._called(operation, known)
        if ignored and "warnings" in fields(operation.response):
            said: tuple[str, ...] = getattr(response, "warnings", ())
            warning = f"Fields that {name} does not have were left out: {', '.join(ignored)}."
            return response.model_copy(update={"warnings": (*said, warning)})
        return response

    async def send(self, name: str, given: Mapping[str, Any], upload: AsyncIterator[bytes]) -> Any:
        """Run an operation that takes a file."""
        operation, connection = declared(name), await self._opened()
        if not isinstance(connection, FileConnection):
            raise UnsupportedError("This connection takes no files.")
        return await connection.send(operation, self._bound(operation, given), upload)

    async def import_file(
        self,
        file: str | Path | bytes | BinaryIO,
        *,
        file_name: str | None,
        foreign_owner: bool,
        **which: str | None,
    ) -> Any:
        """Send a file and wait until it was tried."""
        given: dict[str, Any] = {name: value for name, value in which.items() if value is not None}
        if file_name is None and isinstance(file, str | Path):
            file_name = Path(file).name
        if file_name:
            given["file_name"] = file_name
        if foreign_owner:
            given["foreign_owner"] = True
        report = await self.send("import_file", given, _read(file))
        while report.status == "checking":
            report = await self.call("get_import", {"id": report.import_id, "wait_s": 20})
        return report

    async def run(
        self, name: str, given: Mapping[str, Any], *, first: str | None = None, request: Any = None
    ) -> Any:
        """Run an operation with the arguments of its method, or with the request that stands in the first of them."""
        operation = declared(name)
        if first is not None:
            request = given[first] if is_request(operation, first, given[first]) else None
        elif request is not None and not is_request(operation, None, request):
            raise invalid([Fault("", "bad_value", f"a {operation.request.__name__}, or named arguments")])
        arguments = _arguments(operation, given, without=first if request is not None else None)
        if request is None:
            return await self._called(operation, arguments)
        if arguments:
            raise InvalidError(
                "The first argument is a whole request, so no other argument has a place.",
                reason="bad_value",
                hint=f"Put {', '.join(sorted(arguments))} into the request.",
            )
        return in_kind(request, await self._called(operation, request_fields(request)))

    async def stream(self, name: str, given: Mapping[str, Any]) -> AsyncGenerator[Any]:
        """Run an operation that answers one by one.

        It runs in one task of its own: its reader may take each answer in another, and whoever closes the memory ends it.
        """
        operation = declared(name)
        connection = await self._opened()
        items = connection.stream(operation, self._bound(operation, _arguments(operation, given)))
        queue = asyncio.Queue[Response | None]()
        feed = asyncio.create_task(_feed(items, queue))
        self._feeds.add(feed)
        feed.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (item := await queue.get()) is not None:
                yield item
                queue.task_done()
            if not feed.cancelled():
                feed.result()
        finally:
            self._feeds.discard(feed)
            feed.cancel()
            await asyncio.wait({feed})

    async def health(self) -> dict[str, Any]:
        return (await self._called(declared("health"), {})).to_dict()

    async def _called(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        return await (await self._opened()).call(operation, self._bound(operation, given))

    def _bound(self, operation: AnyOperation, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """With this memory's agent and fusion, where the call names none."""
        more = dict[str, Any]()
        if self.agent_id is not None and "agent_id" in fields(operation.request):
            more["agent_id"] = self.agent_id
        if self._fusion != "rrf" and operation.name == "recall":
            more["fusion"] = self._fusion
        return {**more, **given}


def runner(
    agent_id: str | None,
    stores: str | Path | MemoryStore | Sequence[str | Path | MemoryStore] | None,
    *,
    fusion: Fusion,
    governance: Any,
    write_policy: str,
    embedder: Any,
    config: Settings | None,
    principal: Principal | None,
    clock: Callable[[], int] | None,
    telemetry: Any,
) -> Runner:
    """What the constructors of `Memory` mean by their arguments."""
    if write_policy not in _POLICIES:
        raise invalid([Fault("/write_policy", "bad_value", f"one of {', '.join(_POLICIES)}")])
    if governance is not None and not callable(getattr(governance, "review", None)):
        raise invalid([Fault("/governance", "bad_value", "an object with `async review(review)`")])
    if telemetry is not None and not isinstance(telemetry, Telemetry):
        raise invalid([Fault("/telemetry", "bad_value", "quipu.Telemetry(tracer_provider=…)")])
    settings = config if config is not None else load().settings
    places = _places(stores)
    server = places[0] if len(places) == 1 else settings.store if not places else None
    if isinstance(server, str) and server.lower().startswith(_SERVER_SCHEMES):
        own = {"governance": governance, "embedder": embedder, "principal": principal, "clock": clock}
        faults = [
            Fault(f"/{name}", "bad_value", "nothing: the server has its own")
            for name, value in own.items()
            if value is not None
        ]
        if faults:
            raise invalid(faults)
        opener = remote(server, config=settings, telemetry=telemetry)
        return Runner(opener, agent_id=agent_id or chosen_agent(settings), fusion=fusion)
    agent = agent_id if agent_id is not None else settings.agent
    opener = embedded(
        settings,
        principal if principal is not None else local(agent_id=agent),
        stores=places or None,
        governance=governance,
        write_policy=None if write_policy == "all" else write_policy,
        embedder=embedder,
        clock=clock,
        telemetry=telemetry,
    )
    # Without an embedder nothing is found by meaning.
    is_wordless = (embedder or settings.embedder) == "none"
    promised = CAPABILITIES - {"vector"} if is_wordless else CAPABILITIES
    return Runner(opener, agent_id=agent, fusion=fusion, capabilities=promised)


def chosen_agent(settings: Settings) -> str | None:
    """The agent that somebody set. On a server a token may have one of its own, which our default must not hide."""
    return settings.agent if "agent" in settings.model_fields_set else None


class AnyMemory:
    """What a memory has whether its methods are awaited or not. How it is made stands with the methods, in `methods`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def agent_id(self) -> str | None:
        """The agent that calls are for; none: the credential's own."""
        return self._runner.agent_id

    @property
    def capabilities(self) -> set[str]:
        """memorywire's promises that this memory keeps."""
        return set(self._runner.capabilities)


class OpenMemory(AnyMemory):
    """What every memory has beside the methods of its operations."""

    async def open(self) -> Self:
        """Open it now instead of at the first call, and see that it answers."""
        await self._runner.open()
        return self

    async def close(self) -> None:
        """Close it for good. Closing twice does no harm."""
        await self._runner.close()

    async def __aenter__(self) -> Self:
        try:
            return await self.open()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def health(self) -> dict[str, Any]:
        """How it is: `status`, and more where the caller may know."""
        return await self._runner.health()

    async def call(self, name: str, /, *, strict: bool = True, **given: Any) -> Any:
        """Run any declared operation by its name, such as `call("rotate_token", id=…)`.

        name: The operation, as the reference lists it.
        strict: Off, fields that the operation does not have are left out; a warning in the answer names them.
        """
        return await self._runner.call(name, given, strict=strict)

    async def _import_file(self, file: str | Path | bytes | BinaryIO, **options: Any) -> "ImportReport":
        return await self._runner.import_file(file, **options)

    async def _run(
        self, name: str, given: Mapping[str, Any], *, first: str | None = None, request: Any = None
    ) -> Any:
        return await self._runner.run(name, given, first=first, request=request)

    def _stream(self, name: str, given: Mapping[str, Any]) -> AsyncGenerator[Any]:
        return self._runner.stream(name, given)


async def _read(file: str | Path | bytes | BinaryIO) -> AsyncIterator[bytes]:
    """The pieces of a file."""
    if isinstance(file, bytes):
        yield file
        return
    source = await asyncio.to_thread(_opened, file) if isinstance(file, str | Path) else file
    try:
        while piece := await asyncio.to_thread(source.read, _PIECE):
            yield piece
    finally:
        if source is not file:
            source.close()


def _opened(path: str | Path) -> BinaryIO:
    try:
        return Path(path).expanduser().open("rb")
    except OSError as error:
        raise InvalidError("The file cannot be read.", reason="no_file", hint="Check the path.") from error


async def _feed(items: AsyncIterator[Response], queue: "asyncio.Queue[Response | None]") -> None:
    async for item in items:
        queue.put_nowait(item)
        await queue.join()  # the next one is asked for when this one was taken


def _arguments(
    operation: AnyOperation, given: Mapping[str, Any], *, without: str | None = None
) -> dict[str, Any]:
    """What the caller gave. An argument that has its default was not given; some operations tell the two apart."""
    known = fields(operation.request)
    return {
        name: value
        for name, value in given.items()
        if name != without and value is not None and not _is_default(value, known[name].default)
    }


def declared(name: str) -> AnyOperation:
    """The operation of this name."""
    if name not in catalogue.PLACES:
        near = get_close_matches(name, catalogue.PLACES, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(catalogue.PLACES)}."
        raise InvalidError("There is no such operation.", reason="unknown_operation", hint=hint)
    return catalogue.operation(name)


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(default, list):
        return isinstance(value, tuple | list) and [*cast("Sequence[Any]", value)] == default
    return type(value) is type(default) and value == default


def _places(
    stores: str | Path | MemoryStore | Sequence[str | Path | MemoryStore] | None,
) -> list[str | MemoryStore]:
    """Store URLs, paths and objects as one list."""
    if stores is None:
        return []
    given: Sequence[object] = stores if isinstance(stores, list | tuple) else [stores]
    places: list[str | MemoryStore] = []
    for place in given:
        if isinstance(place, str | Path):
            places.append(str(place))
        elif isinstance(place, MemoryStore):
            places.append(place)
        else:
            accepted = "a path, a store URL, or an object that speaks memorywire"
            raise invalid([Fault("/stores", "bad_value", accepted)])
    return places
