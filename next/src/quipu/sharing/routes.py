"""OAP's addresses: each translates and calls `dispatch`."""

from dataclasses import dataclass

from starlette.routing import BaseRoute

from quipu.http.authentication import Authentication
from quipu.sharing.service import Sharing
from quipu.sharing.wire import Wire


@dataclass(frozen=True, slots=True)
class OapRoutes:
    """Everything that another host, or an owner in OAP's words, can ask for."""

    sharing: Sharing
    wire: Wire

    @classmethod
    def of(cls, sharing: Sharing, authentication: Authentication) -> "OapRoutes":
        return cls(sharing, Wire(sharing.host, authentication))

    @property
    def routes(self) -> list[BaseRoute]:
        return []
