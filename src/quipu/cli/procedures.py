"""procedure: state machines that are remembered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import drawing, options, output, values
from quipu.cli.command import Command, Group
from quipu.cli.held import leave_if_held
from quipu.cli.session import Session, Use
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.model.procedure import Procedure
    from quipu.rules.procedures import Machine

app = typer.Typer(name="procedure", cls=Group, no_args_is_help=True)


@app.callback(cls=Group, rich_help_panel="Memory")
def procedure() -> None:
    """Look at procedures and let them take steps.

    [bold]Example[/bold]
      quipu procedure step mem_... ship

    A procedure is a state machine, remembered with
    `quipu remember - --type procedural < machine.json`.
    """


def _shown(run: Session, id: str) -> Procedure:
    with run.memory(use=Use.READS) as memory:
        return memory.procedure(id)


def _machine(found: Procedure) -> Machine:
    from quipu.rules import procedures

    return procedures.machine(found.machine)


@app.command("show", cls=Command)
def show(ctx: typer.Context, id: options.RecordId) -> None:
    """Show where a procedure stands and what can be asked of it.

    [bold]Example[/bold]
      quipu procedure show mem_...

    See also: procedure step, procedure draw, procedure history.
    """
    run = Session.of(ctx)
    found = _shown(run, id)
    from quipu.faces.rest.forms import plain

    if run.answer_json(plain(found)):
        return
    shown = output.console()
    shown.print(f"{output.clean(found.name)}  version {found.version}", markup=False)
    shown.print(f"  in state  {output.clean(found.current)}", markup=False)
    said = ", ".join(map(output.clean, found.available_triggers)) or "nothing"
    shown.print(f"  can do    {said}", markup=False)
    if found.facts:
        shown.print(f"  asks for  {', '.join(found.facts)}", markup=False)
    _warn(run, found.unreachable)


@app.command("step", cls=Command)
def step(
    ctx: typer.Context,
    id: options.RecordId,
    trigger: Annotated[
        str | None, typer.Argument(metavar="TRIGGER", help="What happens now; may be left out with --replay.")
    ] = None,
    facts: Annotated[
        list[str] | None,
        typer.Option("--fact", metavar="NAME", help="A fact that is true, or NAME=false; may be repeated."),
    ] = None,
    replay: Annotated[
        list[str] | None,
        typer.Option("--replay", metavar="TRIGGER", help="Start over and do this first; may be repeated."),
    ] = None,
    is_tried: Annotated[bool, typer.Option("--try", help="Only say where it would lead.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep where a replay ends.")] = False,
    if_version: Annotated[
        int | None, typer.Option("--if-version", metavar="N", help="Only if this is its version.")
    ] = None,
    approve: options.Approve = False,
    key: options.Key = None,
) -> None:
    """Let a procedure take a step; its new state is a new version.

    [bold]Examples[/bold]
      quipu procedure step mem_... ship
      quipu procedure step mem_... refund --fact goods_intact
      quipu procedure step mem_... refund --try
      quipu procedure step mem_... --replay label --replay ship

    A trigger that does nothing in the state changes nothing and names those that do.
    Exit codes: 0 done, 1 bad input, 2 the memory failed, 3 held for approval.
    See also: procedure show, procedure history.
    """
    run = Session.of(ctx)
    if is_tried and keep:
        raise InvalidError("--try keeps nothing.", reason="usage", hint="Give --try or --keep.")
    with run.memory() as memory:
        done = memory.step(
            id,
            trigger,
            facts=dict(_fact(given) for given in facts or ()),
            replay=replay or None,
            persist=False if is_tried else True if keep else None,
            if_version=if_version,
            approval_required=approve,
            idempotency_key=key,
        )
    from quipu.faces.memorywire.wire_step import StepReply

    if run.is_json:
        output.write_json(StepReply.from_model(done, extensions=True).body())
    leave_if_held(run, done)
    if run.is_json:
        return
    would = "would be " if done.stored_at is None else ""
    shown = output.console()
    shown.print(f"{would}{output.clean(done.current)}  version {done.version}", markup=False)
    run.note(f"can do: {', '.join(map(output.clean, done.available_triggers)) or 'nothing'}")


def _fact(given: str) -> tuple[str, bool]:
    name, _, value = given.partition("=")
    if value.lower() not in ("", "true", "false") or not name:
        raise InvalidError.at(
            "/facts", "bad_value", "A fact is a name, which may say =false.", accepted=["NAME", "NAME=false"]
        )
    return name, value.lower() != "false"


@app.command("check", cls=Command)
def check(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A JSON file with a machine; - reads standard input.")
    ],
) -> None:
    """Check a machine before it is remembered, and name every fault.

    [bold]Examples[/bold]
      quipu procedure check machine.json
      quipu procedure check - < machine.json

    States that no way leads to are a warning. Exit codes: 0 good, 1 not a machine.
    See also: remember, procedure draw.
    """
    run = Session.of(ctx)
    from quipu.rules import procedures

    machine = values.json_object(_text(file), "/content")
    found = list(procedures.faults(machine))
    if found:
        raise InvalidError(found[0][1], reason=found[0][0].reason, faults=[fault for fault, _ in found[:50]])
    made = procedures.machine(machine or {})
    lost = procedures.unreachable(made)
    body: dict[str, Any] = {"name": made.name, "valid": True, "unreachable": list(lost)}
    if run.answer_json(body):
        return
    counted = (
        f"{output.counted(len(made.states), 'state')}, {output.counted(len(made.transitions), 'transition')}"
    )
    output.console().print(f"{output.clean(made.name)} is a machine: {counted}", markup=False)
    _warn(run, lost)


def _text(file: str) -> str:
    if file == "-":
        return values.content("-")
    try:
        return Path(file).expanduser().read_text("utf-8")
    except (OSError, UnicodeError):
        raise InvalidError(
            f"There is no text to be read in {file}.", reason="no_file", hint="Check the path."
        ) from None


def _warn(run: Session, unreachable: tuple[str, ...]) -> None:
    if unreachable:
        run.note(f"no way leads to: {', '.join(map(output.clean, unreachable))}")


@app.command("draw", cls=Command)
def draw(
    ctx: typer.Context,
    id: options.RecordId,
    dot: Annotated[bool, typer.Option("--dot", help="Write DOT, for Graphviz.")] = False,
) -> None:
    """Draw a procedure: its states, what leads where, and where it stands.

    [bold]Examples[/bold]
      quipu procedure draw mem_...
      quipu procedure draw mem_... --dot | dot -Tsvg > machine.svg

    The page shows the same with buttons. See also: procedure show, serve.
    """
    run = Session.of(ctx)
    found = _shown(run, id)
    machine = _machine(found)
    if run.answer_json({"id": found.id, "machine": dict(found.machine)}):
        return
    shown = output.console()
    if not dot:
        shown.print(output.clean(found.name), markup=False)
    for line in drawing.machine_dot(machine) if dot else drawing.machine_lines(machine):
        shown.print(line, markup=False, soft_wrap=True)


@app.command("history", cls=Command)
def history(ctx: typer.Context, id: options.RecordId) -> None:
    """Show the life of a procedure: every state, and the step that led there.

    [bold]Example[/bold]
      quipu procedure history mem_...

    Steps that the machine does not explain are marked. See also: procedure show, history, verify.
    """
    run = Session.of(ctx)
    found = _shown(run, id)
    from quipu.faces.rest.forms import plain

    if run.answer_json({"id": found.id, "life": plain(found.life)}):
        return
    rows = [
        (
            one.version,
            output.when(one.at),
            one.trigger or "(written)",
            ", ".join(one.facts) or None,
            one.current + ("" if one.is_explained else "  (not by its machine)"),
            one.written_by,
        )
        for one in found.life
    ]
    columns = ("version", "when", "step", "facts", "state", "by")
    output.console().print(output.table(columns, rows, whole=("version", "when")))
