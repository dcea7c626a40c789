"""rules: what is let through, held or refused."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import output
from quipu.cli.command import Command, Group
from quipu.cli.session import Session, Use

if TYPE_CHECKING:
    from quipu.model.governance import Replayed, Rule

app = typer.Typer(name="rules", cls=Group, no_args_is_help=True)

File = Annotated[str, typer.Argument(metavar="FILE", help="Rules as TOML, or as JSON if it ends in .json.")]


@app.callback(cls=Group, rich_help_panel="Memory")
def rules() -> None:
    """Decide by rules which writes are let through, held for a person, or refused.

    [bold]Example[/bold]
      quipu rules test rules.toml        what it would have done to the last 1,000 writes
      quipu rules set rules.toml
      quipu rules show

    The first rule that matches decides. A rule in TOML:

      [[rules]]
      id = "web-pages"
      effect = "hold"
      reason = "Pages can say anything."
      [rules.when]
      operations = ["remember"]
      sources = ["web_*"]
    """


@app.command("show", cls=Command)
def show(
    ctx: typer.Context,
    own: Annotated[bool, typer.Option("--own", help="Only those that `rules set` replaces.")] = False,
) -> None:
    """Show the rules in force, in their order: the file's, your own, those that ship.

    [bold]Examples[/bold]
      quipu rules show
      quipu rules show --own --json > rules.json       to be edited and set again

    See also: rules set, rules test.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        found = memory.rules(own=own)
    _show(run, found)


@app.command("set", cls=Command)
def replace(ctx: typer.Context, file: File) -> None:
    """Replace your own rules by those of a file. Needs memory:admin; written to the journal.

    [bold]Example[/bold]
      quipu rules set rules.toml

    A file that is not understood changes nothing. See also: rules test, rules show.
    """
    from quipu.bootstrap.governing import rules_document

    document = rules_document(file)
    run = Session.of(ctx)
    with run.memory(use=Use.MAKES) as memory:
        found = memory.set_rules(document)  # type: ignore[arg-type]  what is no object is refused by name
    _show(run, found)


@app.command("test", cls=Command)
def try_out(
    ctx: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="Rules as TOML or .json; without it, those in force."),
    ] = None,
    last: Annotated[int, typer.Option("--last", metavar="N", help="So many of the last writes.")] = 1_000,
) -> None:
    """Show what rules would have done to the last writes. Changes nothing.

    [bold]Examples[/bold]
      quipu rules test rules.toml
      quipu rules test --last 50

    The journal does not say which sources were new, what stood against a memory, or what was a secret then:
    conditions on these match nothing here. See also: rules set, rules show.
    """
    from quipu.bootstrap.governing import rules_document

    run = Session.of(ctx)
    document: Any = None if file is None else rules_document(file)
    with run.memory(use=Use.READS) as memory:
        tried = memory.test_rules(document, last=last)
    if run.answer_json({"writes": [_replayed(one) for one in tried]}):
        return
    caught = [one for one in tried if one.verdict.effect != "allow"]
    if caught:
        columns = ["seq", "when", "operation", "agent", "by", "effect", "rule"]
        rows = [
            [
                str(one.seq),
                output.when(one.at),
                one.operation,
                one.agent_id or "",
                one.actor,
                one.verdict.effect.value,
                one.verdict.rule,
            ]
            for one in caught
        ]
        output.console().print(output.table(columns, rows, whole=("seq", "effect", "rule")))
    counts = Counter(one.verdict.effect.value for one in tried)
    said = ", ".join(f"{counts[effect]} {word}" for effect, word in _WORDS.items())
    output.console().print(f"Of the last {output.counted(len(tried), 'write')}: {said}.", markup=False)


@app.command("suggested", cls=Command)
def suggested(ctx: typer.Context) -> None:
    """Show rules that your reviewers' decisions suggest. They do nothing yet.

    [bold]Example[/bold]
      quipu rules suggested

    Five decisions the same way within 90 days, and none the other way. See also: rules accept, rules dismiss.
    """
    from quipu.rules.policy_parsing import rule_body

    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        found = memory.suggested_rules()
    bodies: list[dict[str, Any]] = [
        {
            "id": one.id,
            "rule": rule_body(one.rule),
            "evidence": list(one.evidence),
            "deciders": list(one.deciders),
            "first_at": one.first_at,
            "last_at": one.last_at,
            "met": one.met,
            "missed": one.missed,
            "effect": one.effect,
        }
        for one in found
    ]
    if run.answer_json({"suggestions": bodies}):
        return
    if not found:
        run.note("Decisions do not suggest a rule yet.")
        return
    columns = ["id", "effect", "when", "decisions", "by", "of the last 500 writes"]
    rows = [
        [one.id, one.rule.effect.value, output.json_line(body["rule"]["when"]), str(one.met),
         ", ".join(one.deciders), str(one.effect)]
        for one, body in zip(found, bodies, strict=True)
    ]  # fmt: skip
    output.console().print(output.table(columns, rows, whole=("id", "effect")))


Suggested = Annotated[
    str, typer.Argument(metavar="SUGGESTION", help="sug_..., as `rules suggested` shows it.")
]


@app.command("accept", cls=Command)
def accept(ctx: typer.Context, suggestion: Suggested) -> None:
    """Make a suggestion a rule of your own. Needs memory:admin; it ends by itself after 90 days.

    [bold]Example[/bold]
      quipu rules accept sug_...

    It stands before the rule whose work it takes over; `quipu rules set` without it takes it away. See also: rules suggested.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        found = memory.accept_rule(suggestion)
    _show(run, found)


@app.command("dismiss", cls=Command)
def dismiss(ctx: typer.Context, suggestion: Suggested) -> None:
    """Do not suggest this rule again. Needs memory:admin.

    [bold]Example[/bold]
      quipu rules dismiss sug_...

    See also: rules suggested.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        memory.dismiss_rule(suggestion)
    if not run.answer_json({"id": suggestion, "dismissed": True}):
        output.console().print(f"Dismissed {suggestion}", markup=False)


_WORDS = {"allow": "let through", "hold": "held", "deny": "refused"}


def _show(run: Session, found: tuple[Rule, ...]) -> None:
    from quipu.rules.policy_parsing import rule_body

    bodies = [rule_body(rule) for rule in found]
    if run.answer_json({"rules": bodies}):
        return
    if not bodies:
        run.note("There are no rules of your own.")
        return
    columns = ["id", "effect", "when", "reason", "from"]
    rows = [
        [rule.id, rule.effect.value, output.json_line(body["when"]), rule.reason or "", rule.origin.value]
        for rule, body in zip(found, bodies, strict=True)
    ]
    output.console().print(output.table(columns, rows, whole=("id", "effect")))


def _replayed(one: Replayed) -> dict[str, Any]:
    return {
        "seq": one.seq,
        "at": one.at,
        "operation": one.operation,
        "agent_id": one.agent_id,
        "actor": one.actor,
        "effect": one.verdict.effect.value,
        "rule": one.verdict.rule,
        "reason": one.verdict.reason or "",
    }
