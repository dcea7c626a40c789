"""One request of somebody who is signed in, and what it is answered with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from quipu.errors import ForbiddenError
from quipu.faces.http.backoff import Backoff
from quipu.faces.web import forms, sheets
from quipu.faces.web.lately import Lately
from quipu.faces.web.sessions import RandomBytes, Session, Sessions
from quipu.model.principal import Permission, Principal
from quipu.ports.surroundings import Clock
from quipu.service.memory import MemoryService
from quipu.telemetry.recent import Recent


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the page is made of."""

    service: MemoryService
    clock: Clock
    random: RandomBytes
    sessions: Sessions
    #: Seals the sign-in form; another one in every process.
    key: bytes
    #: Slows down who tries many tokens.
    backoff: Backoff
    lately: Lately
    #: The last traces, where this process keeps them.
    recent: Recent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Who asks for what."""

    site: Site
    request: Request
    principal: Principal
    session: Session

    @property
    def service(self) -> MemoryService:
        return self.site.service

    def may(self, permission: Permission) -> bool:
        return self.principal.may(permission)

    def need(self, permission: Permission) -> None:
        """Refuse early, before anything is asked of the service."""
        if not self.may(permission):
            raise ForbiddenError(
                f"This needs {permission.value}.",
                reason="missing_scope",
                hint="Your token does not have it. Who manages tokens here can give you one that does.",
            )

    def asked(self, name: str) -> str | None:
        """A field of the address, without the space around it; None where it is empty."""
        return (self.request.query_params.get(name) or "").strip() or None

    async def form(self) -> Mapping[str, str]:
        """The fields of a form of this session; of any other it is refused."""
        forms.check_sender(self.request)
        given = await forms.fields(self.request)
        # Whoever refuses the form from here on hands back what was typed into it.
        self.request.state.typed = forms.kept(given)
        forms.check_secret(given.get(forms.FIELD), self.session.csrf)
        return given

    def page(self, template: str, status: int = 200, /, **context: Any) -> Response:
        """A page of this session."""
        notice, self.session.notice = self.session.notice, None
        return sheets.rendered(template, {**self._frame(), "notice": notice, **context}, status)

    def _frame(self) -> dict[str, Any]:
        return {
            "path": self.request.url.path,
            "principal": self.principal,
            "csrf": self.session.csrf,
            "now": self.site.clock(),
            "undo": self.undoable,
            "may": {permission.name.lower(): self.may(permission) for permission in Permission},
        }

    @property
    def undoable(self) -> str | None:
        """The proposal on which a decision of this session can still be taken back."""
        kept = self.session.undo
        if kept is not None and kept[0] < self.site.clock():
            kept = self.session.undo = None
        return None if kept is None else kept[1]

    def go(self, path: str, notice: str | None = None, /, **query: str | None) -> Response:
        """On to another page, which says what was done here."""
        if notice is not None:
            self.session.notice = notice
        return sheets.guarded(RedirectResponse(address(path, **query), status_code=303))


def memory_path(record_id: str) -> str:
    """The page of a memory. Ids may come from elsewhere, so nothing in them is taken for a part of an address."""
    return f"/memories/{quote(record_id, safe='')}"


def address(path: str, /, **query: str | None) -> str:
    """A path with the fields that have a value."""
    given = [(name, value) for name, value in query.items() if value]
    return f"{path}?{urlencode(given)}" if given else path
