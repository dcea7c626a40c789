"""Records as `export_records` writes them, one on each line: everything that an import may set comes back as it was."""

from collections.abc import Iterator
from typing import Any

from quipu.errors import InvalidError, QuipuError
from quipu.sharing.times import rfc3339
from quipu.transfer.formats import archive, values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.reading import Look
from quipu.transfer.formats.values import Found, Item, refused

_SIGNS = {"id", "agent_id", "content", "born", "digest"}
#: Members that mean the same in an item of our own.
_SAME = (
    *("agent_id", "store", "created_at", "updated_at", "expires_at", "user_id", "session_id", "importance"),
    *("source", "key", "valid_from", "valid_until", "state", "metadata", "details", "tags", "links"),
)


def detect(look: Look) -> bool:
    """A first line with what only a record of ours has."""
    return look.members >= _SIGNS


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Each record that is there; of one that is gone there is nothing to bring in."""
    for number, found in archive.objects(source.open()):
        if isinstance(found, QuipuError):
            yield number, found
        elif found.get("state") in ("forgotten", "erased"):
            loss.dropped(f"{found['state']} memories")
        else:
            yield number, item_of(found)


def item_of(record: dict[str, Any]) -> Item | InvalidError:
    """A record as its owner's copy of the item."""
    if record.get("redacted") is True:
        return refused("masked", "The memory is masked.", "Export it again: an export masks nothing.")
    type_, content = record.get("type"), record.get("content")
    own = {name: record[name] for name in _SAME if record.get(name) not in (None, [], {})}
    own |= {"id": record.get("id"), "record_type": type_}
    if intent := values.an_object(record.get("privacy_intent")):
        own["privacy_intent"] = {name: value for name, value in intent.items() if value is not None}
    captured = values.an_object(record.get("provenance")).get("captured_at")
    captured = record.get("created_at") if captured is None else captured
    item = values.item(
        "observation" if type_ == "episodic" else "fact",
        None if type_ == "procedural" else content,
        item_id=record.get("id"),
        captured_at=rfc3339(captured) if isinstance(captured, int) else None,
        structured={"procedure": content} if type_ == "procedural" else None,
        own=own,
    )
    if record.get("confidence") is not None:
        item["provenance"]["confidence"] = record["confidence"]
    return item
