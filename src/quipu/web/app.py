"""Pages as routes: who asks, what the page loads, what a form does."""

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from quipu.errors import Fault, QuipuError, UnauthenticatedError
from quipu.http.authentication import Authentication
from quipu.http.exchange import exchange_of
from quipu.http.jobs import Job
from quipu.http.limits import place_of
from quipu.http.problems import no_address, status_of
from quipu.http.streams import download
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record
from quipu.operation import (
    AnyOperation,
    Context,
    RateLimiter,
    Response,
    Telemetry,
    dispatch,
    invalid,
)
from quipu.page import Action, Done, Fields, Page, may_use
from quipu.schemas import from_texts
from quipu.web import forms, session
from quipu.web.render import assets, guarded, rendered
from quipu.web.session import (
    FORM,
    SESSION,
    Sessions,
    clear_cookie,
    form_secret,
    fresh,
    read_cookie,
    set_cookie,
)
from quipu.web.text import address
from quipu.web.view_log import ViewLog

#: The groups of pages, in the order of the left column.
GROUPS: Mapping[str, str] = {
    "memory": "Memory",
    "review": "Review",
    "activity": "Activity",
    "sharing": "Sharing",
    "system": "System",
}
_NOTICE = "quipu-notice"
_NOTICE_S, _LONGEST_NOTICE = 60, 600
_LIFE_S = session.LIFE_MS // 1000
#: One page is one request, however much it asks for.
_VIEW = "page"


class _Unlimited:
    """The page itself was counted."""

    def charge(self, principal: Principal, operation: str, now: int) -> None:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the pages are made of."""

    pages: Sequence[Page]
    authentication: Authentication
    sessions: Sessions
    views: ViewLog
    clock: Callable[[], int]
    random: Callable[[int], bytes]
    #: Opens no spans: what a person looks at is nobody's telemetry.
    silent: Telemetry
    rates: RateLimiter
    #: Routes that are no pages: signing in and out.
    others: Sequence[Route] = ()
    #: What goes on while nobody asks.
    works: Sequence[Job] = ()

    def routes(self) -> list[Route]:
        """To be given to `http.app`."""
        made = [
            Route(page.path, partial(self._answered, page), methods=_methods(page)) for page in self.pages
        ]
        return [
            *made,
            *self.others,
            Route("/signout", self._sign_out, methods=["POST"]),
            Route("/static/{name}", _asset),
        ]

    def jobs(self) -> Sequence[Job]:
        """To be given to `http.app`."""
        return self.works

    # -- who it is --------------------------------------------------------------------------------------------------

    async def visit(self, http: HttpRequest) -> "Visit | HttpResponse":
        """Whoever is signed in; or where to go first."""
        everybody = self.authentication.everybody
        if everybody is not None:  # the server asks nobody: the form is bound to the browser
            cookie = read_cookie(http, FORM) or fresh(self.random)
            return self._welcome(http, Visit(self, http, everybody, form_secret(cookie), "local", cookie))
        text = read_cookie(http, SESSION)
        if text is None:
            return await self._turned_away(http, has_ended=False)
        try:
            found = await self.sessions.find(text)
        except UnauthenticatedError:
            return await self._turned_away(http, has_ended=True)
        return self._welcome(http, Visit(self, http, found.principal, found.csrf, found.id))

    def _welcome(self, http: HttpRequest, visit: "Visit") -> "Visit":
        place_of(http.scope).sign_in(visit.principal)
        exchange_of(http.scope).principal = visit.principal
        http.scope["state"]["visit"] = visit
        return visit

    async def _turned_away(self, http: HttpRequest, *, has_ended: bool) -> HttpResponse:
        """To the sign-in page, and from there back to where one wanted to go. What was typed into a form is not lost."""
        is_reading = http.method in ("GET", "HEAD")
        here = http.url.path + (f"?{http.url.query}" if http.url.query else "")
        if http.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            # The browser keeps a strict cookie back from what another site sends. A link is asked for once more, by our
            # own page; a form is refused. Neither says anything about the session, so neither ends it.
            if is_reading:
                return rendered("opening.html", {"target": here})
            raise forms.foreign_form()
        wanted = forms.own_path(here)
        target = address("/signin", next="" if wanted == "/" else wanted, ended="1" if has_ended else "")
        typed = {} if is_reading or not has_ended else await forms.typed_fields(http)
        if typed:
            answer = rendered("ended.html", {"target": target, "typed": typed}, 401)
        else:
            answer = guarded(RedirectResponse(target, status_code=303))
        if has_ended:
            clear_cookie(http, answer, SESSION)
        return answer

    # -- pages --------------------------------------------------------------------------------------------------------

    async def _answered(self, page: Page, http: HttpRequest) -> HttpResponse:
        visit = await self.visit(http)
        if isinstance(visit, HttpResponse):
            return visit
        visit.page = page
        if http.method == "POST":
            return await self._acted(visit, page)
        return await self._shown(visit, page, Fields(visit.asked))

    async def _shown(
        self,
        visit: "Visit",
        page: Page,
        asked: Fields,
        *,
        status: int = 200,
        error: QuipuError | None = None,
        typed: Fields | None = None,
        once: Mapping[str, Any] | None = None,
    ) -> HttpResponse:
        self.rates.charge(visit.principal, _VIEW, self.clock())
        shown: list[Record] = []
        loaded = await page.load(visit.looking(shown), asked)
        await self.views.note(visit.session_id, visit.principal, shown)
        frame = visit.frame()
        answer = rendered(
            page.template,
            frame | {"error": error, "typed": typed or Fields(), "shown_once": once or {}} | loaded,
            status,
        )
        if frame["notice"]:
            clear_cookie(visit.http, answer, _NOTICE)
        visit.keep_cookie(answer)
        return answer

    async def _acted(self, visit: "Visit", page: Page) -> HttpResponse:
        http = visit.http
        forms.check_sender(http)
        given, file = await forms.form_fields(http)
        # Whoever refuses the form from here on hands back what was typed into it.
        http.scope["state"]["typed"] = forms.typed_into(given)
        forms.check_secret(given.get(forms.SECRET), visit.csrf)
        action = page.actions.get(given.get("action", ""))
        if action is None:
            raise invalid([Fault("/action", "bad_value", "an action of this page")])
        asked = Fields([*visit.asked, *given.pairs])
        ctx = visit.context()
        if file is not None:
            asked = Fields([*asked.pairs, ("file_name", (file.filename or "")[:256])])
            ctx = replace(ctx, upload=_pieces(file))
        try:
            done = await _run(action, ctx, asked)
            if done.file is not None:
                return guarded(await download(done.file))
        except QuipuError as error:
            status = status_of(error)
            if error.code in ("internal_error", "unauthenticated"):
                raise
            typed = Fields() if error.code == "secret_leakage" else given
            return await self._shown(
                visit, page, Fields(visit.asked), status=status, error=error, typed=typed
            )
        finally:
            if file is not None:
                await file.close()
        if done.once is not None:
            return await self._shown(visit, page, Fields(visit.asked), once=done.once)
        query = f"?{http.url.query}" if http.url.query else ""
        return visit.go(done.path or f"{http.url.path}{query}", done.said)

    async def _sign_out(self, http: HttpRequest) -> HttpResponse:
        visit = await self.visit(http)
        if isinstance(visit, HttpResponse):
            return visit
        forms.check_sender(http)
        given, _ = await forms.form_fields(http)
        forms.check_secret(given.get(forms.SECRET), visit.csrf)
        await self.sessions.end(read_cookie(http, SESSION))
        await self.views.end(visit.principal.tenant, visit.session_id)
        answer = guarded(RedirectResponse("/signin", status_code=303))
        clear_cookie(http, answer, SESSION)
        return answer


@dataclass(slots=True)
class Visit:
    """One request of somebody who is known."""

    site: Site
    http: HttpRequest
    principal: Principal
    #: Every form of the session carries it.
    csrf: str
    session_id: str
    #: On a server that asks nobody: what its forms are bound to.
    form_cookie: str | None = None
    page: Page | None = field(default=None)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """What stands in the address."""
        return [*self.http.query_params.multi_items(), *self.http.path_params.items()]

    def context(self) -> Context:
        """For what changes something."""
        return self.site.authentication.context(self.principal)

    def looking(self, shown: list[Record]) -> Context:
        """For what is only shown: no span, one request however much the page asks for, and one entry for many reads."""
        ctx = self.context()
        services = replace(ctx.services, telemetry=self.site.silent, rates=_Unlimited())
        return replace(ctx, services=services, shown=shown)

    def frame(self) -> dict[str, Any]:
        """What every page is given."""
        here = self.page
        return {
            "path": self.http.url.path,
            "group": None if here is None else here.group,
            "title": "" if here is None else here.title,
            "groups": self._groups(),
            "principal": self.principal,
            "csrf": self.csrf,
            "now": self.site.clock(),
            "once": fresh(self.site.random),
            "may": {permission.name.lower(): self.principal.may(permission) for permission in Permission},
            "notice": self._notice(),
            "is_open": self.form_cookie is not None,
        }

    def _groups(self) -> list[dict[str, Any]]:
        """The links of the left column: those that lead to something for this visitor."""
        here = None if self.page is None else self.page.parent or self.page.path
        order = list(GROUPS)
        pages = [
            page for page in self.site.pages if page.parent is None and may_use(self.principal, page.needs)
        ]
        pages.sort(key=lambda page: order.index(page.group))
        return [
            {
                "name": GROUPS[group],
                "is_here": self.page is not None and group == self.page.group,
                "pages": [
                    {"path": page.path, "title": page.title, "is_here": page.path == here} for page in members
                ],
            }
            for group, members in groupby(pages, key=lambda page: page.group)
        ]

    def go(self, path: str, said: str) -> HttpResponse:
        """On to another page, which says what was done here."""
        answer = guarded(RedirectResponse(path, status_code=303))
        set_cookie(self.http, answer, _NOTICE, self._sealed_notice(said), _NOTICE_S)
        self.keep_cookie(answer)
        return answer

    def keep_cookie(self, answer: HttpResponse) -> None:
        """What the forms of the answer are bound to."""
        if self.form_cookie is not None:
            set_cookie(self.http, answer, FORM, self.form_cookie, _LIFE_S)

    # The notice travels in a cookie, so that any server may show it; only who has the session's secret can write one.

    def _sealed_notice(self, said: str) -> str:
        text = base64.urlsafe_b64encode(said[:_LONGEST_NOTICE].encode()).decode("ascii")
        return f"{text}.{self._seal(text)}"

    def _notice(self) -> str | None:
        text, _, seal = (read_cookie(self.http, _NOTICE) or "").partition(".")
        if not text or not hmac.compare_digest(seal.encode(), self._seal(text).encode()):
            return None
        try:
            return base64.urlsafe_b64decode(text).decode()
        except (binascii.Error, ValueError):
            return None

    def _seal(self, text: str) -> str:
        return hmac.new(self.csrf.encode(), text.encode(), "sha256").hexdigest()


def _methods(page: Page) -> list[str]:
    return ["GET", "POST"] if page.actions else ["GET"]


async def _run(action: Action | AnyOperation, ctx: Context, asked: Fields) -> Done:
    if callable(action):
        return await action(ctx, asked)
    known = action.request.model_fields
    texts = {name: values for name in asked if name in known and (values := asked.texts(name))}
    answer: Response = await dispatch(ctx, action, from_texts(action.request, texts))
    return Done(said="It waits for approval." if answer.is_held else "Done.")


async def _pieces(file: Any) -> Any:
    while piece := await file.read(64 << 10):
        yield piece


async def _asset(http: HttpRequest) -> HttpResponse:
    found = assets().get(http.path_params["name"])
    if found is None:
        raise no_address()
    is_named = http.query_params.get("v") == found.digest
    keep = "public, max-age=31536000, immutable" if is_named else "no-cache"
    return HttpResponse(found.data, headers={"Cache-Control": keep}, media_type=found.media_type)
