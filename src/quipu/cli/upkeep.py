"""init, backup, vacuum, reembed: the file as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import interrupted, output
from quipu.cli.command import Command
from quipu.cli.session import Session, Use
from quipu.errors import BackendUnavailableError

if TYPE_CHECKING:
    from quipu.bootstrap import Address
    from quipu.config import Config

app = typer.Typer()


@app.command("init", cls=Command, rich_help_panel="Start here")
def init(
    ctx: typer.Context,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="A file or store URL; else the configured place.")
    ] = None,
    skip_model: Annotated[
        bool, typer.Option("--skip-model", help="Do not prepare the embedder now.")
    ] = False,
) -> None:
    """Make a memory, its signing key and its model ready.

    [bold]Examples[/bold]
      quipu init
      quipu init ./project.db --skip-model

    Harmless when they are there. The first use of the onnx embedder builds its model once for this machine.
    See also: doctor, config, remember.
    """
    run = Session.of(ctx)
    if path is not None:
        run.store_urls = (path,)
    run.stay_here("init")
    from quipu import bootstrap

    config = run.config()
    where = bootstrap.address(config.store_url)
    was_there = where.path is not None and where.path.exists()
    if where.database is not None:
        was_there = _database_was_there(where)
    with run.memory(use=Use.MAKES) as memory:
        seq: Any = memory.health()["seq"]
    signer = bootstrap.open_signer(where)
    embedder = None if skip_model else _ready_embedder(run, config)
    body = {
        "path": None if where.path is None else str(where.path),
        "created": not was_there,
        "agent": config.agent,
        "seq": seq,
        "key_id": signer.key_id,
        "public_key": signer.public_key,
        "embedder": embedder,
    }
    if run.answer_json(body):
        return
    shown = output.console()
    word = "Memory is there" if was_there else "Made a memory"
    shown.print(f"{word}: {where.shown}", markup=False, soft_wrap=True)
    shown.print(f"Signing key {signer.key_id}{_kept_in(where.beside('.key'))}", markup=False, soft_wrap=True)
    if embedder:
        shown.print(f"Embedder {embedder['model']}, {embedder['dimensions']} dimensions", markup=False)
    run.note('Next: quipu remember "Mara is vegetarian", then quipu recall "what does Mara eat?"')


def _kept_in(key: Path | None) -> str:
    return "" if key is None else f", kept in {key}"


def _database_was_there(where: Address) -> bool:
    import asyncio

    from quipu.bootstrap import databases

    return asyncio.run(databases.status(where)).version is not None


def _ready_embedder(run: Session, config: Config) -> dict[str, Any] | None:
    """Load the model once, building it if need be; without one, say that memory works by words."""
    import asyncio

    from quipu import bootstrap

    async def ready(progress: Any) -> dict[str, Any] | None:
        embedder = await bootstrap.open_embedder(config, progress)
        if embedder is None:
            return None
        try:
            await embedder.embed(["ready"])
            return {"model": embedder.model, "dimensions": embedder.dimensions}
        finally:
            await embedder.close()

    try:
        with run.building() as progress:
            return asyncio.run(ready(progress))
    except BackendUnavailableError as error:
        run.note(f"No embedder: {error.message} {error.hint or ''} Memory works by words alone until then.")
        return None


@app.command("backup", cls=Command, rich_help_panel="Upkeep")
def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A name that is free.")],
) -> None:
    """Write a consistent copy of the whole memory.

    [bold]Example[/bold]
      quipu backup memory-2026-01-31.db
      quipu list --store-url sqlite://./memory-2026-01-31.db

    Others may go on writing meanwhile. The keys that sign the journal and seal secrets are files of their own beside
    the memory: back them up too. See also: export, verify, doctor.
    """
    run = Session.of(ctx)
    with run.memory() as memory, run.bar("Copying") as bar:
        memory.backup(file.expanduser(), progress=bar)
    count = file.expanduser().stat().st_size
    if not run.answer_json({"file": str(file), "bytes": count}):
        output.console().print(f"Backed up to {file} ({output.size(count)})", markup=False)
        for key in _keys(run):
            run.note(f"Not in it: {key}. Keep it too, apart from the copy.")


def _keys(run: Session) -> list[Path]:
    """The keys of a memory of this machine, which no copy of it holds."""
    from quipu import bootstrap

    config = run.config()
    if run.server_of(config) is not None:
        return []
    where = bootstrap.address(config.store_url)
    sealing = Path(config.sealing_key).expanduser() if config.sealing_key else where.beside(".sealing-key")
    known = (where.beside(".key"), sealing, where.beside(".dids"))
    return [key for key in known if key is not None and key.exists()]


@app.command("vacuum", cls=Command, rich_help_panel="Upkeep")
def vacuum(
    ctx: typer.Context,
    keep_history_days: Annotated[
        int | None,
        typer.Option(
            "--keep-history-days",
            min=0,
            metavar="N",
            help="Also empty versions that ended longer ago, for good.",
        ),
    ] = None,
) -> None:
    """Give unused space back.

    [bold]Examples[/bold]
      quipu vacuum
      quipu vacuum --keep-history-days 365             reads as of earlier moments end

    Live memories stay. See also: sweep, backup, doctor.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        before = memory.statistics()["bytes"]
        emptied = memory.vacuum(keep_history_days=keep_history_days)
        after = memory.statistics()["bytes"]
    if not run.answer_json({"emptied": emptied, "bytes_before": before, "bytes_after": after}):
        shown = output.console()
        shown.print(f"{output.size(before)} before, {output.size(after)} now", markup=False)
        if keep_history_days is not None:
            shown.print(f"Emptied {output.counted(emptied, 'old version')}", markup=False)


@app.command("reembed", cls=Command, rich_help_panel="Upkeep")
def reembed(ctx: typer.Context) -> None:
    """Renew the index: search terms, and vectors by the configured embedder.

    [bold]Examples[/bold]
      quipu reembed                                    after `quipu import --embedder none`, or an upgrade
      QUIPU_EMBEDDER=openai quipu reembed              move to another model

    Terms are renewed where an earlier build cut a text otherwise; that needs no embedder. Stop it anywhere: the next
    run goes on. Recall stays with the former model until the last vector is there.
    See also: doctor, verify, config, import.
    """
    run = Session.of(ctx)
    config = run.config()
    by_words = config.embedder == "none" and run.server_of(config) is None
    go_on = "Run it again: it goes on where it was."
    with (
        run.memory(model=True) as memory,
        run.bar("Renewing", "versions") as bar,
        interrupted.telling(run, lambda: go_on),
    ):
        counts = memory.statistics()
        most = counts["versions"]
        done = memory.reembed(lambda count: bar(count, max(most, count)))
    if not run.answer_json({"embedded": done}):
        had = "its terms" if by_words else "its terms and its vector"
        said = f"Renewed the index of {output.counted(done, 'version')}"
        output.console().print(said if done else f"Every version has {had} already", markup=False)
