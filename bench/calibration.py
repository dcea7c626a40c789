"""Where the relevance floors come from: `python -m bench.calibration [--embedder onnx|fast] [--data FOLDER]`.

Asks the development and the calibration questions, in one user's memory, in smaller ones made of it and over
everybody's, and LoCoMo's questions where its file is there. Asked of a LoCoMo conversation, the questions of the other
corpora have no answer there, nor have most of another conversation's with the speakers' names put in.
Prints what each floor keeps and empties as shipped, then what a fit of the same evidence would (`bench.fitting`),
judged on people it was not fitted on. The test queries play no part.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import development, fitting, labelled, locomo, quipu_side
from bench.development import Asked
from bench.fitting import Shape, Table
from bench.labelled import Fact
from bench.metrics import Answer, evidence_share, quality
from quipu.rules.relevance import Calibration, calibration

FLOORS = ("off", "auto", "strict")
#: What the vectors of an embedder are known by.
MODELS = {"onnx": "all-MiniLM-L6-v2/int8", "fast": "all-MiniLM-L6-v2/fast"}
DEPTH = 25
FOLDS = 12
#: Asked of a LoCoMo conversation these have no answer: they name nobody and are about other things.
FOREIGN = ("unnamed", "exact", "none_stored")
#: Questions of each other conversation that a conversation is asked with its own speakers' names.
SWAPPED = 25
#: What each kind of memory counts in the fit ("one": one user's, whole or without the answer), ...
CLASSES = {"few": 0.6, "unscoped": 0.8, "locomo": 0.6, "one": 1.0}
#: ... a question of each corpus, ...
CORPORA = {"development": 1.0, "terse": 0.5, "calibration": 0.8, "sizes": 1.0, "locomo": 1.0}
#: ... and a question whose answer was taken out: what is left may still be half an answer.
WITHOUT = 0.4
#: Questions without an answer that name somebody, or are one user's, of whom other things are known.
KNOWN = ("none_known", "without", "swapped")


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
    is_shortened: bool

    def answer(self, floor: float, k: int) -> Answer:
        """What comes back under a floor."""
        kept = [label for label, sure in self.hits if sure >= floor]
        return Answer(self.kind, kept[:k], self.gold)


async def _judged(
    memory: Any, group: str, asked: Asked, labels: dict[str, str] | None = None, agent_id: str = "bench"
) -> Judged:
    found = await quipu_side.explained(memory, asked.query, DEPTH, asked.user_id, agent_id)
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
        told["shortened"],
    )


async def judged_facts(folder: Path, embedder: str) -> list[Judged]:
    """The development corpora, in full and in few words, and the calibration corpus, each in a memory of its own."""
    rows: list[Judged] = []
    calibrating = labelled.queries("calibration")
    corpora: dict[str, tuple[list[Fact], Callable[[bool], list[Asked]]]] = {
        "development": (development.facts(), lambda scoped: development.questions(scoped=scoped)),
        "terse": (development.facts(terse=True), lambda scoped: development.questions(scoped=scoped)),
        "sizes": (
            development.facts_of_sizes(),
            lambda scoped: development.questions_of_sizes(scoped=scoped),
        ),
        "calibration": (labelled.facts(), lambda scoped: development.as_asked(calibrating, scoped=scoped)),
    }
    for name, (facts, asked) in corpora.items():
        async with quipu_side.opened(folder / f"{name}.db", embedder=embedder) as memory:
            labels, _ = await quipu_side.remember_facts(memory, facts)
            for scoped in (True, False):
                where = f"{name}, {'scoped' if scoped else 'unscoped'}"
                rows += [await _judged(memory, where, one, labels) for one in asked(scoped)]
            rows += await _judged_small(memory, name, development.small(facts, asked(True)))
    return rows


async def _judged_small(memory: Any, name: str, made: Iterable[development.Small]) -> list[Judged]:
    """Each small memory is an agent of its own in the same file."""
    rows: list[Judged] = []
    for number, one in enumerate(made):
        agent_id = f"small-{number}"
        labels = await quipu_side.remember_few(memory, one.facts, agent_id)
        rows.append(await _judged(memory, f"{name}, {one.made}", one.asked, labels, agent_id))
    return rows


async def judged_talk(folder: Path, data: Path | None, embedder: str) -> list[Judged]:
    """LoCoMo's questions, and questions that its conversations do not answer."""
    conversations, _ = locomo.load(data)
    system = quipu_side.QuipuLocomo(folder / "locomo.db", embedder=embedder)
    foreign = [one for one in development.questions(scoped=False) if one.kind in FOREIGN]
    drawn = random.Random(11)
    rows: list[Judged] = []
    try:
        for talk in conversations:
            await system.ingest(talk.turns)
            memory = await system.memory(talk.id)
            asked = [
                Asked("", talk.id, locomo.CATEGORIES[one.category], one.text, None, one.evidence)
                for one in talk.questions
            ]
            asked += [Asked(one.id, talk.id, "foreign", one.query, None, ()) for one in foreign]
            for other in conversations:
                texts = [] if other is talk else swapped(other, talk, drawn)
                asked += [Asked("", talk.id, "swapped", text, None, ()) for text in texts]
            rows += [await _judged(memory, "locomo", one, agent_id=talk.id) for one in asked]
    finally:
        await system.close()
    return rows


def swapped(other: locomo.Conversation, talk: locomo.Conversation, drawn: random.Random) -> list[str]:
    """Questions of another conversation, asked about those who speak in this one."""
    theirs, ours = (sorted({turn.speaker for turn in one.turns}) for one in (other, talk))
    names = dict(zip(theirs, drawn.sample(ours, len(ours)), strict=True))
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, theirs)) + r")\b")
    some = drawn.sample(list(other.questions), min(SWAPPED, len(other.questions)))
    return [pattern.sub(lambda found: names[found[0]], one.text) for one in some]


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


def table(rows: Sequence[Judged]) -> Table:
    """The questions that count, each class with the same weight for those with an answer and those without."""
    classes = [_class(row) for row in rows]
    sums: defaultdict[tuple[str, bool], float] = defaultdict(float)
    for row, name in zip(rows, classes, strict=True):
        sums[name, bool(row.gold)] += _count(row)
    people = {person: place % FOLDS for place, person in enumerate(sorted({row.person for row in rows}))}
    weight = [
        CLASSES[name] * _count(row) / sums[name, bool(row.gold)]
        for row, name in zip(rows, classes, strict=True)
    ]
    return Table(
        cosine=np.array([row.cosine for row in rows]),
        coverage=np.array([row.coverage for row in rows]),
        compared=np.array([float(row.compared) for row in rows]),
        shortened=np.array([float(row.is_shortened) for row in rows]),
        stranger=np.array([float(row.has_stranger) for row in rows]),
        answerable=np.array([bool(row.gold) for row in rows]),
        weight=1000 * np.array(weight),
        fold=np.array([people[row.person] for row in rows]),
    )


def counts(row: Judged) -> bool:
    """Whether the fit looks at a question. A stranger in one user's memory cannot be told, and an exact question quotes
    words that a terse fact does not have."""
    return row.kind != "none_stranger" and not (row.kind == "exact" and row.group.startswith("terse"))


def _class(row: Judged) -> str:
    return next((name for name in CLASSES if name in row.group), "one")


def _count(row: Judged) -> float:
    return CORPORA[row.group.partition(",")[0]] * (WITHOUT if row.kind == "without" else 1.0)


def printed_fit(rows: Sequence[Judged], embedder: str) -> None:
    """What is emptied while little is lost: as shipped, by the best shape, and by one chosen without the person."""
    counted = [row for row in rows if counts(row)]
    asked = table(counted)
    kinds = {"all": np.ones(len(counted), np.bool_)}
    kinds |= {name: np.array([_class(row) == name for row in counted]) for name in CLASSES}
    kinds["known persons"] = np.array([row.kind in KNOWN for row in counted])
    known = calibration(MODELS[embedder])
    shipped = Shape.of(known)
    grid = fitting.shapes(embedder, shipped.stranger)
    everybody = kinds["all"]
    found = fitting.best(asked, grid, everybody)
    for name, shape in (("as shipped", shipped), ("best of the grid", found)):
        intercept, slope = fitting.scaled(asked, shape, known.auto)
        leaning, true = slope * asked.leaning(shape) + intercept, asked.answerable
        places = (fitting.quantile(leaning[true], asked.weight[true], share) for share in fitting.LOST)
        print(f"{name}: {shape}, intercept {intercept:.2f}, slope {slope:.1f}")
        print(f"  sure of {'  '.join(f'{1 / (1 + math.exp(-place)):.2f}' for place in places)}")
        print(f"  lost/emptied {_points(fitting.curve(asked, asked.leaning(shape), everybody, everybody))}")
    for name, some in (("as shipped", [shipped]), ("best", grid)):
        above = fitting.unseen(asked, some)
        print(f"emptied where {fitting.LOST} are lost, unseen people, {name}:")
        for kind, mask in kinds.items():
            print(f"  {kind:14} {'  '.join(f'{share:.3f}' for share in fitting.emptied(asked, above, mask))}")


def _points(points: Iterable[tuple[float, float]]) -> str:
    return "  ".join(f"{lost:.3f}/{emptied:.3f}" for lost, emptied in points)


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
    printed_floors(rows, calibration(MODELS[given.embedder]))
    print()
    printed_fit(rows, given.embedder)


if __name__ == "__main__":
    main()
