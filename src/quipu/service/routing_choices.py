"""What a router has chosen from its peers' answers, so that they count as recalled what was shown and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Self

from quipu.service.notes import Choosing, current


class Choices:
    """What one recall of a router chooses from its peers' answers. Routers nest, so that others may choose after it."""

    def __init__(self, peers: Collection[str]) -> None:
        self.of = {peer: Choosing() for peer in peers}
        self._theirs: dict[str, Mapping[str, str]] = {}

    def chose(self, id: str, theirs: Mapping[str, str]) -> None:
        """This is shown; `theirs` says by peer what those call it that gave it."""
        self._theirs[id] = theirs

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outer = current()
        if error is not None:
            self._settle(())
        elif outer is not None:
            outer.hold(self._settle)
        else:
            self._settle(self._theirs)

    def _settle(self, chosen: Collection[str]) -> None:
        shown = [self._theirs[id] for id in chosen if id in self._theirs]
        for peer, choosing in self.of.items():
            choosing.end({theirs[peer] for theirs in shown if peer in theirs})
