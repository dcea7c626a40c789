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


def _states(number: int) -> list[str]:
    return [f"s{place}" for place in range(number)]


def _ways(number: int, source: str) -> list[dict[str, str]]:
    return [{"trigger": f"t{place}", "source": source, "dest": "s0"} for place in range(number)]


#: Machines that nobody means ill with, and that are none; each with the reason that is told.
BAD: dict[str, tuple[Any, str]] = {
    "unknown destination": (with_way(dest="nowhere"), "invalid_procedure"),
    "unknown source": (with_way(source="nowhere"), "invalid_procedure"),
    "unknown initial": ({**PARCEL, "initial": "nowhere"}, "invalid_procedure"),
    "unknown current": ({**PARCEL, "current": "nowhere"}, "invalid_procedure"),
    "an initial state that is a list": ({**PARCEL, "initial": ["asked"]}, "invalid_procedure"),
    "a current state that is an object": ({**PARCEL, "current": {"asked": 1}}, "invalid_procedure"),
    "no transitions": ({k: v for k, v in PARCEL.items() if k != "transitions"}, "invalid_procedure"),
    "a state twice": ({**PARCEL, "states": [*PARCEL["states"], "asked"]}, "invalid_procedure"),
    "dotted condition": (with_way(conditions="order.is_paid"), "invalid_procedure"),
    "a way that can never be taken": (
        {**PARCEL, "transitions": [*PARCEL["transitions"], PARCEL["transitions"][0]]},
        "invalid_procedure",
    ),
    "too many states": (
        {"name": "m", "initial": "s0", "states": _states(257), "transitions": []},
        "too_large",
    ),
    "too many transitions": (
        {"name": "m", "initial": "s0", "states": ["s0"], "transitions": _ways(2049, "s0")},
        "too_large",
    ),
    "too many with its wildcards": (
        {"name": "m", "initial": "s0", "states": _states(256), "transitions": _ways(65, "*")},
        "too_large",
    ),
    "too many bytes": ({**PARCEL, "metadata": {"note": "x" * 65_536}}, "too_large"),
}
