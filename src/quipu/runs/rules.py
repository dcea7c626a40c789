"""What is decided about runs. Pure.

Refs: any text of 1 to 256 characters without `..` and U+0000 names the memory of the agent of that name; a ref that was
given out is known by its full shape. `quipu/` is this server's own: everybody may read there, nobody else writes.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from quipu.access.rules import Ownership, visible
from quipu.errors import ConflictError, Fault, ForbiddenError, InvalidError, NotFoundError
from quipu.ledger.commit import Change, Keep
from quipu.ledger.reader import Kept
from quipu.model.principal import Principal
from quipu.model.value import Json, JsonObject
from quipu.operation import invalid
from quipu.runs.model import (
    EVENTS,
    RUNS,
    TRANSITIONS,
    VARIABLE_RECORDS,
    VARIABLES,
    EventType,
    Run,
    RunEvent,
    Variable,
    VariableRecord,
)

#: Names of agents and refs that begin so are the server's own.
RESERVED = "quipu/"
SUMMARIES = "quipu/run-summaries"
SUMMARY_TAG = "source:run-summary"
ENTRY_BYTES = 65_536
_LONGEST_REF = 256
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RUN_ID = re.compile(rf"run_[{_CROCKFORD}]{{26}}")
_MINTED = re.compile(rf"mem_[{_CROCKFORD}]{{26}}")
_RECORD_ID = re.compile(rf"mem_[{_CROCKFORD}]{{26}}")
_NODE_STATES: Mapping[EventType, str] = {
    "node.started": "running",
    "node.completed": "completed",
    "node.failed": "failed",
}


# -- refs and ids -----------------------------------------------------------------------------------------------------


def is_wellformed(ref: str) -> bool:
    """Whether a ref can be one at all."""
    return 0 < len(ref) <= _LONGEST_REF and ".." not in ref and "\0" not in ref and _is_text(ref)


def is_minted(ref: str) -> bool:
    """Whether it has the shape of refs that are given out: the prefix alone says nothing."""
    return _MINTED.fullmatch(ref) is not None


def is_run_id(text: str) -> bool:
    """Whether it is an id of ours; any other text is what somebody else calls a run of theirs."""
    return _RUN_ID.fullmatch(text) is not None


def is_reserved(agent_id: str | None) -> bool:
    return agent_id is not None and agent_id.startswith(RESERVED)


def minted_ref(tenant: str, agent_id: str, store_id: str) -> str:
    """The ref of an agent's memory in a store: always the same one, so that it is given out once."""
    return derived_id("ref", tenant, agent_id, store_id)


def summary_id(tenant: str, run_id: str) -> str:
    """The id of a run's summary follows from the run's own, so that it is not written twice."""
    return derived_id("summary", tenant, run_id)


def derived_id(*parts: str) -> str:
    """An id that follows from names: the same names, the same id."""
    number = int.from_bytes(sha256("\0".join(parts).encode()).digest()[:17], "big")
    return "mem_" + "".join(_CROCKFORD[(number >> (5 * place)) & 31] for place in range(26))


def record_ids_in(value: Json) -> tuple[str, ...]:
    """The memories that a value names, and so perhaps repeats."""
    return tuple(dict.fromkeys(_RECORD_ID.findall(json.dumps(value, ensure_ascii=True))))


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- whose a run is ---------------------------------------------------------------------------------------------------


def reaches_run(principal: Principal, run: Run) -> bool:
    """Whether a run is one of the caller's: it belongs to an agent, and to a user where it has one."""
    return visible(principal, Ownership(agent_id=run.agent_id, user_id=run.user_id))


def no_run() -> NotFoundError:
    """The same for a run that is not there and for one that the caller may not see."""
    return NotFoundError("There is no such run.", reason="run", hint="`quipu run list` shows them.")


class RunOverError(InvalidError):
    """The run is over: nothing more can happen in it."""

    def __init__(self, run: Run) -> None:
        fault = Fault("/run_id", "run_over", "a run that is not over")
        super().__init__(f"The run is over: it is {run.status}.", faults=[fault])
        self.status = run.status


def reserved() -> ForbiddenError:
    return ForbiddenError(
        "Names that begin with quipu/ are this server's own.", reason="reserved", hint="They can be read."
    )


def foreign_ref() -> ForbiddenError:
    """The same for somebody else's ref and for one that nobody has."""
    return ForbiddenError("This memory is not yours.", reason="memory_ref")


def malformed_ref() -> InvalidError:
    accepted = f"1 to {_LONGEST_REF} characters without `..` and U+0000"
    return invalid([Fault("/memory_ref", "bad_value", accepted)])


# -- what happens -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An event before it has its number."""

    type: EventType
    node_id: str | None = None
    payload: JsonObject = field(default_factory=dict[str, Json])
    record_id: str | None = None
    record_version: int | None = None


def moved(
    kept: Kept[Run], happenings: Sequence[Happening], at: int, **changes: Any
) -> tuple[Run, list[Change]]:
    """The run after some events, and the rows that say so. Of two who number at once, the second is refused."""
    run, rows = numbered(kept.value, happenings, at)
    run = replace(run, **changes)
    if run.status != kept.value.status and run.status not in TRANSITIONS[kept.value.status]:
        raise ConflictError("The run cannot go on so.", reason="row_changed")
    return run, [Keep(RUNS, run, kept.seq), *rows]


def numbered(run: Run, happenings: Iterable[Happening], at: int) -> tuple[Run, list[Change]]:
    """The events with their numbers, and what the run's row remembers of them."""
    rows: list[Change] = []
    nodes, last, writes = dict(run.nodes), run.last, run.writes
    for one in happenings:
        last += 1
        writes += one.type == "memory.written"
        if one.node_id is not None and one.type in _NODE_STATES:
            nodes[one.node_id] = _NODE_STATES[one.type]
        event = RunEvent(
            run_id=run.id,
            sequence=last,
            type=one.type,
            node_id=one.node_id,
            payload=one.payload,
            record_id=one.record_id,
            record_version=one.record_version,
            at=at,
        )
        rows.append(Keep(EVENTS, event, 0))
    return replace(run, nodes=nodes, last=last, writes=writes), rows


def node_states(events: Iterable[RunEvent]) -> dict[str, Json]:
    """Where each node stands, read off a log."""
    return {
        event.node_id: _NODE_STATES[event.type]
        for event in events
        if event.node_id is not None and event.type in _NODE_STATES
    }


def variable_rows(run_id: str, first: int, variables: JsonObject) -> list[Change]:
    """The variables that events from a number on set, in order, with the memories that each names."""
    rows: list[Change] = []
    for number, (name, value) in enumerate(variables.items(), first):
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        rows.append(Keep(VARIABLES, Variable(run_id=run_id, name=name, sequence=number, value=text)))
        rows.extend(
            Keep(VARIABLE_RECORDS, VariableRecord(record_id=record_id, run_id=run_id, name=name))
            for record_id in record_ids_in(value)
        )
    return rows


def set_variables(variables: JsonObject, node_id: str | None = None) -> list[Happening]:
    """That variables were set: their names, never what they say."""
    return [Happening(type="variable.changed", node_id=node_id, payload={"name": name}) for name in variables]


def failure(code: str, message: str) -> JsonObject:
    """Why something failed, as payloads and runs have it."""
    return {"code": code, "message": message or code}


def summary_text(run: Run, end: str) -> str:
    """What is remembered of a run: no inputs, no results."""
    done = sum(state == "completed" for state in run.nodes.values())
    failed = sum(state == "failed" for state in run.nodes.values())
    said = [f"Run {run.id} of the workflow {run.workflow_id} for the agent {run.agent_id} ended: {end}."]
    if run.nodes:
        said.append(f"{done} of its {len(run.nodes)} nodes were completed, {failed} failed.")
    if run.writes:
        said.append(f"It wrote to memory {run.writes} times.")
    return " ".join(said)
