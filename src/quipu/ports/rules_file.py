"""The file of rules that a server is started with, which may be changed while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from quipu.model.governance import Rule


class RulesFile(Protocol):
    """Always has rules: a file that cannot be read or understood leaves the last good ones in force."""

    def rules(self) -> tuple[Rule, ...]:
        """What it says now, or said last when it could be understood."""
        ...

    @property
    def edition(self) -> int:
        """Counts how often its rules have changed since the start."""
        ...

    @property
    def broken_since(self) -> int | None:
        """Since when it has not been understood, in milliseconds; None while it is."""
        ...
