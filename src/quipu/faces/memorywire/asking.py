"""What a request says beside its body: headers, preferences, the query string."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, cast

from starlette.requests import Request

from quipu.errors import InvalidError
from quipu.faces.http.json_text import parameter
from quipu.model.record import MemoryType
from quipu.model.value import JsonObject
from quipu.rules.signed_hits import Asked

E = TypeVar("E", bound=StrEnum)

#: So long a held write waits for its decision at most, in seconds.
LONGEST_WAIT_S = 60
_LONGEST_KEY = 128
#: The key of a batch, which is made longer for each item.
LONGEST_BATCH_KEY = _LONGEST_KEY - len("#1000")
_LONGEST_NONCE, _LONGEST_AUDIENCE = 128, 1024
_TRUE, _FALSE = ("true", "1"), ("false", "0")


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the caller would like (RFC 7240). What is not known is not heeded."""

    is_lenient: bool = False
    #: Seconds to wait for a decision on a held write.
    wait_s: int | None = None


def preferences(request: Request) -> Preferences:
    """The caller's preferences; of one that is said twice, the first counts."""
    given: dict[str, str] = {}
    for part in ",".join(request.headers.getlist("prefer")).split(","):
        name, _, value = part.partition(";")[0].partition("=")
        given.setdefault(name.strip().lower(), value.strip().strip('"'))
    wait = given.get("wait", "")
    return Preferences(
        is_lenient=given.get("handling", "").lower() == "lenient",
        wait_s=min(int(wait[:9]), LONGEST_WAIT_S) if wait.isascii() and wait.isdecimal() else None,
    )


def idempotency_key(request: Request, in_body: str | None) -> str | None:
    """The key in the header or in the body; in both it must be the same."""
    keys = request.headers.getlist("idempotency-key")
    if not keys:
        return in_body
    given = keys[0]
    is_good = given and given.isascii() and given.isprintable() and len(keys) == 1
    if not is_good or len(given) > _LONGEST_KEY:
        reason = "too_large" if is_good else "bad_value"
        message = "The Idempotency-Key is not accepted."
        accepted = [f"1 to {_LONGEST_KEY} visible ASCII characters, once"]
        raise InvalidError.at("/idempotency_key", reason, message, accepted=accepted)
    if in_body not in (None, given):
        message = "The Idempotency-Key and the field idempotency_key differ."
        raise InvalidError.at("/idempotency_key", "bad_value", message)
    return given


def expected_version(request: Request) -> int | None:
    """The version that If-Match names; None where there is none, or any will do."""
    given = ", ".join(request.headers.getlist("if-match") or ["*"]).strip()
    if given == "*":
        return None
    inside = given[1:-1]
    if given[:1] == given[-1:] == '"' and inside.isascii() and inside.isdecimal() and len(inside) <= 18:
        return int(inside)
    message = "If-Match names no version."
    raise InvalidError.at("", "bad_value", message, accepted=['the ETag of a record, such as "3"', "*"])


def signing(request: Request, query: str) -> Asked | None:
    """For whom hits are to be signed; None where nobody asks for that."""
    nonce = request.headers.get("quipu-nonce")
    if nonce is None:
        return None
    audience = request.headers.get("quipu-audience", "")
    if not 0 < len(nonce) <= _LONGEST_NONCE or len(audience) > _LONGEST_AUDIENCE:
        message = "Quipu-Nonce or Quipu-Audience is not accepted."
        accepted = [
            f"a nonce of 1 to {_LONGEST_NONCE} characters",
            f"an audience of {_LONGEST_AUDIENCE} at most",
        ]
        raise InvalidError.at("", "bad_value", message, accepted=accepted)
    return Asked(audience=audience, query=query, nonce=nonce)


def refuse_if_match(request: Request) -> None:
    """A guard that would not be heeded is refused."""
    if "if-match" in request.headers:
        message = "If-Match goes with a remember that changes a record."
        raise InvalidError.at("", "bad_value", message)


def asks_for_extensions(request: Request) -> bool:
    """Whether the header asks for the extra member of answers."""
    given = request.headers.get("quipu-extensions", "false").strip().lower()
    if given not in (*_TRUE, *_FALSE):
        message = "Quipu-Extensions is true or false."
        raise InvalidError.at("/extensions", "bad_value", message, accepted=["true", "false"])
    return given in _TRUE


# -- the query string -------------------------------------------------------------------------------------------


def known(request: Request, *names: str) -> None:
    """Refuse parameters that mean nothing here: a misspelt filter would widen the answer."""
    for name in request.query_params:
        if name not in names:
            message = "There is no such parameter."
            raise InvalidError.at(f"/{name[:128]}", "unknown_field", message, accepted=list(names))


def word(request: Request, name: str) -> str | None:
    """A parameter that is given at most once."""
    given = request.query_params.getlist(name)
    if len(given) > 1:
        raise InvalidError.at(f"/{name}", "bad_value", f"{name} is given more than once.")
    return given[0] if given else None


def flag(request: Request, name: str) -> bool:
    """A yes or no; absent is no."""
    given = (word(request, name) or "false").lower()
    if given not in (*_TRUE, *_FALSE):
        message = f"{name} is true or false."
        raise InvalidError.at(f"/{name}", "bad_value", message, accepted=["true", "false"])
    return given in _TRUE


def number(request: Request, name: str) -> int | None:
    """A whole number, not negative."""
    given = word(request, name)
    if given is None:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= 18):
        message = f"{name} is not a whole number."
        raise InvalidError.at(f"/{name}", "bad_value", message, accepted=["whole number"])
    return int(given)


def member(request: Request, name: str, kind: type[E]) -> E | None:
    """One of a kind."""
    found = members(request, name, kind)
    if len(found) > 1:
        raise InvalidError.at(f"/{name}", "bad_value", f"{name} is given more than once.")
    return found[0] if found else None


def members(request: Request, name: str, kind: type[E]) -> tuple[E, ...]:
    """Some of a kind: repeated, or separated by commas."""
    given = [text for value in request.query_params.getlist(name) for text in value.split(",") if text]
    accepted: Collection[str] = [item.value for item in kind]
    if any(text not in accepted for text in given):
        message = f"{name} holds what is not accepted."
        raise InvalidError.at(f"/{name}", "bad_value", message, accepted=list(accepted))
    return tuple(dict.fromkeys(kind(text) for text in given))


def types(request: Request) -> tuple[MemoryType, ...]:
    """Kinds of memory."""
    return members(request, "types", MemoryType)


def filter_of(request: Request) -> JsonObject | None:
    """The filter, as JSON text."""
    text = word(request, "filter")
    if text is None:
        return None
    value = parameter("filter", text)
    if not isinstance(value, dict):
        raise InvalidError.at(
            "/filter", "bad_filter", "The filter is not a JSON object.", accepted=["object"]
        )
    return cast("JsonObject", value)
