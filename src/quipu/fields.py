"""Types of fields that requests share, so that every way in refuses alike.

Limits stand before a validator: after it, pydantic leaves them out of the schema of a field that may be null.
`Strict(False)` lets a list stand for a tuple, as it does in JSON.
"""

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, Strict
from pydantic_core import PydanticCustomError

from quipu.model.record import MemoryType

DAY_MS = 86_400_000
#: Milliseconds of each unit of a duration such as `30d`; `M` is a month.
UNITS_MS = {
    **{"s": 1000, "m": 60_000, "h": 3_600_000, "d": DAY_MS},
    **{"w": 7 * DAY_MS, "M": 30 * DAY_MS, "y": 365 * DAY_MS},
}
_SHORT_DURATION = re.compile(r"(\d{1,9})([smhdwy])")
_ISO_DURATION = re.compile(
    r"P(?=[0-9T])(?:(?P<y>\d{1,9})Y)?(?:(?P<M>\d{1,9})M)?(?:(?P<w>\d{1,9})W)?(?:(?P<d>\d{1,9})D)?"
    r"(?:T(?=[0-9])(?:(?P<h>\d{1,9})H)?(?:(?P<m>\d{1,9})M)?(?:(?P<s>\d{1,9})S)?)?"
)
_DEEPEST = 32
_SMALLEST, _LARGEST = -(2**63), 2**63


class Redact(StrEnum):
    """What a secret in a text field means. Every text field of every request carries one of these."""

    #: It is masked; under the policy `reject` the request is refused.
    REWRITE = "rewrite"
    #: The request is refused: a name or an id cannot be rewritten.
    REFUSE = "refuse"
    #: The text is never kept.
    NONE = "none"


def bad_value(message: str) -> PydanticCustomError:
    """What a validator raises; the message says what would be accepted and never holds what was given."""
    # The template is formatted by pydantic, so braces in it must not be taken for names.
    return PydanticCustomError("bad_value", "{message}", {"message": message})


def fault(reason: str, pointer: str, message: str) -> PydanticCustomError:
    """What a validator of a whole request raises: a stable word, the field it is about, what would be accepted."""
    return PydanticCustomError(
        "quipu", "{message}", {"message": message, "reason": reason, "pointer": pointer}
    )


def duration_ms(text: str) -> int | None:
    """`30d` or `P30D` in milliseconds; None when it is no duration between a second and a thousand years."""
    if short := _SHORT_DURATION.fullmatch(text):
        length = int(short[1]) * UNITS_MS[short[2]]
    elif iso := _ISO_DURATION.fullmatch(text):
        length = sum(int(amount) * UNITS_MS[unit] for unit, amount in iso.groupdict("0").items())
    else:
        return None
    return length if 0 < length <= 1000 * UNITS_MS["y"] else None


def _whole(value: Any) -> Any:
    """JSON Schema calls 5.0 an integer; pydantic's strict mode does not."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _keepable(text: str) -> str:
    """PostgreSQL cannot keep U+0000, so no ledger does."""
    if "\0" in text:
        raise bad_value("text without the character U+0000")
    return text


def _moment(value: Any) -> Any:
    """Python callers may give a datetime; wire callers give milliseconds."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise bad_value("a datetime with a time zone, or milliseconds since 1970")
        return int(value.astimezone(UTC).timestamp() * 1000)
    return _whole(value)


def _expiry(value: Any) -> Any:
    if isinstance(value, timedelta):
        return f"{max(0, int(value.total_seconds()))}s"
    return _moment(value)


def _readable_expiry(value: int | str) -> int | str:
    if isinstance(value, str) and duration_ms(value) is None:
        raise bad_value("milliseconds since 1970, or a duration such as 12h, 30d, 1y")
    return value


def _free_json(value: Any, depth: int = 0) -> Any:
    """Free JSON that both ledgers can keep. Pydantic's JsonValue has no limits and adds its own steps to pointers."""
    match value:
        case None | bool():
            pass
        case str():
            _keepable(value)
            try:
                value.encode()
            except UnicodeEncodeError:
                raise bad_value("text that can be written as UTF-8") from None
        case int() if _SMALLEST <= value < _LARGEST:
            pass
        case float() if isfinite(value):
            pass
        case dict() if depth < _DEEPEST:
            for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]  whatever the caller gave
                if not isinstance(key, str):
                    raise bad_value("an object whose names are text")
                _free_json(key, depth)
                _free_json(item, depth + 1)
        case list() | tuple() if depth < _DEEPEST:
            for item in value:  # pyright: ignore[reportUnknownVariableType]  whatever the caller gave
                _free_json(item, depth + 1)
        case _:
            raise bad_value(f"JSON, at most {_DEEPEST} deep, with numbers of 64 bits")
    return value  # pyright: ignore[reportUnknownVariableType]  checked above


#: Stands behind the limits of a field that is a whole number.
WHOLE = BeforeValidator(_whole)
_KEEPABLE = AfterValidator(_keepable)

Integer = Annotated[int, Field(ge=_SMALLEST, lt=_LARGEST), WHOLE]
#: Milliseconds since 1970, UTC.
Moment = Annotated[int, Field(ge=0, lt=2**53), BeforeValidator(_moment)]
#: When something ends: milliseconds since 1970, or how long from now.
Expiry = Annotated[
    Annotated[int, Field(ge=0, lt=2**53)] | Annotated[str, Field(max_length=32), Redact.NONE],
    BeforeValidator(_expiry),
    AfterValidator(_readable_expiry),
]
Days = Annotated[int, Field(ge=0, le=36_500), WHOLE]
DaysFromOne = Annotated[int, Field(ge=1, le=36_500), WHOLE]
Count = Annotated[int, Field(ge=1, le=1000), WHOLE]
Hops = Annotated[int, Field(ge=0, le=3), WHOLE]
Version = Annotated[int, Field(ge=1, lt=2**53), WHOLE]
Position = Annotated[int, Field(ge=0, lt=2**53), WHOLE]
#: From 0 to 1.
Share = Annotated[float, Field(ge=0, le=1)]
#: From -1 to 1.
Signed = Annotated[float, Field(ge=-1, le=1)]

Content = Annotated[str, Field(min_length=1, max_length=1_048_576), _KEEPABLE, Redact.REWRITE]
Query = Annotated[str, Field(min_length=1, max_length=32_768), _KEEPABLE, Redact.REWRITE]
#: A sentence or two for people.
Text = Annotated[str, Field(max_length=4096), _KEEPABLE, Redact.REWRITE]
ShortText = Annotated[str, Field(min_length=1, max_length=256), _KEEPABLE, Redact.REWRITE]
#: Names and ids: they cannot be rewritten, so a secret in one refuses the request.
Name = Annotated[str, Field(min_length=1, max_length=256), _KEEPABLE, Redact.REFUSE]
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=128), _KEEPABLE, Redact.REFUSE]
Cursor = Annotated[str, Field(min_length=1, max_length=1024), _KEEPABLE, Redact.NONE]
Tag = Annotated[str, Field(min_length=1, max_length=256), _KEEPABLE, Redact.REWRITE]
Tags = Annotated[tuple[Tag, ...], Strict(False), Field(max_length=64)]
Names = Annotated[tuple[Name, ...], Strict(False), Field(max_length=1000)]
Types = Annotated[tuple[MemoryType, ...], Strict(False), Field(max_length=4)]
JsonObject = Annotated[dict[str, Any], AfterValidator(_free_json), Redact.REWRITE]
#: A filter that is only read by.
Filter = Annotated[dict[str, Any], AfterValidator(_free_json), Redact.NONE]
#: A filter that stands in a write, which may be kept as a proposal.
WriteFilter = Annotated[dict[str, Any], AfterValidator(_free_json), Redact.REFUSE]
Numbers = Annotated[tuple[float, ...], Strict(False), Field(min_length=1, max_length=8192)]
