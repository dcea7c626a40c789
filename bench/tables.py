"""Tables and numbers as the pages of results show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]


def number(value: Any) -> str:
    """A measure in few digits."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"


def times(row: Mapping[str, Any]) -> str:
    """p50 / p95 in milliseconds."""
    return f"{row['p50_ms']:.2f} / {row['p95_ms']:.2f}"
