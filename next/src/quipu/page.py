"""A page of the web interface, declared by its capability. `load` only calls `dispatch`, so a page reads no more than
its visitor may."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from quipu.operation import AnyOperation, Context

Group: TypeAlias = Literal["memory", "review", "activity", "sharing", "system"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An address, what stands on it, and the operations that its forms send."""

    path: str
    group: Group
    title: str
    template: str
    load: Callable[[Context, Mapping[str, str]], Awaitable[dict[str, Any]]]
    actions: Mapping[str, AnyOperation] = field(default_factory=dict[str, AnyOperation])
