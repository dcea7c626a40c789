"""The comparison as a part of the page for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.tables import number, table, times


def section(found: Mapping[str, Any]) -> list[str]:
    """One table for each size."""
    lines = ["## Beside other stores", "", *_ABOUT, ""]
    for records, rows in found.items():
        lines += [f"### {int(records):,} records in 1,000 agents", ""]
        lines += table(_HEAD, [_row(name, row) for name, row in rows.items()])
    return lines


_ABOUT = (
    "The same records with the same vectors, in one run. p50 / p95 in milliseconds, and the share of the truly nearest ten",
    "that came back. Quipu's times are of a whole recall, words and vectors, with journal and versions behind it; the others",
    "search vectors alone. A store that was not full when its time was up is shown as far as it got.",
)
_HEAD = ("store", "ingest /s", "largest agent", "one user of it", "a middle agent", "one user of it")


def _row(name: str, row: Mapping[str, Any]) -> list[str]:
    if "error" in row:
        return [name, "failed: " + row["error"].strip().splitlines()[-1][:80], "", "", "", ""]
    ingest = number(row["ingest_per_second"])
    if row["records"] < row["wanted"]:
        return [name, f"{ingest} (stopped at {row['records']:,})", "", "", "", ""]
    asked = [row[agent][kind] for agent in ("largest", "middle") for kind in ("all", "one_user")]
    return [name, ingest, *(f"{times(one)} ({one['exact_share']:.2f})" for one in asked)]
