"""A result as a page for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import fusion, hops, moving
from bench.peers import page as peers
from bench.tables import number, table, times
from bench.targets import judged

_SEARCH = {"embedded": "words and vectors", "words": "words alone"}
QUALITY = ("recall@1", "recall@3", "recall@5", "mrr", "ndcg@5", "precision@5", "no_match", "false_empty")


def _recalled(row: Mapping[str, Any]) -> str:
    """p50 / p95 in milliseconds, and the share returned of what could be, without which a time says nothing."""
    foreign = f", {row['foreign']} WRONG" if row.get("foreign") else ""
    return f"{times(row)} ({row['returned_share']:.2f}{foreign})"


def _machine(result: Mapping[str, Any]) -> list[str]:
    about = result["machine"]
    load = ", ".join(f"{one:.2f}" for one in about["load"])
    lines = [
        f"Measured {about['date']} at commit {about['commit']}{' (quick)' if result.get('quick') else ''}.",
        f"{about['cpu']}, {about['cores']} cores, {about['memory']}, Linux {about['kernel']}, Python {about['python']}; "
        f"load at the start {load}; seed {about['seed']}.",
        "Data: " + ", ".join(f"{name} `{digest[:12]}`" for name, digest in about["data"].items()) + ".",
        "",
    ]
    return ["# Benchmark results", "", *lines]


def _targets(result: dict[str, Any]) -> list[str]:
    # A run of some parts says nothing about what it left out; a whole run says what it failed to measure.
    is_whole = {"micro", "scale", "upstream"} <= set(result.get("parts", ()))
    rows = [
        (one.what, one.asked, one.measured, one.verdict)
        for one in judged(result)
        if is_whole or one.verdict != "not measured"
    ]
    return [] if not rows else ["## Targets", "", *table(("what", "target", "measured", "verdict"), rows)]


def _micro(result: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for corpus in ("own", "memorywire"):
        ours, theirs = result.get("micro", {}).get(corpus, {}), result.get("upstream", {}).get(corpus, {})
        rows: list[list[str]] = []
        for system, measures in (("Quipu", ours), ("memorywire", theirs)):
            for name, row in measures.items():
                if "/" in name:
                    rows.append([f"{system} {name}", *(number(row[key]) for key in QUALITY)])
        if rows:
            title = "our own corpus" if corpus == "own" else "memorywire's corpus"
            lines += [f"## Recall quality, {title}", "", *table(("system, scope/floor", *QUALITY), rows)]
        timed = [
            [f"{system} {name}", times(row)]
            for system, measures in (("Quipu", ours), ("memorywire", theirs))
            for name, row in measures.items()
            if isinstance(row, dict) and "p50_ms" in row
        ]
        if "together_per_second" in ours:
            timed.append(["Quipu, facts per second by 64 callers", number(ours["together_per_second"])])
        if timed:
            lines += table(("p50 / p95, ms", ""), timed)
        if ours.get("curve"):
            rows = [
                [floor, *(number(value) for value in row.values())] for floor, row in ours["curve"].items()
            ]
            lines += table(("min_relevance", *next(iter(ours["curve"].values()))), rows)
    return lines


def _locomo(result: Mapping[str, Any]) -> list[str]:
    part = result.get("locomo")
    if not part:
        return []
    rows: list[list[str]] = []
    for system, floors in part.items():
        for floor, measures in floors.items():
            if isinstance(measures, dict) and "evidence" in measures:
                for kind, row in measures["evidence"].items():
                    rows.append(
                        [f"{system}, floor {floor}", kind, *(number(value) for value in row.values())]
                    )
    head = ("system", "questions", "@5", "@10", "@25", "n")
    return [
        "## LoCoMo, share of evidence turns returned",
        "",
        f"Labels dropped: {part.get('dropped')}.",
        "",
        *table(head, rows),
    ]


def _scale(result: Mapping[str, Any]) -> list[str]:
    rows: list[list[str]] = []
    for records, row in result.get("scale", {}).items():
        if "error" in row:
            rows.append([records, "failed: " + row["error"].strip().splitlines()[-1], *[""] * 12])
            continue
        for name in ("largest", "middle"):
            if name in row:
                part = row[name]
                recall, writes = part["recall"], part["writes"]
                rows.append(
                    [
                        records,
                        f"{name} ({part['records']:,})",
                        number(row["ingest_per_second"]),
                        *(_recalled(recall[key]) for key in ("live", "filtered", "metadata_filter", "as_of")),
                        number(recall["exact_share"]),
                        times(writes["one_writer"]),
                        times(writes["rows_alone"]),
                        times(writes["bare_sqlite"]),
                        number(writes["concurrent"]["per_second"]),
                        number(row["bytes_per_record"]),
                        number(row["peak_memory_mb"]),
                    ]
                )
    for records, row in result.get("upstream_scale", {}).items():
        asked = [_recalled(row["recall"][key]) for key in ("live", "filtered")]
        rows.append(
            [
                records,
                "memorywire",
                "–",
                *asked,
                "–",
                "–",
                "–",
                times(row["writes"]),
                "–",
                "–",
                "–",
                number(row["bytes_per_record"]),
                "–",
            ]
        )
    if not rows:
        return []
    head = (
        "records",
        "agent",
        "batch /s",
        "live",
        "user filter",
        "metadata filter",
        "as of",
        "exact",
        "one write",
        "its rows alone",
        "bare write",
        "64 callers /s",
        "bytes",
        "peak MB",
    )
    return [
        "## Scale, embedder excluded, p50 / p95 ms (share returned of what could be)",
        "",
        *table(head, rows),
    ]


def _keyword(result: Mapping[str, Any]) -> list[str]:
    rows: list[list[str]] = []
    for records, row in result.get("keyword", {}).items():
        for system in ("fts5", "quipu"):
            for name in ("largest", "middle"):
                if name in row.get(system, {}):
                    rows.append(
                        [
                            records,
                            system,
                            name,
                            times(row[system][name]),
                            number(row[system]["ingest_per_second"]),
                        ]
                    )
    return (
        ["## Keyword leg alone", "", *table(("records", "leg", "agent", "p50 / p95, ms", "rows/s"), rows)]
        if rows
        else []
    )


def _server(result: Mapping[str, Any]) -> list[str]:
    found = result.get("server")
    if not found:
        return []
    rows: list[list[str]] = []
    for ledger, of in (("SQLite", found), ("PostgreSQL", found.get("postgresql", {}))):
        for operation in ("recall", "remember"):
            for connections, row in of.get(operation, {}).items():
                times = f"{row['p50_ms']:.1f} / {row['p95_ms']:.1f} / {row['p99_ms']:.1f}"
                per_second = f"{row['per_second']:,.0f}"
                rows.append([ledger, operation, connections, per_second, times, str(row["failed"])])
    for operation, row in found.get("inside", {}).items():
        rows.append(["SQLite, inside one process", operation, "8", f"{row['per_second']:,.0f}", "", "0"])
    head = ("ledger", "operation", "connections", "per second", "p50 / p95 / p99, ms", "failed")
    lines = [
        f"`quipu serve` over {found['filled']:,} memories, asked by wrk on the same cores, every text embedded.",
        f"Resident before {found['resident_mb_before']:.0f} MB, after {found['resident_mb_after']:.0f} MB.",
    ]
    if soak := result.get("soak"):
        thirds = " → ".join(f"{one:.0f}" for one in soak["resident_mb_by_third"])
        lines.append(f"Soak of {soak['minutes']:g} minutes: resident MB by third {thirds}.")
    return ["## Server under load", "", *table(head, rows), *lines, ""]


def _telemetry(result: Mapping[str, Any]) -> list[str]:
    found = result.get("telemetry")
    if not found:
        return []
    rows = [
        [
            kind,
            name,
            f"{row['p50_ms']:.2f} / {row['p95_ms']:.2f}",
            f"{100 * row['slower']:+.1f} %",
            f"{row['cpu_ms']:.2f}",
            f"{row['cpu_more_us']:+.0f} µs",
            f"{100 * row['cpu_slower']:+.1f} %",
            f"{100 * row['cpu_slower_in_all']:+.1f} %",
        ]
        for kind in ("embedded", "keyword")
        for name, row in found[kind].items()
    ]
    head = (
        "recall",
        "watched",
        "p50 / p95, ms",
        "slower than plain",
        "CPU, mean ms",
        "more",
        "more than plain",
        "of all together",
    )
    said = (
        f"{found['recalls']:,} recalls each, in turns; plain is the same build without any call to an observer, "
        "on is a server with a collector, own a program that brings the SDK's plain provider. `keyword` is words alone, without an "
        "embedder: what is added is the same there, and the recall it is added to shorter. "
        "Processor time is the mean of blocks of recalls, so that it holds what is done once for several."
    )
    return ["## Being watched", "", *table(head, rows), said, ""]


def _lending(result: Mapping[str, Any]) -> list[str]:
    found = result.get("lending")
    if not found:
        return []
    rows = [
        [
            _SEARCH[name],
            level.removeprefix("level_"),
            times(row["recall"]),
            times(row["query"]),
            f"{row['ratio']:.2f}",
            f"{row['block_ratio']:.2f}",
            f"{row['processor_ratio']:.2f}",
            times(row["disk"]),
        ]
        for name, levels in found.items()
        for level, row in levels.items()
    ]
    head = (
        "search",
        "level of trust",
        "plain recall, ms",
        "query under a grant, ms",
        "ratio of medians",
        "of block means",
        "of processor time",
        "disk alone, ms",
    )
    said = (
        "1,000 memories, both in turns on one ledger, the quietest quarter of the run. A query under a grant ranks by the words that its asker may see and "
        "embeds nothing: beside a recall that embeds its question it saves that, beside words alone it does not. It checks "
        "a token and a proof, and is on a signed receipt and in every item's log, by one durable transaction, before it is "
        "answered; a recall waits for no disk. The last column is what the disk took for as many bytes, in the same minutes."
    )
    return ["## Queries under a grant", "", *table(head, rows), said, ""]


def _runs(result: Mapping[str, Any]) -> list[str]:
    found = result.get("runs")
    if not found:
        return []
    rows = [
        [name, times(row["now"]), times(row["snapshot"]), f"{row['slower']:.2f}"]
        for name, row in found["reads"].items()
    ]
    head = ("read", "as it is now, ms", "at a run's snapshot, ms", "median ratio")
    many = found["runs"]
    said = (
        f"{found['records']:,} records, half of them written and a tenth deleted after the run began; both in turns. "
        f"{many['runs']} runs opened at once, half executed by the engine and half driven from outside: "
        f"{many['completed']} completed with whole logs, {many['runs_per_s']:.0f} a second."
    )
    return ["## Runs", "", *table(head, rows), said, ""]


def page(result: dict[str, Any]) -> str:
    """The whole page in Markdown."""
    parts = [
        _machine(result),
        _targets(result),
        _micro(result),
        _locomo(result),
        hops.section(result["hops"]) if "hops" in result else [],
        _scale(result),
        _keyword(result),
        _server(result),
        _telemetry(result),
        _lending(result),
        _runs(result),
        moving.section(result["moving"]) if "moving" in result else [],
        fusion.section(result["fusion"]) if "fusion" in result else [],
        peers.section(result["peers"]) if "peers" in result else [],
    ]
    if result.get("failed"):
        parts.append(
            ["## Parts that failed", "", *(f"- {name}: {why}" for name, why in result["failed"].items()), ""]
        )
    return "\n".join(line for part in parts for line in part)
