"""The explorer's address, read as a question: what to look for, in whose memory, as of when."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from quipu.errors import InvalidError
from quipu.faces.web import wording
from quipu.model.operations import Floor, ListRequest, RecallRequest
from quipu.model.record import MemoryType, State
from quipu.model.value import Json, JsonObject

PAGE = 25
FIRST, MOST = 20, 200

#: Everything that can stand in the address, in the order in which it is written there.
_FIELDS = ("q", "agent", "user", "session", "store", "state", "tags", "filter", "since", "until", "as_of")

_NOW = "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the person typed and chose. Nothing of it is trusted; the service checks it."""

    q: str = ""
    agent: str = ""
    user: str = ""
    session: str = ""
    store: str = ""
    state: str = "live"
    types: tuple[str, ...] = ()
    tags: str = ""
    filter: str = ""
    since: str = ""
    until: str = ""
    as_of: str = ""
    is_all: bool = False
    k: int = FIRST
    cursor: str = ""

    @classmethod
    def of(cls, given: QueryParams) -> Question:
        """The question that an address asks."""
        words = {name: given.get(name, "").strip() for name in (*_FIELDS, "cursor")}
        # A name that was typed counts before the one that was ticked.
        words["agent"] = given.get("other", "").strip() or words["agent"]
        words["state"] = words["state"] if words["state"] in tuple(State) else State.LIVE.value
        known = tuple(MemoryType)
        if moment := _slid(given):
            words["as_of"] = "" if moment == _NOW else moment
        k = given.get("k", "")
        return cls(
            **cast("dict[str, Any]", words),
            types=tuple(dict.fromkeys(kind for kind in given.getlist("type") if kind in known)),
            is_all=given.get("weak") == "1",
            k=min(max(1, int(k)), MOST) if _is_number(k, 4) else FIRST,
        )

    def address(self, path: str = "/memories", **changes: Any) -> str:
        """The same question with something changed, as an address. A cursor is never carried along."""
        query: list[tuple[str, str]] = []
        for name in _FIELDS:
            value = str(changes.get(name, getattr(self, name)) or "")
            if value and not (name == "state" and value == "live"):
                query.append((name, value))
        query += [("type", kind) for kind in changes.get("types", self.types)]
        if changes.get("is_all", self.is_all):
            query.append(("weak", "1"))
        if (k := changes.get("k", self.k)) != FIRST:
            query.append(("k", str(k)))
        if cursor := changes.get("cursor"):
            query.append(("cursor", cursor))
        return f"{path}?{urlencode(query)}" if query else path

    @property
    def filters(self) -> int:
        """How many of the finer conditions are set."""
        finer = (self.user, self.session, self.store, self.tags, self.filter, self.since, self.until)
        return sum(1 for value in finer if value) + len(self.types) + (self.state != "live")

    def day(self, name: str) -> str:
        """A day as a field for days takes it: as it was given, or nothing."""
        given = str(getattr(self, name))
        try:
            return date.fromisoformat(given).isoformat()
        except ValueError:
            return ""

    def recall(self, agent_id: str) -> RecallRequest:
        """The question as a search."""
        return RecallRequest(
            agent_id=agent_id,
            query=self.q,
            user_id=self.user or None,
            session_id=self.session or None,
            k=self.k,
            types=tuple(MemoryType(kind) for kind in self.types),
            filter=self.conditions(),
            store=self.store or None,
            min_relevance=Floor.OFF if self.is_all else Floor.AUTO,
            as_of=self.as_of or None,
            explain=True,
        )

    def list(self, agent_id: str | None) -> ListRequest:
        """The question as a list."""
        return ListRequest(
            agent_id=agent_id,
            user_id=self.user or None,
            session_id=self.session or None,
            store=self.store or None,
            types=tuple(MemoryType(kind) for kind in self.types),
            states=(State(self.state),),
            filter=self.conditions(),
            as_of=self.as_of or None,
            limit=PAGE,
            cursor=self.cursor or None,
        )

    def conditions(self) -> JsonObject | None:
        """Tags, metadata and days as one filter."""
        parts: list[JsonObject] = []
        if tags := [tag.strip() for tag in self.tags.split(",") if tag.strip()]:
            parts.append({"tags": tags})
        if self.filter:
            parts.append(metadata_filter(self.filter))
        if self.since:
            parts.append({"created_at": {"$gte": wording.iso(midnight(self.since, "/since"))}})
        if self.until:
            parts.append({"created_at": {"$lt": wording.iso(midnight(self.until, "/until") + wording.DAY)}})
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else {"$and": parts}


def _slid(given: QueryParams) -> str:
    """Where the slider stands, as a moment; at its end it means now, however long ago the page was made."""
    moment, latest = given.get("moment", ""), given.get("latest", "")
    if not _is_number(moment, 15):
        return ""
    return _NOW if _is_number(latest, 15) and int(moment) >= int(latest) else wording.iso(int(moment))


def _is_number(text: str, longest: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= longest


def metadata_filter(text: str) -> JsonObject:
    """A filter as JSON, or the short form: `city = Lisbon, year = 2025`."""
    if text.startswith("{"):
        try:
            found: Any = json.loads(text)
        except (ValueError, RecursionError):
            raise _no_filter() from None
        return cast("JsonObject", found)
    conditions: dict[str, Json] = {}
    for part in text.split(","):
        name, sign, value = (word.strip() for word in part.partition("="))
        if not sign or not name:
            raise _no_filter()
        conditions[name] = _scalar(value)
    return conditions


def _scalar(text: str) -> Json:
    """A number, true, false or null as such; anything else is a text."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(found, dict | list) else found


def _no_filter() -> InvalidError:
    return InvalidError.at(
        "/filter",
        "bad_filter",
        "The metadata filter cannot be read.",
        accepted=["city = Lisbon, year = 2025", '{"year": {"$gte": 2025}}'],
    )


def midnight(text: str, pointer: str) -> int:
    """When a day begins, in UTC."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InvalidError.at(pointer, "bad_value", "This is no day.", accepted=["2026-01-31"]) from None
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return start // timedelta(milliseconds=1)
