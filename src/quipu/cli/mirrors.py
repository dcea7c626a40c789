"""mirror: copies of a memory in other stores, and how they stand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import output
from quipu.cli.command import Command, Group
from quipu.cli.session import Session, Use
from quipu.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from quipu.backends.registry import MirrorAddress
    from quipu.bootstrap import Address, Running
    from quipu.config import Config
    from quipu.model.mirrors import MirrorReport, MirrorStatus

app = typer.Typer(name="mirror", cls=Group, no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The mirror's name, as `mirror list` shows it.")]
#: More faults than this are counted, not shown.
_SHOWN = 20


@app.callback(cls=Group, rich_help_panel="Upkeep")
def mirror() -> None:
    """Keep copies of a memory in other stores.

    [bold]Example[/bold]
      quipu mirror add sqlite:///backup/copy.db

    The ledger stays the truth: a mirror is written after it, asked beside it, and never believed about our records.
    """


@app.command("add", cls=Command)
def add(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the copies go, such as mem0://default.")],
) -> None:
    """Add a mirror to this memory.

    [bold]Examples[/bold]
      quipu mirror add sqlite:///backup/copy.db
      quipu mirror add "postgresql://user@host/db?name=warehouse"
      quipu mirror resync sqlite

    It is kept beside the memory, in a file that only its owner may read; every process that opens the memory then has
    the mirror. What was there before is sent to it in the background, or at once by `mirror resync`.
    See also: mirror list, mirror resync.
    """
    run = Session.of(ctx)
    run.stay_here("mirror add")
    from quipu.bootstrap import mirrors

    config, where = _place(run)
    urls = mirrors.kept_urls(where)
    if url in mirrors.urls_of(where, config):
        raise ConflictError("This mirror is there already.", reason="name_taken")
    chosen = config.with_values(mirrors="\n".join([*mirrors.urls_of(where, config), url]))
    made = asyncio.run(_checked(chosen, where))
    mirrors.keep_urls(where, [*urls, url])
    if not run.answer_json({"name": made.name, "place": made.shown}):
        output.console().print(f"Added mirror {made.name}  {made.shown}", markup=False, soft_wrap=True)
        run.note(f"Next: quipu mirror resync {made.name}")


@app.command("remove", cls=Command)
def remove(ctx: typer.Context, name: Name) -> None:
    """Take a mirror away from this memory. What it holds stays where it is.

    [bold]Example[/bold]
      quipu mirror remove mem0

    See also: mirror list, mirror add.
    """
    run = Session.of(ctx)
    run.stay_here("mirror remove")
    from quipu.bootstrap import mirrors
    from quipu.model.principal import local

    config, where = _place(run)
    found = {address.name: address for address in mirrors.addresses(where, config)}
    urls = mirrors.urls_of(where, config)
    kept = mirrors.kept_urls(where)
    own = [url for url, address in zip(urls, found.values(), strict=True) if address.name != name]

    async def work() -> bool:
        async with _opened(run) as running:
            standings = await running.service.mirrors.standings(local().tenant)
            if name not in {standing.name for standing in standings}:
                return name in found
            await running.service.mirror_checks.drop(local(), name)
            return True

    if not asyncio.run(work()):
        raise NotFoundError("There is no mirror of this name.", reason="mirror")
    mirrors.keep_urls(where, [url for url in kept if url in own])
    if not run.answer_json({"removed": name}):
        output.console().print(f"Removed mirror {name}", markup=False)


@app.command("list", cls=Command)
def list_mirrors(ctx: typer.Context) -> None:
    """List the mirrors of this memory. No credential is shown.

    [bold]Example[/bold]
      quipu mirror list

    See also: mirror status, mirror add.
    """
    run = Session.of(ctx)
    run.stay_here("mirror list")
    from quipu.bootstrap import mirrors

    config, where = _place(run)
    run.ready(config, Use.READS)
    found = mirrors.addresses(where, config)
    body = [{"name": one.name, "place": one.shown, "weight": one.weight} for one in found]
    if not run.answer_json({"mirrors": body}):
        output.console().print(
            output.table(
                ["name", "place", "weight"],
                [[one["name"], one["place"], one["weight"]] for one in body],
                empty="No mirrors: `quipu mirror add` adds one.",
            )
        )


@app.command("status", cls=Command)
def status(ctx: typer.Context) -> None:
    """Show how far each mirror is behind.

    [bold]Examples[/bold]
      quipu mirror status
      quipu --server https://memory.example.org mirror status --json

    `waiting` counts changes that a mirror has still to get, `dead` those that were given up after a day, `drift` texts
    that it showed and that were not the ledger's. See also: mirror resync, mirror verify.
    """
    run = Session.of(ctx)
    from quipu.model.principal import local

    async def work() -> tuple[MirrorStatus, ...]:
        async with _opened(run, use=Use.READS) as running:
            return await running.service.mirror_checks.status(local())

    if run.server_of(run.config()) is None:
        found = asyncio.run(work())
    else:
        with run.memory() as memory:
            found = memory.mirrors()
    if run.answer_json({"mirrors": [_status_body(one) for one in found]}):
        return
    rows = [
        [
            one.name,
            one.waiting,
            one.dead,
            _age(one.oldest_ms),
            one.drift,
            "yes" if one.is_filled else "no",
            one.error,
        ]
        for one in found
    ]
    output.console().print(
        output.table(
            ["name", "waiting", "dead", "oldest", "drift", "complete", "last error"],
            rows,
            empty="No mirrors: `quipu mirror add` adds one.",
        )
    )


@app.command("verify", cls=Command)
def verify(ctx: typer.Context, name: Name) -> None:
    """Hold a mirror against the ledger, record by record. Nothing is changed.

    [bold]Example[/bold]
      quipu mirror verify sqlite

    On a server it needs the token of an operator. Exit 1 when something is missing, altered, or there though it should not be. See also: mirror resync.
    """
    run = Session.of(ctx)
    from quipu.model.principal import local

    async def work() -> MirrorReport:
        async with _opened(run, is_writing=True) as running:
            return await running.service.mirror_checks.verify(local(), name)

    if run.server_of(run.config()) is None:
        found = asyncio.run(work())
    else:
        with run.memory() as memory:
            found = memory.verify_mirror(name)
    _show(run, found)
    if found.faults:
        raise typer.Exit(1)


@app.command("resync", cls=Command)
def resync(ctx: typer.Context, name: Name) -> None:
    """Bring a mirror level: send what waits, mend what differs.

    [bold]Example[/bold]
      quipu mirror resync sqlite

    Also takes up what was given up after a day. On a server it needs the token of an operator. See also: mirror verify, mirror status.
    """
    run = Session.of(ctx)
    from quipu.model.principal import local

    async def work() -> MirrorReport:
        async with _opened(run, is_writing=True) as running:
            return await running.service.mirror_checks.resync(local(), name)

    if run.server_of(run.config()) is None:
        found = asyncio.run(work())
    else:
        with run.memory() as memory:
            found = memory.resync_mirror(name)
    _show(run, found, is_mended=True)
    if found.mended < len(found.faults):
        raise typer.Exit(2)


# -- how ------------------------------------------------------------------------------------------------------------


def _place(run: Session) -> tuple[Config, Address]:
    from quipu import bootstrap

    config = run.config()
    return config, bootstrap.address(config.store_url)


async def _checked(config: Config, where: Address) -> MirrorAddress:
    """The last mirror of the settings, once it has answered."""
    from quipu import bootstrap
    from quipu.bootstrap import mirrors

    embedder = await bootstrap.open_embedder(config)
    made = mirrors.mirrors_of(where, config, embedder, bootstrap.now_ms)
    try:
        await made[-1].backend.open()
    finally:
        await made[-1].backend.close()
        if embedder is not None:
            await embedder.close()
    return mirrors.addresses(where, config)[-1]


@asynccontextmanager
async def _opened(run: Session, *, is_writing: bool = False, use: Use = Use.NEEDS) -> AsyncGenerator[Running]:
    """The service of this memory; without `is_writing` no model is loaded and nothing is carried out."""
    from quipu import bootstrap
    from quipu.model.principal import local

    config = run.ready(run.config(), use)
    with run.warnings(), run.building() as progress:
        running = await bootstrap.start(
            config if is_writing else config.with_values(embedder="none"), progress=progress
        )
        try:
            await running.service.open(local().tenant)
            yield running
        finally:
            await running.close()


def _status_body(one: MirrorStatus) -> dict[str, Any]:
    return {
        "name": one.name,
        "place": one.place,
        "written": one.is_written,
        "complete": one.is_filled,
        "waiting": one.waiting,
        "dead": one.dead,
        "oldest_ms": one.oldest_ms,
        "succeeded_at": one.succeeded_at,
        "error": one.error,
        "drift": one.drift,
    }


def _age(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f"{milliseconds / 1000:.0f} s"


def _show(run: Session, report: MirrorReport, *, is_mended: bool = False) -> None:
    body = {
        "mirror": report.mirror,
        "checked": report.checked,
        "foreign": report.foreign,
        "faults": [
            {"kind": fault.kind.value, "id": fault.record_id, "native_id": fault.native_id}
            for fault in report.faults
        ],
        "mended": report.mended,
    }
    if run.answer_json(body):
        return
    if report.faults:
        rows = [[fault.kind.value, fault.record_id, fault.native_id] for fault in report.faults[:_SHOWN]]
        output.console().print(output.table(["difference", "record", "native id"], rows))
    said = f"{report.mirror}: {output.counted(report.checked, 'record')} compared, "
    said += output.counted(len(report.faults), "difference")
    said += f", {report.mended} mended" if is_mended else ""
    output.console().print(said, markup=False)
