"""The pages of memory: the list with its search, one memory, the stores."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import merge
from typing import Any
from urllib.parse import quote, unquote

from quipu.errors import Fault, NotFoundError, QuipuError
from quipu.memory import operations as ops
from quipu.memory.model import HistoryVersion, ListAgentsResponse, RecallResponse, RecordView
from quipu.model.principal import Permission
from quipu.operation import AnyOperation, Context, dispatch, invalid
from quipu.page import Done, Fields, Page, Part, may_use

TYPES = ("semantic", "episodic", "procedural", "emotional")
_STATES = ("live", "archived", "forgotten")
#: A search looks into so many agents at once, those that remember most.
_MOST_AGENTS = 12
_PAGE, _MOST_FOUND = 25, 100
#: Names of the fields that narrow a list or a search.
_FILTERS = ("user", "session", "store", "state", "tags", "source", "since", "until", "filter", "as_of")
_HELD = "It waits for approval; until then nothing changes."


# -- list and search ----------------------------------------------------------------------------------------------


async def _memories(ctx: Context, query: Fields) -> dict[str, Any]:
    known: ListAgentsResponse = await dispatch(ctx, ops.LIST_AGENTS, {})
    agents = [one.agent_id for one in known.agents]
    chosen = query.text("agent")
    if chosen is None and len(agents) <= 1:
        chosen = agents[0] if agents else ctx.principal.default_agent
    stores = (await dispatch(ctx, ops.LIST_STORES, {})).stores
    found: dict[str, Any] = {"rows": (), "next_cursor": None, "hidden": 0, "looked_in": (), "is_held": False}
    fault: QuipuError | None = None
    try:
        if query.text("q"):
            found |= await _search(ctx, query, [chosen] if chosen else agents)
        else:
            found |= await _list(ctx, query, chosen, agents)
    except NotFoundError as error:
        fault = error
    except QuipuError as error:
        if error.code not in ("validation_error", "not_found", "forbidden", "quota_exceeded"):
            raise
        fault = error
    set_filters = [name for name in _FILTERS if query.text(name) and query.text(name) != "live"]
    return {
        **found,
        "fault": fault,
        "q": query.text("q") or "",
        "agents": agents,
        "agent": chosen,
        "query": query,
        "types": TYPES,
        "chosen_types": query.texts("type"),
        "states": _STATES,
        "stores": stores,
        "filters": len(set_filters) + len(query.texts("type")[:1]),
        "is_past": bool(query.text("as_of")),
        "kept": {name: query.text(name) for name in ("agent", "q", *_FILTERS)}
        | {"type": query.texts("type")},
        "can_add": may_use(ctx.principal, ops.REMEMBER),
        "can_change": ctx.principal.may(Permission.WRITE),
        "can_forget": ctx.principal.may(Permission.DELETE),
        "is_empty": not agents,
    }


async def _search(ctx: Context, query: Fields, agents: Sequence[str]) -> dict[str, Any]:
    """The best of all agents that are asked, by how well they fit."""
    count = min(max(query.number("count") or _PAGE, 1), _MOST_FOUND)
    request = {
        "query": query.text("q"),
        "k": count,
        "min_relevance": "off" if query.is_ticked("weak") else "auto",
        "count_recall": False,
        **_narrowed(query, is_search=True),
    }
    answers: list[RecallResponse] = []
    for agent in agents[:_MOST_AGENTS]:
        answers.append(await dispatch(ctx, ops.RECALL, {**request, "agent_id": agent}))
    # Each agent's hits stay in their order, which is not that of relevance alone.
    hits = list(merge(*(answer.results for answer in answers), key=lambda hit: -hit.relevance))
    is_more = len(hits) > count or any(len(answer.results) == count for answer in answers)
    return {
        "rows": hits[:count],
        "hidden": sum(answer.below_floor for answer in answers),
        "looked_in": tuple(agents[:_MOST_AGENTS]),
        "is_held": any(answer.is_held for answer in answers),
        "more": count + _PAGE if is_more and count < _MOST_FOUND else None,
    }


async def _list(ctx: Context, query: Fields, chosen: str | None, agents: Sequence[str]) -> dict[str, Any]:
    """The newest first: of one agent, of all, or of each of those that the visitor may act for."""
    request = {"limit": _PAGE, **query.given("cursor"), **_narrowed(query, is_search=False)}
    if chosen is None and ctx.principal.may(Permission.ADMIN) and ctx.principal.is_whole:
        answer = await dispatch(ctx, ops.LIST, {**request, "all_agents": True})
        return {"rows": answer.records, "next_cursor": answer.next_cursor}
    if chosen is not None:
        answer = await dispatch(ctx, ops.LIST, {**request, "agent_id": chosen})
        return {"rows": answer.records, "next_cursor": answer.next_cursor, "looked_in": (chosen,)}
    rows: list[RecordView] = []
    for agent in agents[:_MOST_AGENTS]:
        rows += (await dispatch(ctx, ops.LIST, {**request, "agent_id": agent})).records
    rows.sort(key=lambda record: record.id, reverse=True)
    return {"rows": rows[:_PAGE], "looked_in": tuple(agents[:_MOST_AGENTS])}


def _narrowed(query: Fields, *, is_search: bool) -> dict[str, Any]:
    """The fields of the filters as the operations call them."""
    named = {"user": "user_id", "session": "session_id", "store": "store"}
    request: dict[str, Any] = {to: query[name] for name, to in named.items() if query.text(name)}
    if query.texts("type"):
        request["types"] = query.texts("type")
    if not is_search:
        request["states"] = (query.text("state") or "live",)
    conditions: list[dict[str, Any]] = [{"tags": tag} for tag in query.words("tags")]
    if query.text("source"):
        conditions.append({"source": query.text("source")})
    since, until = query.day("since"), query.day("until", is_end=True)
    if since is not None:
        conditions.append({"created_at": {"$gte": since}})
    if until is not None:
        conditions.append({"created_at": {"$lt": until}})
    conditions += _metadata(query.text("filter"))
    if conditions:
        request["filter"] = conditions[0] if len(conditions) == 1 else {"$and": conditions}
    if as_of := query.text("as_of"):
        # A browser's field has a time without seconds and without a zone; times on the page are UTC.
        is_plain_time = "T" in as_of and not as_of.endswith("Z") and "+" not in as_of
        request["as_of"] = f"{as_of}Z" if is_plain_time else as_of
    return request


def _metadata(text: str | None) -> list[dict[str, Any]]:
    """A filter as JSON, or `city = Lisbon, year = 2025` for metadata."""
    if text is None:
        return []
    if text.startswith("{"):
        try:
            read: Any = json.loads(text)
        except (ValueError, RecursionError):
            raise invalid(
                [Fault("/filter", "bad_value", 'a filter such as {"metadata.year": 2025}')]
            ) from None
        return [read]
    found: list[dict[str, Any]] = []
    for part in text.split(","):
        name, separator, value = (word.strip() for word in part.partition("="))
        if not separator or not name:
            raise invalid([Fault("/filter", "bad_value", "city = Lisbon, or a filter as JSON")])
        found.append({f"metadata.{name}": {"$in": [value, *_number(value)]}})
    return found


def _number(text: str) -> list[float | int | bool]:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [value] if isinstance(value, int | float) else []


# -- what the list does -------------------------------------------------------------------------------------------


async def _add(ctx: Context, form: Fields) -> Done:
    expires = form.text("expires_at")
    request: dict[str, Any] = {
        "content": form.get("content", ""),
        "type": form.text("type") or "semantic",
        "tags": form.words("tags"),
        "idempotency_key": _key(form),
        **{to: form[name] for name, to in _ADDED.items() if form.text(name)},
        **({} if expires is None else {"expires_at": expires}),
    }
    answer = await dispatch(ctx, ops.REMEMBER, request)
    if answer.is_held:
        return Done(said=_HELD, path=_review_path(ctx, answer.proposal_id))
    return Done(said="Remembered.", path=memory_path(answer.id))


_ADDED = {"agent": "agent_id", "user": "user_id", "store": "store", "source": "source", "key": "key"}


async def _forget_ticked(ctx: Context, form: Fields) -> Done:
    ticked = picked(form)
    gone = held = 0
    for agent in dict.fromkeys(agent for agent, _ in ticked):
        ids = [record for owner, record in ticked if owner == agent]
        answer = await dispatch(
            ctx,
            ops.FORGET,
            {
                "ids": ids,
                "agent_id": agent,
                "reason": form.text("reason"),
                "idempotency_key": _key(form, agent),
            },
        )
        gone += len(answer.forgotten_ids)
        held += len(ids) if answer.is_held else 0
    return Done(said=_summary("Forgot", gone, len(ticked), held))


async def _tag_ticked(ctx: Context, form: Fields) -> Done:
    ticked, tags = picked(form), form.words("new_tags")
    if not tags:
        raise invalid([Fault("/new_tags", "missing_field", "one or more tags, with commas between them")])
    done = held = 0
    for agent, record_id in ticked:
        record = await dispatch(ctx, ops.GET, {"id": record_id})
        answer = await dispatch(
            ctx,
            ops.UPDATE,
            {
                "id": record_id,
                "agent_id": agent,
                "tags": tuple(dict.fromkeys((*record.tags, *tags))),
                "if_version": record.version,
            },
        )
        held += answer.is_held
        done += not answer.is_held
    return Done(said=_summary("Tagged", done, len(ticked), held))


def pick_value(agent_id: str, record_id: str) -> str:
    """What the box of a memory says: its agent, which its writes must name, and its id."""
    return f"{quote(agent_id, safe='')}/{record_id}"


def picked(form: Fields) -> list[tuple[str, str]]:
    """Agent and id of each memory that is ticked."""
    found = [
        (unquote(agent), record) for agent, _, record in (one.partition("/") for one in form.texts("pick"))
    ]
    if not found:
        raise invalid([Fault("/pick", "missing_field", "at least one memory that is ticked")])
    return found


def _summary(verb: str, done: int, asked: int, held: int) -> str:
    said = f"{verb} {done} of {asked}."
    return said + (f" {held} wait for approval." if held else "")


def _key(form: Fields, more: str = "") -> str | None:
    """The same form sent twice is carried out once."""
    once = form.text("once")
    return None if once is None else f"page-{once}{more and '-' + quote(more, safe='')}"[:128]


# -- one memory ---------------------------------------------------------------------------------------------------


def _memory(journal: AnyOperation, procedures: Part) -> Any:
    async def load(ctx: Context, query: Fields) -> dict[str, Any]:
        record_id = query["id"]
        versions: Sequence[HistoryVersion] = (await dispatch(ctx, ops.HISTORY, {"id": record_id})).versions
        newest = versions[-1]
        shown = _version(versions, query)
        has_ended = newest.expires_at is not None and newest.expires_at <= ctx.clock()
        is_readable = newest.state in ("live", "archived") and not has_ended
        now = await dispatch(ctx, ops.GET, {"id": record_id}) if is_readable else None
        related = None
        if newest.state == "live" and now is not None:
            related = await dispatch(ctx, ops.RELATED, {"id": record_id, "hops": 2, "limit": 60})
        seen = None
        if may_use(ctx.principal, journal):
            request = {"record": record_id, "newest_first": True, "limit": 12}
            seen = (await dispatch(ctx, journal, request)).entries
        principal = ctx.principal
        steps: dict[str, Any] = {}
        if newest.type == "procedural" and newest.state == "live" and now is not None and not now.redacted:
            steps = await procedures.load(ctx, query)
        return {
            "record": shown,
            "steps": steps,
            "newest": newest,
            "now_record": now,
            "versions": versions,
            "changes": _changes(versions),
            "has_ended": has_ended,
            "related": related if related is not None and related.edges else None,
            "related_by_id": {} if related is None else {one.id: one for one in related.nodes},
            "seen": seen,
            "can_edit": is_readable and principal.may(Permission.WRITE) and not newest.redacted,
            "can_forget": is_readable and principal.may(Permission.DELETE),
            "can_erase": newest.state != "erased" and principal.may(Permission.ADMIN),
            "can_restore": principal.may(Permission.WRITE)
            and (newest.state in ("forgotten", "archived") or (now is not None and now.demoted)),
        }

    return load


def _version(versions: Sequence[HistoryVersion], query: Fields) -> HistoryVersion:
    wanted = query.number("version")
    if wanted is None:
        return versions[-1]
    for one in versions:
        if one.version == wanted:
            return one
    raise NotFoundError("There is no such version of this memory.", reason="record")


#: Fields whose change is shown in a memory's history.
_COMPARED = (
    *("type", "store", "tier", "tags", "metadata", "confidence", "importance", "source", "details", "key"),
    *("user_id", "session_id", "expires_at", "valid_from", "valid_until", "links", "privacy_intent"),
)


def _changes(versions: Sequence[HistoryVersion]) -> list[dict[str, Any]]:
    """Each version, newest first, with the one before it and the fields that differ."""
    found: list[dict[str, Any]] = []
    before: HistoryVersion | None = None
    for one in versions:
        fields: list[tuple[str, Any, Any]] = []
        if before is not None:
            pairs = ((name, getattr(before, name), getattr(one, name)) for name in _COMPARED)
            fields = [(name, _said(old), _said(new)) for name, old, new in pairs if old != new]
        found.append({"version": one, "before": before, "fields": fields})
        before = one
    return found[::-1]


def _said(value: Any) -> str:
    if value is None or value == () or value == {}:
        return "nothing"
    if isinstance(value, str | int | float):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """A part of a memory, as JSON has it."""
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else str(value)


async def _edit(ctx: Context, form: Fields) -> Done:
    request: dict[str, Any] = {
        "id": form["id"],
        "agent_id": form.text("agent_id"),
        "content": form.get("content", ""),
        "tags": form.words("tags"),
        "if_version": form.number("if_version"),
        "reasoning": form.text("reason"),
        "idempotency_key": _key(form),
    }
    answer = await dispatch(ctx, ops.UPDATE, request)
    if answer.is_held:
        return Done(said=_HELD, path=_review_path(ctx, answer.proposal_id))
    return Done(
        said="Nothing changed." if answer.outcome == "unchanged" else "Changed.", path=memory_path(form["id"])
    )


async def _forget(ctx: Context, form: Fields) -> Done:
    return await _removed(ctx, form, hard_delete=False, said="Forgotten. It can be restored.")


async def _erase(ctx: Context, form: Fields) -> Done:
    if not form.is_ticked("sure"):
        raise invalid(
            [Fault("/sure", "missing_field", "the box beside it ticked: nothing brings back what is erased")]
        )
    return await _removed(ctx, form, hard_delete=True, said="Erased for good.")


async def _removed(ctx: Context, form: Fields, *, hard_delete: bool, said: str) -> Done:
    request = {
        "ids": [form["id"]],
        "agent_id": form.text("agent_id"),
        "hard_delete": hard_delete,
        "reason": form.text("reason"),
        "idempotency_key": _key(form),
    }
    answer = await dispatch(ctx, ops.FORGET, request)
    if answer.is_held:
        return Done(said=_HELD, path=_review_path(ctx, answer.proposal_id))
    if not answer.forgotten_ids:
        raise NotFoundError("It is not there any more.", reason="record")
    return Done(said=said, path=memory_path(form["id"]))


async def _restore(ctx: Context, form: Fields) -> Done:
    request = {"id": form["id"], "reason": form.text("reason"), "idempotency_key": _key(form)}
    answer = await dispatch(ctx, ops.RESTORE, request)
    if answer.is_held:
        return Done(said=_HELD, path=_review_path(ctx, answer.proposal_id))
    return Done(said="Restored.", path=memory_path(form["id"]))


def memory_path(record_id: str) -> str:
    """The page of a memory."""
    return f"/memories/{quote(record_id, safe='')}"


def _review_path(ctx: Context, proposal_id: str | None) -> str | None:
    """Where it is decided, for who may look at it: also for who wrote it."""
    return None if proposal_id is None else f"/review/{quote(proposal_id, safe='')}"


# -- stores -------------------------------------------------------------------------------------------------------


async def _stores(ctx: Context, query: Fields) -> dict[str, Any]:
    known: ListAgentsResponse = await dispatch(ctx, ops.LIST_AGENTS, {})
    counts: Counter[str] = Counter()
    for agent in known.agents:
        counts.update(agent.stores)
    return {
        "stores": (await dispatch(ctx, ops.LIST_STORES, {})).stores,
        "counts": counts,
        "can_create": may_use(ctx.principal, ops.CREATE_STORE),
        "can_delete": may_use(ctx.principal, ops.DELETE_STORE),
        "scopes": ("agent", "user", "session", "team", "global"),
    }


async def _create_store(ctx: Context, form: Fields) -> Done:
    request = form.given("name", "scope", "tier", "description")
    made = await dispatch(ctx, ops.CREATE_STORE, request)
    return Done(said=f"Created the store {made.name}.", path="/stores")


async def _delete_store(ctx: Context, form: Fields) -> Done:
    request: Mapping[str, Any] = {"name": form.get("name", ""), "confirm": form.get("confirm", "").strip()}
    gone = await dispatch(ctx, ops.DELETE_STORE, request)
    return Done(said=f"Deleted the store {gone.name}, and forgot {gone.removed} memories.", path="/stores")


# -- the pages ----------------------------------------------------------------------------------------------------


def pages(journal: AnyOperation, procedures: Part, export: Part) -> tuple[Page, ...]:
    """`journal` says who saw a memory, `procedures` where one stands that has steps; `export` takes along those ticked."""

    async def load(ctx: Context, query: Fields) -> dict[str, Any]:
        return {**await _memories(ctx, query), **await export.load(ctx, query)}

    memories = Page(
        path="/memories",
        group="memory",
        title="Memories",
        template="memories.html",
        load=load,
        actions={"add": _add, "forget": _forget_ticked, "tag": _tag_ticked, **export.actions},
        needs=ops.LIST,
    )
    memory = replace(
        memories,
        path="/memories/{id}",
        title="Memory",
        template="memory.html",
        load=_memory(journal, procedures),
        actions={
            "edit": _edit,
            "forget": _forget,
            "erase": _erase,
            "restore": _restore,
            **procedures.actions,
        },
        parent="/memories",
    )
    stores = Page(
        path="/stores",
        group="memory",
        title="Stores",
        template="stores.html",
        load=_stores,
        actions={"create": _create_store, "delete": _delete_store},
        needs=ops.LIST_STORES,
    )
    return memories, memory, stores
