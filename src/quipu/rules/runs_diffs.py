"""Two runs side by side: what happened in both, and what in one of them only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from quipu.model.runs import EventType, RunEvent


@dataclass(frozen=True, slots=True)
class Pair:
    """An event of each, where they did the same; otherwise of one."""

    left: RunEvent | None
    right: RunEvent | None

    @property
    def is_same(self) -> bool:
        return self.left is not None and self.right is not None


def paired(left: Sequence[RunEvent], right: Sequence[RunEvent]) -> list[Pair]:
    """Both logs in order. Ids of entries differ in every run, so they do not count."""
    keys = [_key(event) for event in left], [_key(event) for event in right]
    pairs: list[Pair] = []
    for kind, a, b, c, d in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if kind == "equal":
            pairs.extend(Pair(one, other) for one, other in zip(left[a:b], right[c:d], strict=True))
        else:
            pairs.extend(Pair(event, None) for event in left[a:b])
            pairs.extend(Pair(None, event) for event in right[c:d])
    return pairs


def _key(event: RunEvent) -> tuple[str, str | None, str]:
    """What an event says, without what is new in every run."""
    said = ""
    if event.type is EventType.MEMORY_WRITTEN:
        said = str(event.payload.get("memoryRef"))
    elif event.type is EventType.VARIABLE_CHANGED:
        said = str(event.payload.get("name"))
    return event.type.value, event.node_id, said
