"""How spans are shown: the settings in words, understood. A word that is not known is warned of once and means the default."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from quipu.model.value import Json
from quipu.telemetry.names import Convention

_log = logging.getLogger("quipu.telemetry")
_warned: set[tuple[str, str]] = set()

#: Records and the operation in, records out: the last word on content that leaves the process.
RedactContent: TypeAlias = Callable[[Sequence[Mapping[str, Json]], str], Sequence[Mapping[str, Json]]]


class Capture(StrEnum):
    """Where content may be shown."""

    NO_CONTENT = "no_content"
    SPAN_ONLY = "span_only"
    EVENT_ONLY = "event_only"
    SPAN_AND_EVENT = "span_and_event"

    @property
    def on_spans(self) -> bool:
        return self in (Capture.SPAN_ONLY, Capture.SPAN_AND_EVENT)

    @property
    def on_events(self) -> bool:
        return self in (Capture.EVENT_ONLY, Capture.SPAN_AND_EVENT)


class Namespaces(StrEnum):
    """How an isolation key is shown: it may be a user's id."""

    PLAIN = "plain"
    HASH = "hash"
    OFF = "off"


class Identity(StrEnum):
    """When agent and session are shown: where the store is theirs, or wherever they are known."""

    SCOPED = "scoped"
    ALWAYS = "always"


class Side(StrEnum):
    """Who makes the span."""

    CALLER = "caller"
    SERVER = "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """Where telemetry goes, given in code; without it, to whatever the process has set up."""

    tracer_provider: Any = None
    meter_provider: Any = None
    logger_provider: Any = None
    #: Sees content before it is shown.
    redact: RedactContent | None = None
    #: Nanoseconds since the epoch, for whoever decides the time of spans.
    clock_ns: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """All that decides how an operation is shown."""

    convention: Convention = Convention.PROPOSAL
    capture: Capture = Capture.NO_CONTENT
    content_limit: int = 4096
    namespace: Namespaces = Namespaces.PLAIN
    #: For hashed namespaces: stable, and not to be guessed. None: they are left off.
    key: bytes | None = None
    identity: Identity = Identity.SCOPED
    metrics: bool = True
    phases: bool = False
    events: bool = False
    side: Side = Side.CALLER
    #: The server that a client speaks to.
    server: tuple[str, int] | None = None
    redact: RedactContent | None = None


_CAPTURES = {
    "": Capture.NO_CONTENT,
    "false": Capture.NO_CONTENT,
    "0": Capture.NO_CONTENT,
    "true": Capture.SPAN_ONLY,
    "1": Capture.SPAN_ONLY,
    **{member.value: member for member in Capture},
}


def capture_of(text: str) -> Capture:
    """Also the words that older instrumentations go by."""
    found = _CAPTURES.get(text.strip().lower())
    if found is None:
        _warn("telemetry_capture_content", text)
    return found or Capture.NO_CONTENT


E = TypeVar("E", bound=StrEnum)


def member(kind: type[E], text: str, default: E, setting: str) -> E:
    """The word as a member; "" and what is not known are the default."""
    given = text.strip().lower()
    if given in set(kind):
        return kind(given)
    if given:
        _warn(setting, text)
    return default


def _warn(setting: str, text: str) -> None:
    if (setting, text) not in _warned:
        _warned.add((setting, text))
        _log.warning("There is no %s %r; the default is used.", setting, text)
