"""Other vendors' stores, both ways: what comes back is what went out, less what the report names."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import assume, given

from quipu.crypto.canonical import canonical
from quipu.errors import TamperedError
from quipu.formats import letta, markdown, mem0, omi, pam
from quipu.formats.bounds import Bounds
from quipu.formats.losses import Loss
from quipu.formats.reading import opened
from quipu.formats.values import Item
from quipu.model.moving import Format
from quipu.model.record import Link, MemoryType, Record
from tests.formats import shelves
from tests.formats.shelves import (
    CHECKING,
    HEAD,
    SIGNING,
    STRANGER,
    good,
    keepable,
    packed,
    reasons,
    record,
    source,
)
from tests.requirement import requirement

RECORDS = (
    record(1, tags=("food", "Ümlaut"), metadata={"oap_kind": "preference", "structured": {"a": 1}}),
    record(2, tags=("kind:summary",), confidence=0.5, source="chat", user_id="mara"),
    record(3, type=MemoryType.EPISODIC, content="Moved desks", metadata={"scope_id": "work"}),
    record(4, links=(Link("mem_1", "supports"), Link("mem_2", "odd")), importance=0.5),
    record(5, expires_at=1_900_000_000_000),
)
ITEMS = shelves.items(*RECORDS)


def written(format: Format, given: list[Item]) -> tuple[bytes, Loss]:
    target, loss = io.BytesIO(), Loss()
    match format:
        case Format.PAM:
            pam.write(target, given, HEAD, SIGNING, loss)
        case Format.OMI:
            omi.write(target, given, HEAD, canonical)
        case Format.MEM0:
            mem0.write(target, given, canonical, loss)
        case Format.LETTA:
            letta.write(target, given, canonical, loss)
        case _:
            markdown.write(target, given, loss)
    return target.getvalue(), loss


def back(data: bytes) -> list[Item]:
    return good(opened(source(data), CHECKING).items())


def essence(item: Item, *names: str) -> Any:
    return json.loads(json.dumps([item.get(name) for name in names]))


@requirement("moving:formats.pam")
@given(keepable())
def test_a_trip_through_pam_and_omi_loses_nothing(one: Record) -> None:
    (item,) = shelves.items(one)
    try:
        canonical(item)
    except ValueError:
        assume(False)  # numbers that canonical JSON cannot hold are text before they come here
    for format in (Format.PAM, Format.OMI):
        (came,) = back(written(format, [item])[0])
        assert came["item_id"] == item["item_id"]
        assert came["kind"] == item["kind"]
        assert canonical(came["extensions"]) == canonical(item["extensions"])
        assert canonical(came["content"]) == canonical(item["content"])


@requirement("moving:formats.pam")
def test_the_pam_file_is_what_its_schema_says() -> None:
    data, loss = written(Format.PAM, ITEMS)
    body = json.loads(data)
    assert (body["schema"], body["schema_version"]) == ("portable-ai-memory", "1.0")
    assert body["integrity"]["total_memories"] == 5
    assert b":null" not in data
    types = [memory["type"] for memory in body["memories"]]
    assert types == ["preference", "custom", "custom", "fact", "fact"]
    assert body["memories"][1]["custom_type"] == "summary"
    assert body["memories"][0]["tags"] == ["food"]
    assert body["memories"][4]["temporal"]["valid_until"].startswith("2030-")
    assert [relation["type"] for relation in body["relations"]] == ["supports", "related_to"]
    mapped = {(one.origin, one.to): one.count for one in loss.report().mapped}
    assert mapped == {
        ("kind summary", "type custom (summary)"): 1,
        ("kind observation", "type custom (observation)"): 1,
        ("relation odd", "related_to"): 1,
    }


def test_the_worked_content_hash_of_pam() -> None:
    expected = "sha256:ec4629c2f3a234510933230099995b4d6e338c3229f71687d109e9dec9d73c58"
    text = "User prefers morning meetings on Tuesdays and Thursdays."
    assert pam.content_hash(text) == expected
    assert pam.content_hash(f"  {text.upper()} ".replace(" ", "\t ")) == expected


@requirement("moving:formats.pam")
def test_a_pam_file_is_believed_by_its_signature() -> None:
    data, _ = written(Format.PAM, ITEMS)
    assert opened(source(data), CHECKING).signature == "valid"
    assert opened(source(data), STRANGER).signature == "foreign"
    body = json.loads(data)
    del body["signature"]
    assert opened(source(json.dumps(body)), CHECKING).signature == "absent"
    shuffled = body | {"memories": body["memories"][::-1]}
    assert len(back(json.dumps(shuffled).encode())) == 5


@pytest.mark.parametrize(
    ("old", "new"),
    [("fact 4", "fact X"), ('"total', '"total'), ('"value":"', '"value":"A'), ("exp_1", "exp_2")],
)
def test_an_altered_pam_file_is_refused(old: str, new: str) -> None:
    data = written(Format.PAM, ITEMS)[0].decode()
    assert old in data
    changed = data.replace(old, new)
    if changed == data:
        changed = data.replace('"checksum":"sha256:', '"checksum":"sha256:0')
    with pytest.raises(TamperedError):
        opened(source(changed), CHECKING)


PAM_FOREIGN = {
    "schema": "portable-ai-memory",
    "schema_version": "1.0",
    "owner": {"id": "user-1"},
    "memories": [
        {"id": "m1", "type": "skill", "content": "Speaks Dutch", "temporal": {"created_at": "2026-01-02T03:04:05Z"}},
        {"id": "m2", "type": "custom", "custom_type": "recipe", "content": "Soup", "weight": 3},
        {"id": "m3", "type": "instruction", "content": "Always answer in French"},
        {"id": "m4", "type": "unheard-of", "content": "x"},
        {"id": "m5", "type": "fact", "content": "old", "status": "retracted"},
    ],
    "conversations_index": [{"id": "c1"}],
}  # fmt: skip


@requirement("moving:formats.pam")
def test_somebody_else_s_pam_file_keeps_what_has_no_home_here() -> None:
    found = opened(source(json.dumps(PAM_FOREIGN)), CHECKING)
    items = list(found.items())
    assert reasons(items) == [None, None, None, "bad_value", "retracted"]
    skill, recipe, instruction = (item for _, item in items[:3] if isinstance(item, dict))
    assert (skill["kind"], skill["labels"]) == ("fact", ["pam:skill"])
    assert recipe["labels"] == ["pam:custom:recipe"]
    assert recipe["extensions"]["quipu"]["foreign"]["pam"] == {"weight": 3}
    assert instruction["labels"] == ["pam:instruction"]
    assert [one.field for one in found.loss.report().dropped] == ["conversations_index"]
    assert found.cap == 0.7


@requirement("moving:formats.omi")
def test_omi_is_written_at_level_one_and_read_as_lines_too() -> None:
    data, _ = written(Format.OMI, ITEMS)
    body = json.loads(data)
    assert (body["format"], body["version"]) == ("open-memory-interchange", "0.1")
    for memory in body["memories"]:
        assert {"id", "content", "created", "type", "subject"} <= memory.keys()
    envelope = {name: value for name, value in body.items() if name != "memories"}
    lines = "\n".join(json.dumps(line) for line in [envelope, *body["memories"]])
    found = opened(source(lines), CHECKING)
    assert found.format is Format.OMI
    assert good(found.items()) == back(data)


@requirement("moving:formats.mem0")
def test_mem0_keeps_text_owner_and_times_and_tells_what_it_lost() -> None:
    data, loss = written(Format.MEM0, ITEMS)
    came = back(data)
    assert [item["content"]["text"] for item in came] == [item["content"]["text"] for item in ITEMS]
    assert came[0]["kind"] == "preference"
    assert came[1]["extensions"]["quipu"]["user_id"] == "mara"
    dropped = {one.field: one.count for one in loss.report().dropped}
    assert dropped == {"confidence": 1, "expires_at": 1, "importance": 1, "links": 1, "structured": 1}


def test_a_bare_array_of_mem0_is_read_too() -> None:
    memory = {
        "id": "a1",
        "memory": "Likes tea",
        "hash": "x",
        "score": 0.2,
        "created_at": "2026-01-01T00:00:00Z",
    }
    found = opened(source(json.dumps([memory])), CHECKING)
    (item,) = good(found.items())
    assert item["content"]["text"] == "Likes tea"
    assert {one.field for one in found.loss.report().dropped} == {"hash", "score"}


@requirement("moving:formats.letta")
def test_letta_blocks_hold_one_text_for_each_label() -> None:
    data, loss = written(Format.LETTA, ITEMS)
    blocks = {block["label"]: block["value"] for block in json.loads(data)["blocks"]}
    assert blocks["food"] == "fact 1"
    assert blocks["memory"].splitlines()[-1] == "fact 5"
    assert {one.field for one in loss.report().dropped} >= {"item_id", "captured_at", "kind", "structured"}


LETTA = {
    "agents": [{"messages": [
        {"id": "message-1", "role": "user", "content": [{"type": "text", "text": "Hi"}], "created_at": "2026-01-01T00:00:00Z"},
        {"id": "message-2", "role": "system", "content": "You are..."},
        {"id": "message-3", "role": "assistant", "content": "Hello"},
    ]}],
    "blocks": [{"id": "block-1", "label": "human", "value": "Name: Mara", "limit": 5000},
               {"id": "block-2", "label": "topics", "value": "Tea"}],
    "files": [{"id": "file-1", "file_name": "notes.pdf"}],
    "tools": [{"id": "tool-1", "source_code": "import os"}],
    "mcp_servers": [{"url": "http://evil.example"}],
    "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip


@requirement("moving:formats.letta")
def test_a_letta_agent_file_gives_memories_and_never_its_tools() -> None:
    found = opened(source(json.dumps(LETTA)), CHECKING)
    came = good(found.items())
    assert found.format is Format.LETTA
    assert [item["kind"] for item in came] == [
        "conversation_turn",
        "conversation_turn",
        "summary",
        "fact",
        "document_reference",
    ]
    assert "import os" not in json.dumps(came)
    dropped = {one.field for one in found.loss.report().dropped}
    assert {"tools", "mcp_servers", "message of system"} <= dropped


@requirement("moving:formats.markdown")
def test_markdown_holds_text_and_front_matter() -> None:
    data, loss = written(Format.MARKDOWN, ITEMS)
    came = back(data)
    for item, other in zip(ITEMS, came, strict=True):
        names = ("item_id", "kind", "labels", "scope_id", "exportable", "provenance")
        assert essence(item, *names) == essence(other, *names)
        assert item["content"] == other["content"]
    assert {one.field for one in loss.report().dropped} == {"importance", "links"}


@requirement("moving:formats.markdown")
@pytest.mark.parametrize("length", [1 << 14, 1 << 20], ids=["many short ones", "some long ones"])
def test_markdown_that_packs_too_well_to_be_believed_is_read_all_the_same(length: int) -> None:
    most = Bounds().small
    given = shelves.items(*(record(number, content="z" * length) for number in range(most // length + 2)))
    data, _ = written(Format.MARKDOWN, given)
    assert [len(item["content"]["text"]) for item in back(data)] == [length] * len(given)


@pytest.mark.parametrize(
    "text",
    [
        "---\nid: !!python/object x\n---\nx",
        "---\nid: &a x\n---\nx",
        "---\nid: x\n",
        "---\n- list\n---\nx",
        b"\xff\xfe",
    ],
)
def test_front_matter_that_is_more_than_plain_is_refused(text: str | bytes) -> None:
    found = opened(source(packed({"items/a.md": text})), CHECKING)
    assert reasons(found.items())[0] in ("bad_file", "bad_encoding")


def test_markdown_written_by_hand_is_read() -> None:
    text = "---\nkind: preference\nlabels: [tea, 'green']\ncreated: 2026-01-02\n---\nMara likes tea\n"
    (item,) = good(opened(source(packed({"notes/tea.md": text})), CHECKING).items())
    assert (item["kind"], item["labels"], item["item_id"]) == ("preference", ["tea", "green"], "tea")
    assert item["content"]["text"] == "Mara likes tea"


@requirement("moving:formats.markdown")
@pytest.mark.parametrize("block", ["[1, 2, 3]", "{not: json}", "7", "{}"])
def test_a_block_at_the_end_that_is_no_structure_stays_in_the_text(block: str) -> None:
    text = f"Use these:\n```json\n{block}\n```"
    (item,) = good(opened(source(packed({"notes/a.md": text})), CHECKING).items())
    assert item["content"] == {"text": text}


def test_the_owner_of_a_pam_file_is_who_the_signature_speaks_of() -> None:
    data, _ = written(Format.PAM, ITEMS)
    other = data.replace(f'"did":"{shelves.OWNER}"'.encode(), b'"did":"did:web:somebody.example"')
    assert other != data
    found = opened(source(other), CHECKING)
    assert (found.signature, found.owner) == ("valid", shelves.OWNER)


@pytest.mark.parametrize(
    "text",
    [
        '{"results": [{"id": "a", "memory": "tea"}], "\\ud800": [1]}',
        '{"format": "open-memory-interchange", "memories": [{"id": "a", "content": "x", "created": 1, "type": "\\ud800"}]}',
        '[{"header": "x", "userInteractions": [{"userInteraction": {"request": "{\\ud800"}}]}]',
        '[{"mapping": {"a": {"message": {"author": {"role": "\\ud800"}, "content": {"parts": ["x"]}}}}}]',
        '{"results": [{"id": "a", "memory": "tea"}], "' + "n" * 10_000 + '": [1]}',
    ],
    ids=["mem0", "omi", "gemini", "chatgpt", "a long name"],
)
def test_what_is_lost_can_be_told_whatever_it_is_called(text: str) -> None:
    found = opened(source(text), CHECKING)
    list(found.items())
    lost = found.loss.report()
    told = [one.field for one in lost.dropped] + [
        name for one in lost.mapped for name in (one.origin, one.to)
    ]
    assert all(name.encode() and len(name) <= 80 for name in told)
