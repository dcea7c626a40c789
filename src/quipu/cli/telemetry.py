"""telemetry: whether exported spans follow the conventions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quipu.cli import faults, output
from quipu.cli.command import Command, Group
from quipu.cli.session import Session
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.telemetry.checking import Finding, Terms

app = typer.Typer(name="telemetry", cls=Group, no_args_is_help=True)

VIOLATED, UNREADABLE, NOTHING = 1, 2, 3
_COLOURS = {"violation": "red", "improvement": "yellow", "information": "dim"}
_FORMATS = ("text", "json")
_ASSUMABLE = ("namespaced", "expiring", "threshold")


@app.callback(cls=Group, rich_help_panel="Upkeep")
def telemetry() -> None:
    """Check what memory systems tell OpenTelemetry, Quipu's own spans and anybody else's.

    [bold]Example[/bold]
      quipu telemetry check spans.json

    `quipu serve` exports to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names.
    """


@app.command("check", cls=Command)
def check(
    ctx: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="Exported spans and metrics; - or nothing: standard input."),
    ] = None,
    convention: Annotated[
        str, typer.Option("--convention", metavar="NAME", help="proposal, merged or both.")
    ] = "proposal",
    allow_content: Annotated[
        bool, typer.Option("--allow-content", help="Content and queries were asked for.")
    ] = False,
    vendor_prefix: Annotated[
        list[str] | None,
        typer.Option(
            "--vendor-prefix", metavar="PREFIX", help="Names below it are a vendor's own; quipu. is."
        ),
    ] = None,
    assume: Annotated[
        str,
        typer.Option(
            "--assume",
            metavar="LIST",
            help="What holds without a span saying so: namespaced,expiring,threshold.",
        ),
    ] = "",
    shape: Annotated[
        str, typer.Option("--format", metavar="text|json", help="How findings are told.")
    ] = "text",
) -> None:
    """Check exported spans and metrics of memory against a convention.

    [bold]Examples[/bold]
      quipu telemetry check spans.json
      quipu telemetry check traces.pb metrics.pb --convention merged
      kubectl logs agent | quipu telemetry check - --assume namespaced

    Reads OTLP as JSON (a request per file or per line) and as protobuf, and the JSON of the Python SDK's console
    exporter. Exit codes: 0 no violation · 1 violations · 2 unreadable · 3 no spans of memory. See also: serve, config.
    """
    from quipu.telemetry import reading
    from quipu.telemetry.checking import Level, checked, is_memory

    run = Session.of(ctx)
    try:
        terms = replace(
            _terms(convention, assume, shape),
            allows_content=allow_content,
            vendor_prefixes=("quipu.", *(vendor_prefix or ())),
        )
        read = [reading.exported(_bytes(name)) for name in files or ["-"]]
    except InvalidError as error:
        if run.is_json:
            faults.told(error, is_json=True, is_verbose=False)
        else:
            output.notes().print(f"{error.message} {error.hint or ''}".strip(), style="red", markup=False)
        raise typer.Exit(UNREADABLE) from None
    spans = [span for one in read for span in one.spans]
    points = [point for one in read for point in one.points]
    count = sum(is_memory(span) for span in spans)
    findings = checked(spans, points, terms)
    _tell(run, findings, count, is_json=shape == "json")
    if any(finding.level is Level.VIOLATION for finding in findings):
        raise typer.Exit(VIOLATED)
    if not count:
        raise typer.Exit(NOTHING)


def _terms(convention: str, assume: str, shape: str) -> Terms:
    from quipu.telemetry.checking import Terms
    from quipu.telemetry.names import Convention

    assumed = [word.strip() for word in assume.split(",") if word.strip()]
    for option, given, accepted in (
        ("--convention", [convention], tuple(Convention)),
        ("--format", [shape], _FORMATS),
        ("--assume", assumed, _ASSUMABLE),
    ):
        if set(given) - set(accepted):
            raise InvalidError(
                f"{option} does not take that.",
                reason="bad_value",
                hint=f"Choose from {', '.join(accepted)}.",
            )
    return Terms(convention=Convention(convention), assumed=assumed)


def _bytes(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).expanduser().read_bytes()
    except OSError as error:
        raise InvalidError(f"{name} cannot be read.", reason="no_file", hint=error.strerror) from error


def _tell(run: Session, findings: Sequence[Finding], count: int, *, is_json: bool) -> None:
    rows = [
        {"level": found.level.value, "id": found.id, "span": found.span, "message": found.message}
        for found in findings
    ]
    body = {"spans": count, "findings": rows}
    if run.answer_json(body):
        return
    if is_json:
        output.write_json(body)
        return
    shown = output.console()
    for found in findings:
        text = f"{found.level.value:<11}  {found.id:<22}  {found.span}: {found.message}"
        shown.print(text, style=_COLOURS[found.level.value], markup=False, soft_wrap=True)
    said = output.counted(count, "span of memory", "spans of memory")
    shown.print(f"{said}, {output.counted(len(findings), 'finding')}.", markup=False)
