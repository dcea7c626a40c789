"""health and capabilities: how the memory is, and what it promises."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from quipu.cli import output
from quipu.cli.command import Command
from quipu.cli.session import Session
from quipu.errors import QuipuError

if TYPE_CHECKING:
    from quipu.config import Config

app = typer.Typer()

_OPERATIONS = ("remember", "recall", "forget", "merge", "expire")


@app.command("health", cls=Command, rich_help_panel="Upkeep")
def health(ctx: typer.Context) -> None:
    """Say whether the memory answers.

    [bold]Example[/bold]
      quipu health --json

    `quipu doctor` examines more. Exit codes: 0 it answers, 2 it does not.
    See also: doctor, capabilities.
    """
    run = Session.of(ctx)
    with run.memory() as memory:
        found: Any = memory.health()
    if run.answer_json(found):
        return
    shown = output.console()
    shown.print(f"{found['status']}  quipu {found['version']}  journal at {found['seq']}", markup=False)
    for row in found["stores"]:
        shown.print(f"  {row['backend']}  {row['role']}  {row['status']}", markup=False)


@app.command("capabilities", cls=Command, rich_help_panel="Upkeep")
def capabilities(ctx: typer.Context) -> None:
    """List what this memory promises.

    [bold]Example[/bold]
      quipu capabilities --json

    See also: health, config.
    """
    run = Session.of(ctx)
    from quipu import bootstrap
    from quipu.model.limits import Limits
    from quipu.model.record import MemoryType
    from quipu.service.memory import CAPABILITIES

    config = run.config()
    promised = sorted(CAPABILITIES)
    name = bootstrap.address(config.store_url).name
    body: dict[str, Any] = {
        "capabilities": promised,
        "types": [kind.value for kind in MemoryType],
        "operations": list(_OPERATIONS),
        "wire": "memorywire/v0",
        "stores": {name: {"role": "ledger", "capabilities": promised}},
        "limits": asdict(Limits()),
        "embedder": _embedder(config),
        "extensions": {"quipu": 1},
    }
    if run.answer_json(body):
        return
    rows: list[list[str]] = [
        ["capabilities", ", ".join(promised)],
        ["types", ", ".join(body["types"])],
        ["operations", ", ".join(_OPERATIONS)],
        ["wire", body["wire"]],
        ["store", f"{name} (ledger)"],
        ["embedder", body["embedder"]["model"] if body["embedder"] else "none: words only"],
        *[[f"limit: {key}", f"{value:,}"] for key, value in body["limits"].items()],
    ]
    output.console().print(output.table(["what", "value"], rows, whole=("what",)))


def _embedder(config: Config) -> dict[str, Any] | None:
    """Which embedder is configured; it is not loaded."""
    import asyncio

    from quipu import bootstrap

    async def asked() -> dict[str, Any] | None:
        embedder = await bootstrap.open_embedder(config)
        if embedder is None:
            return None
        found = {"model": embedder.model, "dimensions": embedder.dimensions}
        await embedder.close()
        return found

    try:
        return asyncio.run(asked())
    except QuipuError:
        return None
