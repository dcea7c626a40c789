"""One host on standard input and output. Standard output is the protocol and nothing else."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator

from quipu.mcp.caller import Caller, check_store, narrowed
from quipu.mcp.settings import McpParts
from quipu.model.principal import Principal
from quipu.operation import Context

_log = logging.getLogger("quipu.mcp")
_PIECE = 1 << 16


async def speak(parts: McpParts, principal: Principal, context: Callable[[Principal], Context]) -> None:
    """Serve until the host hangs up, or a signal comes."""
    # The SDK takes most of a second to load, so only who serves MCP does.
    from mcp.server.stdio import stdio_server

    from quipu.mcp.server import mcp_server

    settings = parts.settings
    if settings.store is not None:
        await check_store(parts.ledger, principal, settings.store)
    who = narrowed(principal, settings.store, read_only=settings.read_only)

    async def renewed() -> Principal:
        return who

    caller = Caller(
        principal=who,
        context=context,
        profile=settings.profile,
        store=settings.store,
        base=settings.public_url or "",
        renewed=renewed,
    )
    server = mcp_server(parts, lambda _: caller).server
    try:
        with _ended_by_signals():
            async with stdio_server() as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
    except* BrokenPipeError:
        sys.unraisablehook = _unread
        _log.debug("The host hung up before it had read all answers.")


@contextlib.contextmanager
def _ended_by_signals() -> Generator[None]:
    """A signal ends standard input, which for the server is a host that hangs up: it closes in order.

    The SDK reads on a thread that nothing but more input wakes, so it is given one end of a pair of sockets, into which
    another thread copies what comes; that one may be left waiting. The second signal does what it always does, and one
    that whoever started the process wants ignored stays ignored.
    """
    if os.name != "posix":
        yield
        return
    host, (copied, read) = os.dup(0), socket.socketpair()
    os.dup2(read.fileno(), 0)
    read.close()
    threading.Thread(target=_copy, args=(host, copied), name="quipu-mcp-input", daemon=True).start()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]

    def end() -> None:
        remove()
        _end(copied)

    def remove() -> None:
        for number in heard:
            loop.remove_signal_handler(number)

    for number in heard:
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        remove()
        os.dup2(host, 0)


def _copy(host: int, copied: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it was ended here while more came in
        while piece := os.read(host, _PIECE):
            copied.sendall(piece)
    _end(copied)


def _end(copied: socket.socket) -> None:
    with contextlib.suppress(OSError):  # ended before
        copied.shutdown(socket.SHUT_WR)


def _unread(fault: "sys.UnraisableHookArgs") -> None:
    """Newer Pythons say when a buffer is thrown away that nobody reads; here that is known, and no fault."""
    if not isinstance(fault.exc_value, BrokenPipeError):
        sys.__unraisablehook__(fault)
