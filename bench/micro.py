"""Recall quality and latency on a labelled corpus, Quipu and memorywire alike.

Scoped to the user and over everything; floor off, auto and strict; keyword leg, vector leg and both; the curve
over min_relevance. The vector leg alone is asked with a query that has no word and the query's vector given.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench import quipu_side
from bench.labelled import Fact, Query
from bench.metrics import Answer, latency_summary, quality, random_recall_at
from bench.progress import Steps
from bench.upstream import Upstream

FLOORS = ("off", "auto", "strict")
CURVE = tuple(round(step * 0.05, 2) for step in range(20))
K = 5
CALLERS = 64
TURNS = 5
#: The queries are too few for a steady median: whole passes are repeated, each with an embedder that knows none of them.
PASSES = 5


def answered(asked: Sequence[Query], rankings: Sequence[Sequence[str]]) -> list[Answer]:
    """Queries joined with what came back."""
    return [Answer(query.kind, ranked, query.gold) for query, ranked in zip(asked, rankings, strict=True)]


async def _rankings(
    memory: Any, asked: Sequence[Query], labels: dict[str, str], scoped: bool, floor: quipu_side.Floor
) -> tuple[list[list[str]], list[float]]:
    """Labels returned for each query, and the times."""
    rankings: list[list[str]] = []
    millis: list[float] = []
    for query in asked:
        user_id = query.user_id if scoped else None
        hits, took = await quipu_side.recall(memory, query.query, k=K, user_id=user_id, floor=floor)
        rankings.append([labels[hit.id] for hit in hits])
        millis.append(took)
    return rankings, millis


def _wrong(asked: Sequence[Query], rankings: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Queries whose answer is incomplete or should have been empty."""
    listed: list[dict[str, Any]] = []
    for query, ranked in zip(asked, rankings, strict=True):
        if set(query.gold) - set(ranked) or (ranked and not query.gold):
            listed.append(
                {"id": query.id, "query": query.query, "gold": list(query.gold), "returned": list(ranked)}
            )
    return listed


async def _together(folder: Path, rows: Sequence[Fact]) -> float:
    """Facts per second by many callers at once, embedder included; into new files, as a text is embedded once."""
    rates: list[float] = []
    for turn in range(TURNS):
        async with quipu_side.opened(folder / f"together-{turn}.db") as memory:
            await quipu_side.recall(memory, "warm up the embedder")
            rates.append(await quipu_side.remember_facts_together(memory, rows, CALLERS))
    return median(rates)


async def _passes(folder: Path, rows: Sequence[Fact], asked: Sequence[Query]) -> list[float]:
    """Times of more recalls with every query embedded: another file and another embedder each time."""
    millis: list[float] = []
    for turn in range(1, PASSES):
        async with quipu_side.opened(folder / f"pass-{turn}.db") as memory:
            await quipu_side.recall(memory, "warm up the embedder")
            labels, _ = await quipu_side.remember_facts(memory, rows)
            await quipu_side.recall(memory, "warm up the search")
            millis += (await _rankings(memory, asked, labels, True, "off"))[1]
    return millis


async def measured(
    folder: Path, rows: Sequence[Fact], asked: Sequence[Query], steps: Steps
) -> dict[str, Any]:
    """Quipu on a corpus."""
    result: dict[str, Any] = {
        "random": {"scoped": random_recall_at(K, 10), "unscoped": random_recall_at(K, 100)}
    }
    path = folder / "micro.db"
    cpu, embedded = time.process_time(), list[float]()
    async with quipu_side.opened(path) as memory:
        steps.note("micro: ingest")
        await quipu_side.recall(memory, "warm up the embedder")
        labels, ingest = await quipu_side.remember_facts(memory, rows)
        result["ingest"] = latency_summary(ingest)
        await quipu_side.recall(memory, "warm up the search")
        for scoped in (True, False):
            where = "scoped" if scoped else "unscoped"
            for floor in FLOORS:
                steps.note(f"micro: {where}, floor {floor}")
                rankings, millis = await _rankings(memory, asked, labels, scoped, floor)
                found = quality(answered(asked, rankings))
                result[f"{where}/{floor}"] = {**found, "wrong": _wrong(asked, rankings)}
                if scoped and floor == "off":
                    # Nothing was asked before, so every query is embedded here and none with the other floors.
                    embedded = millis
                elif floor == "off":
                    result["recall_embedder_excluded"] = latency_summary(millis)
        result["curve"] = {}
        for floor in CURVE:
            steps.note(f"micro: min_relevance {floor}")
            rankings, _ = await _rankings(memory, asked, labels, True, floor)
            found = quality(answered(asked, rankings))
            result["curve"][str(floor)] = {
                name: found[name] for name in ("recall@5", "no_match", "false_empty")
            }
    steps.note("micro: recall, more passes")
    result["recall"] = latency_summary([*embedded, *await _passes(folder, rows, asked)])
    async with quipu_side.opened(folder / "keyword.db", embedder="none") as memory:
        steps.note("micro: keyword leg alone")
        labels, _ = await quipu_side.remember_facts(memory, rows)
        for scoped in (True, False):
            rankings, _ = await _rankings(memory, asked, labels, scoped, "off")
            result[f"keyword/{'scoped' if scoped else 'unscoped'}"] = quality(answered(asked, rankings))
    steps.note(f"micro: {CALLERS} callers")
    result["together_per_second"] = await _together(folder, rows)
    result["cpu_seconds"] = time.process_time() - cpu
    return result


def upstream_measured(
    upstream: Upstream, folder: Path, rows: Sequence[Fact], asked: Sequence[Query], steps: Steps
) -> dict[str, Any]:
    """memorywire on the same corpus."""
    steps.note("upstream: ingest")
    upstream.call("open", path=str(folder / "upstream.db"))
    stored = [
        {"label": one.id, "content": one.text, "type": one.type, "user_id": one.user_id} for one in rows
    ]
    result: dict[str, Any] = {"ingest": latency_summary(upstream.call("ingest", facts=stored)["millis"])}
    upstream.call("recall", queries=[{"query": "warm up the search"}])
    for scoped in (True, False):
        where = "scoped" if scoped else "unscoped"
        steps.note(f"upstream: {where}")
        sent = [{"query": query.query, "user_id": query.user_id if scoped else None} for query in asked]
        answers = upstream.call("recall", queries=sent, k=K)["answers"]
        rankings = [one["ranked"] for one in answers]
        result[f"{where}/off"] = {**quality(answered(asked, rankings)), "wrong": _wrong(asked, rankings)}
        if scoped:
            more = [upstream.call("recall", queries=sent, k=K)["answers"] for _ in range(1, PASSES)]
            passes = [answers, *more]
            result["recall"] = latency_summary(one["millis"] for answers in passes for one in answers)
    gold = [query.query for query in asked if query.gold]
    keyword = upstream.call("legs", queries=gold)["keyword"]
    result["keyword_leg_answers"] = {"answered": sum(count > 0 for count in keyword), "asked": len(gold)}
    result["embed"] = latency_summary(
        upstream.call("embed", texts=[query.query for query in asked])["millis"]
    )
    upstream.call("close")
    return result
