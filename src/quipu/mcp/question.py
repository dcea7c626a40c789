"""What a person is asked before a write: all that would change, in words; or nothing, where it is too much to show."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quipu.governance.model import Diff, Modified, Piece, PreviewWriteResponse
from quipu.model.principal import Principal

#: A longer question is not asked: text is never cut and then approved.
LONGEST = 2000
_PIECES = {"same": "{}", "skipped": "{}", "new": "[+{}+]", "gone": "[-{}-]"}
#: Said in the first line, or the same for all.
_SAID = frozenset({"id", "type", "content", "agent_id", "store_id", "state"})


def question(
    operation: str, principal: Principal, given: Mapping[str, Any], preview: PreviewWriteResponse
) -> str | None:
    """None where the diff itself had to be cut."""
    if preview.diff.counts:
        return None
    agent = given.get("agent_id") or principal.default_agent
    about = [f"{operation.capitalize()} for agent {agent}"]
    about += [f"{name} {given[name]}" for name in ("user_id", "store", "id", "canonical") if given.get(name)]
    if given.get("hard_delete"):
        about.append("erased for good")
    lines = [f"{', '.join(about)}?", *_lines(preview.diff)]
    if preview.because:
        lines.append(f"Why you are asked: {preview.because}")
    return "\n".join(lines)


def _lines(diff: Diff) -> Iterator[str]:
    for one in diff.added:
        yield f"+ ({one.get('type')}) {_text(one.get('content'))}{_rest(one)}"
    for one in diff.modified:
        yield from _changed(one)
    for one in diff.removed:
        first = _text(one.get("content")).partition("\n")[0]
        yield f"- [{one.get('id')}] {first}"
    for one in diff.stays:
        yield f"= [{one.get('id')}] {_text(one.get('content'))}"


def _changed(one: Modified) -> Iterator[str]:
    if "content" in one.after:
        yield f"~ [{one.id}] {_compared(one)}"
    else:
        yield f"~ [{one.id}]"
    for name in one.after:
        if name != "content":
            yield f"  {name}: {_text(one.before.get(name))} → {_text(one.after[name])}"


def _compared(one: Modified) -> str:
    """Word by word; both texts where they are too long for that."""
    if one.words is not None:
        return _joined(one.words)
    return f"[-{_text(one.before.get('content'))}-] [+{_text(one.after['content'])}+]"


def _joined(pieces: Sequence[Piece]) -> str:
    return "".join(_PIECES[piece.kind].format(piece.text) for piece in pieces)


def _rest(record: Mapping[str, Any]) -> str:
    more = {name: value for name, value in record.items() if name not in _SAID}
    return f" {_text(more)}" if more else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
