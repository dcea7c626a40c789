"""The command that checks exported spans and metrics against a convention."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from quipu.command import HandCommand, Session
from quipu.errors import InvalidError
from quipu.telemetry.settings import Convention

_CLEAN, _VIOLATIONS, _UNREADABLE, _NO_SPANS = 0, 1, 2, 3
_COLUMNS = ("level", "id", "span", "message")


async def _check(
    session: Session,
    *,
    files: Sequence[str],
    convention: Convention,
    allow_content: bool,
    vendor_prefixes: Sequence[str],
    assume: str,
    format: str,
) -> int:
    from quipu.telemetry.check import Terms, checked, is_memory  # help is shown without it

    try:
        assumed, found = _assumed(assume), [await _read(file) for file in files or ("-",)]
    except InvalidError as error:
        session.warn(f"{error.message} {error.hint or ''}".strip())
        return _UNREADABLE
    spans = [span for one in found for span in one.spans]
    terms = Terms(
        convention=convention,
        allows_content=allow_content,
        vendor_prefixes=tuple(vendor_prefixes) or ("quipu.",),
        assumed=assumed,
    )
    findings = checked(spans, [point for one in found for point in one.points], terms)
    count = sum(is_memory(span) for span in spans)
    rows: list[dict[str, Any]] = [asdict(one) for one in findings]
    violations = sum(one.level == "violation" for one in findings)
    said = f"{count} memory spans, {violations} violations, {len(findings) - violations} other findings"
    body: dict[str, Any] = {"spans": count, "violations": violations, "findings": rows}
    if format == "json":
        click.echo(json.dumps(body, indent=2))
    else:
        session.table(_COLUMNS, rows)
        session.answer(body, said)
    return _VIOLATIONS if violations else _CLEAN if count else _NO_SPANS


def _assumed(words: str) -> frozenset[str]:
    found = frozenset(words.replace(",", " ").split())
    if unknown := sorted(found - {"namespaced", "expiring", "threshold"}):
        raise InvalidError(
            f"Nothing can be assumed of {unknown[0][:64]}.", hint="namespaced, expiring or threshold."
        )
    return found


async def _read(file: str) -> Any:
    """One file, or what comes on standard input."""
    from quipu.telemetry.check import exported

    try:
        data = await asyncio.to_thread(sys.stdin.buffer.read if file == "-" else Path(file).read_bytes)
    except OSError as error:
        raise InvalidError(f"{file} cannot be read: {error.strerror}.") from None
    try:
        return exported(data)
    except InvalidError as error:
        raise InvalidError(f"{file}: {error.message}", hint=error.hint) from None


CHECK = HandCommand(
    name="telemetry check",
    help="""Check exported spans and metrics against OpenTelemetry's conventions for memory.

    Reads OTLP as JSON, as collectors write it to files, and what the SDK's console exporter prints; from whichever
    library it comes. Exit codes: 0 no violation, 1 violations, 2 something cannot be read, 3 no memory spans.""",
    run=_check,
    parameters=(
        click.Argument(
            ["files"], nargs=-1, metavar="[FILE]...", help="Files of exports; - is standard input."
        ),
        click.Option(
            ["--convention"],
            type=click.Choice(["proposal", "merged"]),
            default="proposal",
            help="The proposal for memory operations (the default), or the smaller one that was merged later.",
        ),
        click.Option(
            ["--allow-content"], is_flag=True, help="Content and queries on spans are meant to be there."
        ),
        click.Option(
            ["--vendor-prefix", "vendor_prefixes"],
            multiple=True,
            metavar="TEXT",
            help="Attributes that begin so are somebody's own. May be repeated; else quipu.",
        ),
        click.Option(
            ["--assume"],
            default="",
            metavar="WORDS",
            help="Conditions that hold for every span: namespaced, expiring, threshold.",
        ),
        click.Option(
            ["--format"], type=click.Choice(["text", "json"]), default="text", help="How findings are shown."
        ),
    ),
    examples=(
        "quipu telemetry check traces.json",
        "quipu telemetry check --convention merged - < traces.json",
    ),
)
