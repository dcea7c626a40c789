"""Values that are read from and written to JSON by their annotations: their modules hold every name at run time."""

from __future__ import annotations

import dataclasses
import pkgutil
from importlib import import_module
from typing import Any, get_type_hints

import pytest

import quipu.model

#: What the faces, and adapters that run in a process of their own, read by its annotations.
READ = [
    *(f"quipu.model.{module.name}" for module in pkgutil.iter_modules(quipu.model.__path__)),
    "quipu.ports.backend",
    "quipu.ports.outbox",
]


@pytest.mark.parametrize("name", READ)
def test_annotations_can_be_looked_up(name: str) -> None:
    """An import that only a type checker sees would leave a name that nobody finds."""
    module = import_module(name)
    free: dict[str, Any] = {"Json": object, "JsonObject": dict}  # recursive, and not looked into
    for kind in vars(module).values():
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == name:
            get_type_hints(kind, localns=free)
