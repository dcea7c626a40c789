"""conformance: every scenario of memorywire, and Quipu's own, played on any store."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quipu.cli import output, places
from quipu.cli.command import Command
from quipu.cli.session import Session
from quipu.errors import ForbiddenError, InvalidError

if TYPE_CHECKING:
    from quipu.cli.conformance_wire import Wire
    from quipu.config import Config
    from quipu.memory import Memory
    from quipu.service.memory import MemoryService
    from quipu.testing.scenarios import Result
    from quipu.testing.scenarios_subject import Subject

app = typer.Typer()

_NOT_RUN = "not run"
#: Mirrors that are tested alone are waited for.
_PATIENT_MS = 60_000


@app.command("conformance", cls=Command, rich_help_panel="Proof")
def conformance(
    ctx: typer.Context,
    urls: Annotated[
        list[str] | None,
        typer.Argument(metavar="[URL]...", help="A store, a server, or mirrors; else a throw-away memory."),
    ] = None,
    mirrors_only: Annotated[
        bool,
        typer.Option("--mirrors-only", help="Switch the ledger's own search off: only mirrors find."),
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Play only these scenarios.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write the results as JSON.")
    ] = None,
) -> None:
    """Play memorywire's sixteen scenarios, and Quipu's own, on a store.

    [bold]Examples[/bold]
      quipu conformance
      quipu conformance https://memory.example.org --report results.json
      quipu conformance postgresql://user@host/db
      quipu conformance mem0://default --mirrors-only
      quipu conformance --only basic_remember_recall

    A server or a ledger is tested beside what is there: each scenario has an agent of its own, whose records are
    erased afterwards; with the token of an administrator a reviewer is named for as long as it lasts. A server of
    another make is asked in memorywire v0 alone, under /memorywire/v0. A mirror is tested behind a throw-away ledger.
    What a store lacks to be asked is told as not run, never as passed. Exit 1 when a scenario fails. See also: doctor,
    mirror verify.
    """
    run = Session.of(ctx)
    with run.warnings(), run.building() as progress:
        results = asyncio.run(_results(run, list(urls or []), only or [], progress, is_alone=mirrors_only))
    body = _body(results)
    if report is not None:
        report.write_text(json.dumps(body, indent=2) + "\n", "utf-8")
    if not run.answer_json(body):
        rows = [[_mark(result), result.name, result.assertions, result.detail] for result in results]
        output.console().print(output.table(["", "scenario", "checks", "says"], rows))
        counts = body["counts"]
        output.console().print(
            f"{counts['passed']} passed, {counts['failed']} failed, {counts['not_run']} not run", markup=False
        )
    if body["counts"]["failed"]:
        raise typer.Exit(1)


def _mark(result: Result) -> str:
    return "ok" if result.passed else "--" if result.detail.startswith(_NOT_RUN) else "FAIL"


def _body(results: Sequence[Result]) -> dict[str, Any]:
    marks = [_mark(result) for result in results]
    return {
        "counts": {
            "passed": marks.count("ok"),
            "failed": marks.count("FAIL"),
            "not_run": marks.count("--"),
        },
        "results": [
            {
                "name": result.name,
                "passed": result.passed,
                "run": not result.detail.startswith(_NOT_RUN),
                "assertions": result.assertions,
                "detail": result.detail,
            }
            for result in results
        ],
    }


async def _results(
    run: Session, urls: Sequence[str], only: Sequence[str], progress: Any, *, is_alone: bool
) -> list[Result]:
    from quipu.testing.scenarios import SCENARIOS, played

    unknown = sorted(set(only) - {scenario.name for scenario in SCENARIOS})
    if unknown:
        raise InvalidError(
            f"There is no scenario {unknown[0]}.",
            reason="usage",
            hint=f"Known: {', '.join(scenario.name for scenario in SCENARIOS)}.",
        )
    chosen = [scenario for scenario in SCENARIOS if not only or scenario.name in only]
    async with _subject(run, urls, progress, is_alone=is_alone) as subject:
        return [await played(subject, scenario) for scenario in chosen]


@asynccontextmanager
async def _subject(
    run: Session, urls: Sequence[str], progress: Any, *, is_alone: bool
) -> AsyncGenerator[Subject]:
    """What is tested: a server, or a service in this process with whatever ledger and mirrors were named."""
    from quipu import bootstrap
    from quipu.memory import Memory, connect
    from quipu.memory.remote import is_server
    from quipu.testing.scenarios_live import LiveSubject
    from quipu.testing.scenarios_wire import WireSubject

    config, label = run.config(), bootstrap.mint_id("c").lower()
    if len(urls) == 1 and (is_server(urls[0]) or urls[0].startswith(("http://", "https://"))):
        async with _wire(urls[0], config) as wire:
            told = await wire.described()
            if not wire.is_quipu(told):
                yield WireSubject(wire, wire.promises(told), label=label, clock=bootstrap.now_ms)
                return
        async with connect(urls[0], config=config) as memory, _reviewer(urls[0], memory, label) as reviewer:
            yield LiveSubject(memory, _reply, label=label, clock=bootstrap.now_ms, reviewer=reviewer)
        return
    with tempfile.TemporaryDirectory(prefix="quipu-conformance-") as folder:
        chosen = _with_places(config, urls, Path(folder), is_alone=is_alone)
        running = await bootstrap.start(chosen, progress=progress)
        try:
            service = running.service
            await service.open("default")
            await service.mirrors.start()
            async with Memory(connection=_Here(service), config=config) as memory:
                waits = (lambda: service.mirrors.drained("default")) if service.mirrors.lines else None
                yield LiveSubject(memory, _reply, label=label, clock=bootstrap.now_ms, before_recall=waits)
        finally:
            await running.close()


@asynccontextmanager
async def _wire(url: str, config: Config) -> AsyncGenerator[Wire]:
    """The way to a server of whatever make."""
    from quipu.bootstrap.surroundings import jitter
    from quipu.cli.conformance_wire import Wire
    from quipu.client.patience import Patience
    from quipu.client.transport import Transport
    from quipu.memory.remote import token_for

    transport = Transport(
        url.removeprefix("quipu+"),
        token=token_for(config, url),
        patience=Patience(total_s=config.server_timeout_s, retries=config.server_retries),
        jitter=jitter,
        insecure=config.server_insecure,
    )
    try:
        yield Wire(transport)
    finally:
        await transport.close()


@asynccontextmanager
async def _reviewer(url: str, memory: Memory, label: str) -> AsyncGenerator[Memory | None]:
    """Somebody else on the same server, for as long as the run lasts; None where the credential may name nobody."""
    from quipu.memory import connect

    try:
        issued = await memory.create_token(f"conformance-{label}", roles=["reviewer"])
    except ForbiddenError:
        yield None
        return
    try:
        async with connect(url, token=issued.text) as reviewer:
            yield reviewer
    finally:
        await memory.revoke_token(issued.token.id)


def _with_places(config: Config, urls: Sequence[str], folder: Path, *, is_alone: bool) -> Config:
    from quipu.bootstrap.addresses import address
    from quipu.bootstrap.stores import ledger_and_mirrors

    ledger, mirrors = ledger_and_mirrors(urls)
    if is_alone and not mirrors:
        raise InvalidError("No mirror was named.", reason="usage", hint="Give a URL such as mem0://default.")
    if ledger and "://" not in ledger and (path := address(ledger).missing) is not None:
        raise places.refusal(path)  # a word that is no URL is sooner a slip than a memory to be made
    return config.with_values(
        store_url=ledger or f"sqlite://{folder / 'memory.db'}",
        mirrors="\n".join(mirrors),
        recall_ledger_votes=not is_alone,
        mirror_write_deadline_ms=_PATIENT_MS if mirrors else None,
        recall_deadline_ms=_PATIENT_MS if mirrors else None,
    )


class _Here:
    """A way to a service that is open already, and closed by somebody else."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def open(self) -> MemoryService:
        return self._service

    async def close(self) -> None: ...


def _reply(response: object, extensions: bool) -> dict[str, Any]:
    """The answer as memorywire JSON."""
    from quipu.faces.memorywire import wire

    kinds: dict[str, Any] = {
        "RememberResponse": wire.RememberReply,
        "RecallResponse": wire.RecallReply,
        "ForgetResponse": wire.ForgetReply,
        "MergeResponse": wire.MergeReply,
        "ExpireResponse": wire.ExpireReply,
    }
    body: dict[str, Any] = kinds[type(response).__name__].from_model(response, extensions).body()
    return body
