"""The command that plays the scenarios on a throw-away memory of this machine, or on any server that speaks memorywire."""

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quipu.command import HandCommand, Session
from quipu.errors import InvalidError, NotFoundError, QuipuError

if TYPE_CHECKING:  # help is shown without loading a memory
    from quipu.config import Settings
    from quipu.testing.scenarios.scenario import Result, Scenario
    from quipu.testing.scenarios.subject import Subject

_COLUMNS = ("outcome", "name", "assertions", "detail")
#: A store URL that names a server.
_PREFIX = "quipu+"


async def _conformance(
    session: Session, *, url: str | None, only: Sequence[str], wire: bool, report: Path | None
) -> int:
    from quipu.testing.scenarios.scenario import played

    chosen = _chosen(only)
    results: list[Result] = []
    url = url or session.server_of()
    if wire and url is None:
        raise InvalidError(
            "No server was named.", reason="usage", hint="--wire needs the address of a server."
        )
    subjects = _throwaway(session.settings) if url is None else _server(session, url, is_wire=wire)
    async with subjects as subject:
        with session.bar("Playing") as bar:
            for number, scenario in enumerate(chosen):
                bar(number, len(chosen))
                results.append(await played(subject, scenario))
        left = tuple(subject.left_behind)
    body = _body(results, left)
    if report is not None:
        await asyncio.to_thread(report.write_text, json.dumps(body, indent=2) + "\n", "utf-8")
    session.table(_COLUMNS, body["results"])
    counts = body["counts"]
    said = f"{counts['pass']} passed, {counts['fail']} failed, {counts['not promised']} not promised"
    session.answer(body, said, *(f"Left behind: {one}" for one in left))
    if url is not None:
        session.note("Entries about it stay in the server's journal, which is never shortened.")
    return 1 if counts["fail"] else 0


def _chosen(only: Sequence[str]) -> "Sequence[Scenario]":
    from quipu.testing.scenarios import SCENARIOS

    known = [scenario.name for scenario in SCENARIOS]
    if unknown := sorted(set(only) - set(known)):
        raise InvalidError(
            f"There is no scenario {unknown[0]}.", reason="usage", hint=f"There are {', '.join(known)}."
        )
    return [scenario for scenario in SCENARIOS if not only or scenario.name in only]


def _body(results: "Sequence[Result]", left: Sequence[str]) -> dict[str, Any]:
    outcomes = [result.outcome for result in results]
    return {
        "counts": {outcome: outcomes.count(outcome) for outcome in ("pass", "fail", "not promised")},
        "results": [
            {
                "name": result.name,
                "outcome": result.outcome,
                "assertions": result.assertions,
                "detail": result.detail,
            }
            for result in results
        ],
        "left_behind": list(left),
    }


# -- what is played on ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def _throwaway(settings: "Settings") -> "AsyncGenerator[Subject]":
    """A memory in a folder that goes afterwards, with a clock of its own."""
    from quipu.api import Memory
    from quipu.bootstrap import open_container
    from quipu.model.ids import now
    from quipu.model.principal import local
    from quipu.opening import Connection, EmbeddedConnection
    from quipu.testing.scenarios.subject import MovedClock, OwnSubject

    with tempfile.TemporaryDirectory(prefix="quipu-conformance-") as folder:
        path, clock = Path(folder) / "memory.db", MovedClock(now())
        container = await open_container(settings, stores=[path], clock=clock)

        async def opened() -> Connection:
            return EmbeddedConnection(container, local())

        try:
            yield OwnSubject(
                Memory.over(opened),
                clock=clock,
                ledger=container.ledger,
                read_log=container.memory.read_log,
                files=lambda: sorted(path.parent.glob(f"{path.name}*")),
            )
        finally:
            await container.close()


@asynccontextmanager
async def _server(session: Session, url: str, *, is_wire: bool) -> "AsyncGenerator[Subject]":
    """A server, beside whatever is there: with all that Quipu adds where it is one, else by memorywire's wire alone."""
    from quipu.api import connect
    from quipu.client import connection
    from quipu.model import ids
    from quipu.testing.scenarios.others import WireSubject, described
    from quipu.testing.scenarios.subject import Subject

    settings, label = session.settings, ids.new_id("run").lower()
    address = url.removeprefix(_PREFIX)
    transport = connection(address, config=settings).transport
    session.note(f"It writes for agents named conformance-{label}-…, and takes away what it wrote.")
    try:
        answer = await described(transport)
        is_quipu = await _is_quipu(address, settings)
        if is_quipu and not is_wire:
            memory = connect(address, config=settings)
            try:
                yield Subject(memory, label=label, clock=ids.now)
            finally:
                await memory.close()
        else:
            promises = {str(name) for name in answer["capabilities"]}
            yield WireSubject(transport, promises, label=label, clock=ids.now, has_floor=is_quipu)
    finally:
        await transport.close()


async def _is_quipu(address: str, settings: "Settings") -> bool:
    """Whether it has operations of Quipu's beside memorywire's."""
    from quipu.api import connect

    memory = connect(address, config=settings)
    try:
        answer: Mapping[str, Any] = (await memory.call("capabilities")).to_dict()
    except QuipuError as error:
        if isinstance(error, NotFoundError) or error.reason in ("bad_answer", "bad_method"):
            return False  # nobody is there, or somebody else
        raise
    finally:
        await memory.close()
    return "remember_many" in answer["operations"]


CONFORMANCE = HandCommand(
    name="conformance",
    help="""Play memorywire's sixteen scenarios, and Quipu's own, on a memory.

    Without a server on a throw-away memory of this machine; on a server beside what is there: each scenario
    has an agent of its own, and what it wrote is erased afterwards. A server of another make is asked in memorywire v0
    alone, under /memorywire/v0. What a server does not promise is reported as such, never as passed. The token is
    QUIPU_TOKEN's; what needs a second person to approve is reported as not promised. Exit code 1 when a scenario fails.""",
    run=_conformance,
    parameters=(
        click.Argument(
            ["url"], required=False, help="A server; left out, a throw-away memory of this machine."
        ),
        click.Option(
            ["--only"], multiple=True, metavar="NAME", help="Play only this scenario. May be repeated."
        ),
        click.Option(["--wire"], is_flag=True, help="Speak memorywire v0 alone, also to a Quipu."),
        click.Option(
            ["--report"],
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Write the results as JSON.",
        ),
    ),
    examples=(
        "quipu conformance",
        "quipu conformance https://memory.example.org --report results.json",
        "quipu conformance --only basic_remember_recall",
    ),
)
