"""The standard streams and the signals of a command.

1. A reader that leaves early (`quipu list | head`) is no error, nor is a terminal that was closed. The command goes on
   without being read, so that its exit code says the same as ever; what has no end (`quipu changes`) asks after each item
   whether anybody still reads.
2. An error that cannot be shown, because its own stream fails, keeps its exit code.
3. SIGTERM and SIGHUP are answered like Ctrl-C: what was begun is closed in order. The exit code is the one a shell
   gives, 128 and the number of the signal. The second signal does what it always does, and one that whoever started the
   command wants ignored (`nohup`) stays ignored.
"""

import errno
import os
import signal
import sys
from types import FrameType
from typing import Any, TextIO

#: A pipe without a reader, and a terminal that is gone.
_GONE = (errno.EPIPE, errno.EIO)
#: Those that nobody reads any more.
_unread: list[TextIO] = []
_signals: list[int] = []


def ready() -> None:
    """Make the streams fit for whatever is shown, and answer signals from now on."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started the command
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  lives as long as the process
    shown: Any = sys.stdout
    if shown.errors == "strict":
        shown.reconfigure(errors="backslashreplace")
    for name in ("SIGTERM", "SIGHUP"):
        number: signal.Signals | None = getattr(signal, name, None)  # some systems know fewer
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _signals.append(number)
    signal.signal(number, signal.SIG_DFL)
    ctrl_c = signal.getsignal(signal.SIGINT)
    if callable(ctrl_c):  # an event loop that runs cancels its work in order
        ctrl_c(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt


def interrupted_code() -> int:
    """The exit code of a command that was interrupted."""
    return 128 + (_signals[0] if _signals else int(signal.SIGINT))


class Shown:
    """Standard output or error as rich writes to it: goes on where nobody reads any more.

    Standard error is left whatever is wrong with it: there is no other place to say so.
    """

    def __init__(self, *, is_error: bool) -> None:
        self._is_error = is_error
        self._stream = sys.stderr if is_error else sys.stdout

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._leave(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._leave(error)

    def __getattr__(self, name: str) -> Any:
        """Its encoding, its number, whether it is a terminal."""
        return getattr(self._stream, name)

    def _leave(self, error: OSError) -> None:
        # Also where it is an error: what is buffered would fail once more when the program ends.
        leave(self._stream)
        if not self._is_error and error.errno not in _GONE:
            raise error


def write(text: str) -> None:
    """To standard output, if anybody reads it."""
    Shown(is_error=False).write(text)


def flush() -> None:
    Shown(is_error=False).flush()


def write_error(text: str) -> None:
    """To standard error, whatever becomes of it."""
    shown = Shown(is_error=True)
    shown.write(text)
    shown.flush()


def check_reader() -> None:
    """Raises where nobody reads standard output any more."""
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
