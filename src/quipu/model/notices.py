"""Notices: what other machines are told of held writes and decisions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Event(StrEnum):
    """What a notice tells."""

    HELD = "proposal.held"
    DECIDED = "proposal.decided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Where notices are sent, and how far along the journal it has been told."""

    tenant: str
    id: str
    url: str
    events: tuple[Event, ...]
    #: Globs; only what happens to these agents is told.
    agents: tuple[str, ...]
    #: Whether a notice holds the held write itself. Otherwise it names it, and no more.
    with_content: bool
    created_at: int
    created_by: str
    position: int
    #: How often the next notice was tried, when it is due, and what went wrong last.
    attempts: int = 0
    next_at: int = 0
    error: str | None = None
    #: How many were given up.
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class KeptWebhook:
    """A webhook with the key that its notices are signed with, sealed."""

    webhook: Webhook
    sealed: bytes


@dataclass(frozen=True, slots=True)
class IssuedWebhook:
    """A new webhook. The key is told this once."""

    webhook: Webhook
    key: str
