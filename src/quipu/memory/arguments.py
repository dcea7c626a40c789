"""What callers may give instead of the exact value: words for members, mappings for values."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sized
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from quipu.errors import InvalidError
from quipu.memory.shapes import shaped
from quipu.model.operations import Embedding, ExpirePolicy, Floor
from quipu.model.record import DETAIL_FIELDS, Link, MemoryType, PrivacyIntent
from quipu.ports.embedder import Embedder
from quipu.rules import filters, moments
from quipu.rules.texts import is_keepable
from quipu.rules.values import INT64

if TYPE_CHECKING:
    from quipu.model.value import Json, JsonObject

E = TypeVar("E", bound=str)
T = TypeVar("T")
EmbeddingLike = Embedding | Mapping[str, Any] | None


def member(kind: type[E], value: str, pointer: str) -> E:
    if isinstance(value, kind):
        return value
    # Only a text is asked for: an enumeration shows what it does not know, and not everything can be shown.
    if isinstance(cast("object", value), str):
        try:
            return kind(value)
        except ValueError:
            pass
    accepted = [str(one) for one in cast("Iterable[E]", kind)]
    raise InvalidError.at(pointer, "bad_value", f"{pointer[1:]} is not one of its words.", accepted=accepted)


def floor(value: float | Floor | str) -> float | Floor:
    if isinstance(value, str) and value in list(Floor):
        return Floor(value)
    if isinstance(value, int | float):
        return value
    accepted = [*(str(one) for one in Floor), "a number from 0 to 1"]
    raise InvalidError.at(
        "/min_relevance", "bad_value", "min_relevance is not one of its words.", accepted=accepted
    )


def embedding(value: EmbeddingLike) -> Embedding | None:
    if value is None or isinstance(value, Embedding):
        return None if value is None else shaped(value, "/embedding")
    given = mapping(value, "/embedding")
    try:
        model, vector = text(given["model"], "/embedding/model"), given["vector"]
    except KeyError as missing:
        raise InvalidError.at(
            "/embedding", "missing_field", "An embedding has a model and a vector."
        ) from missing
    if not isinstance(vector, Sized):
        raise InvalidError.at(
            "/embedding/vector", "bad_value", "vector is not a list of numbers.", accepted=["list of numbers"]
        )
    return Embedding(model, cast("Any", vector))


def link(value: Link | Mapping[str, str], pointer: str) -> Link:
    if isinstance(value, Link):
        return shaped(value, pointer)
    given = mapping(value, pointer)
    try:
        return Link(given["to"], given["rel"])
    except KeyError:
        raise InvalidError.at(pointer, "missing_field", "A link has a `to` and a `rel`.") from None


def mapping(value: object, pointer: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidError.at(
            pointer, "bad_value", f"{pointer[1:] or 'This'} is not an object.", accepted=["object"]
        )
    return cast("Mapping[str, Any]", value)


def text(value: object, pointer: str) -> str:
    """A text, such as the id of a record."""
    if not isinstance(value, str):
        raise InvalidError.at(pointer, "bad_value", f"{pointer[1:]} is not text.", accepted=["text"])
    return value


def whole(value: object, pointer: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -INT64 <= value < INT64:
        raise InvalidError.at(
            pointer,
            "bad_value",
            f"{pointer[1:]} is not a whole number.",
            accepted=["whole number of 64 bits"],
        )
    return value


def number(value: object, pointer: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidError.at(pointer, "bad_value", f"{pointer[1:]} is not a number.", accepted=["number"])
    return value


def truth(value: object, pointer: str) -> bool:
    """Yes or no, and nothing that only passes for one: the text "no" would count as a yes."""
    if not isinstance(value, bool):
        raise InvalidError.at(
            pointer, "bad_value", f"{pointer[1:]} is neither true nor false.", accepted=["true", "false"]
        )
    return value


def moment(value: object, pointer: str) -> str | None:
    """A place in the journal, a moment or a run, as text; what it names is told where it is looked up."""
    if value is None:
        return None
    is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < INT64
    if is_number or isinstance(value, datetime) or (isinstance(value, str) and is_keepable(value)):
        return str(value)
    raise moments.unnamed(pointer)


def embedder(value: object) -> None:
    """The name of one, or what can embed."""
    if value is not None and not isinstance(value, str | Embedder):
        raise InvalidError.at(
            "/embedder",
            "bad_value",
            "embedder is neither a name nor something that embeds.",
            accepted=["onnx", "fast", "openai", "none", "an object with model, dimensions, embed and close"],
        )


def connection(value: object) -> None:
    """A way to a host, where one was given."""
    if value is not None and not all(callable(getattr(value, name, None)) for name in ("open", "close")):
        raise InvalidError.at(
            "/connection",
            "bad_value",
            "connection leads to no host.",
            accepted=["an object with open and close", "stores=, for a file or a server"],
        )


def called(value: object, pointer: str) -> None:
    """Something that is called back, where it was given: told before any work is done that it cannot be."""
    if value is not None and not callable(value):
        raise InvalidError.at(
            pointer, "bad_value", f"{pointer[1:]} cannot be called.", accepted=["a function"]
        )


def clock(given: Callable[[], int]) -> Callable[[], int]:
    """The same clock, told apart from one that counts otherwise, such as `time.time`."""

    def now() -> int:
        moment = given()
        if type(moment) is not int:
            raise InvalidError.at(
                "/clock",
                "bad_value",
                "clock does not tell whole milliseconds.",
                accepted=["milliseconds since 1970, such as time.time_ns() // 1_000_000"],
            )
        return moment

    return now


def instance(value: object, kind: type, pointer: str, hint: str | None = None) -> None:
    """A value as a whole, where one was given."""
    if value is not None and not isinstance(value, kind):
        raise InvalidError.at(
            pointer, "bad_value", f"{pointer[1:]} is no {kind.__name__}.", accepted=[kind.__name__], hint=hint
        )


def maybe_whole(value: object, pointer: str) -> int | None:
    return None if value is None else whole(value, pointer)


def content(value: object, type: object) -> None:
    """Told here, since a server reads it off the wire, where whatever is neither is told otherwise."""
    if isinstance(value, str | Mapping):
        return
    if type == MemoryType.PROCEDURAL:
        raise InvalidError.at("/content", "invalid_procedure", "A procedure is an object.")
    raise InvalidError.at("/content", "wrong_type", "content is not text.", accepted=["text"])


def filter(value: object) -> JsonObject | None:
    """Told here for the same reason."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidError.at("/filter", "bad_filter", "A filter is an object.")
    given = cast("JsonObject", value)
    filters.checked(given)
    return given


def maybe_text(value: object, pointer: str) -> str | None:
    return None if value is None else text(value, pointer)


def plain(value: object, pointer: str) -> str:
    """A text that can be written anywhere, such as the name of a tenant."""
    given = text(value, pointer)
    if not is_keepable(given):
        raise InvalidError.at(
            pointer, "bad_value", f"{pointer[1:]} holds U+0000 or an unpaired surrogate; send valid Unicode."
        )
    return given


def maybe_plain(value: object, pointer: str) -> str | None:
    return None if value is None else plain(value, pointer)


def texts(values: Iterable[str], pointer: str) -> tuple[str, ...]:
    """A list of texts, each of which can be written anywhere."""
    return tuple(plain(one, f"{pointer}/{place}") for place, one in enumerate(several(values, pointer)))


def named_texts(values: object, pointer: str) -> dict[str, str]:
    """Texts by name."""
    given = cast("Mapping[object, object]", mapping(values, pointer))
    return {plain(name, pointer): plain(value, f"{pointer}/{name}") for name, value in given.items()}


def facts(values: object) -> dict[str, bool]:
    """What guards ask for, by name."""
    given = cast("Mapping[object, object]", mapping(values, "/facts"))
    return {plain(name, "/facts"): truth(value, f"/facts/{name}") for name, value in given.items()}


def members(kind: type[E], values: Iterable[str], pointer: str) -> tuple[E, ...]:
    return tuple(member(kind, value, pointer) for value in several(values, pointer, "list of words"))


def path(value: object, pointer: str) -> Path:
    if not isinstance(value, str | Path):
        raise InvalidError.at(pointer, "bad_value", f"{pointer[1:]} is not a path.", accepted=["path"])
    try:
        name = os.fsencode(value)
    except UnicodeEncodeError:
        name = b""
    if not name or b"\0" in name:
        raise InvalidError.at(
            pointer, "bad_value", f"{pointer[1:]} cannot be the name of a file.", accepted=["path"]
        )
    return Path(value)


def several(values: Iterable[T], pointer: str, accepted: str = "list of texts") -> tuple[T, ...]:
    """A list; a single text would be taken for its letters, and an object for its keys."""
    if isinstance(values, str | bytes | bytearray | Mapping):
        kind = "object" if isinstance(values, Mapping) else "text"
        raise InvalidError.at(
            pointer, "bad_value", f"{pointer[1:]} is one {kind}, not a list.", accepted=[accepted]
        )
    try:
        return tuple(values)
    except TypeError:
        raise InvalidError.at(
            pointer, "bad_value", f"{pointer[1:]} is not a list.", accepted=[accepted]
        ) from None


def privacy(value: PrivacyIntent | Mapping[str, Any] | None) -> PrivacyIntent | None:
    if value is None or isinstance(value, PrivacyIntent):
        return None if value is None else shaped(value, "/privacy_intent")
    from quipu.faces.memorywire import wire  # pydantic is slow to load, and most calls do not need it

    request, _ = wire.parsed(
        "remember",
        {
            "agent_id": "a",
            "type": "semantic",
            "content": "-",
            "privacy_intent": dict(mapping(value, "/privacy_intent")),
        },
    )
    return request.privacy_intent


def policy(value: ExpirePolicy | Mapping[str, Any] | None) -> ExpirePolicy:
    if value is None or isinstance(value, ExpirePolicy):
        # An empty one is refused by the rules.
        return ExpirePolicy() if value is None else shaped(value, "/policy")
    policy = mapping(value, "/policy")
    known = {field.name for field in fields(ExpirePolicy)}
    for name in policy:
        if name not in known:
            raise InvalidError.at(
                f"/policy/{name}",
                "unknown_policy_key",
                "There is no such policy key.",
                accepted=sorted(known),
            )
    kind = policy.get("type")
    given: dict[str, Any] = {
        **policy,
        "type": None if kind is None else member(MemoryType, kind, "/policy/type"),
    }
    return ExpirePolicy(**given)


def details(given: Mapping[str, Json]) -> dict[str, Json]:
    for name in given:
        if name not in DETAIL_FIELDS:
            raise TypeError(f"remember() got an unexpected keyword argument {name!r}")
    # As with every other field, None says nothing.
    return {name: value for name, value in given.items() if value is not None}


async def each(
    lines: Iterable[Mapping[str, Any] | str] | AsyncIterable[Mapping[str, Any] | str],
) -> AsyncIterator[Mapping[str, Any] | str]:
    if isinstance(lines, AsyncIterable):
        async for line in lines:
            yield line
        return
    if isinstance(lines, str | bytes | bytearray | Mapping) or not hasattr(lines, "__iter__"):
        raise InvalidError.at(
            "/lines", "bad_value", "lines is not a list of lines or objects.", accepted=["list"]
        )
    for line in lines:  # one by one: there may be more of them than memory holds
        yield line
