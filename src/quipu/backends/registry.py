"""From a store URL to a backend: what ships with Quipu by scheme, what others add by entry point.

In a list of URLs the first ledger is the ledger and all others are mirrors. A backend is named after its scheme, with
`-2`, `-3` for repeats, or by `?name=`. `?weight=`, `?deadline_ms=`, `?require_signed=`, `?contents=` and `?python=` are
Quipu's; all other parameters belong to the adapter. A URL may hold a credential, so it is never logged or shown: `shown` may be.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Final, cast
from urllib.parse import parse_qsl, urlencode

from quipu.errors import InvalidError, UnsupportedError
from quipu.ports.backend import MakeBackend

GROUP: Final = "quipu.backends"
#: Scheme → module and function. The adapter imports its vendor when it is opened, not before.
BUILT_IN: Final[Mapping[str, str]] = {
    "cognee": "quipu.backends.cognee:make",
    "graphiti": "quipu.backends.graphiti:make",
    "langgraph": "quipu.backends.langgraph:make",
    "langgraph+postgresql": "quipu.backends.langgraph:make",
    "langgraph+sqlite": "quipu.backends.langgraph:make",
    "letta": "quipu.backends.letta:make",
    "letta+http": "quipu.backends.letta:make",
    "mem0": "quipu.backends.mem0:make",
    "mem0+postgresql": "quipu.backends.mem0:make",
    "quipu+http": "quipu.backends.remote:make",
    "quipu+https": "quipu.backends.remote:make",
}
_OURS: Final = ("name", "weight", "deadline_ms", "require_signed", "contents", "python")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_DEADLINE_MS: Final = 800
#: What a mirror holds, and whether that is more than it was given.
_CONTENTS: Final = {"copies": False, "own": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorAddress:
    """A mirror's URL, taken apart."""

    name: str
    scheme: str
    #: Without Quipu's own parameters. It may hold a credential.
    url: str = field(repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    weight: float = 1.0
    deadline_ms: int = _DEADLINE_MS
    public_key: str | None = None
    #: It holds memories that did not come from the ledger.
    has_own_contents: bool = False
    #: The interpreter of an environment of the vendor's own.
    python: str | None = None

    @property
    def shown(self) -> str:
        """The place as anybody may see it: no user, no password, no parameters."""
        rest = self.url.partition("://")[2].partition("?")[0].partition("#")[0]
        return f"{self.scheme}://{rest.rpartition('@')[2]}"


def schemes() -> tuple[str, ...]:
    """Every scheme that an adapter is there for."""
    return tuple(sorted({*BUILT_IN, *(point.name for point in _entry_points())}))


def parsed(urls: Sequence[str], taken: Iterable[str] = ()) -> list[MirrorAddress]:
    """The mirrors of a list; `taken` are names that others have, the ledger's above all."""
    used = set(taken)
    found: list[MirrorAddress] = []
    for url in urls:
        address = _taken_apart(url, used)
        used.add(address.name)
        found.append(address)
    return found


def maker(scheme: str) -> MakeBackend:
    """What makes the backend of a scheme."""
    for point in _entry_points():
        if point.name == scheme:
            try:
                return cast("MakeBackend", point.load())
            except ImportError as error:
                raise _missing(scheme) from error
    if scheme not in BUILT_IN:
        raise unknown_scheme(scheme)
    module, _, function = BUILT_IN[scheme].partition(":")
    return cast("MakeBackend", getattr(importlib.import_module(module), function))


def unknown_scheme(scheme: str, others: Sequence[str] = ()) -> InvalidError:
    known = sorted({*schemes(), *others})
    return InvalidError.at(
        "/stores",
        "bad_value",
        f"Unknown store URL scheme {scheme[:40]!r}.",
        accepted=[f"{name}://" for name in known],
    )


def _missing(scheme: str) -> UnsupportedError:
    return UnsupportedError(
        f"The adapter for {scheme}:// cannot be loaded: a package is missing.", reason="missing_extra"
    )


def _entry_points() -> Iterable[metadata.EntryPoint]:
    return metadata.entry_points(group=GROUP)


def _taken_apart(url: str, used: set[str]) -> MirrorAddress:
    scheme, mark, rest = url.strip().partition("://")
    scheme = scheme.lower()
    if not mark:
        raise InvalidError.at(
            "/stores", "bad_value", "A mirror is named by a URL.", accepted=["scheme://place"]
        )
    place, _, query = rest.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    mine = {key: value for key, value in pairs if key in _OURS}
    theirs = [(key, value) for key, value in pairs if key not in _OURS]
    left = urlencode(theirs)
    return MirrorAddress(
        name=_name(mine.get("name"), scheme, used),
        scheme=scheme,
        url=f"{scheme}://{place}{'?' if left else ''}{left}",
        parameters=dict(theirs),
        weight=_number(mine, "weight", 1.0),
        deadline_ms=int(_number(mine, "deadline_ms", _DEADLINE_MS)),
        public_key=mine.get("require_signed"),
        has_own_contents=_has_own_contents(mine.get("contents", "copies")),
        python=mine.get("python"),
    )


def _name(given: str | None, scheme: str, used: set[str]) -> str:
    if given is not None:
        if not _NAME.fullmatch(given) or given in used:
            raise InvalidError.at(
                "/stores",
                "bad_value",
                "A mirror's name has letters, digits and . _ + -, and is not used twice.",
            )
        return given
    repeats = (f"{scheme}-{count}" for count in range(2, len(used) + 3))
    return scheme if scheme not in used else next(name for name in repeats if name not in used)


def _has_own_contents(given: str) -> bool:
    if given not in _CONTENTS:
        raise InvalidError.at(
            "/stores", "bad_value", "contents in a store URL is no such word.", accepted=list(_CONTENTS)
        )
    return _CONTENTS[given]


def _number(mine: Mapping[str, str], key: str, default: float) -> float:
    try:
        value = float(mine.get(key, default))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0) or (key == "deadline_ms" and value < 10):
        accepted = ["10 and up"] if key == "deadline_ms" else ["0 and up"]
        raise InvalidError.at(
            "/stores", "bad_value", f"{key} in a store URL is no such number.", accepted=accepted
        )
    return value
