"""The profile `graph`: the nine tools of the reference knowledge-graph server, over records.

An entity is a record, and so is a relation: both can be found, have a history and can be forgotten like any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from mcp.types import CallToolResult

from quipu.errors import ConflictError, InvalidError, NotFoundError
from quipu.faces.mcp import results
from quipu.faces.mcp.approval import PENDING
from quipu.faces.mcp.caller import Caller
from quipu.faces.mcp.graph_schemas import DELETED, GRAPH, INPUTS, OUTPUTS
from quipu.faces.mcp.tools import Arguments, Call, ToolSpec
from quipu.model.operations import ForgetRequest, ListRequest, RecallRequest, RememberRequest
from quipu.model.principal import Permission
from quipu.model.record import MemoryType, Record
from quipu.model.store import MAIN
from quipu.model.value import JsonObject
from quipu.service.memory import MemoryService

RESOURCE = "memory://knowledge-graph"
_ONLY = frozenset({"graph"})
_KIND = "graph"
_ENTITY, _RELATION = "entity", "relation"
#: So often a change is tried again that somebody else was faster with.
_TRIES = 20

_SAYS: Mapping[str, tuple[str, Permission]] = {
    "create_entities": ("Create new entities in the knowledge graph.", Permission.WRITE),
    "create_relations": ("Create relations between entities, in active voice.", Permission.WRITE),
    "add_observations": ("Add observations to existing entities.", Permission.WRITE),
    "delete_entities": ("Delete entities and their relations.", Permission.DELETE),
    "delete_observations": ("Delete observations of entities.", Permission.WRITE),
    "delete_relations": ("Delete relations.", Permission.DELETE),
    "read_graph": ("Read the whole knowledge graph.", Permission.READ),
    "search_nodes": ("Search entities by name, type and observations.", Permission.READ),
    "open_nodes": ("Read entities by their names.", Permission.READ),
}


class Graph:
    """Nine tools over one service."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    def specs(self) -> list[ToolSpec]:
        """In the order of the reference."""
        handlers: Mapping[str, Callable[[Call], Awaitable[Mapping[str, Any]]]] = {
            "create_entities": self._create_entities,
            "create_relations": self._create_relations,
            "add_observations": self._add_observations,
            "delete_entities": self._delete_entities,
            "delete_observations": self._delete_observations,
            "delete_relations": self._delete_relations,
            "read_graph": self._read_graph,
            "search_nodes": self._search_nodes,
            "open_nodes": self._open_nodes,
        }
        return [
            ToolSpec(
                name=name,
                description=_SAYS[name][0],
                input=INPUTS[name],
                output=OUTPUTS.get(name, DELETED if name.startswith("delete") else GRAPH),
                handler=_handled(handle),
                needs=(_SAYS[name][1],),
                read_only=_SAYS[name][1] is Permission.READ,
                destructive=name.startswith("delete"),
                idempotent=name.startswith("delete") or _SAYS[name][1] is Permission.READ,
                profiles=_ONLY,
            )
            for name, handle in handlers.items()
        ]

    # -- reading ------------------------------------------------------------------------------------------------

    async def whole(self, who: Caller) -> Mapping[str, Any]:
        """Every entity and relation, oldest first."""
        entities, relations = await self._read(who)
        return _shown(entities.values(), relations)

    async def _read_graph(self, call: Call) -> Mapping[str, Any]:
        return await self.whole(call.caller)

    async def _search_nodes(self, call: Call) -> Mapping[str, Any]:
        query = _text(call.arguments, "query")
        entities, relations = await self._read(call.caller)
        found = {name for name, record in entities.items() if query.lower() in _haystack(record)}
        if not found and query.strip():
            request = RecallRequest(
                agent_id=call.caller.agent_id,
                query=query,
                k=10,
                filter={_KIND: _ENTITY},
                store=call.caller.store,
            )
            hits = await self._service.recall(call.caller.principal, request)
            found = {str(hit.metadata.get("name")) for hit in hits} & entities.keys()
        return _part(entities, relations, found)

    async def _open_nodes(self, call: Call) -> Mapping[str, Any]:
        entities, relations = await self._read(call.caller)
        return _part(entities, relations, set(_texts(call.arguments, "names")))

    async def _read(self, who: Caller) -> tuple[dict[str, Record], list[Record]]:
        """Entities by name, and relations; of several with the same name the oldest counts."""
        request = ListRequest(
            agent_id=who.agent_id, store=who.store, filter={_KIND: {"$in": [_ENTITY, _RELATION]}}
        )
        found = [record async for record in self._service.reading.walk(who.principal, request)]
        entities: dict[str, Record] = {}
        relations: dict[tuple[str, str, str], Record] = {}
        for record in reversed(found):
            if record.metadata.get(_KIND) == _ENTITY:
                entities.setdefault(str(record.metadata.get("name")), record)
            else:
                relations.setdefault(_ends(record.metadata), record)
        return entities, list(relations.values())

    # -- creating -----------------------------------------------------------------------------------------------

    async def _create_entities(self, call: Call) -> Mapping[str, Any]:
        known, _ = await self._read(call.caller)
        names, made = set(known), list[dict[str, Any]]()
        for given in _objects(call.arguments, "entities"):
            entity = {
                "name": _text(given, "name"),
                "entityType": _text(given, "entityType"),
                "observations": list(dict.fromkeys(_texts(given, "observations"))),
            }
            if entity["name"] in names:
                continue
            names.add(str(entity["name"]))
            await self._put(call.caller, entity)
            made.append(entity)
        return {"entities": made}

    async def _create_relations(self, call: Call) -> Mapping[str, Any]:
        _, known = await self._read(call.caller)
        there, made = {_ends(record.metadata) for record in known}, list[dict[str, Any]]()
        for relation in _relations(call.arguments):
            if _ends(relation) not in there:
                there.add(_ends(relation))
                await self._put(call.caller, relation)
                made.append(relation)
        return {"relations": made}

    async def _add_observations(self, call: Call) -> Mapping[str, Any]:
        rows: list[dict[str, Any]] = []
        for given in _objects(call.arguments, "observations"):
            name, contents = _text(given, "entityName"), _texts(given, "contents")

            def more(before: list[str], contents: Sequence[str] = contents) -> list[str]:
                return [*before, *(text for text in dict.fromkeys(contents) if text not in before)]

            before, after = await self._changed(call.caller, name, more)
            rows.append({"entityName": name, "addedObservations": after[len(before) :]})
        return {"results": rows}

    async def _changed(
        self, who: Caller, name: str, change: Callable[[list[str]], list[str]]
    ) -> tuple[list[str], list[str]]:
        """The observations of an entity before and after. Nobody's change in between is lost."""
        for left in reversed(range(_TRIES)):
            entities, _ = await self._read(who)
            record = entities.get(name)
            if record is None:
                raise NotFoundError(f"There is no entity named {name[:200]}.", reason="record")
            before = _observations(record)
            after = change(before)
            if after == before:
                return before, after
            try:
                await self._put(who, {**_entity(record), "observations": after}, record)
            except ConflictError:
                if not left:
                    raise
                continue
            return before, after
        raise ConflictError(reason="version_mismatch")

    async def _put(self, who: Caller, body: Mapping[str, Any], record: Record | None = None) -> None:
        is_entity = "entityType" in body
        held = await self._service.remember(
            who.principal,
            RememberRequest(
                agent_id=who.agent_id,
                type=MemoryType.SEMANTIC,
                content=_said(body),
                metadata={_KIND: _ENTITY if is_entity else _RELATION, **body},
                store=who.store or MAIN,
                id=None if record is None else record.id,
                if_version=None if record is None else record.version,
            ),
        )
        if held.pending_approval:
            raise ConflictError(PENDING, reason="waits_for_approval")

    # -- deleting -----------------------------------------------------------------------------------------------

    async def _delete_entities(self, call: Call) -> Mapping[str, Any]:
        names = set(_texts(call.arguments, "entityNames"))
        entities, relations = await self._read(call.caller)
        gone = [record for name, record in entities.items() if name in names]
        edges = [edge for edge in relations if names.intersection(_ends(edge.metadata)[:2])] if gone else []
        await self._forget(call.caller, [*gone, *edges])
        return _deleted(len(gone), "entities")

    async def _delete_relations(self, call: Call) -> Mapping[str, Any]:
        wanted = {_ends(relation) for relation in _relations(call.arguments)}
        _, relations = await self._read(call.caller)
        gone = [record for record in relations if _ends(record.metadata) in wanted]
        await self._forget(call.caller, gone)
        return _deleted(len(gone), "relations")

    async def _delete_observations(self, call: Call) -> Mapping[str, Any]:
        count = 0
        for given in _objects(call.arguments, "deletions"):
            unwanted = set(_texts(given, "observations"))

            def fewer(before: list[str], unwanted: set[str] = unwanted) -> list[str]:
                return [text for text in before if text not in unwanted]

            try:
                before, after = await self._changed(call.caller, _text(given, "entityName"), fewer)
            except NotFoundError:
                continue
            count += len(before) - len(after)
        return _deleted(count, "observations")

    async def _forget(self, who: Caller, records: Sequence[Record]) -> None:
        if records:
            ids = tuple(record.id for record in records)
            request = ForgetRequest(agent_id=who.agent_id, ids=ids, store=who.store)
            done = await self._service.forget(who.principal, request)
            if done.pending_approval:
                raise ConflictError(PENDING, reason="waits_for_approval")


def _handled(
    handle: Callable[[Call], Awaitable[Mapping[str, Any]]],
) -> Callable[[Call], Awaitable[CallToolResult]]:
    async def handled(call: Call) -> CallToolResult:
        return results.answered(await handle(call))

    return handled


# -- what comes in ------------------------------------------------------------------------------------------------


def _wrong(name: str, expected: str) -> InvalidError:
    return InvalidError.at(f"/{name}", "bad_value", f"{name} is not {expected}.", accepted=[expected])


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise _wrong(name, "a text")
    return value


def _texts(given: Mapping[str, Any], name: str) -> list[str]:
    value = given.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
        raise _wrong(name, "a list of texts")
    return cast("list[str]", value)


def _objects(arguments: Arguments, name: str) -> list[Mapping[str, Any]]:
    value = arguments.get(name)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in cast("list[Any]", value)):
        raise _wrong(name, "a list of objects")
    return cast("list[Mapping[str, Any]]", value)


def _relations(arguments: Arguments) -> list[dict[str, Any]]:
    return [
        {name: _text(given, name) for name in ("from", "to", "relationType")}
        for given in _objects(arguments, "relations")
    ]


# -- what goes out ------------------------------------------------------------------------------------------------


def _ends(body: JsonObject) -> tuple[str, str, str]:
    return str(body.get("from")), str(body.get("to")), str(body.get("relationType"))


def _observations(record: Record) -> list[str]:
    kept = record.metadata.get("observations")
    return [str(text) for text in kept] if isinstance(kept, list | tuple) else []


def _entity(record: Record) -> dict[str, Any]:
    return {
        "name": record.metadata.get("name"),
        "entityType": record.metadata.get("entityType"),
        "observations": _observations(record),
    }


def _said(body: Mapping[str, Any]) -> str:
    """The words that a search finds it by."""
    if "entityType" not in body:
        return f"{body['from']} {body['relationType']} {body['to']}"
    return "\n".join([f"{body['name']} ({body['entityType']})", *body["observations"]])


def _haystack(record: Record) -> str:
    entity = _entity(record)
    return "\n".join([str(entity["name"]), str(entity["entityType"]), *entity["observations"]]).lower()


def _shown(entities: Iterable[Record], relations: Iterable[Record]) -> dict[str, Any]:
    edges = [dict(zip(("from", "to", "relationType"), _ends(row.metadata), strict=True)) for row in relations]
    return {"entities": [_entity(record) for record in entities], "relations": edges}


def _part(entities: Mapping[str, Record], relations: Iterable[Record], names: set[str]) -> dict[str, Any]:
    chosen = [record for name, record in entities.items() if name in names]
    edges = [row for row in relations if names.intersection(_ends(row.metadata)[:2])]
    return _shown(chosen, edges)


def _deleted(count: int, what: str) -> dict[str, Any]:
    if not count:
        return {"success": False, "message": f"No {what} matched; nothing was deleted."}
    return {"success": True, "message": f"Deleted {count} {what}."}
