"""JSON values, the only free-form data a record carries."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = Mapping[str, Json]


def strict_json(text: str) -> Any:
    """JSON with each name once and without NaN: two readers could otherwise read two things. ValueError where it is not."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError
    return found


def _no_constant(_name: str) -> NoReturn:
    raise ValueError


#: `loads` would make one for every text.
_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
