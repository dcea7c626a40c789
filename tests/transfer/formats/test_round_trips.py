"""What is written for other products is read back by our own readers, less what the report says."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quipu.transfer.formats.letta import LIMIT
from quipu.transfer.formats.loss import Loss
from tests.requirement import requirement
from tests.search.drawn import records
from tests.transfer.formats.shelf import good, items_of, read, written

_NO_PROCEDURES = st.sampled_from(("semantic", "episodic", "emotional"))


@requirement("formats:formats.mem0")
@given(st.lists(records(type=_NO_PROCEDURES), max_size=4, unique_by=lambda record: record.id))
def test_mem0_s_file_keeps_text_owner_labels_and_times(drawn: list[Any]) -> None:
    items = [item for item in items_of(*drawn) if item["content"]["text"].strip()]
    found = good(read(written("mem0", items, Loss()), "mem0").items())
    assert [one["content"]["text"].strip() for one in found] == [
        one["content"]["text"].strip() for one in items
    ]
    for one, other in zip(found, items, strict=True):
        assert one["item_id"] == other["item_id"]
        assert one["provenance"]["captured_at"] == other["provenance"]["captured_at"]
        own, theirs = one["extensions"]["quipu"], other["extensions"]["quipu"]
        for name in ("agent_id", "user_id", "session_id"):
            assert own.get(name) == ((theirs.get(name) or "").strip() or None)
        if all(label.strip() for label in other["labels"]):
            assert one["labels"] == other["labels"]


@requirement("formats:formats.letta")
@given(st.lists(records(type=_NO_PROCEDURES), max_size=4, unique_by=lambda record: record.id))
def test_letta_s_blocks_hold_every_text_that_has_room(drawn: list[Any]) -> None:
    items = items_of(*drawn)
    blocks = json.loads(written("letta", items, Loss()))["blocks"]
    assert len({block["label"] for block in blocks}) == len(blocks)
    assert all(len(block["value"]) <= LIMIT == block["limit"] for block in blocks)
    said = "\n".join(block["value"] for block in blocks)
    assert all(item["content"]["text"] in said for item in items)
