"""What decisions teach: rules that are suggested, with what speaks for them."""

from __future__ import annotations

from dataclasses import dataclass

from quipu.model.governance import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A rule that nobody has made yet. It does nothing before a person accepts it."""

    id: str
    rule: Rule
    #: The proposals that were decided this way, newest first, and who decided them.
    evidence: tuple[str, ...]
    deciders: tuple[str, ...]
    first_at: int
    last_at: int
    #: Past decisions that it would have met, and missed.
    met: int
    missed: int
    #: Of the last writes, how many it would have decided.
    effect: int = 0
