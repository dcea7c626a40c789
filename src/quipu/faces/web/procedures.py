"""A procedure: its picture, what can be asked of it now, and the life it has led. Works without a script."""

from __future__ import annotations

from starlette.responses import Response

from quipu.errors import ConflictError
from quipu.faces.web import procedures_drawing
from quipu.faces.web.visit import Visit, memory_path
from quipu.model.operations import StepRequest
from quipu.model.principal import Permission
from quipu.rules import procedures

#: A form has so many boxes to tick at most; a larger machine steps by command or API.
_MOST_FACTS = 40
_FACT = "fact."
_LIFE = 100


def procedure_path(record_id: str) -> str:
    """The page of a procedure."""
    return f"{memory_path(record_id)}/procedure"


async def page(visit: Visit) -> Response:
    """The machine as it stands."""
    found = await visit.service.procedures.shown(visit.principal, visit.request.path_params["id"])
    machine = procedures.machine(found.machine)
    return visit.page(
        "procedure.html",
        found=found,
        machine=machine,
        drawing=procedures_drawing.drawing(machine),
        can_step=visit.may(Permission.WRITE) and visit.principal.may_act_for(found.agent_id),
        facts=found.facts[:_MOST_FACTS],
        left_facts=max(0, len(found.facts) - _MOST_FACTS),
        life=tuple(reversed(found.life))[:_LIFE],
        left_life=max(0, len(found.life) - _LIFE),
    )


async def step(visit: Visit) -> Response:
    """Take the step whose button was pressed, if the procedure is still what the page showed."""
    given = await visit.form()
    record_id = visit.request.path_params["id"]
    version = given.get("version", "")
    is_number = version.isascii() and version.isdigit() and len(version) <= 18
    facts = {
        name.removeprefix(_FACT): value == "on" for name, value in given.items() if name.startswith(_FACT)
    }
    request = StepRequest(
        id=record_id,
        trigger=given.get("trigger"),
        facts=facts,
        if_version=int(version) if is_number else None,
    )
    try:
        done = await visit.service.procedures.step(visit.principal, request)
    except ConflictError as conflict:
        if conflict.reason not in ("invalid_trigger", "version_mismatch"):
            raise
        return visit.go(procedure_path(record_id), f"Nothing was changed. {conflict.message}")
    if done.pending_approval:
        return visit.go(procedure_path(record_id), "Held: somebody has to approve the step first.")
    return visit.go(procedure_path(record_id), f"Done. It is now in the state {done.current}.")
