"""Machines for tests: good ones, and those that would run code if anybody let them."""

from __future__ import annotations

from typing import Any

from tests.rules.test_procedures import PARCEL

#: Would leave a trace if it were ever imported and called.
CODE = "os.mkdir"


def with_way(**fields: Any) -> dict[str, Any]:
    """The parcel with one more transition."""
    way = {"trigger": "go", "source": "asked", "dest": "labelled", **fields}
    return {**PARCEL, "transitions": [way, *PARCEL["transitions"]]}


EVIL: dict[str, dict[str, Any]] = {
    **{key: with_way(**{key: CODE}) for key in ("before", "after", "prepare")},
    "dotted condition": with_way(conditions=CODE),
    "dotted unless": with_way(unless=["fine", CODE]),
    "dunder condition": with_way(conditions="__import__"),
    "condition with a call": with_way(conditions="system('x')"),
    "condition of another kind": with_way(conditions={"__reduce__": CODE}),
    "callback on a state": {**PARCEL, "states": [{"name": "asked", "on_enter": CODE}, "labelled"]},
    **{
        f"{key} of the machine": {**PARCEL, key: CODE}
        for key in (
            "before_state_change",
            "after_state_change",
            "prepare_event",
            "finalize_event",
            "on_exception",
            "on_final",
            "model",
            "send_event",
            "queued",
            "model_attribute",
            "model_override",
        )
    },
    "several sources": with_way(source=["asked", "shipped"]),
    "undeclared state": with_way(dest="__class__"),
}
