"""What a rule does."""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """What a rule does to the writes it matches."""

    ALLOW = "allow"
    HOLD = "hold"
    DENY = "deny"
