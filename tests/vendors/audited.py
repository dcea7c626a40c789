"""Interpreters that let nothing out: a vendor that asks for a name or an address beyond this machine is caught.

In the worker itself and outside of pytest, because some vendors keep quiet while they are tested.
"""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

_HOOK = """#!{python}
import sys

def hook(event, given):
    host = None
    if event == "socket.getaddrinfo":
        host = given[0]
    elif event == "socket.connect" and isinstance(given[1], tuple):
        host = given[1][0]
    if isinstance(host, bytes):
        host = host.decode()
    if host and host not in ("localhost", "::1") and not host.startswith("127."):
        with open({log!r}, "a") as log:
            log.write(event + " " + host + chr(10))
        raise OSError("nothing goes out in tests")

sys.addaudithook(hook)
start = sys.argv.index("-c")
code, sys.argv = sys.argv[start + 1], ["-c", *sys.argv[start + 2:]]
exec(compile(code, "<worker>", "exec"))
"""


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="quipu-audited-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def outbound() -> list[str]:
    """Everything that was tried since this was asked last."""
    log = _folder() / "outbound"
    tried = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return tried


@cache
def audited(python: str) -> str:
    """The same interpreter, watched."""
    program = _folder() / f"python-{Path(python).parts[-3]}"
    program.write_text(_HOOK.format(python=python, log=str(_folder() / "outbound")))
    program.chmod(0o755)
    return str(program)
