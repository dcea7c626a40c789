"""Which entries of the journal somebody may look back at."""

from __future__ import annotations

from collections.abc import Collection

from quipu.model.journal import Entry
from quipu.model.principal import Principal
from quipu.model.trail import TrailRequest


def needs_users(reader: Principal, wanted: TrailRequest) -> bool:
    """Whether it must be known whose the mentioned records are."""
    return reader.user_id is not None or wanted.user_id is not None


def visible(entry: Entry, reader: Principal) -> bool:
    """Entries of the agents it may act for; those of no agent in particular, to who may act for all."""
    return "*" in reader.agents if entry.agent is None else reader.may_act_for(entry.agent)


def meant(entry: Entry, wanted: TrailRequest) -> bool:
    """Whether the entry was asked for, as far as it says so itself."""
    return wanted.operation in (None, entry.op) and wanted.agent_id in (None, entry.agent)


def about(users: Collection[str | None], reader: Principal, wanted: TrailRequest) -> bool:
    """Whether the entry, which mentions records of these users, is one of the user's."""
    if reader.user_id is not None and (not users or any(user != reader.user_id for user in users)):
        return False
    return wanted.user_id is None or wanted.user_id in users
