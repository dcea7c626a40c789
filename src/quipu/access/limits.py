"""What a credential with limits sees of things that it did not name: for handlers of FILTERED operations."""

from dataclasses import dataclass

from quipu.model.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """To whom something belongs. What is not known is None, and shown only to who has no limit there."""

    agent_id: str | None = None
    user_id: str | None = None
    #: The name of the memory store, not its id.
    store: str | None = None


def visible(principal: Principal, owner: Ownership) -> bool:
    """Whether the principal may be shown it. What is not visible answers as if it were not there."""
    return (
        ("*" in principal.agents or (owner.agent_id is not None and principal.may_act_for(owner.agent_id)))
        and principal.user_id in (None, owner.user_id)
        and (
            "*" in principal.review_stores
            or (owner.store is not None and principal.reaches_store(owner.store))
        )
    )
