"""Who is asking, over whatever transport, and how far a call may reach: arguments narrow, never widen."""

import glob
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from quipu.ledger.ledger import Ledger
from quipu.memory.scope import STORES, no_store
from quipu.model.principal import Permission, Principal
from quipu.model.store import MAIN
from quipu.operation import AnyOperation, Context

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One caller of one request."""

    principal: Principal
    context: Callable[[Principal], Context]
    profile: str = "default"
    #: When set, the only memory store that is there; `principal` reaches no other.
    store: str | None = None
    #: Where people reach this server; empty without one.
    base: str = ""
    #: Who it is now; raises when the credential has ended.
    renewed: Callable[[], Awaitable[Principal]]

    def ctx(self) -> Context:
        """For one operation."""
        return self.context(self.principal)

    def narrowed(self, operation: AnyOperation, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, with the pinned store where they name none. Another one is not there."""
        if self.store is None or "store" not in operation.request.model_fields:
            return dict(arguments)
        return {"store": self.store, **arguments}

    @property
    def agents(self) -> str:
        """For whom calls are, for tool descriptions: the agent, and which others may be named."""
        default, allowed = self.principal.default_agent, ", ".join(self.principal.agents)
        if default is None:
            return f"Agent: say which in agent_id ({allowed})."
        return f"Agent: {default}." if allowed == default else f"Agent: {default} ({allowed})."


class Who(Protocol):
    """Tells the caller of a request; raises for nobody."""

    def __call__(self, ctx: "ServerRequestContext[Any, Any]", /) -> Caller: ...


def pinned(principal: Principal, store: str | None) -> Principal:
    """The same caller in a world that has one memory store."""
    if store is None:
        return principal
    return replace(principal, review_stores=(glob.escape(store),))


def narrowed(principal: Principal, store: str | None, *, read_only: bool) -> Principal:
    """As much of the caller as the operator lets anybody be here: with one store, who changes nothing."""
    one = pinned(principal, store)
    return replace(one, permissions=one.permissions & {Permission.READ}) if read_only else one


async def check_store(ledger: Ledger, principal: Principal, store: str) -> None:
    """NotFoundError when the caller does not see a store of this name. `main` is there before anybody has looked."""
    is_there = store == MAIN or await ledger.matching(STORES, principal.tenant, "name", [store])
    if not is_there or not principal.reaches_store(store):
        raise no_store()
