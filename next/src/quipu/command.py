"""A command that is written by hand, because it is more than an operation: `serve`, `import`, `review`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class HandCommand:
    """Its words, its click parameters, and the function that is run with a `cli.session.Session` and the values."""

    name: str
    help: str
    run: Callable[..., Any]
    parameters: tuple[Any, ...] = ()
    examples: tuple[str, ...] = ()
