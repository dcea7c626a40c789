"""doctor: look at everything a memory stands on, and say what to do about what is wrong."""

from __future__ import annotations

import platform
from typing import Annotated, Any

import typer

from quipu._version import __version__
from quipu.cli import output
from quipu.cli.checks import Check, disk_check, file_checks, ledger_checks, model_check
from quipu.cli.command import Command
from quipu.cli.session import Session
from quipu.errors import QuipuError

app = typer.Typer()

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@app.command("doctor", cls=Command, rich_help_panel="Upkeep")
def doctor(
    ctx: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="Do not read the whole file and journal.")] = False,
) -> None:
    """Examine a memory and say what to do.

    [bold]Examples[/bold]
      quipu doctor
      quipu doctor --quick --json

    Looked at: settings, file, schema, key, integrity, journal, vectors, embedder, disk.
    Exit codes: 0 nothing failed (warnings may stand), 1 something failed.
    See also: verify, health, config.
    """
    run = Session.of(ctx)
    with run.warnings():
        checks = _examined(run, is_quick=quick)
    is_well = all(check.status != "fail" for check in checks)
    body = {"ok": is_well, "checks": [check.body() for check in checks]}
    if not run.answer_json(body):
        _show(checks)
    if not is_well:
        raise typer.Exit(1)


def _examined(run: Session, *, is_quick: bool) -> list[Check]:
    import asyncio

    from quipu.cli.settings import file_in_use
    from quipu.config import misspelt

    about = f"quipu {__version__}, Python {platform.python_version()}, {platform.system()}"
    checks = [Check("program", "ok", about)]
    try:
        config = run.config()
    except QuipuError as error:
        return [*checks, Check("settings", "fail", error.message, error.hint or "Correct the setting.")]
    run.stay_here("doctor")
    used = file_in_use()
    checks.append(
        Check("settings", "ok", f"file {used}" if used else "no settings file; defaults and environment")
    )
    checks += [Check("settings", "warn", one.said, one.advice) for one in misspelt()]
    try:
        from quipu import bootstrap

        where = bootstrap.address(config.store_url)
    except QuipuError as error:
        return [*checks, Check("file", "fail", error.message, error.hint or "Correct the store URL.")]
    checks += file_checks(where, is_named=bool(run.store_urls))
    is_there = where.path is None or where.path.is_file()
    space = None
    if is_there and all(check.status != "fail" for check in checks):
        with run.bar("Checking", "entries") as bar:
            found, space = asyncio.run(ledger_checks(config, is_quick=is_quick, progress=bar))
        checks += found
    with run.building() as progress:
        checks.append(asyncio.run(model_check(config, space, progress)))
    if where.path is not None:
        checks.append(disk_check(where.path))
    return checks


def _show(checks: list[Check]) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for check in checks:
        said = Text(output.clean(check.detail))
        if check.advice:
            said.append(f"\n→ {check.advice}", style="bold")
        grid.add_row(Text(check.status, style=_COLOURS[check.status]), check.name, said)
    shown = output.console()
    shown.print(grid)
    worst: Any = {check.status for check in checks}
    verdict = (
        "Something failed."
        if "fail" in worst
        else "Works, with warnings."
        if "warn" in worst
        else "All is well."
    )
    shown.print(verdict, style=_COLOURS["fail" if "fail" in worst else "warn" if "warn" in worst else "ok"])
