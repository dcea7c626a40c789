"""Where the relevance floors come from: `python -m bench.calibration [--embedder onnx|fast] [--data FOLDER]`.

Asks the development and the calibration questions, in one user's memory and over everybody's, and LoCoMo's questions
where its file is there; the questions of the other corpora, asked of LoCoMo's conversations, have no answer there.
Prints what each floor keeps and empties as shipped, then a fit of the same evidence, judged on people it was not
fitted on. The test queries play no part.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import development, labelled, locomo, quipu_side
from bench.development import Asked
from bench.metrics import Answer, evidence_share, quality
from quipu.rules.relevance import Calibration, calibration

FLOORS = ("off", "auto", "strict")
#: What the vectors of an embedder are known by.
MODELS = {"onnx": "all-MiniLM-L6-v2/int8", "fast": "all-MiniLM-L6-v2/fast"}
DEPTH = 25
FOLDS = 6
#: Asked of a LoCoMo conversation these have no answer: they name nobody and are about other things.
FOREIGN = ("unnamed", "exact", "none_stored")
#: LoCoMo has many more questions than the facts: each counts as this much of one.
LOCOMO_WEIGHT = 0.5

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """One question with everything recall said about it."""

    group: str
    person: str
    kind: str
    gold: tuple[str, ...]
    #: Labels in rank order with the relevance of each.
    hits: tuple[tuple[str, float], ...]
    cosine: float
    coverage: float
    compared: int
    has_stranger: bool

    def answer(self, floor: float, k: int) -> Answer:
        """What comes back under a floor."""
        kept = [label for label, sure in self.hits if sure >= floor]
        return Answer(self.kind, kept[:k], self.gold)


async def _judged(memory: Any, group: str, asked: Asked, labels: dict[str, str] | None = None) -> Judged:
    found = await memory.recall(
        asked.query, k=DEPTH, user_id=asked.user_id, min_relevance="off", explain=True
    )
    told: dict[str, Any] = found.extensions["evidence"]
    named = [labels[hit.id] if labels else hit.metadata["dia_id"] for hit in found]
    return Judged(
        group,
        asked.person,
        asked.kind,
        asked.gold,
        tuple((label, hit.relevance) for label, hit in zip(named, found, strict=True)),
        told["cosine"],
        told["coverage"],
        told["compared"],
        told["stranger"],
    )


async def judged_facts(folder: Path, embedder: str) -> list[Judged]:
    """The development corpus, in full and in few words, and the calibration corpus, each in a memory of its own."""
    rows: list[Judged] = []
    calibrating = labelled.queries("calibration")
    corpora = {
        "development": development.facts(),
        "terse": development.facts(terse=True),
        "calibration": labelled.facts(),
    }
    for name, facts in corpora.items():
        async with quipu_side.opened(folder / f"{name}.db", embedder=embedder) as memory:
            labels, _ = await quipu_side.remember_facts(memory, facts)
            for scoped in (True, False):
                asked = (
                    development.as_asked(calibrating, scoped=scoped)
                    if name == "calibration"
                    else development.questions(scoped=scoped)
                )
                where = f"{name}, {'scoped' if scoped else 'unscoped'}"
                rows += [await _judged(memory, where, one, labels) for one in asked]
    return rows


async def judged_talk(folder: Path, data: Path | None, embedder: str) -> list[Judged]:
    """LoCoMo's questions, and questions that its conversations do not answer."""
    conversations, _ = locomo.load(data)
    system = quipu_side.QuipuLocomo(folder / "locomo.db", embedder=embedder)
    foreign = [one for one in development.questions(scoped=False) if one.kind in FOREIGN]
    rows: list[Judged] = []
    try:
        for talk in conversations:
            await system.ingest(talk.turns)
            memory = await system.memory(talk.id)
            for one in talk.questions:
                asked = Asked("", talk.id, locomo.CATEGORIES[one.category], one.text, None, one.evidence)
                rows.append(await _judged(memory, "locomo", asked))
            for one in foreign:
                asked = Asked(one.id, talk.id, "foreign", one.query, None, ())
                rows.append(await _judged(memory, "locomo", asked))
    finally:
        await system.close()
    return rows


def floors(known: Calibration) -> dict[str, float]:
    return {"off": 0.0, "auto": known.auto, "strict": known.strict}


def printed_floors(rows: Sequence[Judged], known: Calibration) -> None:
    """What each floor keeps and what it empties."""
    for group in dict.fromkeys(row.group for row in rows):
        some = [row for row in rows if row.group == group]
        for name, floor in floors(known).items():
            answers = [row.answer(floor, DEPTH) for row in some]
            if group == "locomo":
                share = evidence_share(answers, (5, 10, 25))["all"]
                line = "  ".join(f"{label} {share[label]:.3f}" for label in ("@5", "@10", "@25"))
            else:
                found = quality([Answer(one.kind, one.ranked[:5], one.gold) for one in answers])
                line = "  ".join(f"{label} {found[label]:.3f}" for label in ("recall@1", "recall@5", "mrr"))
            print(f"{group:24} {name:7} {line}  empty {_emptied(answers)}")


def _emptied(answers: Sequence[Answer]) -> str:
    """No-match questions answered with nothing, by kind."""
    without = [one for one in answers if not one.is_answerable]
    counts = (
        (kind, [not one.ranked for one in without if one.kind == kind])
        for kind in sorted({one.kind for one in without})
    )
    return ", ".join(f"{kind} {sum(empty)}/{len(empty)}" for kind, empty in counts)


# -- the fit ------------------------------------------------------------------------------------------------------


def fitted(features: Floats, answerable: Floats, weights: Floats, offset: Floats) -> Floats:
    """A logistic regression by Newton's method, with a touch of ridge."""
    columns = np.column_stack([np.ones(len(features)), features])
    found = np.zeros(columns.shape[1])
    ridge = 0.01 * np.eye(len(found))
    ridge[0, 0] = 0
    for _ in range(50):
        chance = 1 / (1 + np.exp(-(columns @ found + offset)))
        slope = columns.T @ (weights * (answerable - chance)) - ridge @ found
        bend = (columns * (weights * chance * (1 - chance))[:, None]).T @ columns + ridge
        step = np.linalg.solve(bend, slope)
        found += step
        if np.abs(step).max() < 1e-9:
            break
    return found


def printed_fit(rows: Sequence[Judged], known: Calibration) -> None:
    """The fit over everything, and how well one made without a person's questions judges them."""
    features = np.array([[row.cosine, row.coverage, math.log(max(1, row.compared))] for row in rows])
    answerable = np.array([float(bool(row.gold)) for row in rows])
    weights = np.array([LOCOMO_WEIGHT if row.group == "locomo" else 1.0 for row in rows])
    # Strangers are too few, and too well told apart, for a fit: their coefficient is set.
    offset = known.stranger * np.array([float(row.has_stranger) for row in rows])
    people = {person: place % FOLDS for place, person in enumerate(sorted({row.person for row in rows}))}
    fold = np.array([people[row.person] for row in rows])
    unseen = np.zeros(len(rows))
    for number in range(FOLDS):
        rest = fold != number
        found = fitted(features[rest], answerable[rest], weights[rest], offset[rest])
        print(f"without fold {number}: {_named(found)}")
        unseen[~rest] = found[0] + features[~rest] @ found[1:] + offset[~rest]
    print(f"over everything: {_named(fitted(features, answerable, weights, offset))}")
    shipped = np.array([known.intercept, known.cosine + known.best_cosine, known.coverage, known.compared])
    print(f"as shipped:      {_named(shipped)}")
    for group in dict.fromkeys(row.group for row in rows):
        here = np.array([row.group == group for row in rows])
        true, false = unseen[here & (answerable == 1)], unseen[here & (answerable == 0)]
        lost = ", ".join(
            f"{np.mean(false < np.quantile(true, share)):.2f} at {share:.0%} lost" for share in (0.02, 0.05)
        )
        print(f"{group:24} unseen people: area under the curve {_area(true, false):.3f}, emptied {lost}")


def _named(found: Iterable[float]) -> str:
    names = ("intercept", "cosine", "coverage", "compared")
    return "  ".join(f"{name} {value:6.2f}" for name, value in zip(names, found, strict=True))


def _area(true: Floats, false: Floats) -> float:
    """The chance that a question with an answer is judged above one without."""
    above = true[:, None] - false[None, :]
    return float((above > 0).mean() + 0.5 * (above == 0).mean())


async def _all(data: Path | None, embedder: str) -> list[Judged]:
    with tempfile.TemporaryDirectory(prefix="quipu-calibration-") as folder:
        rows = await judged_facts(Path(folder), embedder)
        if ((data or locomo.DEFAULT_DATA) / locomo.FILE_NAME).exists():
            rows += await judged_talk(Path(folder), data, embedder)
    return rows


def main() -> None:
    """Reads the options, asks and prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.calibration", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of locomo-dev.json")
    parser.add_argument("--embedder", choices=sorted(MODELS), default="onnx")
    given = parser.parse_args()
    rows = asyncio.run(_all(given.data, given.embedder))
    known = calibration(MODELS[given.embedder])
    printed_floors(rows, known)
    print()
    printed_fit(rows, known)


if __name__ == "__main__":
    main()
