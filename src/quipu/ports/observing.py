"""Being told what memory does, while it does it. The service fills in what it knows; whoever looks decides what to show.

An observation never changes an operation: an observer must not fail and must not wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from quipu.model.observation import Observation


class Observer(Protocol):
    """Is told of operations as they begin, and sees by the end of the block how they went."""

    @property
    def is_watching(self) -> bool:
        """Whether anybody looks at all."""
        ...

    def operation(self, observation: Observation) -> AbstractContextManager[Any]:
        """The block is one operation of memory."""
        ...

    def review(self, proposal_id: str) -> AbstractContextManager[Any]:
        """The block is a person's decision on a held write."""
        ...

    def background(self, name: str, causes: Sequence[str]) -> AbstractContextManager[Any]:
        """The block is work that no request waits for; `causes` are records whose writes led to it."""
        ...

    def phase(self, name: str) -> AbstractContextManager[Any]:
        """The block is a part of an operation."""
        ...

    def standing(self, records: int, pending: int) -> None:
        """How many memories there are, and how many writes wait for a person."""
        ...


_NOTHING: AbstractContextManager[Any] = nullcontext()


class Unobserved:
    """Nobody looks."""

    is_watching = False

    def operation(self, observation: Observation) -> AbstractContextManager[Any]:
        return _NOTHING

    def review(self, proposal_id: str) -> AbstractContextManager[Any]:
        return _NOTHING

    def background(self, name: str, causes: Sequence[str]) -> AbstractContextManager[Any]:
        return _NOTHING

    def phase(self, name: str) -> AbstractContextManager[Any]:
        return _NOTHING

    def standing(self, records: int, pending: int) -> None:
        return
