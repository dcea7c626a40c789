"""Our own labelled corpus: 100 facts, 50 test queries and 60 calibration queries, all written by hand.

The calibration queries set the relevance floors; the test queries are only ever measured.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parent / "corpus"

FACT_TYPES = {"semantic": 79, "episodic": 12, "emotional": 7, "procedural": 2}
TEST_KINDS = {"paraphrase": 24, "exact": 10, "multi": 8, "none_known": 4, "none_stored": 4}
CALIBRATION_KINDS = {"paraphrase": 26, "exact": 8, "multi": 6, "none_known": 10, "none_stored": 10}


@dataclass(frozen=True)
class Fact:
    """One memory of the corpus; `details` are the fields that belong to its type."""

    id: str
    user_id: str
    type: str
    content: str | dict[str, Any]
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def text(self) -> str:
        """The content as text, a machine as JSON."""
        return self.content if isinstance(self.content, str) else json.dumps(self.content)


@dataclass(frozen=True)
class Query:
    """One labelled question; without gold ids nothing stored answers it."""

    id: str
    user_id: str
    kind: str
    query: str
    gold: tuple[str, ...]


def _read(name: str) -> list[dict[str, Any]]:
    """The entries of one corpus file."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def _moment(day: str) -> int:
    """Midnight UTC of an ISO day, in milliseconds."""
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)


def fact_of(entry: dict[str, Any]) -> Fact:
    """A fact as it stands in a corpus file."""
    known = {"id", "user_id", "type", "content"}
    details = {key: value for key, value in entry.items() if key not in known}
    if "event_time" in details:
        details["event_time"] = _moment(details["event_time"])
    return Fact(entry["id"], entry["user_id"], entry["type"], entry["content"], details)


def facts() -> list[Fact]:
    """The hundred facts."""
    return [fact_of(entry) for entry in _read("facts.json")]


def queries(which: Literal["test", "calibration"] = "test") -> list[Query]:
    """The test queries, or the calibration queries."""
    name = "queries.json" if which == "test" else "calibration.json"
    return [Query(q["id"], q["user_id"], q["kind"], q["query"], tuple(q["gold"])) for q in _read(name)]


def faults() -> list[str]:
    """What is wrong with the corpus, in words; empty when it is as described."""
    rows = facts()
    test, calibration = queries("test"), queries("calibration")
    found: list[str] = []
    if dict(Counter(row.type for row in rows)) != FACT_TYPES:
        found.append("the mix of types is not 79 semantic, 12 episodic, 7 emotional, 2 procedural")
    if sorted(Counter(row.user_id for row in rows).values()) != [10] * 10:
        found.append("not ten users with ten facts each")
    if dict(Counter(query.kind for query in test)) != TEST_KINDS:
        found.append("the mix of test queries is not 24, 10, 8, 4, 4")
    if dict(Counter(query.kind for query in calibration)) != CALIBRATION_KINDS:
        found.append("the mix of calibration queries is not 26, 8, 6, 10, 10")
    owner = {row.id: row.user_id for row in rows}
    for query in [*test, *calibration]:
        found += [
            f"{query.id} names {one}, unknown or another user's"
            for one in query.gold
            if owner.get(one) != query.user_id
        ]
        allowed = {"multi": {2, 3}, "none_known": {0}, "none_stored": {0}}.get(query.kind, {1})
        if len(query.gold) not in allowed:
            found.append(f"{query.id} has {len(query.gold)} gold ids, wrong for {query.kind}")
    for label, ids in (("fact", [row.id for row in rows]), ("query", [q.id for q in [*test, *calibration]])):
        if len(set(ids)) != len(ids):
            found.append(f"a {label} id occurs twice")
    shared = {one for query in test for one in query.gold} & {
        one for query in calibration for one in query.gold
    }
    if shared:
        found.append(f"test and calibration ask for the same facts: {sorted(shared)}")
    return found
