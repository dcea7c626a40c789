"""The words of v0 and ours that a field may hold."""

from __future__ import annotations

from typing import Literal, TypeAlias

TypeName: TypeAlias = Literal["semantic", "episodic", "procedural", "emotional"]
TierName: TypeAlias = Literal["short_term", "long_term"]
TrustName: TypeAlias = Literal["operator", "user", "agent", "external", "unknown"]
SensitivityName: TypeAlias = Literal["public", "internal", "confidential", "secret"]
SentimentName: TypeAlias = Literal["positive", "negative", "neutral", "mixed"]
