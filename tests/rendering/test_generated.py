"""Generated files are what the operations say, and the two classes have one surface."""

import inspect
import re
from importlib import import_module

from quipu import api, catalogue, sync
from quipu.bootstrap import OPERATIONS
from quipu.memory.memory_store import MemoryStore
from quipu.methods import METHODS
from scripts import generate
from tests.rendering.recorder import Recorder


def surface(kind: type) -> dict[str, list[str]]:
    found = inspect.getmembers(kind, lambda member: inspect.isfunction(member) or inspect.ismethod(member))
    return {
        name: [_said(parameter) for parameter in inspect.signature(function).parameters.values()]
        for name, function in found
        if name[0] != "_" or name == "__init__"
    }


def _said(parameter: inspect.Parameter) -> str:
    """As it is written, the values of a Literal sorted: which of two equal ones `typing` shows depends on what was imported."""
    return re.sub(
        r"Literal\[(.*?)\]",
        lambda found: f"Literal[{', '.join(sorted(found[1].split(', ')))}]",
        str(parameter),
    )


def test_no_generated_file_is_stale() -> None:
    stale = [str(path.relative_to(generate.ROOT)) for path in generate.stale(OPERATIONS)]
    assert stale == [], "run: python scripts/generate.py"


def test_the_blocking_memory_has_the_surface_of_the_awaited_one() -> None:
    assert surface(sync.Memory) == surface(api.Memory)
    assert inspect.signature(sync.connect) == inspect.signature(api.connect).replace(
        return_annotation=sync.Memory
    )
    properties = {name for name, value in inspect.getmembers(api.Memory) if isinstance(value, property)}
    assert properties == {
        name for name, value in inspect.getmembers(sync.Memory) if isinstance(value, property)
    }


def test_a_memory_has_a_method_for_each_operation_that_shall_be_one_and_call_for_the_others() -> None:
    for operation in OPERATIONS:
        assert hasattr(api.Memory, operation.name) == (
            operation.name in METHODS or operation.name in ("health", "capabilities", "import_file")
        )


def test_a_memory_is_a_memory_store() -> None:
    assert isinstance(api.Memory.over(Recorder().opened), MemoryStore)


def test_the_catalogue_leads_to_every_operation() -> None:
    assert list(catalogue.PLACES) == [operation.name for operation in OPERATIONS]
    for operation in OPERATIONS:
        assert catalogue.operation(operation.name) is operation
        module = catalogue.PLACES[operation.name].partition(":")[0]
        assert operation in import_module(module).OPERATIONS
