"""The same memory for code that cannot await: every call runs on one event loop in a thread of its own.

with Memory(agent_id="assistant") as memory:
    memory.remember("Mara is vegetarian", user_id="mara")
    print(memory.recall("what does Mara eat?")[0].content)
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from quipu import config as settings
from quipu.bootstrap import BuildProgress
from quipu.bootstrap.telemetry import Telemetry
from quipu.config import Config
from quipu.errors import BackendUnavailableError
from quipu.memory import Memory as AsyncMemory
from quipu.memory import arguments
from quipu.memory.remote import connection
from quipu.model.operations import Fusion
from quipu.model.principal import Principal
from quipu.ports.embedder import Embedder
from quipu.ports.host import Connection
from quipu.sync.portal import Portal

if TYPE_CHECKING:
    from quipu.sync.routing import Router

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(
    method: Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Memory, P], R]:
    """The same method, waited for."""

    @functools.wraps(method)
    def run(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.portal.run(method(self.memory, *args, **kwargs))

    return run


def _iterating(
    method: Callable[Concatenate[AsyncMemory, P], AsyncIterator[R]],
) -> Callable[Concatenate[Memory, P], Iterator[R]]:
    """The same stream, item by item."""

    @functools.wraps(method)
    def run(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        stream = method(self.memory, *args, **kwargs)
        self.streams.add(stream)

        async def following() -> tuple[R] | None:
            try:
                return (await anext(stream),)
            except StopAsyncIteration:
                return None

        try:
            while (item := self.portal.run(following())) is not None:
                yield item[0]
        finally:
            left(self, stream)

    return run


async def closed(stream: AsyncIterator[Any]) -> None:
    """One that is being read ends with its memory; only one that waits for its reader has to be ended."""
    ending: Callable[[], Coroutine[Any, Any, None]] | None = getattr(stream, "aclose", None)
    if ending is not None and not getattr(stream, "ag_running", False):
        await ending()


async def _ended(memory: Memory) -> None:
    """What is being read ends first, then the memory, whatever becomes of that."""
    try:
        while memory.streams:
            await closed(memory.streams.pop())
    finally:
        await memory.memory.close()


def left(memory: Memory, stream: AsyncIterator[Any]) -> None:
    """A reader that leaves early leaves nothing running."""
    memory.streams.discard(stream)
    if memory.portal.is_within:  # nobody has the reader any more; the loop collects it, and ends its stream
        return
    try:
        memory.portal.run(closed(stream))
    except BackendUnavailableError as error:
        if error.reason != "closed":
            raise


class Memory:
    """`quipu.Memory`, blocking."""

    def __init__(
        self,
        agent_id: str | None = None,
        stores: Sequence[str] | str | Path | None = None,
        *,
        fusion: Fusion | str = Fusion.RRF,
        governance: object | None = None,
        write_policy: str = "all",
        embedder: Embedder | str | None = None,
        config: Config | None = None,
        principal: Principal | None = None,
        clock: Callable[[], int] | None = None,
        progress: BuildProgress | None = None,
        connection: Connection | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        """As `quipu.Memory`: nothing is opened before the first call."""
        self.memory: AsyncMemory = AsyncMemory(
            agent_id,
            stores,
            fusion=fusion,
            governance=governance,
            write_policy=write_policy,
            embedder=embedder,
            config=config,
            principal=principal,
            clock=clock,
            progress=progress,
            connection=connection,
            telemetry=telemetry,
        )
        self.portal: Portal = Portal("memory")
        #: What is being read, so that closing ends it first: its reader may have been interrupted between two items.
        self.streams: set[AsyncIterator[Any]] = set()

    def open(self) -> Self:
        """Open the ledger, or see that the server lets us in, now instead of at the first call."""
        self.portal.run(self.memory.open())
        return self

    def close(self) -> None:
        """Write what waits, sign the journal if that is due, and let go of the file. Closing twice does no harm."""
        self.portal.close(functools.partial(_ended, self))

    def __enter__(self) -> Self:
        try:
            return self.open()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def agent_id(self) -> str:
        return self.memory.agent_id

    @property
    def capabilities(self) -> set[str]:
        """memorywire's promises; all are kept."""
        return self.memory.capabilities

    remember = _blocking(AsyncMemory.remember)
    recall = _blocking(AsyncMemory.recall)
    forget = _blocking(AsyncMemory.forget)
    merge = _blocking(AsyncMemory.merge)
    expire = _blocking(AsyncMemory.expire)
    submit = _blocking(AsyncMemory.submit)
    remember_many = _blocking(AsyncMemory.remember_many)
    get = _blocking(AsyncMemory.get)
    list = _blocking(AsyncMemory.list)
    history = _blocking(AsyncMemory.history)
    restore = _blocking(AsyncMemory.restore)
    create_store = _blocking(AsyncMemory.create_store)
    list_stores = _blocking(AsyncMemory.list_stores)
    delete_store = _blocking(AsyncMemory.delete_store)
    proposals = _blocking(AsyncMemory.proposals)
    decide = _blocking(AsyncMemory.decide)
    review = _blocking(AsyncMemory.review)
    rules = _blocking(AsyncMemory.rules)
    set_rules = _blocking(AsyncMemory.set_rules)
    test_rules = _blocking(AsyncMemory.test_rules)
    suggested_rules = _blocking(AsyncMemory.suggested_rules)
    accept_rule = _blocking(AsyncMemory.accept_rule)
    dismiss_rule = _blocking(AsyncMemory.dismiss_rule)
    recover = _blocking(AsyncMemory.recover)
    add_webhook = _blocking(AsyncMemory.add_webhook)
    list_webhooks = _blocking(AsyncMemory.list_webhooks)
    remove_webhook = _blocking(AsyncMemory.remove_webhook)
    ping_webhook = _blocking(AsyncMemory.ping_webhook)
    step = _blocking(AsyncMemory.step)
    procedure = _blocking(AsyncMemory.procedure)
    consolidate = _blocking(AsyncMemory.consolidate)
    undo_consolidation = _blocking(AsyncMemory.undo_consolidation)
    neighbours = _blocking(AsyncMemory.neighbours)
    mirrors = _blocking(AsyncMemory.mirrors)
    verify_mirror = _blocking(AsyncMemory.verify_mirror)
    resync_mirror = _blocking(AsyncMemory.resync_mirror)
    changes = _iterating(AsyncMemory.changes)
    import_records = _blocking(AsyncMemory.import_records)
    export = _iterating(AsyncMemory.export)
    import_file = _blocking(AsyncMemory.import_file)
    export_file = _blocking(AsyncMemory.export_file)
    imports = _blocking(AsyncMemory.imports)
    decide_import = _blocking(AsyncMemory.decide_import)
    roll_back_import = _blocking(AsyncMemory.roll_back_import)
    verify = _blocking(AsyncMemory.verify)
    checkpoint = _blocking(AsyncMemory.checkpoint)
    signing_keys = _blocking(AsyncMemory.signing_keys)
    journal = _blocking(AsyncMemory.journal)
    export_journal = _blocking(AsyncMemory.export_journal)
    backup = _blocking(AsyncMemory.backup)
    reembed = _blocking(AsyncMemory.reembed)
    sweep = _blocking(AsyncMemory.sweep)
    vacuum = _blocking(AsyncMemory.vacuum)
    statistics = _blocking(AsyncMemory.statistics)
    flush = _blocking(AsyncMemory.flush)
    health = _blocking(AsyncMemory.health)
    describe = _blocking(AsyncMemory.describe)
    whoami = _blocking(AsyncMemory.whoami)
    create_token = _blocking(AsyncMemory.create_token)
    list_tokens = _blocking(AsyncMemory.list_tokens)
    revoke_token = _blocking(AsyncMemory.revoke_token)
    rotate_token = _blocking(AsyncMemory.rotate_token)
    create_tenant = _blocking(AsyncMemory.create_tenant)
    list_tenants = _blocking(AsyncMemory.list_tenants)
    suspend_tenant = _blocking(AsyncMemory.suspend_tenant)
    resume_tenant = _blocking(AsyncMemory.resume_tenant)
    add_secret = _blocking(AsyncMemory.add_secret)
    list_secrets = _blocking(AsyncMemory.list_secrets)
    remove_secret = _blocking(AsyncMemory.remove_secret)


def connect(
    server: str | None = None,
    *,
    token: str | None = None,
    agent_id: str | None = None,
    fusion: Fusion | str = Fusion.RRF,
    timeout: float | None = None,
    retries: int | None = None,
    insecure: bool | None = None,
    config: Config | None = None,
    telemetry: Telemetry | None = None,
) -> Memory:
    """The memory on a server, blocking; as `quipu.connect`."""
    arguments.instance(config, settings.Config, "/config")
    given = config or settings.load()
    way = connection(
        given,
        server=server,
        token=token,
        timeout=timeout,
        retries=retries,
        insecure=insecure,
        telemetry=telemetry,
    )
    return Memory(agent_id, fusion=fusion, config=given, connection=way)


__all__ = ["Memory", "Router", "connect"]


def __getattr__(name: str) -> object:
    """The router is loaded by who uses it: most programs have one memory."""
    if name == "Router":
        from quipu.sync.routing import Router

        return Router
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
