"""What ends a command from outside is answered like Ctrl-C: what was begun is closed in order, and drafts are taken away.

1. The exit code is the one a shell gives: 128 and the number of the signal.
2. The second signal does what it always does.
3. A signal that whoever started the command wants to be ignored (`nohup`) stays so. Servers listen for themselves.
"""

from __future__ import annotations

import signal
from types import FrameType

INTERRUPTED = 128 + 2
_NAMES = ("SIGTERM", "SIGHUP")

_came: list[int] = []


def ready() -> None:
    """Be told of them from now on."""
    for name in _NAMES:
        number: signal.Signals | None = getattr(signal, name, None)  # some systems know fewer
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    _came.append(number)
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt


def exit_code() -> int:
    """Of a command that was interrupted."""
    return 128 + _came[0] if _came else INTERRUPTED
