"""One line of JSON per request, and the form of every other line that the server writes.

A line holds the route's template and never the path or the query that were sent: those may be somebody's memory.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from quipu.faces.http.answers import trace
from quipu.faces.http.exchange import Exchange

_log = logging.getLogger("quipu.access")
#: `dumps` would make one for every line.
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str)
#: A method is a word of ours or it is not told: it, too, comes from outside.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class AccessLog:
    """Writes a line when a request has been answered; of health checks only when debugging."""

    def began(self, exchange: Exchange) -> None:
        """Nothing to say yet."""

    def ended(self, exchange: Exchange) -> None:
        is_probe = exchange.place.is_always_open and exchange.error is None
        level = logging.DEBUG if is_probe else logging.INFO
        if _log.isEnabledFor(level):
            # Made here: `log` would look through the stack for a place in the code that no line tells.
            told = {"fields": line(exchange)}
            _log.handle(_log.makeRecord(_log.name, level, "", 0, "request", (), None, extra=told))


def line(exchange: Exchange) -> dict[str, Any]:
    """What is told of an exchange."""
    principal = exchange.principal
    return {
        "time": moment(exchange.began_at),
        "request_id": exchange.request_id,
        "method": exchange.method if exchange.method in METHODS else "other",
        "route": exchange.place.path or None,
        "status": exchange.status,
        "duration_ms": round(exchange.seconds * 1000, 1),
        "bytes_in": exchange.bytes_in,
        "bytes_out": exchange.bytes_out,
        "tenant": None if principal is None else principal.tenant,
        "principal": None if principal is None else principal.name,
        "error": exchange.error,
        "reason": exchange.reason,
    }


def moment(milliseconds: float) -> str:
    """RFC 3339, in UTC, to the millisecond."""
    second, rest = divmod(int(milliseconds), 1000)
    return f"{_second(second)}.{rest:03d}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class JsonLines(logging.Formatter):
    """Every log record as one JSON object on one line. Of an exception only kind and places are told."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": moment(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            told["trace"] = list(trace(record.exc_info[1]))
        fields: dict[str, Any] = getattr(record, "fields", {})
        return _ENCODER.encode({**told, **fields})
