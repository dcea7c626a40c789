"""The pages that belong to no room: the overview, and how the server is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from quipu.access.operations import WHOAMI
from quipu.audit.operations import JOURNAL, JOURNAL_HEAD, LIST_CHECKPOINTS, VERIFY
from quipu.audit.page import Checks, activity
from quipu.governance.operations import LIST_REVIEWS
from quipu.governance.page import summary
from quipu.http.health import CAPABILITIES_OF, HEALTH, LIST_JOBS
from quipu.memory.operations import LIST, LIST_AGENTS, LIST_STORES, REMEMBER_MANY
from quipu.memory.page import TYPES
from quipu.model.principal import Permission
from quipu.operation import Context, dispatch
from quipu.page import Done, Fields, Page, Part, may_use
from quipu.upkeep.operations import STATISTICS

# -- overview --------------------------------------------------------------------------------------------------------

_LATEST, _ENTRIES = 6, 6
_SAMPLE_AGENT = "sample"
#: Invented people, invented facts: one agent's memory to look around in.
_SAMPLE: tuple[dict[str, Any], ...] = (
    {"content": "Mara is vegetarian and allergic to walnuts", "user_id": "mara", "tags": ("food",)},
    {
        "content": "Mara lives in Lisbon, near the botanical garden",
        "user_id": "mara",
        "tags": ("home",),
        "key": "mara-home",
    },
    {
        "content": "Mara cancelled her standing desk order by phone on 3 March",
        "user_id": "mara",
        "type": "episodic",
        "participants": ("Mara", "Delivery desk"),
    },
    {
        "content": "Mara gets annoyed when deliveries come up",
        "user_id": "mara",
        "type": "emotional",
        "sentiment": "negative",
        "emotion": "annoyance",
        "target": "deliveries",
    },
    {
        "content": "Ilir prefers trains to planes and books window seats",
        "user_id": "ilir",
        "tags": ("travel",),
    },
    {
        "content": "The Apollo project ships on 12 June; Ilir signs it off",
        "user_id": "ilir",
        "tags": ("apollo",),
    },
    {
        "content": "Backups of the studio server run every night at two",
        "confidence": 0.9,
        "tags": ("servers",),
    },
    {"content": "Parcels over 20 kg go to the back entrance", "source": "document"},
    {
        "type": "procedural",
        "content": {
            "name": "Handle a return",
            "initial": "asked",
            "states": ["asked", "checked", "refunded", "refused"],
            "transitions": [
                {"trigger": "check", "source": "asked", "dest": "checked"},
                {
                    "trigger": "refund",
                    "source": "checked",
                    "dest": "refunded",
                    "conditions": ["within_30_days"],
                },
                {"trigger": "refuse", "source": "checked", "dest": "refused"},
                {"trigger": "ask_again", "source": "refused", "dest": "asked"},
            ],
        },
        "tags": ("returns",),
    },
)


def overview(checks: Checks) -> Page:
    """`checks` knows how the journal was verified last."""

    async def load(ctx: Context, query: Fields) -> dict[str, Any]:
        principal = ctx.principal
        can_read = principal.may(Permission.READ)
        agents = (await dispatch(ctx, LIST_AGENTS, {})).agents if can_read else ()
        by_type: Counter[str] = Counter(dict.fromkeys(TYPES, 0))
        for agent in agents:
            by_type.update(agent.counts)
        found: dict[str, Any] = {
            "can_read": can_read,
            "agents": agents,
            "by_type": {kind: by_type[kind] for kind in TYPES},
            "total": sum(by_type.values()),
            "latest": await _latest(ctx, [agent.agent_id for agent in agents]) if can_read else (),
            "stores": (await dispatch(ctx, LIST_STORES, {})).stores if can_read else (),
            "health": await dispatch(ctx, HEALTH, {}) if can_read else None,
            "waiting": None,
            "solo": False,
            "entries": None,
            "head": None,
            "activity": None,
            "summary": summary,
            "signed": None,
            "check": None,
            "can_verify": principal.may(Permission.REVIEW) and may_use(principal, VERIFY),
            "can_fill": may_use(principal, REMEMBER_MANY) and principal.may_act_for(_SAMPLE_AGENT),
        }
        if may_use(principal, LIST_REVIEWS):
            found["waiting"] = (await dispatch(ctx, LIST_REVIEWS, {"limit": 100})).reviews
            found["solo"] = (await dispatch(ctx, WHOAMI, {})).solo
        if may_use(principal, JOURNAL):
            answer = await dispatch(ctx, JOURNAL, {"newest_first": True, "limit": 60})
            found["entries"] = [one for one in answer.entries if one.op not in ("read", "view", "recall")][
                :_ENTRIES
            ]
            found["signed"] = answer.signed
            found["activity"] = await activity(ctx, {})
        elif may_use(principal, LIST_CHECKPOINTS):
            points = (await dispatch(ctx, LIST_CHECKPOINTS, {})).checkpoints
            found["signed"] = points[-1] if points else None
        if may_use(principal, JOURNAL_HEAD):
            found["head"] = await dispatch(ctx, JOURNAL_HEAD, {})
            found["check"] = checks.last(ctx.tenant)
        return found

    return Page(
        path="/",
        group="memory",
        title="Overview",
        template="overview.html",
        load=load,
        actions={"fill": _fill},
    )


async def _latest(ctx: Context, agents: Sequence[str]) -> Sequence[Any]:
    if not agents:
        return ()
    if ctx.principal.may(Permission.ADMIN) and ctx.principal.is_whole:
        return (await dispatch(ctx, LIST, {"all_agents": True, "limit": _LATEST})).records
    found: list[Any] = []
    for agent in agents[:_LATEST]:
        found += (await dispatch(ctx, LIST, {"agent_id": agent, "limit": _LATEST})).records
    return sorted(found, key=lambda record: record.id, reverse=True)[:_LATEST]


async def _fill(ctx: Context, form: Fields) -> Done:
    once = form.text("once")
    request = {
        "items": _SAMPLE,
        "agent_id": _SAMPLE_AGENT,
        "idempotency_key": None if once is None else f"page-{once}"[:128],
    }
    answer = await dispatch(ctx, REMEMBER_MANY, request)
    kept = sum(one.response is not None and not one.response.is_held for one in answer.results)
    held = sum(one.response is not None and one.response.is_held for one in answer.results)
    said = f"Filled in {kept} invented memories of the agent “{_SAMPLE_AGENT}”."
    return Done(said=said + (f" {held} wait for approval." if held else ""))


# -- health ----------------------------------------------------------------------------------------------------------

#: What each job does, for who looks after the server.
_JOBS: Mapping[str, str] = {
    "sweep": "Removes what has expired",
    "consolidation": "Goes through short-term memory",
    "checkpoint": "Signs the journal",
    "runs": "Looks after runs",
    "webhooks": "Delivers webhooks",
    "views": "Journals what pages have shown",
    "mcp": "Keeps MCP ready",
}


async def _load(ctx: Context, query: Fields) -> dict[str, Any]:
    can_read = may_use(ctx.principal, CAPABILITIES_OF)
    return {
        "health": await dispatch(ctx, HEALTH, {}) if can_read else None,
        "limits": (await dispatch(ctx, CAPABILITIES_OF, {})).limits if can_read else {},
        "statistics": await dispatch(ctx, STATISTICS, {}) if may_use(ctx.principal, STATISTICS) else None,
        "me": await dispatch(ctx, WHOAMI, {}),
        "permissions": tuple(Permission),
        "jobs": (await dispatch(ctx, LIST_JOBS, {})).jobs if may_use(ctx.principal, LIST_JOBS) else None,
        "job_words": _JOBS,
    }


def health_page(mirrors: Part) -> Page:
    """`mirrors` are listed, and brought up to date, on the page of the server."""

    async def load(ctx: Context, query: Fields) -> dict[str, Any]:
        return {**await _load(ctx, query), **await mirrors.load(ctx, query)}

    return Page(
        path="/health",
        group="system",
        title="Health",
        template="health.html",
        load=load,
        actions=dict(mirrors.actions),
    )
