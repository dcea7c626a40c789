"""health and capabilities: how the memory is, and what it promises."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from quipu.cli import output
from quipu.cli.command import Command
from quipu.cli.session import Session, Use
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

    `quipu doctor` examines more. Exit codes: 0 it answers, 1 there is none, 2 it does not.
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


@app.command("whoami", cls=Command, rich_help_panel="Server")
def whoami(ctx: typer.Context) -> None:
    """Say as whom you act: tenant, name, permissions, agents.

    [bold]Example[/bold]
      quipu whoami --server https://memory.example.org --token-file ~/.quipu-token

    See also: token list, health.
    """
    run = Session.of(ctx)
    with run.memory(use=Use.READS) as memory:
        found = memory.whoami()
    body: dict[str, Any] = {
        "tenant": found.tenant,
        "name": found.name,
        "permissions": sorted(found.permissions),
        "agents": list(found.agents),
        "user_id": found.user_id,
        "expires_at": found.expires_at,
        "rate": found.rate,
        "recall_budget": found.recall_budget,
        "review_stores": list(found.review_stores),
        "review_operations": list(found.review_operations),
    }
    if run.answer_json(body):
        return
    lists = ("permissions", "agents", "review_stores", "review_operations")
    shown = {**body, **{name: ", ".join(body[name]) for name in lists}}
    shown["expires_at"] = None if found.expires_at is None else output.when(found.expires_at)
    output.console().print(output.table(["what", "value"], list(shown.items()), whole=("what",)))


@app.command("capabilities", cls=Command, rich_help_panel="Upkeep")
def capabilities(ctx: typer.Context) -> None:
    """List what this memory promises.

    [bold]Example[/bold]
      quipu capabilities --json

    See also: health, config.
    """
    run = Session.of(ctx)
    config = run.config()
    body = _configured(run, config) if run.server_of(config) is None else _promised(run)
    if run.answer_json(body):
        return
    rows: list[list[str]] = [
        ["capabilities", ", ".join(body["capabilities"])],
        ["types", ", ".join(body["types"])],
        ["operations", ", ".join(body["operations"])],
        ["wire", body["wire"]],
        *[["store", f"{name} ({told['role']})"] for name, told in body["stores"].items()],
        ["embedder", body["embedder"]["model"] if body["embedder"] else "none: words only"],
        *[[f"limit: {key}", f"{value:,}"] for key, value in body["limits"].items()],
    ]
    output.console().print(output.table(["what", "value"], rows, whole=("what",)))


def _promised(run: Session) -> dict[str, Any]:
    """What a server says of itself."""
    with run.memory(use=Use.READS) as memory:
        return dict(memory.describe())


def _configured(run: Session, config: Config) -> dict[str, Any]:
    """What the settings promise; nothing is opened."""
    run.ready(config, Use.READS)
    from quipu import bootstrap
    from quipu.model.record import MemoryType
    from quipu.service.memory import CAPABILITIES

    embedder = _embedder(config)
    # Without an embedder nothing is found by meaning.
    promised = sorted(CAPABILITIES if embedder is not None else CAPABILITIES - {"vector"})
    return {
        "capabilities": promised,
        "types": [kind.value for kind in MemoryType],
        "operations": list(_OPERATIONS),
        "wire": "memorywire/v0",
        "stores": {bootstrap.address(config.store_url).name: {"role": "ledger", "capabilities": promised}},
        "limits": asdict(config.limits),
        "embedder": embedder,
        "extensions": {"quipu": 1},
    }


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
