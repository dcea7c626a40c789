"""What a server is made of: HTTP, the page, MCP, and what is done in the background."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from quipu.bootstrap.container import Container, Untraced
from quipu.bootstrap.declared import OPERATIONS
from quipu.errors import Fault, InvalidError
from quipu.governance.model import PROPOSALS
from quipu.mcp.settings import McpParts, McpSettings
from quipu.model import ids
from quipu.model.principal import Principal, local
from quipu.telemetry.spans import Spans

if TYPE_CHECKING:
    from starlette.types import Scope

    from quipu.http.authentication import Authentication
    from quipu.http.exchange import Spans as RequestSpans
    from quipu.http.jobs import Job
    from quipu.mcp.tools import ToolSpec
    from quipu.web.app import Site


#: How often runs are looked after: those whose server has gone, and histories that have had their time.
_RUNS_S = 30.0
#: How often grantees who have not answered are asked again to erase, and other erasures looked for.
_ERASURES_S = 10.0
#: How often webhooks are sent what is due.
_WEBHOOKS_S = 2.0
#: How often memories and held writes are counted, where somebody measures.
_COUNT_S = 60.0
#: How soon after its start a server loads what speaks MCP.
_MCP_S = 2.0


def http_app(container: Container, *, is_open: bool = False, only: Literal["mcp"] | None = None) -> Any:
    """The server's application.

    is_open: Everybody on this machine is the local person; on loopback only.
    only: Nothing but MCP, beside the probes.
    """
    from quipu.http.app import app  # a command loads no server
    from quipu.http.authentication import Authentication
    from quipu.http.exchange import exchange_of
    from quipu.http.jobs import Job
    from quipu.http.problems import problem_response
    from quipu.mcp.http import McpEndpoint
    from quipu.runs.routes import OpenWopRoutes, openwop_refusal
    from quipu.sharing.routes import OapRoutes
    from quipu.transfer.oap_routes import MoveRoutes
    from quipu.web.render import error_page

    container.load()
    settings, spans = container.config, container.spans
    if spans is not None:
        spans.serve()
    if is_open and settings.host not in ("127.0.0.1", "localhost", "::1"):
        raise InvalidError(
            "A server without tokens listens on this machine only.",
            faults=[Fault("/host", "bad_value", "127.0.0.1, or tokens")],
        )
    everybody = local(agent_id=container.config.agent) if is_open else None
    authentication = Authentication(container.access.credentials, container.context, everybody)
    mcp = McpEndpoint(
        mcp_parts(container),
        authentication,
        lambda http, error: problem_response(error, exchange_of(http.scope).request_id),
    )
    jobs = (
        *background_jobs(container),
        # The SDK takes most of a second to load: not while the server starts, and not while the first client waits.
        Job(name="mcp", every_s=_MCP_S, work=mcp.load),
        Job(name="mcp", every_s=0, work=mcp.close, is_last=True),
    )
    serving = partial(
        app,
        authentication=authentication,
        health=container.ledger.health,
        new_id=ids.new_id,
        settings=settings,
        spans=None if spans is None else _request_spans(spans),
        job_log=container.job_log,
        waiting=container.governance.waits,
        gauges=container.ledger.totals,
    )
    if only == "mcp":
        return serving((), protocols=mcp.routes, jobs=jobs)
    web = _web(container, authentication)
    oap = OapRoutes.of(container.sharing, authentication)
    moves = MoveRoutes(oap.wire)
    openwop = OpenWopRoutes(
        authentication=authentication,
        follower=container.runs.follower,
        player=container.runs.player,
    )
    return serving(
        OPERATIONS,
        protocols=(*mcp.routes, *oap.routes, *moves.routes, *web.routes()),
        addresses=openwop.endpoints,
        described={**openwop.described, **oap.described, **moves.described},
        error_page=lambda scope, error: openwop_refusal(scope, error) or error_page(scope, error),
        jobs=(*jobs, *web.jobs()),
    )


def _request_spans(spans: Spans) -> "RequestSpans":
    """The span around each HTTP request, which continues the trace of its caller."""
    from quipu.http.exchange import exchange_of

    def carrier(scope: "Scope") -> dict[str, str]:
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}

    return lambda scope: spans.request(
        str(scope.get("scheme", "http")), lambda: carrier(scope), lambda: exchange_of(scope)
    )


def _web(container: Container, authentication: "Authentication") -> "Site":
    """The web page."""
    from quipu.web.pages import site

    return site(
        authentication=authentication,
        ledger=container.ledger,
        sealing=container.secrets.sealing,
        signin_links=container.access.signin_links,
        rates=container.access.budgets,
        silent=Untraced(),
        clock=container.clock,
        random=os.urandom,
        sweep_s=container.config.sweep_s,
    )


def mcp_parts(container: Container, shown: McpSettings | None = None) -> McpParts:
    """What serves MCP is given. Nothing of it loads the SDK."""
    settings = container.config
    return McpParts(
        operations=OPERATIONS,
        ledger=container.ledger,
        scopes=container.memory.read.scopes,
        sealing=container.secrets.sealing,
        reviews=container.governance.reviews,
        waits=container.governance.waits,
        settings=replace(
            shown or McpSettings(profile=settings.mcp_profile),
            public_url=settings.public_url,
            issuer=settings.oidc_issuer,
            # Several servers may share a database, so none of them can keep a session.
            keeps_sessions=container.ledger.name == "sqlite",
        ),
        measured=None if container.spans is None else container.spans.mcp_request,
        further_tools=_further_tools,
    )


def _further_tools() -> "Sequence[ToolSpec]":
    from quipu.integrations.mcp_profiles import anthropic_tools, graph_tools  # loads the SDK

    return (*graph_tools(), *anthropic_tools())


async def speak_mcp(container: Container, principal: Principal, shown: McpSettings) -> None:
    """Serve one MCP client on standard input and output."""
    from quipu.mcp.stdio import speak

    if container.spans is not None:
        container.spans.serve()
    await speak(mcp_parts(container, shown), principal, container.context)


def background_jobs(container: Container) -> "list[Job]":
    """What a server does by itself."""
    from quipu.http.jobs import Job, for_each_tenant

    async def tenants() -> list[str]:
        return [tenant async for tenant in container.ledger.journaled_tenants()]

    async def sweep(tenant: str) -> None:
        spans = container.spans
        with nullcontext() if spans is None else spans.background("quipu.expire"):
            await container.memory.expire.sweep(tenant, container.clock())
            await container.governance.proposals.lapse(tenant, container.clock())
            await container.sharing.borrowed.drop_expired(tenant, container.clock())

    async def count() -> None:
        """How things stand, for the gauges of whoever measures; one aggregate for each tenant."""
        spans, now = container.spans, container.clock()
        if spans is None or spans.instruments is None:
            return
        records = waiting = 0
        for tenant in await tenants():
            records += sum(one.count for one in await container.ledger.counts(tenant, None, now))
            waiting += await container.ledger.count(PROPOSALS, tenant, {"status": "pending"})
        spans.standing = records, waiting

    return [
        Job(name="telemetry", every_s=_COUNT_S, work=count),
        Job(
            name="sweep",
            every_s=container.config.sweep_s,
            work=for_each_tenant("sweep", tenants, sweep),
        ),
        Job(
            name="consolidation",
            every_s=container.config.consolidation_s,
            work=for_each_tenant(
                "consolidation",
                tenants,
                lambda tenant: container.consolidation.work(tenant, container.context),
            ),
        ),
        Job(
            name="checkpoint",
            every_s=container.config.checkpoint_s,
            work=for_each_tenant("checkpoint", tenants, container.audit.checkpoints.look),
        ),
        Job(
            name="runs",
            every_s=_RUNS_S,
            work=for_each_tenant(
                "runs", tenants, lambda tenant: container.runs.work(tenant, container.context)
            ),
        ),
        Job(
            name="erasures",
            every_s=_ERASURES_S,
            work=for_each_tenant("erasures", tenants, container.sharing.erasures.work),
        ),
        Job(
            name="webhooks",
            every_s=_WEBHOOKS_S,
            work=lambda: container.webhooks.delivery.deliver_due(container.clock()),
        ),
    ]
