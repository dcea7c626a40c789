"""What Quipu wants to reach, judged from a result; what was not measured in a run is said to be so."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["met", "missed", "not measured"]


@dataclass(frozen=True)
class Target:
    """One row: what is asked, how to read it from a result, and when it is met."""

    what: str
    asked: str
    read: Callable[[dict[str, Any]], float]
    is_met: Callable[[float], bool]
    unit: str = ""


@dataclass(frozen=True)
class Judged:
    """A target with what was measured."""

    what: str
    asked: str
    measured: str
    verdict: Verdict


def _stub_shares(stubs: dict[str, Any]) -> list[float]:
    """Recall, and what is no leak, under rrf wherever a majority is honest."""
    casts = ("2+1", "3+2", "4+3")
    found = [one for cast in casts for one in stubs["invented"][cast]["rrf"].values()]
    found += [stubs["existing"]["trimmed"][cast] for cast in casts]
    return [share for one in found for share in (one["recall"], 1 - one["leak"])]


def _ratio(theirs: float, ours: float) -> float:
    """How many times less ours is."""
    return theirs / ours


def _scale(result: dict[str, Any], records: int, *keys: str) -> Any:
    """A value of one size of the scale part."""
    value: Any = result["scale"][str(records)]
    for key in keys:
        value = value[key]
    return value


def _upstream_scale(result: dict[str, Any], records: int, *keys: str) -> Any:
    """A value of one size of the upstream scale part."""
    value: Any = result["upstream_scale"][str(records)]
    for key in keys:
        value = value[key]
    return value


def _recall_ms(result: dict[str, Any], records: int, agent: str, kind: str) -> float:
    """p50 of one kind of recall; infinite when the pass did not return all it could, or returned what it must not."""
    row = _scale(result, records, agent, "recall", kind)
    return row["p50_ms"] if row["returned_share"] >= 0.999 and not row["foreign"] else math.inf


def _by_hops(result: dict[str, Any], kind: str) -> list[float]:
    """What one hop gains over none on LoCoMo's turns, @5, @10 and @25, in points."""
    gains = result["hops"]["turns in sessions"]["gain"][kind]["1"]
    return [100 * gain["mean"] for gain in gains.values()]


def _served_share(result: dict[str, Any], operation: str) -> float:
    """What a server does of the same work, beside one process."""
    served, inside = result["server"][operation]["8"], result["server"]["inside"][operation]
    return served["per_second"] / inside["per_second"]


def _evidence(k: int) -> Callable[[dict[str, Any]], float]:
    return lambda result: result["locomo"]["quipu"]["off"]["evidence"]["all"][f"@{k}"]


TARGETS: tuple[Target, ...] = (
    Target(
        "one query embedded, warm, against memorywire's embedder path",
        "≥ 5× faster",
        lambda r: _ratio(r["upstream"]["own"]["embed"]["p50_ms"], r["embed"]["one"]["p50_ms"]),
        lambda value: value >= 5,
        "×",
    ),
    Target(
        "`quipu recall` from a cold shell",
        "< 1.2 s",
        lambda r: r["cold"]["recall_seconds"],
        lambda v: v < 1.2,
        " s",
    ),
    Target(
        "`quipu list` from a cold shell: a command without a model",
        "< 0.4 s",
        lambda r: r["cold"]["list_seconds"],
        lambda v: v < 0.4,
        " s",
    ),
    Target(
        "recall p50 at 100 facts, embedder included, against memorywire",
        "≥ 5× faster",
        lambda r: _ratio(r["upstream"]["own"]["recall"]["p50_ms"], r["micro"]["own"]["recall"]["p50_ms"]),
        lambda value: value >= 5,
        "×",
    ),
    Target(
        "recall p50 at 100k in one agent, embedder excluded",
        "≤ 12 ms (≤ 30 ms with FTS5 alone)",
        lambda r: _recall_ms(r, 100_000, "largest", "live"),
        lambda value: value <= 12,
        " ms",
    ),
    Target(
        "the same against memorywire",
        "≥ 5× faster",
        lambda r: _ratio(
            _upstream_scale(r, 100_000, "recall", "live", "p50_ms"),
            _recall_ms(r, 100_000, "largest", "live"),
        ),
        lambda value: value >= 5,
        "×",
    ),
    Target(
        "the same with a user filter",
        "≤ 12 ms",
        lambda r: _recall_ms(r, 100_000, "largest", "filtered"),
        lambda value: value <= 12,
        " ms",
    ),
    Target(
        "vector leg against brute force at 100k",
        "exact",
        lambda r: _scale(r, 100_000, "largest", "recall", "exact_share"),
        lambda value: value >= 0.9995,
    ),
    Target(
        "recall p50 at 1M in 1,000 agents, middle agent",
        "≤ 12 ms",
        lambda r: _recall_ms(r, 1_000_000, "middle", "live"),
        lambda value: value <= 12,
        " ms",
    ),
    Target(
        "recall p50 at 1M in 1,000 agents, largest agent",
        "≤ 20 ms (≤ 70 ms with FTS5 alone)",
        lambda r: _recall_ms(r, 1_000_000, "largest", "live"),
        lambda value: value <= 20,
        " ms",
    ),
    Target(
        "vector leg against brute force, largest agent of 1M",
        "≥ 0.99",
        lambda r: _scale(r, 1_000_000, "largest", "recall", "exact_share"),
        lambda value: value >= 0.99,
    ),
    Target(
        "durable remember, one writer, against a bare SQLite transaction (at 10k)",
        "≤ 2×",
        lambda r: _ratio(
            _scale(r, 10_000, "largest", "writes", "one_writer", "p50_ms"),
            _scale(r, 10_000, "largest", "writes", "bare_sqlite", "p50_ms"),
        ),
        lambda value: value <= 2,
        "×",
    ),
    Target(
        "the same, of the first 400 writes, while the files of both logs still grow",
        "≤ 2×",
        lambda r: _ratio(
            _scale(r, 10_000, "largest", "writes", "first", "one_writer", "p50_ms"),
            _scale(r, 10_000, "largest", "writes", "first", "bare_sqlite", "p50_ms"),
        ),
        lambda value: value <= 2,
        "×",
    ),
    Target(
        "durable remember, 64 callers, against memorywire's sequential rate (at 10k)",
        "≥ 10×",
        lambda r: (
            _scale(r, 10_000, "largest", "writes", "concurrent", "per_second")
            / _upstream_scale(r, 10_000, "writes_per_second")
        ),
        lambda value: value >= 10,
        "×",
    ),
    Target(
        "the same on our own corpus, each with its own embedder",
        "≥ 10×",
        lambda r: r["micro"]["own"]["together_per_second"] * r["upstream"]["own"]["ingest"]["p50_ms"] / 1000,
        lambda value: value >= 10,
        "×",
    ),
    Target(
        "batch ingest at 100k, vectors given",
        "≥ 8,000 /s",
        lambda r: _scale(r, 100_000, "ingest_per_second"),
        lambda value: value >= 8_000,
        " /s",
    ),
    Target(
        "bulk import with embedding, share of the embedder's own throughput",
        "≥ 0.85",
        lambda r: r["locomo"]["quipu"]["import_per_second"] / r["locomo"]["quipu"]["embed_per_second"],
        lambda value: value >= 0.85,
    ),
    Target(
        "as-of recall against live recall at 100k",
        "≤ 1.3×",
        lambda r: _ratio(
            _recall_ms(r, 100_000, "largest", "as_of"),
            _recall_ms(r, 100_000, "largest", "live"),
        ),
        lambda value: value <= 1.3,
        "×",
    ),
    Target("LoCoMo evidence @5", "≥ 0.74", _evidence(5), lambda value: value >= 0.74),
    Target("LoCoMo evidence @10", "≥ 0.83", _evidence(10), lambda value: value >= 0.83),
    Target("LoCoMo evidence @25", "≥ 0.90", _evidence(25), lambda value: value >= 0.90),
    Target(
        "own corpus, recall@5, floor off",
        "1.000",
        lambda r: r["micro"]["own"]["scoped/off"]["recall@5"],
        lambda v: v >= 1,
    ),
    Target(
        "own corpus, recall@5, auto",
        "≥ 0.97",
        lambda r: r["micro"]["own"]["scoped/auto"]["recall@5"],
        lambda v: v >= 0.97,
    ),
    Target(
        "own corpus, no-match probes answered with nothing, strict",
        "≥ 7 of 8",
        lambda r: r["micro"]["own"]["scoped/strict"]["no_match_correct"],
        lambda value: value >= 7,
    ),
    Target(
        "own corpus, recall@5, strict",
        "≥ 0.95",
        lambda r: r["micro"]["own"]["scoped/strict"]["recall@5"],
        lambda v: v >= 0.95,
    ),
    Target(
        "own corpus, scoped, recall@1, above memorywire's",
        "> 0",
        lambda r: (
            r["micro"]["own"]["scoped/off"]["recall@1"] - r["upstream"]["own"]["scoped/off"]["recall@1"]
        ),
        lambda v: v > 0,
    ),
    Target(
        "own corpus, scoped, mrr, above memorywire's",
        "> 0",
        lambda r: r["micro"]["own"]["scoped/off"]["mrr"] - r["upstream"]["own"]["scoped/off"]["mrr"],
        lambda v: v > 0,
    ),
    Target(
        "own corpus, unscoped, recall@1, above memorywire's",
        "> 0",
        lambda r: (
            r["micro"]["own"]["unscoped/off"]["recall@1"] - r["upstream"]["own"]["unscoped/off"]["recall@1"]
        ),
        lambda v: v > 0,
    ),
    Target(
        "own corpus, unscoped, mrr, above memorywire's",
        "> 0",
        lambda r: r["micro"]["own"]["unscoped/off"]["mrr"] - r["upstream"]["own"]["unscoped/off"]["mrr"],
        lambda v: v > 0,
    ),
    Target(
        "own corpus, scoped, no-match probes answered with nothing, auto",
        "≥ 6 of 8",
        lambda r: r["micro"]["own"]["scoped/auto"]["no_match_correct"],
        lambda v: v >= 6,
    ),
    Target(
        "own corpus, unscoped, no-match probes answered with nothing, auto",
        "≥ 6 of 8",
        lambda r: r["micro"]["own"]["unscoped/auto"]["no_match_correct"],
        lambda v: v >= 6,
    ),
    Target(
        "memorywire's corpus, scoped, recall@1, above memorywire's",
        "> 0",
        lambda r: (
            r["micro"]["memorywire"]["scoped/off"]["recall@1"]
            - r["upstream"]["memorywire"]["scoped/off"]["recall@1"]
        ),
        lambda v: v > 0,
    ),
    Target(
        "memorywire's corpus, scoped, mrr, above memorywire's",
        "> 0",
        lambda r: (
            r["micro"]["memorywire"]["scoped/off"]["mrr"] - r["upstream"]["memorywire"]["scoped/off"]["mrr"]
        ),
        lambda v: v > 0,
    ),
    Target(
        "memorywire's corpus, unscoped, recall@1, above memorywire's",
        "> 0",
        lambda r: (
            r["micro"]["memorywire"]["unscoped/off"]["recall@1"]
            - r["upstream"]["memorywire"]["unscoped/off"]["recall@1"]
        ),
        lambda v: v > 0,
    ),
    Target(
        "memorywire's corpus, unscoped, mrr, above memorywire's",
        "> 0",
        lambda r: (
            r["micro"]["memorywire"]["unscoped/off"]["mrr"]
            - r["upstream"]["memorywire"]["unscoped/off"]["mrr"]
        ),
        lambda v: v > 0,
    ),
    Target(
        "memorywire's corpus, scoped, no-match probes answered with nothing, auto",
        "≥ 6 of 8",
        lambda r: r["micro"]["memorywire"]["scoped/auto"]["no_match_correct"],
        lambda v: v >= 6,
    ),
    Target(
        "memorywire's corpus, unscoped, no-match probes answered with nothing, auto",
        "≥ 6 of 8",
        lambda r: r["micro"]["memorywire"]["unscoped/auto"]["no_match_correct"],
        lambda v: v >= 6,
    ),
    Target(
        "memorywire's corpus, recall@5, auto",
        "≥ 0.97",
        lambda r: r["micro"]["memorywire"]["scoped/auto"]["recall@5"],
        lambda v: v >= 0.97,
    ),
    Target(
        "disk per record at 100k",
        "≤ 2.5 kB",
        lambda r: _scale(r, 100_000, "bytes_per_record") / 1000,
        lambda value: value <= 2.5,
        " kB",
    ),
    Target(
        "listing at a run's snapshot, beside listing now, at 100k",
        "at most 1.3 times",
        lambda r: r["runs"]["reads"]["list"]["slower"] if r["runs"]["records"] >= 100_000 else math.inf,
        lambda value: value <= 1.3,
        "×",
    ),
    Target(
        "getting at a run's snapshot, beside getting now, at 100k",
        "at most 1.3 times",
        lambda r: r["runs"]["reads"]["get"]["slower"] if r["runs"]["records"] >= 100_000 else math.inf,
        lambda value: value <= 1.3,
        "×",
    ),
    Target(
        "200 runs at once that complete with whole logs",
        "all",
        lambda r: r["runs"]["runs"]["completed"] / r["runs"]["runs"]["runs"],
        lambda value: value == 1.0,
    ),
    Target(
        "evidence of multi-hop questions with one hop, over none, the least of @5, @10, @25",
        "≥ 2 points",
        lambda r: min(_by_hops(r, "multi-hop")),
        lambda value: value >= 2,
        " points",
    ),
    Target(
        "evidence of single-hop questions with one hop, over none, the least of @5, @10, @25",
        "≥ -0.5 points",
        lambda r: min(_by_hops(r, "single-hop")),
        lambda value: value >= -0.5,
        " points",
    ),
    Target(
        "query under a grant, beside a plain recall, the worst of both searches and both levels",
        "at most 1.5 times",
        lambda r: max(row["ratio"] for levels in r["lending"].values() for row in levels.values()),
        lambda value: value <= 1.5,
        "×",
    ),
    Target(
        "recall@5 lost to a rogue mirror beside an honest one, worst attack and fusion",
        "0 points",
        lambda r: max(
            100 * (calm["recall"] - found[method]["recall"])
            for attacks in (r["fusion"]["real"]["attacks"],)
            for found in attacks.values()
            for method, calm in attacks["none"].items()
            if method != "plain"  # the published sum, for comparison
        ),
        lambda value: value <= 0,
        " points",
    ),
    Target(
        "the same with stubs, one rogue of three, two of five or three of seven, any number of invented or existing ids",
        "recall@5 1.000, leak 0",
        lambda r: min(_stub_shares(r["fusion"]["stubs"])),
        lambda value: value == 1,
    ),
    Target(
        "recall@5 lost to one rogue of three stores of a router, or two of five, rrf, worst attack and size",
        "0 points",
        lambda r: max(
            100 * (routed["none"]["rrf"]["recall"] - found["rrf"]["recall"])
            for routed in r["fusion"]["real"]["routed"].values()
            for found in routed.values()
        ),
        lambda value: value <= 0,
        " points",
    ),
    Target(
        "share of what such rogues made up in what the router returns, rrf, worst attack and size",
        "0 %",
        lambda r: max(
            100 * found["rrf"]["leak"]
            for routed in r["fusion"]["real"]["routed"].values()
            for found in routed.values()
        ),
        lambda value: value == 0,
        " %",
    ),
    Target(
        "share of invented (fitting the question or not), altered or forgotten texts that a rogue mirror gets returned",
        "0 %",
        lambda r: max(
            100 * found["leak"]
            for attack in ("invent", "scores", "altered", "ghosts")
            for found in r["fusion"]["real"]["attacks"][attack].values()
        ),
        lambda value: value == 0,
        " %",
    ),
    Target(
        "recall over HTTP at 8 clients, share of the same inside one process",
        "≥ 0.8",
        lambda r: _served_share(r, "recall"),
        lambda value: value >= 0.8,
    ),
    Target(
        "remember over HTTP at 8 clients, share of the same inside one process",
        "≥ 0.8",
        lambda r: _served_share(r, "remember"),
        lambda value: value >= 0.8,
    ),
    Target(
        "recall, slower by telemetry that is switched off",
        "< 2 %",
        lambda r: 100 * r["telemetry"]["embedded"]["off"]["cpu_slower"],
        lambda v: v < 2,
        " %",
    ),
    Target(
        "recall, slower by telemetry that is on",
        "< 5 %",
        lambda r: 100 * r["telemetry"]["embedded"]["on"]["cpu_slower"],
        lambda v: v < 5,
        " %",
    ),
    Target(
        "recall, slower by telemetry with a provider of one's own",
        "< 5 %",
        lambda r: 100 * r["telemetry"]["embedded"]["own"]["cpu_slower"],
        lambda v: v < 5,
        " %",
    ),
)


def judged(result: dict[str, Any]) -> list[Judged]:
    """Every target with its measure and verdict."""
    rows: list[Judged] = []
    for target in TARGETS:
        try:
            value = target.read(result)
        except (KeyError, TypeError, ZeroDivisionError):
            rows.append(Judged(target.what, target.asked, "–", "not measured"))
            continue
        verdict: Verdict = "met" if target.is_met(value) else "missed"
        rows.append(Judged(target.what, target.asked, f"{value:,.3f}{target.unit}", verdict))
    return rows
