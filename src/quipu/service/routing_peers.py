"""A router's peers: who they are, and asking them all at once, each within its time and behind its breaker."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from quipu.errors import BackendUnavailableError, InvalidError, QuipuError
from quipu.ports.memory_store import MemoryStore
from quipu.rules import fusion
from quipu.rules.breaker import Breaker

R = TypeVar("R")
_METHODS: Final = ("remember", "recall", "forget", "merge", "expire", "health")
_HINT: Final = 'Give memories by name, such as {"home": quipu.Memory("me", stores="sqlite://./home.db")}.'


@dataclass(slots=True)
class Peer:
    """One of the stores that a router asks."""

    name: str
    store: MemoryStore
    weight: float
    breaker: Breaker = Breaker()  # noqa: RUF009  frozen, so one for all is safe


def listed(
    peers: Mapping[str, MemoryStore] | Sequence[MemoryStore], weights: Mapping[str, float]
) -> list[Peer]:
    """The peers by name, in their order. What cannot be one is refused at once, with what to give instead."""
    given = cast("Any", peers)
    if isinstance(given, str | bytes) or all(hasattr(given, name) for name in _METHODS):
        raise _refused("/peers", "Peers come in a mapping or a list.")
    try:
        named: dict[str, MemoryStore] = dict(given) if hasattr(given, "keys") else _numbered(given)
    except TypeError as error:
        raise _refused("/peers", "Peers come in a mapping or a list.") from error
    if not named:
        raise _refused("/peers", "A router needs a peer.")
    first: dict[int, str] = {}
    for name, store in named.items():
        _check(name, store)
        if id(store) in first:
            raise _refused(
                f"/peers/{name}", f"This is the same store as {first[id(store)]!r}, which would vote twice."
            )
        first[id(store)] = name
    fusion.checked_weights(weights, named.keys())
    return [Peer(name, store, weights.get(name, fusion.DEFAULT_WEIGHT)) for name, store in named.items()]


def _numbered(peers: Sequence[MemoryStore]) -> dict[str, MemoryStore]:
    return {f"peer-{number}": peer for number, peer in enumerate(peers, 1)}


def _check(name: object, store: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise _refused("/peers", "A peer's name is a text that is not empty.")
    if isinstance(store, str):  # an address may hold a password: it is not repeated
        raise _refused(f"/peers/{name}", "A peer is a store, and this is a text.")
    if missing := [method for method in _METHODS if not callable(getattr(store, method, None))]:
        message = f"A peer answers memorywire's five operations, and this one has no {', '.join(missing)}."
        raise _refused(f"/peers/{name}", message)
    if not any(inspect.iscoroutinefunction(getattr(store, method)) for method in _METHODS):
        raise _refused(
            f"/peers/{name}",
            "A peer is awaited, and this one blocks: give quipu.Memory, or ask it with quipu.sync.Router.",
        )


def _refused(pointer: str, message: str) -> InvalidError:
    return InvalidError.at(pointer, "bad_value", message, hint=_HINT)


async def asked(
    peers: Sequence[Peer],
    call: Callable[[Peer], Awaitable[R]],
    kind: type[R],
    *,
    seconds: float,
    clock: Callable[[], int],
    is_counted: bool = True,
) -> tuple[dict[str, R], dict[str, QuipuError]]:
    """What each peer answers in time, in the order of the peers, and why the others did not.

    Who gives up waiting leaves nothing running.
    """
    now = clock()
    errors: dict[str, QuipuError] = {}
    tasks: dict[str, asyncio.Task[R]] = {}
    for peer in peers:
        if is_counted and not peer.breaker.lets_through(now):
            errors[peer.name] = BackendUnavailableError(
                "The peer is left alone for a while.", reason="breaker_open"
            )
            continue
        if is_counted:
            peer.breaker = peer.breaker.called(now)
        tasks[peer.name] = asyncio.create_task(_called(call, peer))
    try:
        if tasks:
            await asyncio.wait(tasks.values(), timeout=seconds)
    finally:
        for task in tasks.values():
            _let_go(task)
    told: dict[str, R] = {}
    for peer in peers:
        if (task := tasks.get(peer.name)) is None:
            continue
        error = _error(task, kind)
        if error is None:
            told[peer.name] = task.result()
        else:
            errors[peer.name] = error
        if is_counted:
            _count(peer, error, clock())
    return told, errors


async def _called(call: Callable[[Peer], Awaitable[R]], peer: Peer) -> R:
    return await call(peer)


def _let_go(task: asyncio.Task[Any]) -> None:
    """End what is late. What it still raises then is nobody's."""
    if not task.done():
        task.cancel()
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


def _count(peer: Peer, error: QuipuError | None, now: int) -> None:
    """What the caller did wrong is not the peer's failure."""
    if error is None or not (error.retryable or isinstance(error, BackendUnavailableError)):
        peer.breaker = peer.breaker.succeeded(now)
    else:
        peer.breaker = peer.breaker.failed(now, 0.0)


def _error(task: asyncio.Task[Any], kind: type[object]) -> QuipuError | None:
    """Why a peer has no answer; None when it has. What it raised is the cause, and not repeated in any answer."""
    if not task.done():
        return BackendUnavailableError("The peer did not answer in time.", reason="mirror_late")
    raised = None if task.cancelled() else task.exception()
    if isinstance(raised, QuipuError):
        return raised
    if raised is None and not task.cancelled() and isinstance(task.result(), kind):
        return None
    error = BackendUnavailableError(
        "The peer failed.", reason="mirror_failed", hint="What it raised is the cause of this error."
    )
    error.__cause__ = raised or TypeError(f"The peer did not answer with a {kind.__name__}.")
    return error
