"""Answers with the headers that belong to them (contract 3.2). Whatever more there is to say goes there, not in bodies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.headers import header_text
from quipu.faces.memorywire.asking import Preferences
from quipu.model.value import Json, JsonObject

#: `dumps` would make one for every answer.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
#: So much of the names that were ignored is told.
_LONGEST = 2_000


def dumped(value: object) -> bytes:
    """JSON, always the same bytes for the same value."""
    return _ENCODER.encode(value).encode("utf-8")


def answered(
    body: Mapping[str, Json] | Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON answer."""
    return Response(dumped(body), status, headers, media_type="application/json")


def version_tag(version: object) -> dict[str, str]:
    """ETag of a record: its version."""
    return {"ETag": f'"{version}"'} if isinstance(version, int) else {}


def beyond(extensions: JsonObject) -> dict[str, str]:
    """What a response has to say beyond v0, as far as there are headers for it."""
    told = version_tag(extensions.get("version"))
    if isinstance(seq := extensions.get("seq"), int):
        told["Quipu-Seq"] = str(seq)
    failed = extensions.get("stores_failed")
    if isinstance(failed, list | tuple) and failed:
        names = [str(row.get("store", "")) for row in failed if isinstance(row, Mapping)]
        told["Quipu-Stores-Failed"] = _listed(names)
    return told


def manners(ignored: Iterable[str], preferences: Preferences, *, has_waited: bool) -> dict[str, str]:
    """Which preferences were heeded, and what was passed over for their sake."""
    told: dict[str, str] = {}
    applied = ["handling=lenient"] if preferences.is_lenient else []
    if has_waited:
        applied.append(f"wait={preferences.wait_s}")
    if applied:
        told["Preference-Applied"] = ", ".join(applied)
    if names := list(ignored):
        told["Quipu-Ignored-Fields"] = _listed(names)
    return told


def _listed(names: Iterable[str]) -> str:
    return ", ".join(header_text(name.replace(",", " ")) for name in names)[:_LONGEST]


def base_of(request: Request, public_url: str) -> str:
    """Where people reach this server: as its operator says, or as the caller does."""
    return (public_url or str(request.base_url)).rstrip("/")
