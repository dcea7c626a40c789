"""The explorer: search with reasons, or a list, of one agent's memories or of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from quipu.errors import InvalidError, NotFoundError, QuipuError
from quipu.faces.http import problems
from quipu.faces.web import agents, pictures, wording
from quipu.faces.web.asking import MOST, Question
from quipu.faces.web.visit import Visit, address, memory_path
from quipu.model.outcomes import Hit, RecallResponse
from quipu.model.principal import Permission
from quipu.model.record import MemoryType, Record, Sensitivity, State
from quipu.model.store import Store
from quipu.rules import moments

#: So many agents can be ticked; the others can be typed.
_TICKED = 14
#: So many stops has the slider through time.
_STEPS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One memory in a list, found or simply there."""

    id: str
    type: str
    text: str
    agent: str
    user: str | None
    session: str | None
    store: str
    at: int
    version: int
    tags: tuple[str, ...]
    source: str | None
    href: str
    is_secret: bool = False
    is_demoted: bool = False
    confidence: float = 1.0
    expires_at: int | None = None
    relevance: float | None = None
    rank: int | None = None
    why: pictures.Why | None = None


async def explorer(visit: Visit) -> Response:
    """The page."""
    visit.need(Permission.READ)
    question = Question.of(visit.request.query_params)
    known = await agents.known(visit)
    agent = question.agent or _only(visit, known, is_search=bool(question.q))
    shown: dict[str, Any] = {"rows": [], "found": None, "next": None}
    fault: QuipuError | None = None
    try:
        if question.q and agent:
            shown = await _found(visit, question, agent)
        elif agent or visit.may(Permission.ADMIN):
            shown = await _listed(visit, question, agent or None)
    except (InvalidError, NotFoundError) as error:
        fault = error
    ticked = known if not agent or agent in known[:_TICKED] else [*known[: _TICKED - 1], agent]
    stores = await visit.service.stores.list(visit.principal)
    return visit.page(
        "memories.html",
        200 if fault is None else problems.status_of(fault),
        question=question,
        agent=agent,
        agents=ticked[:_TICKED],
        others=known,
        can_name_others=len(known) > _TICKED
        or len(agents.named(visit.principal)) < len(visit.principal.agents),
        stores=[store.name for store in stores],
        types=list(MemoryType),
        states=[State.LIVE, State.ARCHIVED, State.FORGOTTEN],
        time=_time(visit, question, stores),
        fault=fault,
        **shown,
    )


def _only(visit: Visit, known: Sequence[str], *, is_search: bool) -> str:
    """Whose memory, when nobody said: a search looks into one agent's, and so does who may not list all."""
    return known[0] if known and (is_search or not visit.may(Permission.ADMIN)) else ""


async def _found(visit: Visit, question: Question, agent: str) -> dict[str, Any]:
    answer = await visit.service.recall(visit.principal, question.recall(agent))
    reach = pictures.reach_of([hit.why for hit in answer])
    rows = [_hit_row(hit, question, reach) for hit in answer]
    more = question.k * 2 if len(rows) == question.k and question.k < MOST else None
    return {
        "rows": rows,
        "found": _summary(answer),
        "next": None if more is None else question.address(k=min(more, MOST), agent=agent),
    }


def _summary(answer: RecallResponse) -> Mapping[str, Any]:
    told: Any = answer.extensions
    return {
        "below": told.get("below_floor") or 0,
        "floor": told.get("min_relevance") or 0.0,
        "as_of": told.get("as_of"),
        "latency_ms": answer.latency_ms,
    }


async def _listed(visit: Visit, question: Question, agent: str | None) -> dict[str, Any]:
    page = await visit.service.reading.list(visit.principal, question.list(agent))
    rows = [record_row(record, page.store_names, as_of=question.as_of) for record in page.records]
    following = question.address(cursor=page.next_cursor) if page.next_cursor else None
    return {"rows": rows, "found": None, "next": following}


def record_row(record: Record, store_names: Mapping[str, str], *, as_of: str = "") -> Row:
    """A record in a list."""
    is_secret = record.privacy is not None and record.privacy.sensitivity is Sensitivity.SECRET
    return Row(
        id=record.id,
        type=record.type,
        text="" if is_secret else wording.brief(record.content),
        agent=record.agent_id,
        user=record.user_id,
        session=record.session_id,
        store=store_names.get(record.store_id, ""),
        at=record.updated_at,
        version=record.version,
        tags=record.tags,
        source=record.source,
        href=address(memory_path(record.id), as_of=as_of),
        is_secret=is_secret,
        confidence=record.confidence,
        expires_at=record.expires_at,
    )


def _hit_row(hit: Hit, question: Question, reach: float) -> Row:
    return Row(
        id=hit.id,
        type=hit.type,
        text="" if hit.redacted else wording.brief(hit.content),
        agent=hit.agent_id,
        user=hit.user_id,
        session=hit.session_id,
        store=hit.store,
        at=hit.updated_at,
        version=hit.version,
        tags=hit.tags,
        source=hit.source,
        href=address(memory_path(hit.id), as_of=question.as_of),
        is_secret=hit.redacted,
        is_demoted=hit.demoted,
        confidence=hit.confidence,
        expires_at=hit.expires_at,
        relevance=hit.relevance,
        rank=hit.rank,
        why=None if hit.why is None else pictures.why(hit.why, reach),
    )


def _time(visit: Visit, question: Question, stores: Sequence[Store]) -> Mapping[str, Any]:
    """The slider through time: from the day the memory was opened until now, in steps."""
    now = visit.site.clock()
    first = min((store.created_at for store in stores), default=now)
    step = max(1, -((first - now) // _STEPS))
    latest = first + step * _STEPS
    return {"first": first, "latest": latest, "step": step, "at": _slider(question.as_of, latest), "now": now}


def _slider(as_of: str, latest: int) -> int:
    """Where the slider stands for a moment; a position of the journal has no place on it."""
    try:
        moment = moments.as_of(as_of) if as_of else None
    except InvalidError:
        moment = None
    return moment.at if isinstance(moment, moments.Moment) else latest
