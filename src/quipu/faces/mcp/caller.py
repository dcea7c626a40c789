"""Who is asking, over whatever transport, and how far the request may reach. Arguments narrow it, never widen it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from quipu.errors import ForbiddenError
from quipu.model.principal import Permission, Principal

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

_GLOBS = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One caller of one request."""

    principal: Principal
    #: Whom a request is for that names no agent.
    agent_id: str
    profile: str = "default"
    #: When set, the only memory store that is there.
    store: str | None = None
    #: Where people reach this server; "" without one.
    base: str = ""
    #: Who it is now; raises when the credential has ended.
    renewed: Callable[[], Awaitable[Principal]]

    def scoped(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with the agent, and the store if one is pinned, put in where they say nothing."""
        given = {name: value for name, value in arguments.items() if value is not None}
        given.setdefault("agent_id", self.agent_id)
        if self.store is not None and given.setdefault("store", self.store) != self.store:
            raise ForbiddenError("Only one memory store is open here.", reason="store_not_allowed")
        return given

    def sees(self, store: object) -> bool:
        """Whether a memory store is there: any, unless one is pinned."""
        return self.store in (None, store)

    def may_be_asked(self) -> bool:
        """Whether this person's yes is a decision: at this machine, or with a reviewer's credential."""
        return self.principal.is_local or self.principal.may(Permission.REVIEW)


class Who(Protocol):
    """Tells the caller of a request."""

    def __call__(self, ctx: ServerRequestContext[Any, Any], /) -> Caller: ...


_now: ContextVar[Caller] = ContextVar("quipu.mcp.caller")


def caller() -> Caller:
    """The caller of the request that is being answered."""
    return _now.get()


class As:
    """For as long as a request is answered: `with As(caller): ...`."""

    def __init__(self, who: Caller) -> None:
        self._who = who

    def __enter__(self) -> None:
        self._token = _now.set(self._who)

    def __exit__(self, *_: object) -> None:
        _now.reset(self._token)


def agent_of(principal: Principal, fallback: str) -> str:
    """The agent a credential is for: the one it names, else the usual one."""
    named = [pattern for pattern in principal.agents if not _GLOBS.intersection(pattern)]
    if len(principal.agents) == 1 and named:
        return named[0]
    return fallback if principal.may_act_for(fallback) or not named else named[0]
