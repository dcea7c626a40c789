"""Runs the benchmarks and writes the results.

`python -m bench [--quick] [--only micro,locomo,scale,keyword,server,upstream,peers,telemetry,runs,lending,moving,fusion] [--soak MINUTES] [--data FOLDER]` writes
results/<date>-<commit>.json and results/latest.md (some parts: a page of their own), and prints the targets. Quick
leaves out sizes above 10k and asks fewer questions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import (
    cold,
    embedding,
    fusion,
    hops,
    keyword,
    labelled,
    lending,
    locomo,
    machine,
    micro,
    moving,
    report,
    runs,
    scale,
    telemetry,
    upstream,
)
from bench.load import run as load
from bench.metrics import latency_summary, mean
from bench.progress import Steps
from bench.quipu_side import QuipuLocomo
from bench.targets import judged

RESULTS = Path(__file__).parent / "results"
PARTS = ("micro", "locomo", "scale", "keyword", "server", "upstream")
#: Only when they are asked for: they take long, or need other people's packages.
FURTHER = ("fusion", "hops", "lending", "moving", "peers", "telemetry", "runs")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000)
UPSTREAM_LARGEST = 100_000
SEED = 2025
QUICK_QUESTIONS = 20


class Run:
    """One run: what was asked for, where it works, what it found."""

    def __init__(
        self,
        parts: Sequence[str],
        quick: bool,
        data: Path | None,
        folder: Path,
        steps: Steps,
        soak: float = 0,
    ) -> None:
        self.parts = parts
        self.quick = quick
        self.data = data
        self.folder = folder
        self.steps = steps
        self.soak = soak
        self.result: dict[str, Any] = {}
        self.failed: dict[str, str] = {}

    @property
    def sizes(self) -> tuple[int, ...]:
        return QUICK_SIZES if self.quick else SIZES

    def _room(self, name: str) -> Path:
        """An empty folder."""
        room = self.folder / name
        shutil.rmtree(room, ignore_errors=True)
        room.mkdir(parents=True)
        return room

    async def micro(self) -> None:
        """Our corpus and memorywire's, and the embedder by itself."""
        asked = [query.query for query in labelled.queries("calibration")]
        self.steps.note("the embedder by itself")
        self.result["embed"] = await embedding.measured(asked, [fact.text for fact in labelled.facts()] * 3)
        part: dict[str, Any] = self.result.setdefault("micro", {})
        part["own"] = await micro.measured(
            self._room("own"), labelled.facts(), labelled.queries("test"), self.steps
        )
        if "upstream" in self.parts:
            theirs = upstream.own_corpus()
            part["memorywire"] = await micro.measured(self._room("theirs"), *theirs, self.steps)
        self.steps.note("cold shell")
        self.result["cold"] = cold.measured(self._room("cold"))

    async def locomo(self) -> None:
        """Evidence turns by floor, conversations kept apart by agent and by user."""
        conversations, dropped = locomo.load(self.data)
        limit = QUICK_QUESTIONS if self.quick else None
        part: dict[str, Any] = self.result.setdefault("locomo", {})
        part["dropped"] = asdict(dropped)
        for name, apart_by in (("quipu", "agent"), ("quipu, one agent, apart by user", "user")):
            system = QuipuLocomo(self._room(f"locomo-{apart_by}") / "locomo.db", apart_by=apart_by)
            system.yardstick = await embedding.ready(self._room(f"yardstick-{apart_by}"))
            try:
                found = await locomo.answers(system, conversations, limit=limit, note=self.steps.note)
                measures: dict[str, Any] = {"off": locomo.report(found)}
                measures["import_per_second"] = system.turns / system.ingest_seconds
                # What an import is held against: the same texts, in turns with it.
                measures["embed_per_second"] = system.turns / system.embed_seconds
                measures["recall"] = latency_summary(system.millis)
                if apart_by == "agent":
                    for floor in ("auto", "strict"):
                        system.floor = floor
                        found = await locomo.asked(system, conversations, limit=limit, note=self.steps.note)
                        measures[floor] = locomo.report(found)
                part[name] = measures
            finally:
                await system.yardstick.close()
                await system.close()

    async def hops(self) -> None:
        """What hops are worth, with different links to walk."""
        limit = QUICK_QUESTIONS if self.quick else None
        self.result["hops"] = await hops.measured(
            self._room("hops"), self.data, questions=limit, note=self.steps.note
        )

    async def fusion(self) -> None:
        """What a rogue among the stores can do."""
        self.result["fusion"] = await fusion.measured(quick=self.quick, note=self.steps.note)

    async def scale(self) -> None:
        """Every size in a process of its own."""
        part: dict[str, Any] = self.result.setdefault("scale", {})
        for records in self.sizes:
            self.steps.note(f"scale: {records:,} records")
            room = self._room("scale")
            part[str(records)] = await asyncio.to_thread(scale.in_own_process, room, records, SEED)
            shutil.rmtree(room, ignore_errors=True)

    async def keyword(self) -> None:
        """FTS5 against Quipu's keyword leg."""
        part: dict[str, Any] = self.result.setdefault("keyword", {})
        for records in self.sizes[1:] if self.quick else self.sizes[2:]:
            self.steps.note(f"keyword: {records:,} records")
            part[str(records)] = await keyword.measured(self._room("keyword"), records, SEED)

    async def server(self) -> None:
        """`quipu serve` under load, and over a long time if that was asked for."""
        seconds = 3 if self.quick else 10
        note = self.steps.note
        self.result["server"] = await asyncio.to_thread(load.measured, self._room("server"), seconds, note)
        if self.soak:
            room = self._room("soak")
            self.result["soak"] = await asyncio.to_thread(load.soaked, room, self.soak, note)

    async def peers(self) -> None:
        """Quipu on both ledgers beside other stores."""
        from bench.peers import run as peers

        sizes = self.sizes[1:]
        largest = QUICK_SIZES[-1] if self.quick else UPSTREAM_LARGEST
        self.result["peers"] = await peers.measured(self._room, sizes, largest, SEED, self.steps.note)

    async def lending(self) -> None:
        """A query under a grant against a plain recall."""
        questions = QUICK_QUESTIONS if self.quick else 400
        self.result["lending"] = await lending.measured(self._room("lending"), questions, self.steps.note)

    async def moving(self) -> None:
        """Whole memories out and in."""
        items = 5_000 if self.quick else 1_000_000
        self.result["moving"] = await moving.measured(self._room("moving"), items, self.steps.note)

    async def telemetry(self) -> None:
        """What being watched costs a recall."""
        recalls = 300 if self.quick else 3_000
        self.result["telemetry"] = await telemetry.measured(self._room("telemetry"), recalls, self.steps.note)

    async def runs(self) -> None:
        """What a snapshot costs, and many runs at once."""
        self.result["runs"] = await runs.measured(
            self._room("runs"),
            records=10_000 if self.quick else 100_000,
            reads=100 if self.quick else 500,
            runs=200,
            note=self.steps.note,
        )

    async def upstream(self) -> None:
        """memorywire on the same work."""
        part: dict[str, Any] = self.result.setdefault("upstream", {})
        self.steps.note("upstream: environment")
        await asyncio.to_thread(upstream.prepare)
        for name, corpus in (
            ("own", (labelled.facts(), labelled.queries("test"))),
            ("memorywire", upstream.own_corpus()),
        ):
            with upstream.Upstream() as worker:
                part[name] = micro.upstream_measured(
                    worker, self._room(f"upstream-{name}"), *corpus, self.steps
                )
        sizes: dict[str, Any] = self.result.setdefault("upstream_scale", {})
        for records in [size for size in self.sizes if size <= UPSTREAM_LARGEST]:
            self.steps.note(f"upstream: {records:,} records")
            with upstream.Upstream() as worker:
                path = self._room("upstream-scale") / "upstream.db"
                found = await asyncio.to_thread(
                    worker.call, "scale", path=str(path), records=records, seed=SEED
                )
            sizes[str(records)] = {
                "fill_seconds": found["fill_seconds"],
                "writes": latency_summary(found["writes"]),
                "writes_per_second": 1000 * len(found["writes"]) / sum(found["writes"]),
                "recall": {
                    name: {**latency_summary(millis), "returned_share": mean(found["returned"][name])}
                    for name, millis in found["recalls"].items()
                },
                "bytes_per_record": found["bytes"] / (records + len(found["writes"])),
            }

    async def all(self) -> None:
        """Every part asked for; a part that fails is reported and the others go on."""
        for name in self.parts:
            work: Callable[[], Awaitable[None]] = getattr(self, name)
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - a failed part is written into the result, the rest is kept
                self.failed[name] = f"{type(error).__name__}: {error}"
            self.steps.done()


def _printed(result: dict[str, Any], console: Console) -> None:
    """The targets as a table on the terminal."""
    colours = {"met": "green", "missed": "red", "not measured": "dim"}
    table = Table("what", "target", "measured", "", title="Targets")
    for one in judged(result):
        table.add_row(one.what, one.asked, one.measured, f"[{colours[one.verdict]}]{one.verdict}[/]")
    console.print(table)
    for name, why in result.get("failed", {}).items():
        console.print(f"[red]{name} failed:[/] {why}")


def main() -> None:
    """Reads the options, runs, writes and prints."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, few questions")
    parser.add_argument("--only", help="some of: " + ",".join((*PARTS, *FURTHER)))
    parser.add_argument(
        "--data",
        type=Path,
        help="folder of locomo-dev.json (default: a folder shared/data beside the repository)",
    )
    parser.add_argument("--soak", type=float, default=0, metavar="MINUTES", help="ask the server for so long")
    given = parser.parse_args()
    parts = given.only.split(",") if given.only else list(PARTS)
    if unknown := set(parts) - {*PARTS, *FURTHER}:
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    corpus = {name: labelled.FOLDER / name for name in ("facts.json", "queries.json", "calibration.json")}
    about = machine.described(
        {**corpus, "locomo": (given.data or locomo.DEFAULT_DATA) / locomo.FILE_NAME}, SEED
    )
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="quipu-bench-") as folder, Steps(len(parts), console) as steps:
        run = Run(parts, given.quick, given.data, Path(folder), steps, given.soak)
        asyncio.run(run.all())
    result: dict[str, Any] = {
        "machine": about,
        "quick": given.quick,
        "parts": parts,
        **run.result,
        "failed": run.failed,
    }
    RESULTS.mkdir(exist_ok=True)
    # A run of some parts must not take the place of a whole one.
    partial = "" if parts == list(PARTS) else "-" + "-".join(parts)
    name = f"{about['date'][:10]}-{about['commit'].rstrip('+')}{'-quick' if given.quick else ''}{partial}"
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    page = RESULTS / (f"{name}.md" if partial else "latest.md")
    page.write_text(report.page(result), encoding="utf-8")
    _printed(result, Console())
    console.print(f"wrote {path.name} and {page.name}")
    if run.failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
