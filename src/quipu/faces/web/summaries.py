"""What a list shows of a held write: what it would do in a few words, what stands beside it, and whether that is all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from quipu.faces.web import wording
from quipu.model.change import Proposal

#: Characters of what would be written, and of any other value, that a list shows whole; and of a longer text.
SHOWN, CUT, _GLIMPSE = 500, 200, 160
#: Fields of a memory that whoever recalls it reads, too.
_BESIDE = ("user_id", "session_id", "source", "tags", "metadata", "details")


def summary(proposal: Proposal) -> str:
    """What it would do, in a few words."""
    request: Any = proposal.request
    match proposal.operation:
        case "remember" | "batch":
            return _shown(_written(request))
        case "merge":
            count = len(request.get("duplicates") or ())
            return f"{wording.counted(count, 'record')} into {request.get('canonical')}"
        case "forget":
            ids = request.get("ids") or ()
            many = (
                wording.counted(len(ids), "record")
                if ids
                else f"what matches {wording.as_json(request.get('filter'))}"
            )
            return f"{'erase' if request.get('hard_delete') else 'forget'} {many}"
        case "restore":
            return f"bring back {request.get('id')}"
        case "recall":
            return f"recall {_shown(request.get('query') or '')}"
        case _:
            return f"{request.get('action')} what {wording.as_json(request.get('policy'))} matches"


def _shown(text: str) -> str:
    return wording.brief(text, SHOWN if len(text) <= SHOWN else _GLIMPSE)


def _written(request: Mapping[str, Any]) -> str:
    """The text that would be written; of several memories those of all."""
    items: Sequence[Mapping[str, Any]] | None = request.get("items")
    if items is None:
        return wording.text_of(request.get("content") or "")
    texts = (wording.text_of(item.get("content") or "") for item in items)
    return f"{wording.counted(len(items), 'memory', 'memories')} together: {' · '.join(texts)}"


def beside(request: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What else would be written, by its name."""
    found = ((name, request.get(name)) for name in _BESIDE)
    return [(name.removesuffix("_id"), _said(value)) for name, value in found if value]


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return wording.listed([str(one) for one in cast("Sequence[Any]", value)])
    return value if isinstance(value, str) else wording.as_json(value)


def is_whole(proposal: Proposal) -> bool:
    """Whether a list shows all that would be written. Of several memories it shows nothing but the texts."""
    request: Any = proposal.request
    if proposal.operation == "recall":
        return len(request.get("query") or "") <= SHOWN
    if proposal.operation not in ("remember", "batch"):
        return True
    items = request.get("items") or ()
    is_short = len(_written(request)) <= SHOWN and all(len(text) <= CUT for _, text in beside(request))
    return is_short and not any(beside(item) for item in items)
