"""The page of a procedure: its machine as a picture, a button for each trigger, and its life."""

from collections.abc import Mapping
from typing import Any

from quipu.model.machine import machine
from quipu.model.principal import Permission
from quipu.operation import Context, dispatch
from quipu.page import Page
from quipu.procedures.drawing import drawing
from quipu.procedures.operations import GET_PROCEDURE, STEP


async def load(ctx: Context, given: Mapping[str, str]) -> dict[str, Any]:
    """What the template shows. `facts` are the boxes that a person ticks before pressing a trigger's button."""
    found = await dispatch(ctx, GET_PROCEDURE, {"id": given.get("id", "")})
    known = machine(found.machine)
    return {
        "procedure": found,
        "transitions": known.transitions,
        "drawing": drawing(known),
        "can_step": ctx.principal.may(Permission.WRITE),
        "facts": found.facts,
        "life": tuple(reversed(found.life)),
    }


PAGES = (
    Page(
        path="/memories/{id}/procedure",
        group="memory",
        title="Procedure",
        template="procedure.html",
        load=load,
        actions={"step": STEP},
    ),
)
