"""db: a PostgreSQL database as the place where memory is kept."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import output
from quipu.cli.command import Command, Group
from quipu.cli.session import Session

if TYPE_CHECKING:
    from quipu.bootstrap import Address

app = typer.Typer(name="db", cls=Group, no_args_is_help=True)

Url = Annotated[
    str | None,
    typer.Argument(metavar="URL", help="postgresql://user@host/database; else the configured place."),
]


@app.callback(cls=Group, rich_help_panel="Server")
def db() -> None:
    """Keep memory in PostgreSQL: make it ready, upgrade it, look at it, spread it, move into it.

    [bold]Example[/bold]
      quipu db init postgresql://quipu@localhost/memory
      quipu db copy ~/.local/share/quipu/memory.db postgresql://quipu@localhost/memory
      export QUIPU_STORE=postgresql://quipu@localhost/memory

    Passwords belong in ~/.pgpass or PGPASSWORD rather than into an address.
    """


def _address(run: Session, url: str | None) -> Address:
    from quipu import bootstrap

    return bootstrap.address(url if url is not None else run.config().store_url)


@app.command("init", cls=Command)
def init(ctx: typer.Context, url: Url = None) -> None:
    """Make the tables in an empty database.

    [bold]Example[/bold]
      createdb memory
      quipu db init postgresql://quipu@localhost/memory

    Harmless where they are. A schema with tables of another program is refused; `?schema=quipu` names another one.
    See also: db status, db copy.
    """
    run = Session.of(ctx)
    from quipu.bootstrap import databases

    taken = asyncio.run(databases.make(_address(run, url)))
    if not run.answer_json({"steps": taken}):
        output.console().print(
            "The database is ready" if taken else "The database was ready already", markup=False
        )


@app.command("migrate", cls=Command)
def migrate(ctx: typer.Context, url: Url = None) -> None:
    """Bring the tables up to this version of Quipu.

    [bold]Example[/bold]
      quipu db migrate

    Several processes may try at once: one does it, under a lock, all steps or none. Back up first, and stop servers
    of the older version: they refuse the new tables. See also: db status, backup.
    """
    run = Session.of(ctx)
    from quipu.bootstrap import databases

    taken = asyncio.run(databases.migrate(_address(run, url)))
    if not run.answer_json({"steps": taken}):
        said = f"Took {output.counted(taken, 'step')}" if taken else "Nothing to do"
        output.console().print(said, markup=False)


@app.command("status", cls=Command)
def status(ctx: typer.Context, url: Url = None) -> None:
    """Show how a database stands.

    [bold]Example[/bold]
      quipu db status
      quipu db status postgresql://replica.example.org/memory --json

    Exit codes: 0 ready, 1 it needs `db init` or `db migrate`. See also: doctor, db migrate.
    """
    run = Session.of(ctx)
    from quipu.bootstrap import databases

    found = asyncio.run(databases.status(_address(run, url)))
    is_ready = found.version == found.newest
    if not run.answer_json({**asdict(found), "ready": is_ready}):
        rows: list[list[Any]] = [
            ["server", f"PostgreSQL {found.server}{' (a replica)' if found.is_replica else ''}"],
            ["pgvector", found.pgvector or "not installed"],
            ["schema", f"{found.schema}, version {found.version or 0} of {found.newest}"],
            ["tenants", f"{found.tenants:,}"],
            ["size", output.size(sum(found.sizes.values()))],
            ["nearest neighbours", ", ".join(found.indexes) or "exact (no HNSW index)"],
            [
                "citus",
                f"{found.citus}, {len(found.distributed)} tables spread" if found.citus else "not installed",
            ],
        ]
        output.console().print(output.table(["what", "value"], rows, whole=("what",)))
    if not is_ready:
        run.note("Run `quipu db init`." if found.version is None else "Run `quipu db migrate`.")
        raise typer.Exit(1)


@app.command("distribute", cls=Command)
def distribute(ctx: typer.Context, url: Url = None) -> None:
    """Spread the tables over the machines of a Citus cluster, by tenant.

    [bold]Example[/bold]
      quipu db distribute postgresql://quipu@coordinator.example.org/memory

    All rows of a tenant stay together on one machine, and no statement leaves it. See also: db status.
    """
    run = Session.of(ctx)
    from quipu.bootstrap import databases

    done = asyncio.run(databases.distribute(_address(run, url)))
    if not run.answer_json({"tables": done}):
        said = f"Spread {output.counted(len(done), 'table')}" if done else "All tables are spread already"
        output.console().print(said, markup=False)


@app.command("index", cls=Command)
def index(ctx: typer.Context, url: Url = None) -> None:
    """Build an HNSW index for partitions too large for memory.

    [bold]Example[/bold]
      quipu db index

    Without it such partitions are searched exactly, by a scan; with it faster, and approximately. Smaller ones are
    searched in memory either way. Others go on working meanwhile. See also: db status.
    """
    run = Session.of(ctx)
    from quipu.bootstrap import databases

    made = asyncio.run(databases.index(_address(run, url)))
    if not run.answer_json({"indexes": made}):
        output.console().print(", ".join(made) or "There are no vectors to index yet", markup=False)


@app.command("copy", cls=Command)
def copy(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help="A file or store URL.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="An empty database, or a file that is not there yet.")
    ],
) -> None:
    """Move a whole memory: history, journal, checkpoints, vectors, tokens and all.

    [bold]Examples[/bold]
      quipu db copy sqlite:///home/me/memory.db postgresql://quipu@localhost/memory
      quipu db copy postgresql://quipu@localhost/memory sqlite:///home/me/copy.db

    All or nothing: the copy is verified, chain and digests, before it is kept. Writes that come while it runs are not
    in it, so stop writers first. The keys beside the source are copied where the target has none.
    See also: backup, verify.
    """
    run = Session.of(ctx)
    from quipu import bootstrap
    from quipu.bootstrap import databases

    places = bootstrap.address(source), bootstrap.address(target)
    with run.bar("Copying", "rows") as bar:
        done = asyncio.run(databases.copy(*places, progress=bar))
    keys = databases.copy_keys(*places)
    if not run.answer_json({**asdict(done), "keys": keys}):
        shown = output.console()
        shown.print(
            f"Copied {output.counted(done.records, 'version')} and "
            f"{output.counted(done.entries, 'journal entry', 'journal entries')} of "
            f"{output.counted(done.tenants, 'tenant')}; the chain verifies",
            markup=False,
        )
        for key in keys:
            run.note(f"Key copied: {key}")
