"""Machines for tests: good ones, those that would run code if anybody let them, and those that are none."""

from typing import Any

PARCEL: dict[str, Any] = {
    "name": "return-parcel",
    "initial": "asked",
    "states": ["asked", "labelled", "shipped", "refunded", "dropped"],
    "transitions": [
        {"trigger": "label", "source": "asked", "dest": "labelled"},
        {"trigger": "ship", "source": "labelled", "dest": "shipped"},
        {"trigger": "refund", "source": "shipped", "dest": "refunded", "conditions": "goods_intact"},
        {"trigger": "drop", "source": "*", "dest": "dropped"},
    ],
}
#: Would leave a trace if it were ever imported and called.
CODE = "os.mkdir"


def with_transition(**fields: Any) -> dict[str, Any]:
    """The parcel with one more transition."""
    item = {"trigger": "go", "source": "asked", "dest": "labelled", **fields}
    return {**PARCEL, "transitions": [item, *PARCEL["transitions"]]}


def ring() -> dict[str, Any]:
    """As large as a machine may be: 256 states in a ring, and 60 wildcards."""
    around = [{"trigger": "n", "source": f"s{n}", "dest": f"s{(n + 1) % 256}"} for n in range(256)]
    anywhere = [{"trigger": f"w{n}", "source": "*", "dest": f"s{n % 256}"} for n in range(60)]
    states = [f"s{n}" for n in range(256)]
    return {"name": "ring", "initial": "s0", "states": states, "transitions": [*around, *anywhere]}


EVIL: dict[str, dict[str, Any]] = {
    **{key: with_transition(**{key: CODE}) for key in ("before", "after", "prepare")},
    "dotted condition": with_transition(conditions=CODE),
    "dotted unless": with_transition(unless=["fine", CODE]),
    "dunder condition": with_transition(conditions="__import__"),
    "condition with a call": with_transition(conditions="system('x')"),
    "condition of another kind": with_transition(conditions={"__reduce__": CODE}),
    "callback on a state": {**PARCEL, "states": [{"name": "asked", "on_enter": CODE}, "labelled"]},
    **{
        f"{key} of the machine": {**PARCEL, key: CODE}
        for key in (
            *("before_state_change", "after_state_change", "prepare_event", "finalize_event", "model"),
            *("on_exception", "on_final", "send_event", "queued", "model_attribute", "model_override"),
        )
    },
    "several sources": with_transition(source=["asked", "shipped"]),
    "undeclared state": with_transition(dest="__class__"),
}


def _many(number: int, source: str) -> list[dict[str, str]]:
    return [{"trigger": f"t{place}", "source": source, "dest": "s0"} for place in range(number)]


#: Machines that nobody means ill with, and that are none; each with its reason.
BAD: dict[str, tuple[Any, str]] = {
    "unknown destination": (with_transition(dest="nowhere"), "invalid_procedure"),
    "unknown initial": ({**PARCEL, "initial": "nowhere"}, "invalid_procedure"),
    "an initial state that is a list": ({**PARCEL, "initial": ["asked"]}, "invalid_procedure"),
    "a current state that is an object": ({**PARCEL, "current": {"asked": 1}}, "invalid_procedure"),
    "no transitions": ({k: v for k, v in PARCEL.items() if k != "transitions"}, "invalid_procedure"),
    "a state twice": ({**PARCEL, "states": [*PARCEL["states"], "asked"]}, "invalid_procedure"),
    "a transition that can never happen": (
        {**PARCEL, "transitions": [*PARCEL["transitions"], PARCEL["transitions"][0]]},
        "invalid_procedure",
    ),
    "too many states": (
        {"name": "m", "initial": "s0", "states": [f"s{n}" for n in range(257)], "transitions": []},
        "too_large",
    ),
    "too many transitions": (
        {"name": "m", "initial": "s0", "states": ["s0"], "transitions": _many(2049, "s0")},
        "too_large",
    ),
    "too many with its wildcards": (
        {
            "name": "m",
            "initial": "s0",
            "states": [f"s{n}" for n in range(256)],
            "transitions": _many(65, "*"),
        },
        "too_large",
    ),
    "too many bytes": ({**PARCEL, "metadata": {"note": "x" * 65_536}}, "too_large"),
}
