"""The profile `graph`: the nine tools of the reference knowledge-graph server, over records.

An entity is a record, and so is a relation: both can be found, have a history and can be forgotten like any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias, cast

from mcp.types import CallToolResult

from quipu.errors import ConflictError, InvalidError, NotFoundError
from quipu.faces.mcp import results
from quipu.faces.mcp.caller import Caller
from quipu.faces.mcp.graph_schemas import DELETED, GRAPH, INPUTS, OUTPUTS
from quipu.faces.mcp.keeping import drop, keep
from quipu.faces.mcp.tools import Arguments, Call, ToolSpec
from quipu.model.operations import ListRequest, RecallRequest, RememberRequest
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

#: An entity, and what becomes of its observations.
_Edit: TypeAlias = tuple[str, Callable[[list[str]], list[str]]]

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
        found = {name for name, records in entities.items() if query.lower() in _haystack(records)}
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

    async def _read(self, who: Caller) -> tuple[dict[str, list[Record]], list[Record]]:
        """Entities by name, and relations, the oldest first. Two clients at once may each have made the same one."""
        request = ListRequest(
            agent_id=who.agent_id, store=who.store, filter={_KIND: {"$in": [_ENTITY, _RELATION]}}
        )
        found = [record async for record in self._service.reading.walk(who.principal, request)]
        entities: dict[str, list[Record]] = {}
        relations: list[Record] = []
        for record in reversed(found):
            if record.metadata.get(_KIND) == _ENTITY:
                entities.setdefault(str(record.metadata.get("name")), []).append(record)
            else:
                relations.append(record)
        return entities, relations

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
            if entity["name"] not in names:
                names.add(str(entity["name"]))
                made.append(entity)
        await self._put(call.caller, [(entity, None) for entity in made])
        return {"entities": made}

    async def _create_relations(self, call: Call) -> Mapping[str, Any]:
        _, known = await self._read(call.caller)
        there, made = {_ends(record.metadata) for record in known}, list[dict[str, Any]]()
        for relation in _relations(call.arguments):
            if _ends(relation) not in there:
                there.add(_ends(relation))
                made.append(relation)
        await self._put(call.caller, [(relation, None) for relation in made])
        return {"relations": made}

    async def _add_observations(self, call: Call) -> Mapping[str, Any]:
        edits: list[_Edit] = []
        for given in _objects(call.arguments, "observations"):
            contents = _texts(given, "contents")

            def more(before: list[str], contents: Sequence[str] = contents) -> list[str]:
                return [*before, *(text for text in dict.fromkeys(contents) if text not in before)]

            edits.append((_text(given, "entityName"), more))
        done = await self._edited(call.caller, edits)
        return {
            "results": [
                {"entityName": name, "addedObservations": after[len(before) :]}
                for (name, _), (before, after) in zip(edits, done, strict=True)
            ]
        }

    async def _edited(self, who: Caller, edits: Sequence[_Edit]) -> list[tuple[list[str], list[str]]]:
        """The observations before and after each edit; all are kept, or none. Nobody's change in between is lost."""
        for left in reversed(range(_TRIES)):
            entities, _ = await self._read(who)
            now = {name: _observations(records) for name, records in entities.items()}
            done: list[tuple[list[str], list[str]]] = []
            for name, edit in edits:
                if name not in now:
                    raise NotFoundError(f"There is no entity named {name[:200]}.", reason="record")
                done.append((now[name], edit(now[name])))
                now[name] = done[-1][1]
            changed = [
                name
                for name in {name: None for name, _ in edits}
                if now[name] != _observations(entities[name])
            ]
            try:
                await self._put(who, [row for name in changed for row in _joined(entities[name], now[name])])
            except ConflictError as error:
                if error.reason != "version_mismatch" or not left:
                    raise
                continue
            return done
        raise ConflictError(reason="version_mismatch")

    async def _put(self, who: Caller, rows: Sequence[tuple[Mapping[str, Any], Record | None]]) -> None:
        """Bodies, each with the record that it changes; all are kept, or none."""
        requests = [
            RememberRequest(
                agent_id=who.agent_id,
                type=MemoryType.SEMANTIC,
                content=_said(body),
                metadata={_KIND: _ENTITY if "entityType" in body else _RELATION, **body},
                store=who.store or MAIN,
                id=None if record is None else record.id,
                if_version=None if record is None else record.version,
            )
            for body, record in rows
        ]
        await keep(self._service, who, requests)

    # -- deleting -----------------------------------------------------------------------------------------------

    async def _delete_entities(self, call: Call) -> Mapping[str, Any]:
        names = set(_texts(call.arguments, "entityNames"))
        entities, relations = await self._read(call.caller)
        gone = [records for name, records in entities.items() if name in names]
        edges = [edge for edge in relations if names.intersection(_ends(edge.metadata)[:2])] if gone else []
        await drop(self._service, call.caller, [*chain.from_iterable(gone), *edges])
        return _deleted(len(gone), "entities")

    async def _delete_relations(self, call: Call) -> Mapping[str, Any]:
        wanted = {_ends(relation) for relation in _relations(call.arguments)}
        _, relations = await self._read(call.caller)
        gone = [record for record in relations if _ends(record.metadata) in wanted]
        await drop(self._service, call.caller, gone)
        return _deleted(len({_ends(record.metadata) for record in gone}), "relations")

    async def _delete_observations(self, call: Call) -> Mapping[str, Any]:
        known, _ = await self._read(call.caller)
        edits: list[_Edit] = []
        for given in _objects(call.arguments, "deletions"):
            unwanted = set(_texts(given, "observations"))

            def fewer(before: list[str], unwanted: set[str] = unwanted) -> list[str]:
                return [text for text in before if text not in unwanted]

            edits.append((_text(given, "entityName"), fewer))
        done = await self._edited(call.caller, [edit for edit in edits if edit[0] in known])
        return _deleted(sum(len(before) - len(after) for before, after in done), "observations")


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


def _observations(records: Sequence[Record]) -> list[str]:
    kept = [record.metadata.get("observations") for record in records]
    return list(
        dict.fromkeys(str(text) for texts in kept if isinstance(texts, list | tuple) for text in texts)
    )


def _entity(records: Sequence[Record]) -> dict[str, Any]:
    """What all records of one name say, in one body."""
    return {
        "name": records[0].metadata.get("name"),
        "entityType": records[0].metadata.get("entityType"),
        "observations": _observations(records),
    }


def _joined(records: Sequence[Record], observations: list[str]) -> Iterator[tuple[dict[str, Any], Record]]:
    """The first record says all that is observed now; what others of its name said is in it."""
    yield {**_entity(records), "observations": observations}, records[0]
    for other in records[1:]:
        if _observations([other]):
            yield {**_entity([other]), "observations": []}, other


def _said(body: Mapping[str, Any]) -> str:
    """The words that a search finds it by."""
    if "entityType" not in body:
        return f"{body['from']} {body['relationType']} {body['to']}"
    return "\n".join([f"{body['name']} ({body['entityType']})", *body["observations"]])


def _haystack(records: Sequence[Record]) -> str:
    entity = _entity(records)
    return "\n".join([str(entity["name"]), str(entity["entityType"]), *entity["observations"]]).lower()


def _shown(entities: Iterable[Sequence[Record]], relations: Iterable[Record]) -> dict[str, Any]:
    ends = dict.fromkeys(_ends(row.metadata) for row in relations)
    edges = [dict(zip(("from", "to", "relationType"), row, strict=True)) for row in ends]
    return {"entities": [_entity(records) for records in entities], "relations": edges}


def _part(
    entities: Mapping[str, Sequence[Record]], relations: Iterable[Record], names: set[str]
) -> dict[str, Any]:
    chosen = [records for name, records in entities.items() if name in names]
    edges = [row for row in relations if names.intersection(_ends(row.metadata)[:2])]
    return _shown(chosen, edges)


def _deleted(count: int, what: str) -> dict[str, Any]:
    if not count:
        return {"success": False, "message": f"No {what} matched; nothing was deleted."}
    return {"success": True, "message": f"Deleted {count} {what}."}
