"""Which records a request may touch. Out of reach is the same as not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quipu.model.principal import Principal
from quipu.model.record import Record
from quipu.model.search import Scope


class Owned(Protocol):
    """Something that belongs to an agent, and maybe to one of its users."""

    @property
    def tenant(self) -> str: ...
    @property
    def agent_id(self) -> str: ...
    @property
    def user_id(self) -> str | None: ...


def in_hand(thing: Owned, principal: Principal) -> bool:
    """Where no agent is named: what the principal may act for, as far as it is bound to a user, that user's."""
    return (
        thing.tenant == principal.tenant
        and principal.may_act_for(thing.agent_id)
        and principal.user_id in (None, thing.user_id)
    )


def in_reach(record: Record, scope: Scope) -> bool:
    """The scope's own record, or one of a shared store that may be shared with the reader."""
    if record.tenant != scope.tenant:
        return False
    if scope.agent_id is not None and record.agent_id != scope.agent_id:
        return False
    if scope.user_id is not None and record.user_id != scope.user_id:
        return False
    if scope.store_id is not None and record.store_id != scope.store_id:
        return False
    if scope.stores is not None and record.store_id not in scope.stores:
        return False
    if scope.agent_id is None and scope.store_id is not None and record.agent_id != scope.reader:
        return may_share(None if record.privacy is None else record.privacy.share_with, scope.reader)
    return True


def may_share(share_with: Sequence[str] | None, reader: str | None) -> bool:
    """May somebody else's record be read by this agent? Without a list the store's own rule holds: it may."""
    return share_with is None or "*" in share_with or (reader is not None and reader in share_with)
