"""The knowledge graph of `server-memory`: its nine tools, over memories."""

import asyncio
from typing import Any

import pytest

from quipu.errors import ConflictError, InvalidError, NotFoundError
from quipu.integrations.records import Call
from quipu.integrations.server_memory import TOOLS, KnowledgeGraph
from tests.integrations.conftest import World
from tests.requirement import requirement

ANA = {"name": "Ana", "entityType": "person", "observations": ["plays chess"]}
ACME = {"name": "Acme", "entityType": "company", "observations": []}
WORKS = {"from": "Ana", "to": "Acme", "relationType": "works at"}


class Graph:
    """The tools by their names."""

    def __init__(self, call: Call) -> None:
        self._graph = KnowledgeGraph(call)

    async def __call__(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        request, _, work = TOOLS[name]
        return await work(self._graph, request.parse(arguments))


@pytest.fixture
def graph(world: World) -> Graph:
    return Graph(world.call)


@requirement("mcp:profiles.graph")
async def test_what_a_client_of_the_reference_does(graph: Graph) -> None:
    assert await graph("create_entities", entities=[ANA, ACME]) == {"entities": [ANA, ACME]}
    assert await graph("create_entities", entities=[ANA]) == {"entities": []}
    assert await graph("create_relations", relations=[WORKS, WORKS]) == {"relations": [WORKS]}
    added = await graph(
        "add_observations", observations=[{"entityName": "Ana", "contents": ["plays chess", "is 40"]}]
    )
    assert added == {"results": [{"entityName": "Ana", "addedObservations": ["is 40"]}]}
    whole = {"entities": [{**ANA, "observations": ["plays chess", "is 40"]}, ACME], "relations": [WORKS]}
    assert await graph("read_graph") == whole
    chess = await graph("search_nodes", query="CHESS")
    assert chess == {"entities": whole["entities"][:1], "relations": [WORKS]}
    assert await graph("open_nodes", names=["Acme", "nobody"]) == {"entities": [ACME], "relations": [WORKS]}
    gone = await graph("delete_observations", deletions=[{"entityName": "Ana", "observations": ["is 40"]}])
    assert gone == {"success": True, "message": "Deleted 1 observations."}
    assert (await graph("delete_relations", relations=[WORKS]))["success"] is True
    assert await graph("read_graph") == {"entities": [ANA, ACME], "relations": []}


async def test_words_that_stand_nowhere_are_searched_by_meaning(graph: Graph) -> None:
    await graph("create_entities", entities=[ANA, ACME])
    found = await graph("search_nodes", query="who plays games such as chess")
    assert ANA in found["entities"]


async def test_an_entity_goes_with_its_relations(graph: Graph) -> None:
    await graph("create_entities", entities=[ANA, ACME])
    await graph("create_relations", relations=[WORKS])
    assert (await graph("delete_entities", entityNames=["Ana"]))["success"] is True
    assert await graph("read_graph") == {"entities": [ACME], "relations": []}


@requirement("mcp:profiles.graph")
async def test_a_delete_that_matched_nothing_is_no_success(graph: Graph) -> None:
    for name, given in (
        ("delete_entities", {"entityNames": ["nobody"]}),
        ("delete_relations", {"relations": [WORKS]}),
        ("delete_observations", {"deletions": [{"entityName": "nobody", "observations": ["x"]}]}),
    ):
        assert (await graph(name, **given))["success"] is False, name


@requirement("mcp:profiles.graph")
async def test_a_call_that_is_wrong_in_one_part_changes_nothing(graph: Graph) -> None:
    await graph("create_entities", entities=[ANA])
    observed = [{"entityName": name, "contents": ["x"]} for name in ("Ana", "nobody")]
    half = [{"entityName": "Ana", "observations": ["plays chess"]}, {"entityName": "Ana"}]
    for name, given, error in (
        ("create_entities", {"entities": [ACME, {"name": "x"}]}, InvalidError),
        ("create_entities", {"entities": [ACME, {**ACME, "name": "a\0b"}]}, InvalidError),
        ("create_relations", {"relations": [WORKS, {**WORKS, "to": "a\0b"}]}, InvalidError),
        ("add_observations", {"observations": observed}, NotFoundError),
        ("delete_observations", {"deletions": half}, InvalidError),
        ("search_nodes", {"query": 5}, InvalidError),
        ("open_nodes", {"name": ["Ana"]}, InvalidError),
    ):
        with pytest.raises(error):
            await graph(name, **given)
        assert await graph("read_graph") == {"entities": [ANA], "relations": []}, name


async def test_observations_added_at_the_same_time_are_all_kept(graph: Graph) -> None:
    await graph("create_entities", entities=[ANA])
    adds = [[{"entityName": "Ana", "contents": [f"fact {count}"]}] for count in range(8)]
    await asyncio.gather(*(graph("add_observations", observations=add) for add in adds))
    (entity,) = (await graph("open_nodes", names=["Ana"]))["entities"]
    assert sorted(entity["observations"]) == [*(f"fact {count}" for count in range(8)), "plays chess"]


async def test_what_two_clients_made_at_the_same_time_is_one(graph: Graph, world: World) -> None:
    """Neither saw the other's when it began to write, so there are two memories of each."""
    await graph("create_entities", entities=[ANA, ACME])
    await graph("create_relations", relations=[WORKS])
    again = {**ANA, "observations": ["is 40"]}
    for said in ({"graph": "entity", **again}, {"graph": "relation", **WORKS}):
        await world.memory.remember("twice", metadata=said)
    whole = {**ANA, "observations": ["plays chess", "is 40"]}
    assert await graph("read_graph") == {"entities": [whole, ACME], "relations": [WORKS]}
    added = await graph(
        "add_observations", observations=[{"entityName": "Ana", "contents": ["is 40", "swims"]}]
    )
    assert added["results"] == [{"entityName": "Ana", "addedObservations": ["swims"]}]
    await graph("delete_observations", deletions=[{"entityName": "Ana", "observations": ["is 40"]}])
    (ana,) = (await graph("open_nodes", names=["Ana"]))["entities"]
    assert ana["observations"] == ["plays chess", "swims"]
    assert (await graph("delete_relations", relations=[WORKS]))["message"] == "Deleted 1 relations."
    assert (await graph("delete_entities", entityNames=["Ana"]))["message"] == "Deleted 1 entities."
    assert await graph("read_graph") == {"entities": [ACME], "relations": []}


@requirement("mcp:profiles.graph")
async def test_an_entity_is_a_memory_like_any_other(graph: Graph, world: World) -> None:
    await graph("create_entities", entities=[ANA])
    (hit,) = await world.memory.recall("chess")
    assert hit.content == "Ana (person)\nplays chess"
    await graph("add_observations", observations=[{"entityName": "Ana", "contents": ["is 40"]}])
    assert len((await world.memory.history(hit.id)).versions) == 2
    await world.memory.forget(ids=[hit.id], hard_delete=True)
    assert await graph("read_graph") == {"entities": [], "relations": []}


async def test_a_change_that_is_held_waits_once(graph: Graph, world: World) -> None:
    await graph("create_entities", entities=[ANA])
    await world.memory.set_rules([{"id": "ask", "effect": "hold"}])
    with pytest.raises(ConflictError, match="Nothing has changed"):
        await graph("add_observations", observations=[{"entityName": "Ana", "contents": ["is 40"]}])
    assert len((await world.memory.list_reviews()).reviews) == 1
    assert (await graph("read_graph"))["entities"] == [ANA]
