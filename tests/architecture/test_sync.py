"""The memory for code that cannot await is the same memory: one colour, one portal, no drift."""

import inspect

import quipu.memory
import quipu.sync


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


def test_sync_connects_with_the_same_arguments() -> None:
    ours = inspect.signature(quipu.memory.connect).parameters
    theirs = inspect.signature(quipu.sync.connect).parameters
    assert [str(p) for p in theirs.values()] == [str(p) for p in ours.values()]


def test_nothing_in_sync_has_to_be_awaited() -> None:
    methods = dict(inspect.getmembers(quipu.sync.Memory, inspect.isfunction))
    assert not [
        name for name, f in methods.items() if inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f)
    ]
