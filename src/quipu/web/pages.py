"""Every page of every room, and what the web page is put together of."""

from collections.abc import Callable, Sequence

from quipu.access import page as access
from quipu.access.credentials import SigninLinks
from quipu.audit import page as audit
from quipu.audit.operations import JOURNAL
from quipu.audit.page import Checks
from quipu.consolidation import page as consolidation
from quipu.governance import page as governance
from quipu.governance.page import WebhookPart
from quipu.http.authentication import Authentication
from quipu.http.jobs import Job, for_each_tenant
from quipu.ledger.ledger import Ledger
from quipu.memory import page as memory
from quipu.mirrors.page import MirrorPart
from quipu.operation import RateLimiter, Telemetry
from quipu.page import Page
from quipu.procedures.page import ProcedurePart
from quipu.runs import page as runs
from quipu.secrets import page as secrets
from quipu.secrets.sealing import Sealing
from quipu.sharing import page as sharing
from quipu.transfer import page as transfer
from quipu.web.app import Site
from quipu.web.page import health_page, overview
from quipu.web.session import Sessions, SignIn
from quipu.web.view_log import ViewLog


def pages(checks: Checks) -> Sequence[Page]:
    """In the order of the left column."""
    of_access, tenants = access.pages(WebhookPart())
    return (
        overview(checks),
        *memory.pages(JOURNAL, ProcedurePart(), transfer.TickedExport()),
        *consolidation.PAGES,
        *governance.PAGES,
        *audit.pages(checks),
        *runs.PAGES,
        *sharing.PAGES,
        health_page(MirrorPart()),
        of_access,
        *transfer.PAGES,
        *secrets.PAGES,
        tenants,
    )


def site(
    *,
    authentication: Authentication,
    ledger: Ledger,
    sealing: Sealing,
    signin_links: SigninLinks,
    rates: RateLimiter,
    silent: Telemetry,
    clock: Callable[[], int],
    random: Callable[[int], bytes],
    sweep_s: float,
) -> Site:
    """The page with everything it needs; `silent` is telemetry that opens no spans."""
    credentials = signin_links.credentials
    sessions = Sessions(ledger=ledger, credentials=credentials, sealing=sealing, clock=clock, random=random)
    views, checks = ViewLog(ledger, clock), Checks(clock)
    sign_in = SignIn(
        sessions=sessions,
        credentials=credentials,
        links=signin_links,
        backoff=authentication.backoff,
        is_open=authentication.everybody is not None,
    )

    async def tenants() -> list[str]:
        return [tenant async for tenant in ledger.journaled_tenants()]

    async def write_due(tenant: str) -> None:
        await views.write_due(tenant, clock())

    return Site(
        pages=pages(checks),
        authentication=authentication,
        sessions=sessions,
        views=views,
        clock=clock,
        random=random,
        silent=silent,
        rates=rates,
        others=sign_in.routes(),
        works=(
            Job(name="views", every_s=sweep_s, work=for_each_tenant("views", tenants, write_due)),
            Job(name="checks", every_s=0, work=checks.close, is_last=True),
        ),
    )
