"""Standard input that a signal ends: for the server that is the same as a host that hangs up, and it closes in order.

The SDK reads on a thread that nothing but more input wakes, so an interrupted process would wait for its host for ever.
It is given one end of a pair of sockets instead, into which another thread copies what comes. That one may be left
waiting when the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Generator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PIECE = 1 << 16


@contextlib.contextmanager
def ended_by_signals() -> Generator[None]:
    """As long as this lasts. The second signal does what it always does; `nohup` is heeded."""
    if os.name != "posix":
        yield
        return
    host, (copied, read) = os.dup(0), socket.socketpair()
    os.dup2(read.fileno(), 0)
    read.close()
    threading.Thread(target=_copy, args=(host, copied), name="quipu-mcp-input", daemon=True).start()
    loop = asyncio.get_running_loop()

    def end() -> None:
        remove()
        _end(copied)

    heard = (*_SIGNALS, *(() if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)))

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
