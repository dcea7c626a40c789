"""The development corpora, written by hand. Ranking and relevance are tuned on them, never on the test queries.

- 144 facts about twelve people, each also in few words, and 255 questions. A question is asked twice: in its user's
  memory (`gold`), and over everybody's (`anywhere`, where that is another answer). Its user is None where it is asked
  only over everybody's.
- Six people more with memories of 4 to 30 facts, said with a name, of "the user" and in the first person.
- Smaller memories made of those: the same question where its answer is missing, and where there are few facts.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.labelled import FOLDER, Fact, Query, fact_of

FILE_NAME = "development.json"
SIZES_FILE_NAME = "sizes.json"
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
SIZES = [4, 7, 9, 16, 24, 30]
SIZES_KINDS = {
    "paraphrase": 90,
    "unnamed": 9,
    "exact": 12,
    "multi": 9,
    "none_known": 52,
    "none_stored": 28,
}
#: How few the facts of a small memory are.
FEW = (3, 4, 5, 6, 8)


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


@dataclass(frozen=True)
class Small:
    """One question in a memory of its own; without gold the answer is not in it."""

    #: "without": everything but the answer. "few": a handful of facts, with or without it.
    made: str
    asked: Asked
    facts: tuple[Fact, ...]


def _read(name: str = FILE_NAME) -> dict[str, list[dict[str, Any]]]:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def facts(*, terse: bool = False) -> list[Fact]:
    """The facts, in full or in few words: how long a record is must not decide whether it is believed."""
    entries = [dict(entry) for entry in _read()["facts"]]
    for entry in entries:
        short = entry.pop("terse", None)
        if terse and short is not None:
            entry["content"] = short
    return [fact_of(entry) for entry in entries]


def facts_of_sizes() -> list[Fact]:
    """The facts of the six whose memories differ in size."""
    return [fact_of(entry) for entry in _read(SIZES_FILE_NAME)["facts"]]


def questions_of_sizes(*, scoped: bool) -> list[Asked]:
    """The questions to the six."""
    return _asked(_read(SIZES_FILE_NAME)["queries"], scoped=scoped)


def questions(*, scoped: bool) -> list[Asked]:
    """The questions, each in its user's memory, or all over everybody's."""
    return _asked(_read()["queries"], scoped=scoped)


def _asked(entries: list[dict[str, Any]], *, scoped: bool) -> list[Asked]:
    rows: list[Asked] = []
    for entry in entries:
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


def small(facts: Sequence[Fact], scoped: Sequence[Asked], seed: int = 7) -> Iterator[Small]:
    """Small memories for questions to one user's. A question whose answer is left out has none: a hard one, for it is
    about a known person and asked as one that has an answer."""
    drawn = random.Random(seed)
    for one in scoped:
        own = [fact for fact in facts if fact.user_id == one.user_id]
        answers = tuple(fact for fact in own if fact.id in one.gold)
        rest = [fact for fact in own if fact.id not in one.gold]
        count = max(0, drawn.choice(FEW) - len(answers))
        yield Small("few", one, (*answers, *drawn.sample(rest, min(len(rest), count))))
        if answers:
            unanswered = replace(one, kind="without", gold=())
            yield Small("without", unanswered, tuple(rest))
            yield Small("few", unanswered, tuple(drawn.sample(rest, min(len(rest), drawn.choice(FEW)))))


def faults_of_sizes() -> list[str]:
    """What is wrong with the corpus of different sizes."""
    rows, scoped = facts_of_sizes(), questions_of_sizes(scoped=True)
    found: list[str] = []
    if sorted(Counter(row.user_id for row in rows).values()) != SIZES:
        found.append("the memories are not of the sizes listed")
    if dict(Counter(one.kind for one in scoped)) != SIZES_KINDS:
        found.append("the mix of questions is not as listed")
    return found + _faults_of_gold(rows, scoped)


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
    known = {row.id for row in rows}
    found += [f"{one.id} names {fact}, unknown" for one in unscoped for fact in one.gold if fact not in known]
    if len({one.id for one in unscoped}) != len(unscoped):
        found.append("a question id occurs twice")
    return found + _faults_of_gold(rows, scoped)


def _faults_of_gold(rows: Sequence[Fact], scoped: Sequence[Asked]) -> list[str]:
    """Answers that are nobody's or another's, and questions that have one against their kind."""
    owner = {row.id: row.user_id for row in rows}
    found = [
        f"{one.id} names {fact}, unknown or another user's"
        for one in scoped
        for fact in one.gold
        if owner.get(fact) != one.user_id
    ]
    found += [f"{one.id} has an answer" for one in scoped if one.gold and one.kind.startswith("none")]
    found += [f"{one.id} has no answer" for one in scoped if not one.gold and not one.kind.startswith("none")]
    for label, ids in (("fact", [row.id for row in rows]), ("question", [one.id for one in scoped])):
        if len(set(ids)) != len(ids):
            found.append(f"a {label} id occurs twice")
    return found
