"""Vectors that a file brings: kept only where they are of this memory's own space, otherwise made anew (10.3, step 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from quipu.errors import InvalidError
from quipu.formats.reading import Opened
from quipu.formats.signing import VALID
from quipu.formats.values import Found
from quipu.formats.vectors import Vectors
from quipu.model.operations import Embedding, Line
from quipu.ports.ledger import Space
from quipu.ports.parts import Parts
from quipu.rules.vectors import unit_vector


async def usable(parts: Parts, tenant: str, opened: Opened) -> Vectors | None:
    """The file's vectors, where they can stand beside those that are here.

    Nobody can tell by looking whether a vector is that of its text, so only a key that is known is believed.
    """
    vectors = await asyncio.to_thread(opened.vectors)
    if vectors is None or not len(vectors):
        return None
    space, embedder = await parts.ledger.space(tenant), parts.embedder
    if space is None and embedder is not None:
        space = Space(embedder.model, embedder.dimensions)
    if opened.signature != VALID:
        opened.loss.dropped("vectors that no known key has signed", len(vectors))
        return None
    if space is not None and (space.model, space.dimensions) != (vectors.model, vectors.dimensions):
        opened.loss.dropped("vectors of another model", len(vectors))
        return None
    return vectors


def looked_up(stretch: Sequence[Found], vectors: Vectors) -> dict[int, Embedding]:
    """The vectors of these items, by the number of their line. One without a direction is none."""
    found: dict[int, Embedding] = {}
    for number, item in stretch:
        name = item.get("item_id") if isinstance(item, dict) else None
        data = vectors.of(name) if isinstance(name, str) else None
        if data is None:
            continue
        try:
            unit = unit_vector(Embedding(vectors.model, data), vectors.model, vectors.dimensions)
        except InvalidError:
            continue
        found[number] = Embedding(vectors.model, unit)
    return found


def without(line: Line) -> Line:
    """The line without its vector: its text was altered, or waits and may be."""
    if line.request.embedding is None:
        return line
    return replace(line, request=replace(line.request, embedding=None))
