"""What people hold: exports of ChatGPT and Claude. The files are made here, in the shape of real ones."""

import json
from typing import Any

import pytest

from quipu.errors import QuipuError
from quipu.transfer.formats.names import FormatName
from tests.requirement import requirement
from tests.transfer.formats.shelf import dropped, good, packed, read, reasons, writes


def _node(
    name: str, role: str | None, *parts: Any, at: float | None = 1_700_000_100.5, **more: Any
) -> dict[str, Any]:
    message = {
        "id": name,
        "author": {"role": role},
        "content": {"content_type": "text", "parts": list(parts)},
        "create_time": at,
        "metadata": {"model_slug": "gpt-x"},
        "recipient": "all",
        **more,
    }
    return {"id": name, "parent": "root", "children": [], "message": None if role is None else message}


def _talk(**nodes: dict[str, Any]) -> dict[str, Any]:
    return {"title": "Tea", "conversation_id": "talk-1", "create_time": 1_700_000_000.0, "mapping": nodes}


CHATGPT = [
    _talk(
        root=_node("root", None),
        m2=_node("m2", "assistant", "Sencha \ue200cite\ue202turn0search2\ue201is green.", at=1_700_000_200.0),
        m1=_node("m1", "user", "Which tea is green?", None, {"content_type": "image_asset_pointer"}),
        m0=_node("m0", "system", "You are..."),
        m3=_node("m3", "user", "Thanks", at=0),
        m4=_node("m4", "user", "  "),
        m5=_node("m5", "tool", "result"),
        m6=_node("m6", "assistant", content={"content_type": "thoughts", "thoughts": [{"content": "hm"}]}),
        m7=_node("m7", "assistant", content={"content_type": "code", "text": "search()"}, recipient="web"),
        m8=_node("m8", "user", "hidden", metadata={"is_visually_hidden_from_conversation": True}),
        m9=_node("m9", "user", content={"content_type": "user_editable_context", "user_profile": "x"}),
    )
]


@requirement("formats:formats.chatgpt")
def test_chatgpt_s_turns_come_in_the_order_they_were_said() -> None:
    found = read(packed({"conversations.json": CHATGPT, "user.json": "{}", "chat.html": "<html>"}))
    turns = good(found.items())
    assert (found.format, found.source) == ("chatgpt", "chatgpt")
    assert [turn["content"]["text"] for turn in turns] == [
        "Thanks",
        "Which tea is green?",
        "Sencha is green.",
    ]
    assert [turn["content"]["structured"]["role"] for turn in turns] == ["user", "user", "assistant"]
    times = [turn["provenance"]["captured_at"] for turn in turns]
    assert times == ["2023-11-14T22:13:20Z", "2023-11-14T22:15:00.500Z", "2023-11-14T22:16:40Z"]
    assert dropped(found) == {
        "content thoughts": 1,
        "content user_editable_context": 1,
        "hidden message": 1,
        "message of system": 1,
        "message of tool": 1,
        "message to a tool": 1,
        "other files of the archive": 2,
        "parts that are no text": 1,
    }
    write = writes(found.items())[1]
    assert (write.request.type, write.request.session_id) == ("episodic", "talk-1")
    assert write.request.source == "chatgpt"
    assert write.record_id == "m1"


@requirement("formats:formats.chatgpt")
def test_a_large_export_of_chatgpt_comes_in_several_files() -> None:
    spoken = {"content_type": "audio_transcription", "text": "Said aloud"}
    voice = _node("v", "user", content={"content_type": "multimodal_text", "parts": [spoken]})
    found = read(
        packed(
            {
                "export/conversations-001.json": [_talk(v=voice)],
                "export/conversations-000.json": CHATGPT,
                "__MACOSX/export/._conversations-000.json": b"\x00junk",
            }
        )
    )
    assert [turn["content"]["text"] for turn in good(found.items())][-2:] == [
        "Sencha is green.",
        "Said aloud",
    ]
    assert dropped(found)["other files of the archive"] == 1


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
                    {"type": "tool_use", "name": "search"},
                ],
            },
            {"uuid": "u3", "sender": "nobody", "text": "x"},
        ],
    }
]
REMEMBERED = {
    "conversations_memory": "**Work context**\n\nMara runs a tea shop.\n\n**Personal**\n\nMara is vegetarian.",
    "project_memories": {"project-1": "The shop opens in May.", "project-2": "", "project-3": "Unnamed."},
    "account_uuid": "a1",
}
PROJECT = {"uuid": "project-1", "name": "Shop", "prompt_template": "Be brief", "docs": []}


@requirement("formats:formats.claude")
def test_claude_s_talks_and_memories_come_in_without_its_thoughts() -> None:
    found = read(
        packed(
            {
                "conversations.json": CLAUDE,
                "memories.json": [REMEMBERED],
                "projects.json": [PROJECT],
                "users.json": [{"uuid": "a1", "email_address": "mara@example.com"}],
            }
        )
    )
    items = good(found.items())
    assert (found.format, found.source) == ("claude", "claude")
    assert [item["kind"] for item in items] == ["conversation_turn"] * 2 + ["summary"] * 4
    assert items[1]["content"]["text"] == "Sencha."
    assert items[1]["provenance"]["captured_at"] == "2026-01-01T00:00:00Z", "the talk's, where it has none"
    assert "secret thoughts" not in json.dumps(items)
    assert "mara@example.com" not in json.dumps(items)
    assert items[2]["content"]["text"] == "**Work context**\n\nMara runs a tea shop."
    assert [item.get("subject_entity_id") for item in items[4:]] == ["Shop", "project-3"]
    assert dropped(found) == {
        "attachments": 1,
        "message of nobody": 1,
        "other files of the archive": 1,
        "part thinking": 1,
        "part tool_use": 1,
        "projects' instructions and documents": 1,
    }
    summary = writes(found.items())[4]
    assert summary.request.type == "semantic"
    assert summary.request.tags == ("kind:summary",)


@requirement("formats:formats.claude")
def test_claude_s_newer_archives_have_a_file_for_each_account_and_project() -> None:
    found = read(
        packed(
            {
                "memories/a1.json": {**REMEMBERED, "memory_files": [{"path": "/x"}]},
                "projects/project-1.json": PROJECT,
            }
        )
    )
    items = good(found.items())
    assert found.format == "claude"
    assert [item.get("subject_entity_id") for item in items] == [None, None, "Shop", "project-3"]
    assert dropped(found) == {"memory_files": 1, "projects' instructions and documents": 1}


@requirement("formats:formats.detection")
@pytest.mark.parametrize(
    ("data", "format_"),
    [(CHATGPT, "chatgpt"), (CLAUDE, "claude"), ([REMEMBERED], "claude"), (REMEMBERED, "claude")],
)
def test_a_bare_document_is_known_by_what_is_in_it(data: object, format_: FormatName) -> None:
    found = read(data)
    assert found.format == format_
    assert len(good(found.items())) >= 2


@requirement("formats:import.limits")
@pytest.mark.parametrize("data", [CHATGPT, CLAUDE])
def test_a_file_that_is_cut_short_is_refused_where_it_ends(data: object) -> None:
    text = json.dumps(data, indent=1)
    for cut in (2, len(text) // 2):
        with pytest.raises(QuipuError) as refused:
            list(read(text[:-cut]).items())
        assert refused.value.reason in ("bad_json", "unknown_format")


@requirement("formats:import.limits")
def test_a_conversation_that_is_not_utf_8_ends_the_file_with_a_stable_word() -> None:
    broken = json.dumps(CHATGPT * 2, ensure_ascii=False).encode().replace(b"Thanks", b"T\xff\xfe", 1)
    with pytest.raises(QuipuError) as refused:
        list(read(broken, "chatgpt").items())
    assert refused.value.reason == "bad_encoding"


@requirement("formats:import.limits")
def test_one_conversation_that_cannot_be_read_leaves_the_others() -> None:
    twice = '{"title": 1, "title": 2, "mapping": {}}'
    data = f"[{json.dumps(CHATGPT[0])}, {twice}, {json.dumps(CHATGPT[0])}]"
    assert reasons(read(data).items()) == [None] * 3 + ["duplicate_key"] + [None] * 3
