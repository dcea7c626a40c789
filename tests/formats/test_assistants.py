"""What people hold: exports of ChatGPT, Claude and Gemini, and text that they paste. The files are made here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quipu.errors import QuipuError
from quipu.formats.reading import Opened, opened
from quipu.model.moving import Format
from tests.formats.shelves import CHECKING, good, packed, reasons, source
from tests.requirement import requirement


def read(data: bytes | str | object, name: str = "file") -> Opened:
    if not isinstance(data, bytes | str):
        data = json.dumps(data)
    return opened(source(data, name), CHECKING)


def _node(name: str, role: str | None, *parts: Any, at: float | None = 1_700_000_100.5) -> dict[str, Any]:
    message = {
        "id": name,
        "author": {"role": role},
        "content": {"content_type": "text", "parts": list(parts)},
        "create_time": at,
        "metadata": {"model_slug": "gpt-x"},
    }
    return {"id": name, "parent": "root", "children": [], "message": None if role is None else message}


CHATGPT = [
    {
        "title": "Tea",
        "conversation_id": "talk-1",
        "create_time": 1_700_000_000.0,
        "mapping": {
            "root": _node("root", None),
            "m2": _node("m2", "assistant", "Sencha is green.", at=1_700_000_200.0),
            "m1": _node("m1", "user", "Which tea is green?", None, {"image": "file-service://x"}),
            "m0": _node("m0", "system", "You are..."),
            "m3": _node("m3", "user", "Thanks", at=0),
            "m4": _node("m4", "user", "  "),
            "m5": _node("m5", "tool", "result"),
        },
    }
]


@requirement("moving:formats.chatgpt")
def test_chatgpt_turns_come_in_the_order_they_were_said() -> None:
    found = read(
        packed({"conversations.json": json.dumps(CHATGPT), "user.json": "{}", "chat.html": "<html>"})
    )
    turns = good(found.items())
    assert found.format is Format.CHATGPT
    assert [turn["content"]["text"] for turn in turns] == [
        "Thanks",
        "Which tea is green?",
        "Sencha is green.",
    ]
    assert [turn["content"]["structured"]["role"] for turn in turns] == ["user", "user", "assistant"]
    assert turns[0]["provenance"]["captured_at"] == 1_700_000_000_000
    assert turns[1]["provenance"]["captured_at"] == 1_700_000_100_500
    assert {turn["kind"] for turn in turns} == {"conversation_turn"}
    assert turns[0]["extensions"]["quipu"] == {"source": "chatgpt", "session_id": "talk-1"}
    dropped = {one.field: one.count for one in found.loss.report().dropped}
    assert dropped == {
        "message of system": 1,
        "message of tool": 1,
        "other files of the archive": 2,
        "parts that are no text": 1,
    }


CLAUDE = [
    {
        "uuid": "talk-1",
        "name": "Tea",
        "created_at": "2026-01-01T00:00:00Z",
        "chat_messages": [
            {
                "uuid": "u1",
                "sender": "human",
                "text": "Which tea is green?",
                "content": [{"type": "text", "text": "Which tea is green?"}],
                "created_at": "2026-01-01T00:00:01.5Z",
                "attachments": [{"file_name": "a.txt"}],
                "files": [],
            },
            {
                "uuid": "u2",
                "sender": "assistant",
                "text": "",
                "content": [
                    {"type": "thinking", "thinking": "secret thoughts"},
                    {"type": "text", "text": "Sencha."},
                    {"type": "token_budget"},
                ],
                "created_at": "2026-01-01T00:00:02Z",
            },
        ],
    }
]
MEMORIES = [
    {
        "conversations_memory": "**Work context**\n\nMara runs a tea shop.\n\n**Personal**\n\nMara is vegetarian.",
        "project_memories": {"project-1": "The shop opens in May.", "project-2": ""},
        "account_uuid": "a1",
    }
]


@requirement("moving:formats.claude")
def test_claude_s_talks_and_memories_come_in_without_its_thoughts() -> None:
    found = read(packed({"conversations.json": json.dumps(CLAUDE), "memories.json": json.dumps(MEMORIES)}))
    items = good(found.items())
    assert found.format is Format.CLAUDE
    assert [item["kind"] for item in items] == ["conversation_turn"] * 2 + ["summary"] * 3
    assert items[1]["content"]["text"] == "Sencha."
    assert "secret thoughts" not in json.dumps(items)
    assert items[2]["content"]["text"].startswith("**Work context**")
    assert items[4]["subject_entity_id"] == "project-1"
    dropped = {one.field for one in found.loss.report().dropped}
    assert dropped == {"attachments", "part thinking", "part token_budget"}


GEMINI = [
    {
        "header": "Gemini Apps",
        "title": "Prompted Which tea is green?",
        "titleUrl": "https://gemini.google.com/app/abc123",
        "time": "2026-01-01T00:00:00.000Z",
        "details": [{"name": "Request", "value": "Which tea is green?"}, {"name": "Response", "value": "Sencha."}],
    },
    {
        "header": "Gemini Apps",
        "time": "2026-01-01T00:01:00Z",
        "userInteractions": [
            {"userInteraction": {"request": '"And black?"', "response": '{"text": "Assam."}'}}
        ],
    },
]  # fmt: skip


@requirement("moving:formats.gemini")
def test_gemini_s_two_shapes_give_the_same_turns() -> None:
    found = read(packed({"Takeout/My Activity/Gemini Apps/MyActivity.json": json.dumps(GEMINI)}))
    turns = good(found.items())
    assert found.format is Format.GEMINI
    assert [turn["content"]["text"] for turn in turns] == [
        "Which tea is green?",
        "Sencha.",
        "And black?",
        "Assam.",
    ]
    assert [turn["content"]["structured"]["role"] for turn in turns] == ["user", "assistant"] * 2
    assert turns[0]["extensions"]["quipu"]["session_id"] == "abc123"


PASTED = """# What I know about you

```
- [2025-03-04] Mara prefers green tea
- Mara lives in Utrecht
  near the station
1. Works at the harbour
```
"""


@requirement("moving:formats.text")
def test_pasted_bullets_are_one_item_each() -> None:
    found = read(PASTED, "memory.txt")
    items = good(found.items())
    assert found.format is Format.TEXT
    assert [(item["kind"], item["content"]["text"]) for item in items] == [
        ("preference", "Mara prefers green tea"),
        ("fact", "Mara lives in Utrecht\nnear the station"),
        ("fact", "Works at the harbour"),
    ]
    assert items[0]["provenance"]["captured_at"] == "2025-03-04"
    assert found.cap == 0.6


@requirement("moving:formats.detection")
@pytest.mark.parametrize(
    ("data", "format"),
    [(CHATGPT, Format.CHATGPT), (CLAUDE, Format.CLAUDE), (MEMORIES, Format.CLAUDE), (GEMINI, Format.GEMINI)],
)
def test_a_bare_document_is_told_by_what_is_in_it(data: object, format: Format) -> None:
    assert read(data).format is format


@requirement("moving:formats.detection")
@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\x00\x01\x02", b'[{"x": 1}]', packed({"a.bin": b"x"})])
def test_what_nobody_knows_is_refused(data: bytes) -> None:
    with pytest.raises(QuipuError) as refused:
        read(data)
    assert refused.value.reason in ("unknown_format", "empty_file")


@pytest.mark.parametrize("data", [CHATGPT, CLAUDE, GEMINI])
def test_a_file_that_is_cut_short_is_refused_where_it_ends(data: object) -> None:
    text = json.dumps(data, indent=1)
    for cut in (2, len(text) // 2):
        with pytest.raises(QuipuError) as refused:
            list(read(text[:-cut]).items())
        assert refused.value.reason in ("bad_json", "unknown_format")


def test_a_conversation_that_is_not_utf_8_is_refused_by_itself() -> None:
    text = json.dumps(CHATGPT * 2, ensure_ascii=False).encode()
    broken = text.replace(b"Sencha", b"S\xff\xfe\xff\xfe", 1)
    found = opened(source(broken), CHECKING)
    assert reasons(found.items())[0] == "bad_encoding"
    assert reasons(found.items())[1:] == [None] * 3
