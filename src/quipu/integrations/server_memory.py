"""The nine tools of MCP's reference server `server-memory`, a knowledge graph, over memories.

An entity is a memory, and so is a relation: both are found by a recall, have a history and can be forgotten like any other.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, TypeAlias

from pydantic import Field, Strict

from quipu.errors import ConflictError, NotFoundError
from quipu.fields import Redact
from quipu.integrations.records import Call, drop, keep, walk
from quipu.memory.model import RecordView
from quipu.model.principal import Permission
from quipu.operation import Request

_KIND = "graph"
_ENTITY, _RELATION = "entity", "relation"
#: So often a change is tried again that somebody else was faster with.
_TRIES = 20
_SEARCHED = 10

#: None of it is kept as it is: `remember` redacts what is written.
_Text = Annotated[str, Redact.NONE]
_Texts = Annotated[tuple[_Text, ...], Strict(False)]
#: An entity, and what becomes of its observations.
_Edit: TypeAlias = tuple[str, Callable[[list[str]], list[str]]]


class Entity(Request):
    """A node."""

    name: _Text = Field(description="What it is called; there is one of each name.")
    entityType: _Text = Field(description="What it is: person, place, project …")
    observations: _Texts = Field(description="What is known of it, one fact each.")


class Relation(Request):
    """An edge."""

    source: _Text = Field(alias="from", description="The name of an entity.")
    target: _Text = Field(alias="to", description="The name of another.")
    relationType: _Text = Field(description="What the one is to the other, in active voice.")


class Addition(Request):
    """What is added to an entity."""

    entityName: _Text = Field(description="Which entity.")
    contents: _Texts = Field(description="What is known besides.")


class Deletion(Request):
    """What is taken from an entity."""

    entityName: _Text = Field(description="Which entity.")
    observations: _Texts = Field(description="What is no longer known.")


_Entities = Annotated[tuple[Entity, ...], Strict(False)]
_Relations = Annotated[tuple[Relation, ...], Strict(False)]


class CreateEntities(Request):
    """Create new entities in the knowledge graph."""

    entities: _Entities = Field(description="Those whose name is there already are passed over.")


class CreateRelations(Request):
    """Create relations between entities, in active voice."""

    relations: _Relations = Field(description="Those that are there already are passed over.")


class AddObservations(Request):
    """Add observations to existing entities."""

    observations: Annotated[tuple[Addition, ...], Strict(False)] = Field(description="To which, and what.")


class DeleteEntities(Request):
    """Delete entities and their relations."""

    entityNames: _Texts = Field(description="Which.")


class DeleteObservations(Request):
    """Delete observations of entities."""

    deletions: Annotated[tuple[Deletion, ...], Strict(False)] = Field(description="Of which, and what.")


class DeleteRelations(Request):
    """Delete relations."""

    relations: _Relations = Field(description="Which.")


class ReadGraph(Request):
    """Read the whole knowledge graph."""


class SearchNodes(Request):
    """Search entities by name, type and observations."""

    query: _Text = Field(description="A part of the text, or what it is about.")


class OpenNodes(Request):
    """Read entities by their names."""

    names: _Texts = Field(description="Which.")


class KnowledgeGraph:
    """Entities and relations, in the memory that `call` reaches. Each method is a tool; what it answers is JSON."""

    def __init__(self, call: Call) -> None:
        self._call = call

    # -- reading ------------------------------------------------------------------------------------------------------

    async def read_graph(self, _: ReadGraph) -> dict[str, Any]:
        """Every entity and relation, oldest first."""
        entities, relations = await self._read()
        return _shown(entities.values(), relations)

    async def search_nodes(self, given: SearchNodes) -> dict[str, Any]:
        """Entities that hold these words; where there are none, those that a recall finds."""
        entities, relations = await self._read()
        wanted = given.query.lower()
        found = {name for name, records in entities.items() if wanted in _said(_entity(records)).lower()}
        if not found and given.query.strip():
            hits = await self._call(
                "recall", query=given.query, k=_SEARCHED, filter={f"metadata.{_KIND}": _ENTITY}
            )
            found = {str(hit.metadata.get("name")) for hit in hits} & entities.keys()
        return _part(entities, relations, found)

    async def open_nodes(self, given: OpenNodes) -> dict[str, Any]:
        entities, relations = await self._read()
        return _part(entities, relations, set(given.names))

    async def _read(self) -> tuple[dict[str, list[RecordView]], list[RecordView]]:
        """Entities by name, and relations, the oldest first. Two clients at once may each have made the same one."""
        wanted = {f"metadata.{_KIND}": {"$in": [_ENTITY, _RELATION]}}
        found = [record async for record in walk(self._call, filter=wanted)]
        entities: dict[str, list[RecordView]] = {}
        relations: list[RecordView] = []
        for record in reversed(found):
            if record.metadata[_KIND] == _ENTITY:
                entities.setdefault(str(record.metadata["name"]), []).append(record)
            else:
                relations.append(record)
        return entities, relations

    # -- creating -----------------------------------------------------------------------------------------------------

    async def create_entities(self, given: CreateEntities) -> dict[str, Any]:
        names, made = set((await self._read())[0]), list[dict[str, Any]]()
        for entity in given.entities:
            if entity.name not in names:
                names.add(entity.name)
                made.append({**entity.model_dump(), "observations": list(dict.fromkeys(entity.observations))})
        await self._put([(body, None) for body in made])
        return {"entities": made}

    async def create_relations(self, given: CreateRelations) -> dict[str, Any]:
        there, made = {_ends(record.metadata) for record in (await self._read())[1]}, list[dict[str, Any]]()
        for relation in given.relations:
            body = relation.model_dump(by_alias=True)
            if _ends(body) not in there:
                there.add(_ends(body))
                made.append(body)
        await self._put([(body, None) for body in made])
        return {"relations": made}

    async def add_observations(self, given: AddObservations) -> dict[str, Any]:
        edits = [(one.entityName, _more(one.contents)) for one in given.observations]
        done = await self._edited(edits)
        return {
            "results": [
                {"entityName": name, "addedObservations": after[len(before) :]}
                for (name, _), (before, after) in zip(edits, done, strict=True)
            ]
        }

    async def _edited(self, edits: Sequence[_Edit]) -> list[tuple[list[str], list[str]]]:
        """The observations before and after each edit; all are kept, or none. Nobody's change in between is lost."""
        for left in reversed(range(_TRIES)):
            entities, _ = await self._read()
            now = {name: _observations(records) for name, records in entities.items()}
            done: list[tuple[list[str], list[str]]] = []
            for name, edit in edits:
                if name not in now:
                    raise NotFoundError("There is no entity of that name.", reason="record")
                done.append((now[name], edit(now[name])))
                now[name] = done[-1][1]
            changed = [
                name
                for name in dict.fromkeys(name for name, _ in edits)
                if now[name] != _observations(entities[name])
            ]
            try:
                await self._put([row for name in changed for row in _joined(entities[name], now[name])])
            except ConflictError as error:
                if error.reason != "version_mismatch" or not left:
                    raise
            else:
                return done
        raise AssertionError("the last try raises")

    async def _put(self, rows: Sequence[tuple[Mapping[str, Any], RecordView | None]]) -> None:
        """Bodies, each with the memory that it changes; all are kept, or none."""
        items: list[dict[str, Any]] = []
        for body, record in rows:
            kind = _ENTITY if "entityType" in body else _RELATION
            item: dict[str, Any] = {"content": _said(body), "metadata": {_KIND: kind, **body}}
            if record is not None:
                item |= {"id": record.id, "if_version": record.version}
            items.append(item)
        await keep(self._call, items)

    # -- deleting -----------------------------------------------------------------------------------------------------

    async def delete_entities(self, given: DeleteEntities) -> dict[str, Any]:
        names = set(given.entityNames)
        entities, relations = await self._read()
        gone = [records for name, records in entities.items() if name in names]
        edges = [edge for edge in relations if names.intersection(_ends(edge.metadata)[:2])] if gone else []
        await drop(self._call, [*chain.from_iterable(gone), *edges])
        return _deleted(len(gone), "entities")

    async def delete_observations(self, given: DeleteObservations) -> dict[str, Any]:
        known, _ = await self._read()
        edits = [
            (one.entityName, _fewer(one.observations)) for one in given.deletions if one.entityName in known
        ]
        done = await self._edited(edits)
        return _deleted(sum(len(before) - len(after) for before, after in done), "observations")

    async def delete_relations(self, given: DeleteRelations) -> dict[str, Any]:
        wanted = {_ends(relation.model_dump(by_alias=True)) for relation in given.relations}
        gone = [record for record in (await self._read())[1] if _ends(record.metadata) in wanted]
        await drop(self._call, gone)
        return _deleted(len({_ends(record.metadata) for record in gone}), "relations")


#: Of each tool what it takes, the permission that it needs, and its work, in the order of the reference.
TOOLS: Mapping[
    str, tuple[type[Request], Permission, Callable[[KnowledgeGraph, Any], Awaitable[dict[str, Any]]]]
] = {
    "create_entities": (CreateEntities, Permission.WRITE, KnowledgeGraph.create_entities),
    "create_relations": (CreateRelations, Permission.WRITE, KnowledgeGraph.create_relations),
    "add_observations": (AddObservations, Permission.WRITE, KnowledgeGraph.add_observations),
    "delete_entities": (DeleteEntities, Permission.DELETE, KnowledgeGraph.delete_entities),
    "delete_observations": (DeleteObservations, Permission.WRITE, KnowledgeGraph.delete_observations),
    "delete_relations": (DeleteRelations, Permission.DELETE, KnowledgeGraph.delete_relations),
    "read_graph": (ReadGraph, Permission.READ, KnowledgeGraph.read_graph),
    "search_nodes": (SearchNodes, Permission.READ, KnowledgeGraph.search_nodes),
    "open_nodes": (OpenNodes, Permission.READ, KnowledgeGraph.open_nodes),
}


def _more(contents: Sequence[str]) -> Callable[[list[str]], list[str]]:
    return lambda before: [*before, *(text for text in dict.fromkeys(contents) if text not in before)]


def _fewer(unwanted: Sequence[str]) -> Callable[[list[str]], list[str]]:
    return lambda before: [text for text in before if text not in unwanted]


def _ends(body: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(body["from"]), str(body["to"]), str(body["relationType"])


def _observations(records: Sequence[RecordView]) -> list[str]:
    return list(dict.fromkeys(str(text) for record in records for text in record.metadata["observations"]))


def _entity(records: Sequence[RecordView]) -> dict[str, Any]:
    """What all memories of one name say, in one body."""
    return {
        "name": records[0].metadata["name"],
        "entityType": records[0].metadata["entityType"],
        "observations": _observations(records),
    }


def _joined(
    records: Sequence[RecordView], observations: list[str]
) -> Iterator[tuple[dict[str, Any], RecordView]]:
    """The first memory says all that is observed now; what others of its name said is in it."""
    yield {**_entity(records), "observations": observations}, records[0]
    for other in records[1:]:
        if _observations([other]):
            yield {**_entity([other]), "observations": []}, other


def _said(body: Mapping[str, Any]) -> str:
    """The words that a search finds it by."""
    if "entityType" not in body:
        return f"{body['from']} {body['relationType']} {body['to']}"
    return "\n".join([f"{body['name']} ({body['entityType']})", *body["observations"]])


def _shown(entities: Iterable[Sequence[RecordView]], relations: Iterable[RecordView]) -> dict[str, Any]:
    ends = dict.fromkeys(_ends(row.metadata) for row in relations)
    edges = [dict(zip(("from", "to", "relationType"), row, strict=True)) for row in ends]
    return {"entities": [_entity(records) for records in entities], "relations": edges}


def _part(
    entities: Mapping[str, Sequence[RecordView]], relations: Iterable[RecordView], names: set[str]
) -> dict[str, Any]:
    chosen = [records for name, records in entities.items() if name in names]
    edges = [row for row in relations if names.intersection(_ends(row.metadata)[:2])]
    return _shown(chosen, edges)


def _deleted(count: int, what: str) -> dict[str, Any]:
    if not count:
        return {"success": False, "message": f"No {what} matched; nothing was deleted."}
    return {"success": True, "message": f"Deleted {count} {what}."}
