"""What pydantic finds wrong, told in our words: where, why, and what would be accepted. Never the value itself."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from quipu.errors import Fault, InvalidError
from quipu.faces.memorywire.wire_json import LONGEST_NAME, Path, pointer

#: Which fields the object at a place may have.
FieldsAt: TypeAlias = Callable[[Path], Sequence[str]]

EMPTY_POLICY = "A policy must say what expires."

#: So many faults are told at most.
MOST = 50
#: What is longer than a limit is told as the rules tell it, whoever sees it first.
_TOO_LARGE = ("string_too_long", "too_long")

_EXPECTED: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "string_type": lambda _: "string",
    "int_type": lambda _: "integer",
    "float_type": lambda _: "number",
    "finite_number": lambda _: "finite number",
    "bool_type": lambda _: "boolean",
    "list_type": lambda _: "list",
    "dict_type": lambda _: "object",
    "model_type": lambda _: "object",
    "string_too_short": lambda c: f"at least {c['min_length']} character",
    "string_too_long": lambda c: f"at most {c['max_length']} characters",
    "too_short": lambda c: f"at least {c['min_length']} item",
    "too_long": lambda c: f"at most {c['max_length']} items",
    "greater_than_equal": lambda c: f"at least {c['ge']:g}",
    "less_than_equal": lambda c: f"at most {c['le']:g}",
}


def refused(
    reason: LiteralString, message: str, *accepted: str, at: Sequence[str] = ()
) -> PydanticCustomError:
    """To raise inside a validator; `at` names members of the object being validated, each a fault."""
    return PydanticCustomError(reason, "{message}", {"message": message, "accepted": accepted, "at": at})


@dataclass(frozen=True, slots=True)
class _Finding:
    """A fault, and the sentence that tells it."""

    fault: Fault
    message: str


def invalid(error: ValidationError, fields_at: FieldsAt, under: Path = ()) -> InvalidError:
    """Our error for pydantic's. `under` is where the body stands in what was sent."""
    details = error.errors(include_url=False, include_input=False)[:MOST]
    found = [finding for detail in details for finding in _findings(detail, fields_at, under)]
    found.sort(
        key=lambda finding: finding.fault.reason != "unknown_field"
    )  # a misspelt name explains a missing one
    return InvalidError(
        found[0].message, reason=found[0].fault.reason, faults=[finding.fault for finding in found]
    )


def _findings(detail: ErrorDetails, fields_at: FieldsAt, under: Path) -> Iterator[_Finding]:
    kind, path, context = detail["type"], detail["loc"], detail.get("ctx", {})
    place = pointer((*under, *path))
    if "message" in context:
        for where in [place + pointer([name]) for name in context["at"]] or [place]:
            yield _Finding(Fault(where, kind, context["accepted"]), context["message"])
    elif kind == "extra_forbidden":
        yield _unknown(place, path, fields_at(path[:-1]))
    elif kind == "missing" and path[-1] == "policy":
        yield _Finding(Fault(place, "empty_policy", tuple(fields_at(path))), EMPTY_POLICY)
    elif kind == "missing":
        name = str(path[-1])
        yield _Finding(Fault(place, "missing_field", (name,)), f"Required field missing: {name}.")
    else:
        accepted = _accepted(kind, context)
        message = f"Value not accepted; expected: {', '.join(accepted)}."
        reason = "too_large" if kind in _TOO_LARGE else "bad_value"
        yield _Finding(Fault(place, reason, accepted), message)


def _unknown(place: str, path: Path, fields: Sequence[str]) -> _Finding:
    close = difflib.get_close_matches(str(path[-1])[:LONGEST_NAME], fields, n=3)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    is_policy = len(path) > 1 and path[-2] == "policy"
    reason, what = ("unknown_policy_key", "policy key") if is_policy else ("unknown_field", "field")
    return _Finding(Fault(place, reason, tuple(close or fields)), f"Unknown {what}.{hint}")


def _accepted(kind: str, context: Mapping[str, Any]) -> tuple[str, ...]:
    if kind == "literal_error":
        return tuple(re.findall(r"'([^']*)'", context["expected"]))
    return (_EXPECTED[kind](context),) if kind in _EXPECTED else ("another value",)
