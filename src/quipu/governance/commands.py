"""`quipu review` and `quipu rules`: what a reviewer does at a terminal."""

import json
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from quipu.command import HandCommand, Memory, Session, Use
from quipu.errors import Fault, InvalidError, QuipuError

if TYPE_CHECKING:  # help is shown without loading the models
    from quipu.governance.model import Diff, Review, Rule

#: A decision that others still have to join, as of every held write.
_HELD = 3
_MARKS = {"same": "", "skipped": "", "gone": "-", "new": "+"}


@asynccontextmanager
async def _opened(session: Session, use: Use) -> AsyncGenerator[Memory]:
    memory = session.memory(use)
    try:
        yield memory
    finally:
        await memory.close()


# -- review -----------------------------------------------------------------------------------------------------------


async def _show(session: Session, *, proposal_id: str) -> None:
    async with _opened(session, "works") as memory:
        found: Review = await memory.call("review", {"id": proposal_id})
    session.answer(found.to_dict(), *_lines(found))


def _lines(found: "Review") -> Iterator[str]:
    """A review for a person."""
    yield f"{found.id}: {found.operation} for {found.agent_id}, by {found.writer}, {found.status}"
    yield f"  held by {', '.join(found.held_by)}" + (f": {found.because}" if found.because else "")
    if found.reasoning:
        yield f"  the writer says: {found.reasoning}"
    if found.approvals > 1:
        given = ", ".join(one.reviewer for one in found.given) or "nobody"
        yield f"  {found.approvals} people must approve; so far: {given}"
    if found.problem is not None:
        yield f"  It cannot be carried out: {found.problem}"
    if found.diff is not None:
        yield from _diff(found.diff)


def _diff(diff: "Diff") -> Iterator[str]:
    for one in diff.added:
        yield f"  + {one['id']}  {one['content']}"
    for one in diff.removed:
        yield f"  - {one['id']}  {one['content']}"
    for one in diff.modified:
        yield f"  ~ {one.id}"
        for name, after in one.after.items():
            if name == "content" and one.words is not None:
                said = "".join(
                    f"[{_MARKS[piece.kind]}{piece.text}]" if _MARKS[piece.kind] else piece.text
                    for piece in one.words
                )
            else:
                said = f"{_plain(one.before.get(name))} → {_plain(after)}"
            yield f"      {name}: {said}"
    for one in diff.related:
        yield f"  {one.kind}: {one.id}  {one.content}"
    for name, count in diff.counts.items():
        yield f"  {name}: {count:,} in all"


async def _approve(
    session: Session,
    *,
    ids: tuple[str, ...],
    reason: str | None,
    edit: str | None,
    merge_into: str | None,
    strategy: str | None,
    supersedes: tuple[str, ...],
    import_id: str | None,
    yes: bool,
) -> int:
    more: dict[str, Any] = {"approved": True, "reason": reason}
    if edit is not None:
        more["edit"] = _json(edit)
    if merge_into is not None:
        more["merge_into"] = {"canonical": merge_into, **({"strategy": strategy} if strategy else {})}
    if supersedes:
        more["supersedes"] = list(supersedes)
    return await _decide(session, ids, import_id, more, asks=None if yes else "Approve")


async def _reject(
    session: Session, *, ids: tuple[str, ...], reason: str | None, import_id: str | None, yes: bool
) -> int:
    more: dict[str, Any] = {"approved": False, "reason": reason}
    return await _decide(session, ids, import_id, more, asks=None if yes else "Reject")


async def _decide(
    session: Session, ids: Sequence[str], import_id: str | None, more: Mapping[str, Any], *, asks: str | None
) -> int:
    """Decide on each. Many at once are asked about once."""
    async with _opened(session, "works") as memory:
        chosen = [*ids, *(await _of_import(memory, import_id))]
        if not chosen:
            raise InvalidError(
                "Nothing to decide on.", reason="usage", hint="`quipu review list` shows what waits."
            )
        if len(chosen) > 1 and asks is not None:
            session.agree(f"{asks} {len(chosen)} held writes?")
        given = {name: value for name, value in more.items() if value is not None}
        answers = [
            (proposal_id, await memory.call("decide", {"id": proposal_id, **given})) for proposal_id in chosen
        ]
    lines = [_outcome(name, answer) for name, answer in answers]
    decided = [{"id": name, **answer.to_dict()} for name, answer in answers]
    session.answer(decided[0] if len(decided) == 1 else {"decided": decided}, *lines)
    return _HELD if any(answer.is_held for _, answer in answers) else 0


def _outcome(proposal_id: str, answer: Any) -> str:
    said = f"{'Approved' if answer.approved else 'Rejected'} {proposal_id}"
    return f"{said}; {answer.approvals_left} more must approve." if answer.is_held else f"{said}."


async def _of_import(memory: Memory, import_id: str | None) -> list[str]:
    """What waits of an import."""
    found: list[str] = []
    cursor: str | None = None
    while import_id is not None:
        place = {} if cursor is None else {"cursor": cursor}
        page = await memory.call("list_reviews", {"import_id": import_id, "limit": 1000, **place})
        found += [one.id for one in page.reviews]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


async def _desk(session: Session) -> None:
    """One held write after the other: shown, and decided on as it was shown."""
    if session.is_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidError(
            "Nobody is there to decide.",
            reason="usage",
            hint="`quipu review list` shows what waits, `quipu review approve ID` decides.",
        )
    async with _opened(session, "works") as memory:
        cursor: str | None = None
        while True:
            place = {} if cursor is None else {"cursor": cursor}
            page = await memory.call("list_reviews", {"limit": 1, **place})
            if not page.reviews:
                session.note("Nothing more waits.")
                return
            (waiting,) = page.reviews
            cursor = waiting.id
            if not await _decided_here(session, memory, waiting.id):
                return


async def _decided_here(session: Session, memory: Memory, proposal_id: str) -> bool:
    """Show it and ask; False when the person has had enough."""
    found: Review = await memory.call("review", {"id": proposal_id})
    for line in _lines(found):
        session.say(line)
    try:
        said = click.prompt("Approve, reject, skip or quit?", type=click.Choice(["a", "r", "s", "q"]))
        if said in ("s", "q"):
            return said == "s"
        reason = click.prompt("Why?", default="", show_default=False)
    except OSError as error:  # the terminal is gone, and with it who would have answered
        raise click.Abort from error
    given: dict[str, Any] = {"id": proposal_id, "approved": said == "a"}
    given |= {name: value for name, value in (("reason", reason), ("etag", found.etag)) if value}
    try:
        answer = await memory.call("decide", given)
    except QuipuError as error:  # it has changed, or was decided by somebody else: the next one may go
        session.warn(f"{error.message} {error.hint or ''}".rstrip())
        return True
    session.say(_outcome(proposal_id, answer))
    return True


# -- rules ------------------------------------------------------------------------------------------------------------


async def _rules_show(session: Session) -> None:
    async with _opened(session, "reads") as memory:
        found = await memory.call("get_rules", {})
    session.answer(found.to_dict())
    _rule_table(session, found)


def _rule_table(session: Session, found: Any) -> None:
    """In the order in which they are asked."""
    parts = (("file", found.of_file), ("own", found.rules), ("shipped", found.shipped))
    rows = [_rule_row(rule, where) for where, rules in parts for rule in rules]
    session.table(("id", "effect", "from", "when", "reason"), rows)
    session.note(f"What no rule is about: {found.default}.")
    if found.file_broken_since is not None:
        session.warn("The rules file cannot be read; its last good rules are in force.")


def _rule_row(rule: "Rule", where: str) -> dict[str, Any]:
    body = rule.model_dump(mode="json")
    when = ", ".join(f"{name} {_plain(value)}" for name, value in body["when"].items())
    effect = f"{rule.effect} by {rule.approvals}" if rule.approvals > 1 else rule.effect
    return {
        "id": rule.id,
        "effect": effect,
        "from": where,
        "when": when or "always",
        "reason": rule.reason or "",
    }


async def _rules_set(session: Session, *, file: str, if_match: str | None) -> None:
    rules = _read(file)
    async with _opened(session, "works") as memory:
        found = await memory.call(
            "set_rules", {"rules": rules, **({"if_match": if_match} if if_match else {})}
        )
    session.answer(found.to_dict())
    _rule_table(session, found)


async def _rules_test(session: Session, *, file: str | None, last: int) -> None:
    given: dict[str, Any] = {"last": last}
    if file is not None:
        given["rules"] = _read(file)
    async with _opened(session, "works") as memory:
        found = await memory.call("test_rules", given)
    session.answer(found.to_dict())
    rows = [
        {
            "write": one.proposal_id or one.seq,
            "operation": one.operation,
            "agent": one.agent_id,
            "writer": one.writer,
            "effect": one.effect,
            "rule": one.rule,
        }
        for one in (*found.replayed, *found.pending)
        if one.effect != "allow" or session.is_verbose
    ]
    session.table(("write", "operation", "agent", "writer", "effect", "rule"), rows)
    session.note(
        f"{len(found.replayed):,} past writes and {len(found.pending):,} that wait; {len(rows):,} shown."
    )


def _read(file: str) -> list[Any]:
    """The rules of a file, as it holds them."""
    from pathlib import Path

    from quipu.governance.rule_list import document_of

    rules = document_of(Path(file).expanduser()).get("rules")
    if not isinstance(rules, list):
        raise InvalidError(
            "The file has no rules.",
            faults=[Fault("/rules", "missing_field", "a list called `rules`, as in `[[rules]]`")],
        )
    return rules  # pyright: ignore[reportUnknownVariableType]  the model reads it


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidError(
            "The edit cannot be read.",
            faults=[Fault("/edit", "bad_value", 'JSON, such as \'{"content": "…"}\'')],
        ) from error


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- the commands -----------------------------------------------------------------------------------------------------

_REASON = click.Option(["--reason"], help="Why; the writer sees it.")
_IDS = click.Argument(["ids"], nargs=-1, metavar="ID…", help="What waits; `quipu review list` shows it.")
_IMPORT = click.Option(["--import", "import_id"], help="Everything that waits of this import.")
_YES = click.Option(["--yes"], is_flag=True, help="Do not ask about many at once.")

DESK = HandCommand(
    name="review",
    help="Go through what waits, one held write after the other, and decide.",
    run=_desk,
    examples=("quipu review",),
)
SHOW = HandCommand(
    name="review show",
    help="Show a held write, and what an approval would change now.",
    run=_show,
    parameters=(click.Argument(["proposal_id"], metavar="ID", help="Which one."),),
    examples=("quipu review show prop_01…",),
)
APPROVE = HandCommand(
    name="review approve",
    help="""Approve held writes: each is carried out at once, under who wrote it.

    Nobody approves what they wrote themselves, unless nobody else may review.
    """,
    run=_approve,
    parameters=(
        _IDS,
        _REASON,
        click.Option(["--edit"], help="Approve it with these changes, as JSON."),
        click.Option(["--merge-into"], help="Approve it as part of this memory."),
        click.Option(
            ["--strategy"],
            type=click.Choice(["keep_canonical", "merge_content", "keep_highest_confidence"]),
            help="With --merge-into: what the text becomes.",
        ),
        click.Option(
            ["--supersedes"], multiple=True, help="Forget this memory with it; may be given several times."
        ),
        _IMPORT,
        _YES,
    ),
    examples=(
        "quipu review approve prop_01…",
        """quipu review approve prop_01… --edit '{"content": "Ana moved to Porto"}'""",
        "quipu review approve prop_01… --merge-into mem_01… --strategy merge_content",
    ),
)
REJECT = HandCommand(
    name="review reject",
    help="Reject held writes: nothing of them happens, and their text goes.",
    run=_reject,
    parameters=(_IDS, _REASON, _IMPORT, _YES),
    examples=('quipu review reject prop_01… --reason "not true"',),
)
RULES_SHOW = HandCommand(
    name="rules show",
    help="Show the rules that decide on writes, in the order in which they are asked.",
    run=_rules_show,
    examples=("quipu rules show",),
)
RULES_SET = HandCommand(
    name="rules set",
    help="Replace the tenant's own rules with those of a file, TOML or JSON.",
    run=_rules_set,
    parameters=(
        click.Argument(["file"], help="The file; it holds a list called `rules`."),
        click.Option(["--if-match"], help="Only if these are the rules that are replaced: their etag."),
    ),
    examples=("quipu rules set rules.toml",),
)
RULES_TEST = HandCommand(
    name="rules test",
    help="Say what rules would do with the last writes and with what waits; nothing changes.",
    run=_rules_test,
    parameters=(
        click.Argument(["file"], required=False, help="A file of rules; left out, those in force."),
        click.Option(["--last"], type=int, default=1000, show_default=True, help="So many writes."),
    ),
    examples=("quipu rules test", "quipu rules test rules.toml --last 100"),
)
