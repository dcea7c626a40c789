"""The development corpus: 144 facts about twelve people, each also in few words, and 255 questions, written by hand.

Ranking and relevance are tuned on it, never on the test queries. A question is asked twice: in its user's memory
(`gold`), and over everybody's (`anywhere`, where that is another answer). Its user is None where it is asked only over
everybody's.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from bench.labelled import FOLDER, Fact, Query, fact_of

FILE_NAME = "development.json"
KINDS = {
    "paraphrase": 95,
    "unnamed": 36,
    "exact": 20,
    "multi": 14,
    "everyone": 15,
    "none_known": 37,
    "none_stranger": 12,
    "none_stored": 18,
    "none_here": 8,
}
PEOPLE, FACTS_EACH = 12, 12


@dataclass(frozen=True)
class Asked:
    """One question as it is asked: in one user's memory, or over everybody's (`user_id` None)."""

    id: str
    #: Whose question it is, for folds that keep a person's questions together.
    person: str
    kind: str
    query: str
    user_id: str | None
    gold: tuple[str, ...]


def _read() -> dict[str, list[dict[str, Any]]]:
    return json.loads((FOLDER / FILE_NAME).read_text(encoding="utf-8"))


def facts(*, terse: bool = False) -> list[Fact]:
    """The facts, in full or in few words: how long a record is must not decide whether it is believed."""
    entries = [dict(entry) for entry in _read()["facts"]]
    for entry in entries:
        short = entry.pop("terse", None)
        if terse and short is not None:
            entry["content"] = short
    return [fact_of(entry) for entry in entries]


def questions(*, scoped: bool) -> list[Asked]:
    """The questions, each in its user's memory, or all over everybody's."""
    rows: list[Asked] = []
    for entry in _read()["queries"]:
        user, gold = entry["user_id"], entry["gold"]
        if scoped and user is None:
            continue
        right = gold if scoped else entry.get("anywhere", gold)
        rows.append(
            Asked(
                entry["id"],
                user or "everyone",
                entry["kind"],
                entry["query"],
                user if scoped else None,
                tuple(right),
            )
        )
    return rows


def as_asked(queries: list[Query], *, scoped: bool) -> list[Asked]:
    """Queries of the other corpus in the same form."""
    return [
        Asked(one.id, one.user_id, one.kind, one.query, one.user_id if scoped else None, one.gold)
        for one in queries
    ]


def faults() -> list[str]:
    """What is wrong with the corpus, in words; empty when it is as described."""
    found: list[str] = []
    rows, scoped, unscoped = facts(), questions(scoped=True), questions(scoped=False)
    if sorted(Counter(row.user_id for row in rows).values()) != [FACTS_EACH] * PEOPLE:
        found.append("not twelve people with twelve facts each")
    if dict(Counter(one.kind for one in unscoped)) != KINDS:
        found.append("the mix of questions is not as listed")
    pairs = zip(rows, facts(terse=True), strict=True)
    if any(len(short.text) > len(row.text) for row, short in pairs):
        found.append("a terse fact is longer")
    owner = {row.id: row.user_id for row in rows}
    found += [
        f"{one.id} names {fact}, unknown or another user's"
        for one in scoped
        for fact in one.gold
        if owner.get(fact) != one.user_id
    ]
    found += [f"{one.id} names {fact}, unknown" for one in unscoped for fact in one.gold if fact not in owner]
    found += [f"{one.id} has an answer" for one in scoped if one.gold and one.kind.startswith("none")]
    found += [f"{one.id} has no answer" for one in scoped if not one.gold and not one.kind.startswith("none")]
    for label, ids in (("fact", [row.id for row in rows]), ("question", [one.id for one in unscoped])):
        if len(set(ids)) != len(ids):
            found.append(f"a {label} id occurs twice")
    return found
