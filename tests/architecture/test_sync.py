"""The memory for code that cannot await is the same memory: one colour, one portal, no drift; so is the router."""

import inspect

import pytest

import quipu.memory
import quipu.memory.routing
import quipu.sync
import quipu.sync.routing


def surface(cls: type) -> dict[str, list[str]]:
    """Public method -> its parameters, as written."""
    methods = inspect.getmembers(cls, inspect.isfunction)
    return {
        name: [str(p) for p in inspect.signature(f).parameters.values()]
        for name, f in methods
        if name[0] != "_"
    }


def test_sync_has_the_surface_of_memory() -> None:
    assert surface(quipu.sync.Memory) == surface(quipu.memory.Memory)


def test_sync_is_built_with_the_same_arguments() -> None:
    ours = inspect.signature(quipu.memory.Memory).parameters
    theirs = inspect.signature(quipu.sync.Memory).parameters
    assert [str(p) for p in theirs.values()] == [str(p) for p in ours.values()]


def test_a_router_in_sync_has_the_surface_of_a_router() -> None:
    assert surface(quipu.sync.Router) == surface(quipu.memory.routing.Router)
    properties = [
        {name for name, _ in inspect.getmembers(kind, lambda member: isinstance(member, property))}
        for kind in (quipu.sync.Router, quipu.memory.routing.Router)
    ]
    assert properties[0] == properties[1]


def test_a_router_in_sync_is_built_with_the_same_arguments() -> None:
    """Only what its peers are is another thing."""
    ours = dict(inspect.signature(quipu.memory.routing.Router).parameters)
    theirs = dict(inspect.signature(quipu.sync.Router).parameters)
    assert list(theirs) == list(ours)
    peers = theirs.pop("peers"), ours.pop("peers")
    assert peers[0].kind == peers[1].kind
    assert [str(p) for p in theirs.values()] == [str(p) for p in ours.values()]


def test_the_names_in_sync_are_those_promised() -> None:
    assert quipu.sync.__all__ == ["Memory", "Router", "connect"]
    assert all(getattr(quipu.sync, name).__doc__ for name in quipu.sync.__all__)


def test_sync_connects_with_the_same_arguments() -> None:
    ours = inspect.signature(quipu.memory.connect).parameters
    theirs = inspect.signature(quipu.sync.connect).parameters
    assert [str(p) for p in theirs.values()] == [str(p) for p in ours.values()]


@pytest.mark.parametrize("kind", [quipu.sync.Memory, quipu.sync.routing.Router])
def test_nothing_in_sync_has_to_be_awaited(kind: type) -> None:
    methods = dict(inspect.getmembers(kind, inspect.isfunction))
    assert not [
        name for name, f in methods.items() if inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f)
    ]
