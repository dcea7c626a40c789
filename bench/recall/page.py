"""The page of results: what each method finds of each set, and how sure and how quick Quipu is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.recall.measures import BINS, Measure, Measures, Outcome, calibration, difference, measures, share
from bench.recall.plots import calibration_plot, latency_plot

#: What others report for LongMemEval; by session, `recall_any`, among the five first.
_REPORTED = (("AutoMem", 97.0), ("MemPalace raw", 96.6), ("YourMemory", 95.8), ("agentmemory", 95.2))


@dataclass
class Timings:
    """Milliseconds of single recalls."""

    texts: int = 0
    new: list[float] = field(default_factory=list[float])
    known: list[float] = field(default_factory=list[float])
    callers: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    written: float = 0.0


@dataclass
class Results:
    """By set and method."""

    outcomes: dict[str, dict[str, list[Outcome]]] = field(default_factory=dict[str, dict[str, list[Outcome]]])
    #: Of the Quipus only.
    timings: dict[str, dict[str, Timings]] = field(default_factory=dict[str, dict[str, Timings]])
    #: Methods that are simple; the best of them is what Quipu has to be ahead of.
    simple: Sequence[str] = ()
    this: str = "Quipu"


def page(results: Results, about: str) -> str:
    """The whole page, as Markdown."""
    lines = ["# What recall finds", "", about, ""]
    lines += [
        "Evidence @k is the share of the texts that answer a question among the first k hits, every hit included "
        "however irrelevant it is said to be. In brackets: where 95 of 100 draws of the questions lie.",
        "",
        *_standing(results),
    ]
    for name, by_method in results.outcomes.items():
        lines += ["", f"## {name}", "", *_set_table(by_method)]
        if any("recall_any" in measure for found in map(measures, by_method.values()) for measure in found):
            reported = ", ".join(f"{who} {value}" for who, value in _REPORTED)
            lines += [
                "",
                f"Others report for LongMemEval R@5, by session, `recall_any`, as a percentage: {reported}.",
            ]
    lines += ["", *_calibration_tables(results), "", *_latency_tables(results)]
    return "\n".join(lines) + "\n"


def plots(results: Results) -> dict[str, str]:
    """SVG by file name."""
    this = results.this
    bins = {name: calibration(found[this]) for name, found in results.outcomes.items() if this in found}
    rows: list[tuple[str, list[tuple[str, float, float]]]] = []
    for name, timings in results.timings.items():
        for method, one in timings.items():
            if one.new:
                embedding = [max(0.0, a - b) for a, b in zip(one.new, one.known, strict=True)]
                bars = [
                    ("whole", *_percentiles(one.new)),
                    ("vector known", *_percentiles(one.known)),
                    ("embedding", *_percentiles(embedding)),
                ]
                rows.append((f"{name}, {method}", bars))
    return {"recall-calibration.svg": calibration_plot(bins), "recall-latency.svg": latency_plot(rows)}


# -- what is found --------------------------------------------------------------------------------------------------


def _standing(results: Results) -> list[str]:
    """Quipu beside the best simple method, question by question."""
    lines = [
        "| set | measure | best simple method | Quipu | difference | |",
        "|---|---|---|---|---|---|",
    ]
    for name, by_method in results.outcomes.items():
        if results.this not in by_method:
            continue
        for k in (1, 5, 10, 25):
            values = {
                method: [share(one.places, k) for one in found if one.places]
                for method, found in by_method.items()
            }
            mine = values[results.this]
            simple = [method for method in results.simple if method in values]
            if not mine or not simple:
                continue
            best = max(simple, key=lambda method: sum(values[method]))
            gap = difference(mine, values[best])
            verdict = "**behind**" if gap.high < 0 else "ahead" if gap.low > 0 else "level"
            lines.append(
                f"| {name} | @{k} | {best} {np.mean(values[best]):.3f} | {np.mean(mine):.3f} "
                f"| {gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}] | {verdict} |"
            )
    return lines


def _set_table(by_method: Mapping[str, Sequence[Outcome]]) -> list[str]:
    found: dict[str, Measures] = {method: measures(outcomes) for method, outcomes in by_method.items()}
    # The methods with a floor have every row.
    names = max(found.values(), key=len)
    lines = [f"| measure | of | {' | '.join(found)} |", "|---|---|" + "---|" * len(found)]
    for measure, one in names.items():
        cells = " | ".join(_cell(known.get(measure)) for known in found.values())
        lines.append(f"| {measure} | {one.count} | {cells} |")
    return lines


def _cell(measure: Measure | None) -> str:
    return "" if measure is None else f"{measure.value:.3f} [{measure.low:.3f}, {measure.high:.3f}]"


# -- how sure -------------------------------------------------------------------------------------------------------


def _calibration_tables(results: Results) -> list[str]:
    lines = ["## How sure", "", "![Relevance and the share that is right.](recall-calibration.svg)"]
    for what, first in (("the first hit", 1), ("the first five hits", 5)):
        names = [name for name, found in results.outcomes.items() if results.this in found]
        lines += [
            "",
            f"Share of right ones among {what}, by relevance; in parentheses how many there are.",
            "",
        ]
        lines += [f"| relevance | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
        columns = [calibration(results.outcomes[name][results.this], first) for name in names]
        for place in range(BINS):
            cells = [
                f"{right / count:.2f} ({count})" if count else ""
                for count, right in (column[place] for column in columns)
            ]
            lines.append(f"| {place / BINS:.1f} to {(place + 1) / BINS:.1f} | {' | '.join(cells)} |")
    return lines


# -- how quick ------------------------------------------------------------------------------------------------------


def _latency_tables(results: Results) -> list[str]:
    lines = [
        "## How quick",
        "",
        "![Milliseconds of a recall, whole and by part.](recall-latency.svg)",
        "",
        "Milliseconds, p50 / p95. A new question is embedded first; the same one once more has its vector in the cache.",
        "",
        "| set | method | memories | new question | vector known | writing 1,000, embedded |",
        "|---|---|---|---|---|---|",
    ]
    callers: list[str] = []
    for name, by_method in results.timings.items():
        for method, one in by_method.items():
            if not one.new:
                continue
            a_thousand = one.written / max(1, one.texts) * 1000
            lines.append(
                f"| {name} | {method} | {one.texts} | {_shown(one.new)} | {_shown(one.known)} | {a_thousand:,.0f} |"
            )
            if one.callers:
                callers.append(f"| {name} | {method} | {' | '.join(map(_shown, one.callers.values()))} |")
    if callers:
        lines += ["", "With several callers at once, new questions, the first memory of each set:", ""]
        lines += ["| set | method | 1 | 8 | 64 |", "|---|---|---|---|---|", *callers]
    return lines


def _shown(taken: Sequence[float]) -> str:
    return "{:.1f} / {:.1f}".format(*_percentiles(taken))


def _percentiles(taken: Sequence[float]) -> tuple[float, float]:
    p50, p95 = np.percentile(np.asarray(taken), (50, 95))
    return float(p50), float(p95)
