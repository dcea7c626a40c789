"""Which entries of the journal somebody may look back at."""

from __future__ import annotations

from collections.abc import Collection

from quipu.model.journal import Entry, Op
from quipu.model.principal import Principal
from quipu.model.trail import TrailRequest

#: What becomes of held writes, apart from what a yes does.
_QUEUE = frozenset({Op.HOLD, Op.APPROVE, Op.DECIDE})
#: Where an entry names records and proposals beyond those that it mentions.
_RECORDS, _PROPOSALS = ("canonical", "merged_into", "supersedes"), ("proposal", "was")


def is_of_queue(entry: Entry) -> bool:
    """Whether it is about a held write as such."""
    return entry.op in _QUEUE


def named(entry: Entry) -> frozenset[str]:
    """All records that an entry speaks of."""
    return frozenset({mention.id for mention in entry.records} | _texts(entry, _RECORDS))


def proposals(entry: Entry) -> frozenset[str]:
    """All proposals that an entry speaks of."""
    return frozenset(_texts(entry, _PROPOSALS))


def _texts(entry: Entry, names: Collection[str]) -> set[str]:
    values = [entry.detail.get(name) for name in names]
    single = {value for value in values if isinstance(value, str)}
    return single | {
        one for value in values if isinstance(value, list) for one in value if isinstance(one, str)
    }


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
