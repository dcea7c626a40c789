"""The command that moves a memory between a file and a database."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from quipu.command import HandCommand, Session


async def _copy(session: Session, *, target: str, tenants: tuple[str, ...]) -> None:
    session.stay_here("db copy")
    # By name: this module stands below the one that puts all capabilities together.
    open_ledger: Any = import_module("quipu.bootstrap").open_ledger
    async with session.container("works") as container:
        copy = open_ledger(target, session.settings)
        try:
            with session.bar("Copying") as bar:
                counts: Mapping[str, int] = await container.ledger.copy_to(copy, tenants or None, bar)
        finally:
            await copy.close()
    rows = [{"tenant": tenant, "rows": count} for tenant, count in counts.items()]
    session.answer({"tenants": rows})
    session.table(("tenant", "rows"), rows)
    session.note("The key that seals secrets was not copied; the copy needs the same one.")


DB_COPY = HandCommand(
    name="db copy",
    help="""Copy a memory into another file or database, row for row: history, journal, vectors, everything.

    The target must not hold any of the tenants. Every row is read back before anything is kept.
    """,
    run=_copy,
    parameters=(
        click.Argument(["target"], metavar="ADDRESS", help="Where the copy goes: a file or a database."),
        click.Option(
            ["--tenants"], multiple=True, help="Only this tenant; may be given several times. Left out, all."
        ),
    ),
    examples=(
        "quipu db copy postgresql://quipu@db/memory",
        "quipu db copy --store-url postgresql://quipu@db/memory sqlite:///home/me/copy.db",
    ),
)
