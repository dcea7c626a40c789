"""The shape of the evidence for an answer, chosen where it matters: how many questions without one are emptied while few
that have one are lost.

A likelihood is ruled by the many questions that are easy. So the shape is searched for on a grid, in units of cosine;
a logistic regression then says how sure one may be at each place, and the intercept puts `auto` where few are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from quipu.rules.relevance import Calibration

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Shares of the true answers that may be lost: between the first and the last the floors lie.
LOST = (0.01, 0.02, 0.03, 0.045)
#: Which of them `auto` may lose.
LOST_BY_AUTO = 0.02
#: The grid of each embedder: coverage, compared, besides, shortened. What the count weighs is bounded by what it was
#: seen to do from 10 records to 3,000, for memories are larger than these.
GRIDS = {
    "onnx": (
        (0.0, 0.07, 0.12, 0.2),
        (0.03, 0.04, 0.05),
        (0.0, 5.0, 15.0, 30.0),
        (0.0, 0.03, 0.06, 0.09),
    ),
    "fast": (
        (0.1, 0.2, 0.4, 0.7),
        (0.05, 0.08, 0.12),
        (0.0, 5.0, 15.0, 30.0),
        (0.0, 0.08, 0.16, 0.24),
    ),
}


@dataclass(frozen=True)
class Shape:
    """What speaks for an answer beside the best cosine, in units of it."""

    coverage: float
    compared: float
    besides: float
    shortened: float
    stranger: float

    @classmethod
    def of(cls, known: Calibration) -> Shape:
        slope = known.cosine + known.best_cosine
        return cls(
            known.coverage / slope,
            -known.compared / slope,
            known.besides,
            known.shortened / slope,
            -known.stranger / slope,
        )


@dataclass(frozen=True)
class Table:
    """Questions, one in each place of every array."""

    cosine: Floats
    coverage: Floats
    compared: Floats
    shortened: Floats
    stranger: Floats
    answerable: Mask
    weight: Floats
    fold: NDArray[np.int64]

    def leaning(self, shape: Shape) -> Floats:
        """How much speaks for each question's having an answer."""
        return (
            self.cosine
            + shape.coverage * self.coverage
            - shape.compared * np.log(np.maximum(self.compared, 1) + shape.besides)
            + shape.shortened * self.shortened
            - shape.stranger * self.stranger
        )


def shapes(embedder: str, stranger: float) -> list[Shape]:
    """The grid. Strangers are too few, and too well told apart, for a search: theirs is set."""
    return [Shape(*values, stranger) for values in product(*GRIDS[embedder])]


def quantile(values: Floats, weights: Floats, share: float) -> float:
    """The value below which this share of the weight lies."""
    order = np.argsort(values)
    summed = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(summed, share * summed[-1])])


def curve(table: Table, leaning: Floats, chosen_on: Mask, judged_on: Mask) -> list[tuple[float, float]]:
    """For each share that may be lost among some: what is lost and what is emptied among others."""
    true, false = table.answerable, ~table.answerable
    points: list[tuple[float, float]] = []
    for share in LOST:
        floor = quantile(leaning[true & chosen_on], table.weight[true & chosen_on], share)
        lost, emptied = (
            float(np.average(leaning[some] < floor, weights=table.weight[some]))
            for some in (true & judged_on, false & judged_on)
        )
        points.append((lost, emptied))
    return points


def best(table: Table, grid: Sequence[Shape], some: Mask) -> Shape:
    """The shape that empties most."""
    leanings = [(shape, table.leaning(shape)) for shape in grid]
    return max(leanings, key=lambda pair: sum(point[1] for point in curve(table, pair[1], some, some)))[0]


def unseen(table: Table, grid: Sequence[Shape]) -> Floats:
    """How far each question lies above the floor, by people who had no part in choosing shape and floor."""
    above = np.zeros(len(table.cosine))
    for number in np.unique(table.fold):
        rest, here = table.fold != number, table.fold == number
        leaning = table.leaning(best(table, grid, rest))
        true = rest & table.answerable
        above[here] = leaning[here] - quantile(leaning[true], table.weight[true], LOST_BY_AUTO)
    return above


def emptied(table: Table, leaning: Floats, some: Mask) -> list[float]:
    """The share that is emptied of some questions without an answer, for each share of all true answers that is lost."""
    true, false = table.answerable, some & ~table.answerable
    floors = (quantile(leaning[true], table.weight[true], share) for share in LOST)
    return [float(np.average(leaning[false] < floor, weights=table.weight[false])) for floor in floors]


def scaled(table: Table, shape: Shape, auto: float) -> tuple[float, float]:
    """The intercept and the slope: as sure as a logistic regression says, and few true answers below `auto`."""
    leaning = table.leaning(shape)
    found = fitted(
        leaning[:, None], table.answerable.astype(float), table.weight, np.zeros(len(leaning), np.float64)
    )
    true = table.answerable
    floor = quantile(leaning[true], table.weight[true], LOST_BY_AUTO)
    return float(np.log(auto / (1 - auto)) - found[1] * floor), float(found[1])


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
