"""The shapes of everything that a host emits (contract 13.2), and a check that every envelope passes in every test here."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS: dict[str, Any] = json.loads((Path(__file__).parent / "schemas.json").read_text("utf-8"))
#: What is in the envelope of an answer, by the members that it has.
_OUTPUTS = {"ranking": "query_output", "poll_url": "task", "endpoints": "registered"}


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({**SCHEMAS, "$id": f"urn:quipu:oap:{name}", "$ref": f"#/$defs/{name}"})


def faults(name: str, body: Any) -> list[str]:
    """What is wrong with a document, and where."""
    found = _validator(name).iter_errors(body)
    return [f"{name} at /{'/'.join(map(str, one.absolute_path))}: {one.message}" for one in found]


def check(name: str, body: Any) -> None:
    """A document is what it should be."""
    assert not (found := faults(name, body)), found


def check_envelope(body: Any) -> None:
    """An answer, and what is in it."""
    check("envelope", body)
    output = body.get("output")
    if isinstance(output, dict):
        for member, name in _OUTPUTS.items():
            if member in output:
                check(name, output)
                break
        for one in output.get("ranking", ()):
            assert round(one["score"], 2) == one["score"], "a score tells no more than two places (D27)"
        for one in output.get("receipts", ()):
            check("receipt", one)
