"""The standard streams of a command: ready for whatever is said, and left quietly where nobody reads any more.

1. A reader that leaves early (`quipu list | head`) is no error. The command goes on without being read, so that its exit
   code says the same as ever: a fault that `quipu verify` finds is a fault for `quipu verify | head` too.
2. What hands out one thing after the other, perhaps without end, asks after each whether anybody still reads.
3. An error that cannot be told, because its own stream fails, keeps its exit code.
"""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

#: Those that were left.
_unread: list[TextIO] = []


def ready() -> None:
    """Whatever is said can be said: a stream that lacks a character gets its number, one that is closed nothing."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  lives as long as the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  lives as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  lives as long as the process
    shown: Any = sys.stdout
    if shown.errors == "strict":
        shown.reconfigure(errors="backslashreplace")


def answer(text: str) -> None:
    """Write to standard output, if anybody reads it."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        leave(sys.stdout)


def flush() -> None:
    """Hand over what was answered, if anybody reads it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        leave(sys.stdout)


def tell(text: str) -> None:
    """Write to standard error, whatever becomes of it: there is no other place to say that this failed."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        leave(sys.stderr)


def check_reader() -> None:
    """Raise where nobody reads standard output any more."""
    if sys.stdout in _unread:
        raise BrokenPipeError


def leave(stream: TextIO) -> None:
    """Nobody reads it any more; what is still buffered goes nowhere, quietly."""
    _unread.append(stream)
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # not a real file: nothing to leave
        return
