"""Variables that look like settings and are none: misspelt ones, which would otherwise be ignored without a word.

An unknown name in the settings file is an error: nobody but Quipu reads that file. In the environment it is a warning.
Others write there, too: a container's image, a newer Quipu's variables beside an older one, a deployment's own. A server
that will not start because of a stranger's variable is worse than a warning, and the warning is given where people look:
by `quipu doctor`, by `quipu config`, and in the log of a server that starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quipu.config.described import SETTINGS
from quipu.rules.nearest import nearest

_PREFIX = "QUIPU_"
#: What other programs call the same thing.
_ELSEWHERE: Mapping[str, str] = {
    "AGENT_ID": "QUIPU_AGENT",
    "API_KEY": "QUIPU_TOKEN",
    "BIND": "QUIPU_HOST",
    "DATABASE": "QUIPU_STORE",
    "DATABASE_URL": "QUIPU_STORE",
    "DB": "QUIPU_STORE",
    "DB_URL": "QUIPU_STORE",
    "LISTEN": "QUIPU_HOST",
    "LOGLEVEL": "QUIPU_LOG_LEVEL",
    "LOG": "QUIPU_LOG_LEVEL",
    "MODEL": "QUIPU_EMBEDDER_MODEL",
    "PATH": "QUIPU_STORE",
    "SERVER_PORT": "QUIPU_PORT",
    "URL": "QUIPU_SERVER",
}


@dataclass(frozen=True, slots=True)
class Misspelt:
    """A variable that sets nothing, and what may have been meant. Its value is nobody's business."""

    name: str
    meant: tuple[str, ...]

    @property
    def said(self) -> str:
        return f"{self.name} sets nothing: there is no such setting."

    @property
    def advice(self) -> str:
        if self.meant:
            return f"Did you mean {' or '.join(self.meant)}?"
        return "`quipu config --verbose` lists the variables that are read."


def misspelt_in(given: Iterable[str]) -> list[Misspelt]:
    """Of these names of variables all that begin like ours and are not read."""
    known = {setting.environment for setting in SETTINGS} | {f"{_PREFIX}CONFIG"}
    strange = {name for name in given if name.startswith(_PREFIX)} - known
    return [Misspelt(name, _meant(name)) for name in sorted(strange)]


def _meant(name: str) -> tuple[str, ...]:
    """By the variables' names, by the names that the settings file has for them, and by other programs' names."""
    names = {_PREFIX + word: variable for word, variable in _ELSEWHERE.items()}
    names |= {_PREFIX + setting.name.upper(): setting.environment for setting in SETTINGS}
    names |= {setting.environment: setting.environment for setting in SETTINGS}
    names |= {f"{_PREFIX}CONFIG": f"{_PREFIX}CONFIG"}
    # Without the beginning that all have, which would make a short name look nearer than it is.
    found = nearest(name.removeprefix(_PREFIX), [one.removeprefix(_PREFIX) for one in names])
    return tuple(dict.fromkeys(names[_PREFIX + one] for one in found))[:3]
