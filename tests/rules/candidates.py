"""Candidates of a search for properties of ranking: every field drawn by its type, so a new one needs no word here."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from quipu.model.search import Candidate

_UNIT = st.floats(0, 1)
_DRAWN: dict[str, st.SearchStrategy[Any]] = {
    "str": st.text("abcdef", min_size=1, max_size=4),
    "str | None": st.none() | st.sampled_from(("s1", "s2", "s3")),
    "int": st.integers(0, 500),
    "float": _UNIT,
    "float | None": st.none() | st.floats(-1, 1),
    "bool": st.booleans(),
}
_NAMED: dict[str, st.SearchStrategy[Any]] = {"keyword": st.floats(0, 40)}


def candidates(**fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Candidate]:
    """One candidate; a cosine is there or not for all it says about vectors."""
    drawn = {field.name: _DRAWN[str(field.type)] for field in fields(Candidate)}

    def settled(candidate: Candidate) -> Candidate:
        from dataclasses import replace

        vectors = [field.name for field in fields(Candidate) if str(field.type) == "float | None"]
        if any(getattr(candidate, name) is None for name in vectors):
            return replace(candidate, **dict.fromkeys(vectors))
        return candidate

    return st.builds(Candidate, **{**drawn, **_NAMED, **fixed}).map(settled)


def lists(min_size: int = 0, max_size: int = 12, **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Several, with different ids."""
    return st.lists(candidates(**fixed), min_size=min_size, max_size=max_size, unique_by=lambda one: one.id)
