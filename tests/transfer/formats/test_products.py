"""Files of other memories: what they say comes in, and what has no place is counted."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.sharing.items import Landing, write_of
from quipu.transfer.formats import letta
from quipu.transfer.formats.loss import Loss
from tests.requirement import requirement
from tests.transfer.formats.shelf import (
    AT,
    dropped,
    good,
    items_of,
    packed,
    read,
    reasons,
    record,
    unpacked,
    writes,
    written,
)

ITEMS = items_of(
    record(1, tags=("food", "Ümlaut"), metadata={"oap_kind": "preference", "structured": {"a": 1}}),
    record(2, tags=("kind:summary",), confidence=0.5, source="chat", user_id="mara"),
    record(3, type="episodic", content="Moved desks", metadata={"scope_id": "work"}),
    record(4, importance=0.5, session_id="s1"),
    record(5, expires_at=1_900_000_000_000),
)

# -- mem0 -------------------------------------------------------------------------------------------------------------

MEM0 = {
    "results": [
        {
            "id": "0bd9c1de-0d3c-4f4b-8a3e-2f1d9a3f1a11",
            "memory": "Likes green tea",
            "hash": "5f2b",
            "metadata": {"category": "preference", "room": "kitchen"},
            "created_at": "2025-03-04T05:06:07.123456-08:00",
            "updated_at": "2025-03-05T05:06:07-08:00",
            "user_id": "mara",
            "run_id": "r1",
            "role": "user",
            "score": 0.3,
        },
        {"id": "b", "memory": "Lives in Utrecht", "categories": ["home"], "expiration_date": None},
    ],
    "relations": [{"source": "mara", "relationship": "likes", "target": "tea"}],
}


@requirement("formats:formats.mem0")
def test_mem0_s_answer_comes_in_with_its_owner_and_times() -> None:
    found = read(MEM0)
    assert (found.format, found.source, found.belief) == ("mem0", "mem0", 0.7)
    first, second = writes(found.items())
    assert (first.request.content, first.request.user_id, first.request.session_id) == (
        "Likes green tea",
        "mara",
        "r1",
    )
    assert first.request.metadata == {
        "room": "kitchen",
        "oap_kind": "preference",
        "foreign": {"mem0": {"role": "user"}},
    }
    assert first.captured_at == first.created_at == 1_741_093_567_123
    assert first.updated_at == 1_741_179_967_000
    assert second.request.tags == ("home",)
    assert dropped(found) == {"hash": 1, "relations": 1, "score": 1}
    for bare in (MEM0["results"], {"memories": MEM0["results"]}):
        assert len(good(read(bare).items())) == 2


@requirement("formats:formats.mem0")
def test_what_is_written_for_mem0_comes_back_less_what_the_report_names() -> None:
    loss = Loss()
    found = read(written("mem0", ITEMS, loss))
    items = good(found.items())
    for name in ("item_id", "labels"):
        assert [item[name] for item in items] == [item[name] for item in ITEMS]
    assert [item["content"]["text"] for item in items] == [item["content"]["text"] for item in ITEMS]
    assert items[1]["extensions"]["quipu"]["user_id"] == "mara"
    report = loss.report()
    assert {one.field: one.count for one in report.dropped} == {
        "confidence": 1,
        "expires_at": 1,
        "importance": 1,
        "source": 1,
        "store": 5,
        "structured": 1,
    }
    assert {(one.origin, one.to) for one in report.mapped} == {
        ("kind observation", "memory"),
        ("kind summary", "memory"),
    }


# -- Letta ------------------------------------------------------------------------------------------------------------

AGENT_FILE: dict[str, Any] = {
    "agents": [
        {
            "id": "agent-0",
            "name": "Tea",
            "system": "You are a shop assistant.",
            "block_ids": ["block-0"],
            "tool_ids": ["tool-0"],
            "tool_exec_environment_variables": {"API_KEY": "hunter2"},
            "in_context_message_ids": [],
            "messages": [
                {
                    "id": "message-0",
                    "role": "system",
                    "content": "You are...",
                    "created_at": "2025-01-01T00:00:00Z",
                },
                {
                    "id": "message-1",
                    "role": "user",
                    "content": [{"type": "text", "text": "Which tea?"}, {"type": "image"}],
                    "created_at": "2025-01-01T00:00:01Z",
                },
                {"id": "message-2", "role": "assistant", "content": "Sencha.", "tool_calls": [{"id": "x"}]},
                {"id": "message-3", "role": "assistant", "content": None, "tool_calls": [{"id": "y"}]},
                {"id": "message-4", "role": "tool", "content": "ok"},
            ],
        }
    ],
    "groups": [],
    "blocks": [
        {
            "id": "block-0",
            "label": "human",
            "value": "Mara runs a tea shop.",
            "limit": 5000,
            "description": "User",
        },
        {"id": "block-1", "label": "stock", "value": "Twelve teas.", "limit": 5000},
        {"id": "block-2", "label": "empty", "value": ""},
    ],
    "files": [
        {"id": "file-0", "file_name": "menu.pdf", "file_type": "application/pdf", "content": "Teas: ..."}
    ],
    "sources": [{"id": "source-0", "name": "Menus", "description": "All menus"}],
    "tools": [{"id": "tool-0", "source_code": "import os"}],
    "mcp_servers": [{"id": "mcp-0", "server_name": "x"}],
    "skills": [],
    "metadata": {"revision_id": "abc"},
    "created_at": "2025-01-01T00:00:00Z",
}


@requirement("formats:formats.letta")
def test_an_agent_file_gives_blocks_turns_and_references_and_no_tools() -> None:
    found = read(AGENT_FILE)
    assert (found.format, found.source) == ("letta", "letta")
    items = good(found.items())
    assert [(item["kind"], item["content"]["text"]) for item in items] == [
        ("conversation_turn", "Which tea?"),
        ("conversation_turn", "Sencha."),
        ("summary", "Mara runs a tea shop."),
        ("fact", "Twelve teas."),
        ("fact", ""),
        ("document_reference", "Document: menu.pdf"),
        ("document_reference", "Document: Menus"),
    ]
    assert items[0]["content"]["structured"] == {"role": "user", "agent": "Tea"}
    assert items[2]["labels"] == ["human"]
    text = json.dumps(items)
    assert not any(word in text for word in ("hunter2", "import os", "shop assistant"))
    assert dropped(found) == {
        "content of a file": 1,
        "mcp_servers": 1,
        "message of system": 1,
        "message of tool": 1,
        "part image": 1,
        "system prompt of an agent": 1,
        "tool calls": 2,
        "tools": 1,
    }


@requirement("formats:formats.letta")
def test_letta_s_passages_and_older_files_come_in() -> None:
    passages = [
        {
            "id": "passage-1",
            "text": "The shop opens in May.",
            "tags": ["shop"],
            "archive_id": "archive-1",
            "embedding": [0.0] * 4096,
            "metadata": {"room": "kitchen"},
            "created_at": "2025-01-01T00:00:00Z",
        }
    ]
    for data in (
        passages,
        {"passages": passages},
        {"agents": [{"name": "Tea", "block_ids": [], "passages": passages}]},
    ):
        found = read(data)
        assert found.format == "letta"
        (write,) = writes(found.items())
        assert (write.request.content, write.request.tags) == ("The shop opens in May.", ("shop",))
        assert write.record_id == "passage-1"
        assert dropped(found) == {"embedding": 1}
    older = {
        "agent_type": "memgpt_agent",
        "core_memory": [{"label": "persona", "value": "I am kind."}],
        "messages": [{"role": "user", "text": "Hello", "timestamp": "2025-01-01T00:00:00Z"}],
    }
    assert [item["kind"] for item in good(read(older).items())] == ["summary", "conversation_turn"]


@requirement("formats:formats.letta")
def test_blocks_hold_what_they_have_room_for() -> None:
    loss = Loss()
    long = [record(number, content=f"{number} " + "z" * 9_000, tags=("shop",)) for number in range(1, 6)]
    data = written("letta", items_of(*long, record(6), record(7, content="y" * 20_001)), loss)
    blocks = json.loads(data)["blocks"]
    assert [(block["label"], len(block["value"])) for block in blocks] == [
        ("shop", 18_005),
        ("shop_2", 18_005),
        ("memory", 6),
        ("shop_3", 9_002),
    ]
    assert {one.field: one.count for one in loss.report().dropped}["text beyond a block's limit"] == 1
    found = read(data)
    assert found.format == "letta"
    assert sum(item["content"]["text"].count("z") for item in good(found.items())) == 45_000


def test_more_labels_than_can_be_open_are_written_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letta, "_MOST_OPEN", 3)
    given_ = [record(number, tags=(f"tag {number % 7}",)) for number in range(1, 30)]
    blocks = json.loads(written("letta", items_of(*given_)))["blocks"]
    assert len({block["label"] for block in blocks}) == len(blocks)
    said = [line for block in blocks for line in block["value"].split("\n")]
    assert sorted(said) == sorted(f"fact {number}" for number in range(1, 30))


# -- LangGraph --------------------------------------------------------------------------------------------------------

UUID = "0bd9c1de-0d3c-4f4b-8a3e-2f1d9a3f1a11"
STORED = [
    {
        "namespace": ["memories", "mara"],
        "key": UUID,
        "value": {"kind": "Memory", "content": {"content": "Likes green tea"}},
        "created_at": "2025-03-04T05:06:07+00:00",
        "updated_at": "2025-03-05T05:06:07+00:00",
        "score": None,
    },
    {"namespace": ["profile"], "key": "mara", "value": {"name": "Mara", "town": "Utrecht"}, "score": 0.5},
    {"namespace": ["notes"], "key": "n", "value": {"text": "Opens in May", "room": 2}},
    {"prefix": "notes.shop", "key": "s", "value": '{"data": "Twelve teas"}', "expires_at": None},
    {"namespace": ["notes"], "key": "bad", "value": "{"},
]


@requirement("formats:formats.langgraph")
def test_items_of_a_langgraph_store_come_in_with_their_names() -> None:
    for data in (STORED, {"items": STORED}):
        found = read(data)
        assert (found.format, found.source) == ("langgraph", "langgraph")
        assert reasons(found.items()) == [None, None, None, None, "bad_json"]
        memory, profile, note, row = writes(pair for pair in found.items() if isinstance(pair[1], dict))
        assert (memory.record_id, memory.request.content) == (UUID, "Likes green tea")
        assert memory.captured_at == 1_741_064_767_000
        assert memory.updated_at == 1_741_151_167_000
        assert memory.request.metadata == {
            "foreign": {"langgraph": {"namespace": ["memories", "mara"], "key": UUID}}
        }
        assert profile.request.content == "name: Mara\ntown: Utrecht"
        assert (profile.record_id, note.record_id, row.record_id) == (
            "profile/mara",
            "notes/n",
            "notes/shop/s",
        )
        assert note.request.metadata is not None
        assert note.request.metadata["structured"] == {"room": 2}
        assert row.request.content == "Twelve teas"
        assert dropped(found) == {"score": 1}


# -- Graphiti ---------------------------------------------------------------------------------------------------------

GRAPH = {
    "edges": [
        {
            "uuid": "edge-1",
            "group_id": "g1",
            "source_node_uuid": "node-1",
            "target_node_uuid": "node-2",
            "name": "LIVES_IN",
            "fact": "Mara lives in Utrecht",
            "fact_embedding": [0.1],
            "episodes": ["episode-1"],
            "created_at": "2025-03-04T05:06:07Z",
            "valid_at": "2025-01-01T00:00:00Z",
            "invalid_at": "2025-06-01T00:00:00Z",
            "expired_at": "2025-06-02T00:00:00Z",
        },
        {
            "uuid": "edge-2",
            "source_node_uuid": "node-1",
            "target_node_uuid": "?",
            "name": "LIKES",
            "expired_at": 1_750_000_000,
        },
        {
            "uuid": "edge-3",
            "fact": "Odd times",
            "source_node_uuid": "a",
            "target_node_uuid": "b",
            "valid_at": "2025-06-01T00:00:00Z",
            "invalid_at": "2025-01-01T00:00:00Z",
        },
    ],
    "episodes": [
        {
            "uuid": "episode-1",
            "name": "Chat",
            "source": "message",
            "content": "Mara: hello",
            "valid_at": "2025-03-04T00:00:00Z",
        },
        {"uuid": "episode-2", "source": "text", "content": "A note", "source_description": "notebook"},
    ],
    "nodes": [
        {
            "uuid": "node-1",
            "name": "Mara",
            "labels": ["Entity", "Person"],
            "summary": "Runs a tea shop",
            "name_embedding": [0.1],
        },
        {"uuid": "node-2", "name": "Utrecht", "labels": ["Entity"], "summary": ""},
    ],
    "sagas": [{"uuid": "s"}],
}


@requirement("formats:formats.graphiti")
def test_edges_are_facts_with_the_time_in_which_they_are_true() -> None:
    found = read(GRAPH)
    assert (found.format, found.source) == ("graphiti", "graphiti")
    lives, likes, odd, said, note, mara = writes(found.items())
    assert lives.request.content == "Mara lives in Utrecht"
    assert (lives.request.valid_from, lives.request.valid_until) == (1_735_689_600_000, 1_748_736_000_000)
    assert lives.request.metadata is not None
    assert lives.request.metadata["structured"] == {
        "subject": "Mara",
        "relation": "LIVES_IN",
        "object": "Utrecht",
        "episodes": ["episode-1"],
    }
    assert lives.request.metadata["subject_entity_id"] == "Mara"
    assert lives.request.metadata["foreign"] == {"graphiti": {"group_id": "g1"}}
    assert (likes.request.content, likes.request.valid_until) == ("Mara LIKES ?", 1_750_000_000_000)
    assert (odd.request.valid_from, odd.request.valid_until) == (None, 1_735_689_600_000)
    assert (said.request.type, said.captured_at) == ("episodic", 1_741_046_400_000)
    assert note.request.type == "episodic"
    assert (mara.request.content, mara.request.tags) == ("Mara: Runs a tea shop", ("Person", "kind:summary"))
    assert dropped(found) == {
        "fact_embedding": 1,
        "name_embedding": 1,
        "sagas": 1,
        "valid_at after invalid_at": 1,
    }
    assert read(GRAPH["edges"]).format == "graphiti"
    assert read({"episodes": GRAPH["episodes"]}).format == "graphiti"


# -- COGX -------------------------------------------------------------------------------------------------------------


def lines(*bodies: Any) -> str:
    return "".join(json.dumps(body) + "\n" for body in bodies)


def cogx(**files: Any) -> bytes:
    manifest = {"cogx_version": "0.1", "source_system": "cognee", "counts": {}, "notes": []}
    return packed(
        {"manifest.json": manifest, **{name.replace("__", "."): data for name, data in files.items()}}
    )


COGX = cogx(
    memories__jsonl=lines(
        {
            "kind": "memory",
            "external_system": "mem0",
            "external_id": "m1",
            "content": "Likes green tea",
            "categories": ["Preference"],
            "scope": {"user_id": "mara", "agent_id": "tea", "run_id": "r1"},
            "created_at": "2025-03-04T05:06:07Z",
            "updated_at": "2025-03-05T05:06:07Z",
            "metadata": {"room": "kitchen"},
        }
    ),
    memory_blocks__jsonl=lines(
        {"kind": "memory_block", "external_id": "b1", "label": "human", "value": "Mara", "limit": 9}
    ),
    documents__jsonl=lines({"kind": "document", "external_id": "d1", "content": "The menu", "title": "Menu"}),
    episodes__jsonl=lines(
        {
            "kind": "episode",
            "external_id": "e1",
            "title": "Chat",
            "turns": [
                {"role": "user", "content": "Hello", "occurred_at": "2025-03-04T00:00:00Z"},
                {"role": "episode", "content": "A note"},
            ],
        }
    ),
    entities__jsonl=lines(
        {
            "kind": "entity",
            "external_id": "n1",
            "name": "Mara",
            "entity_type": "Person",
            "description": "Runs a shop",
        },
        {"kind": "entity", "external_id": "n2", "name": "Utrecht"},
    ),
    facts__jsonl=lines(
        {
            "kind": "fact",
            "external_id": "f1",
            "subject_ref": "n1",
            "predicate": "lives_in",
            "object_ref": "n2",
            "valid_at": "2025-01-01T00:00:00Z",
            "invalid_at": "2025-06-01T00:00:00Z",
            "confidence": 0.5,
        },
        {
            "kind": "fact",
            "external_id": "f2",
            "subject_ref": "chunk",
            "predicate": "contains",
            "object_ref": "n1",
        },
        {
            "kind": "fact",
            "external_id": "f3",
            "subject_ref": "x",
            "predicate": "p",
            "object_ref": "y",
            "fact_text": "Said so",
        },
        5,
    ),
    nodes__jsonl=lines({"id": "chunk"}, {"id": "type"}),
    permissions__json={"owner": {"email": "mara@example.com", "hashed_password": "hunter2"}},
)


@requirement("formats:formats.cogx")
def test_an_archive_of_cognee_comes_in_without_accounts() -> None:
    found = read(COGX)
    assert (found.format, found.source) == ("cogx", "cogx")
    found_items = list(found.items())
    memory, block, document, hello, note, mara, lives, said = writes(
        pair for pair in found_items if isinstance(pair[1], dict) and pair[1]["item_id"] is not None
    )
    assert (memory.request.agent_id, memory.request.user_id, memory.request.session_id) == (
        "tea",
        "mara",
        "r1",
    )
    assert memory.request.metadata == {
        "room": "kitchen",
        "oap_kind": "preference",
        "foreign": {"cogx": {"external_system": "mem0"}},
    }
    assert memory.updated_at == 1_741_151_167_000
    assert block.request.tags == ("human", "kind:summary")
    assert document.request.tags == ("kind:document_reference",)
    assert (hello.record_id, hello.request.session_id, hello.captured_at) == ("e1:0", "e1", 1_741_046_400_000)
    assert (note.request.type, note.request.metadata and "oap_kind" in note.request.metadata) == (
        "episodic",
        False,
    )
    assert mara.request.content == "Mara: Runs a shop"
    assert (lives.request.content, lives.request.confidence) == ("Mara lives in Utrecht", 0.5)
    assert (lives.request.valid_from, lives.request.valid_until) == (1_735_689_600_000, 1_748_736_000_000)
    assert said.request.content == "Said so"
    assert "hunter2" not in repr(found_items)
    assert dropped(found) == {
        "entities without a description": 1,
        "facts between unnamed nodes": 1,
        "nodes of the graph": 2,
        "permissions.json": 1,
    }


@requirement("formats:formats.cogx")
def test_an_archive_of_another_version_or_with_bad_lines_is_told_as_such() -> None:
    with pytest.raises(InvalidError) as refused:
        list(read(packed({"manifest.json": {"cogx_version": "1.0"}})).items())
    assert refused.value.reason == "unsupported_version"
    with pytest.raises(InvalidError) as none:
        list(read(packed({"x.json": {}}), "cogx").items())
    assert none.value.reason == "bad_file"
    torn = cogx(memories__jsonl=b'{"a": \n\xff\xfe\n{"content": "tea"}\n', entities__jsonl=b"{\n")
    assert reasons(read(torn).items()) == ["bad_json", "bad_encoding", None, "bad_json"]
    folder = packed(
        {"out/manifest.json": {"cogx_version": "0.1"}, "out/memories.jsonl": lines({"content": "tea"})}
    )
    assert len(good(read(folder).items())) == 1


# -- OAP --------------------------------------------------------------------------------------------------------------

OAP_ITEM = {
    "item_id": "mem_1",
    "owner_did": "did:web:user.example",
    "scope_id": "work",
    "kind": "preference",
    "content": {"text": "Likes tea", "structured": {"hot": True}},
    "provenance": {"captured_at": "2025-05-01T14:00:00Z", "confidence": 0.9},
    "labels": ["tea"],
    "exportable": True,
    "integrity": {"v": 1},
}


@requirement("formats:formats.oap")
@pytest.mark.parametrize(
    "data",
    [
        [OAP_ITEM],
        {"items": [OAP_ITEM]},
        {"status": "ok", "output": {"items": [OAP_ITEM]}},
        json.dumps(OAP_ITEM) + "\n",
    ],
    ids=["list", "object", "answer", "line"],
)
def test_items_come_in_however_they_are_wrapped(data: Any) -> None:
    found = read(data)
    assert (found.format, found.source) == ("oap", "oap")
    (write,) = writes(found.items(), most_confidence=found.belief)
    assert (write.record_id, write.request.content, write.request.confidence) == ("mem_1", "Likes tea", 0.7)
    assert write.request.tags == ("tea",)
    assert dropped(found)["integrity"] == 1


@requirement("formats:formats.oap")
def test_an_item_that_was_lent_is_refused() -> None:
    lent = {**OAP_ITEM, "provenance_tags": [{"received_under": "grant:g1"}]}
    data = f"{json.dumps(OAP_ITEM)}\n{json.dumps(lent)}\n{{\n"
    assert reasons(read(data).items()) == [None, "under_grant", "bad_json"]


# -- whatever they say ------------------------------------------------------------------------------------------------

_ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.sampled_from(
        ["", "x", "text", "user", "assistant", "human", "2025-01-01", "9" * 30, "\x00", "é", "a" * 300]
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["text", "content", "type", "x"]), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
_SHAPES: dict[str, Any] = {
    "mem0": MEM0,
    "letta": AGENT_FILE,
    "langgraph": STORED,
    "graphiti": GRAPH,
    "oap": [OAP_ITEM],
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, one in inner for place in _places(one, (*path, name)))]


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {**value, path[0]: _with(value[path[0]], path[1:], new)}
    return [_with(one, path[1:], new) if place == path[0] else one for place, one in enumerate(value)]


@requirement("formats:import.limits")
@pytest.mark.parametrize("name", _SHAPES)
@given(data=st.data())
def test_a_file_with_anything_at_one_place_is_read_or_refused_in_words(
    name: Any, data: st.DataObject
) -> None:
    shape = _SHAPES[name]
    path = data.draw(st.sampled_from(_places(shape)))
    odd = json.dumps(_with(shape, path, data.draw(_ODD)))
    _refused_or_written(odd.encode(), name)


@requirement("formats:import.limits")
@given(data=st.data())
def test_an_archive_with_anything_in_its_lines_is_read_or_refused_in_words(data: st.DataObject) -> None:
    files = unpacked(COGX)
    name = data.draw(st.sampled_from(sorted(one for one in files if one.endswith("l"))))
    bodies = [json.loads(line) for line in files[name].splitlines()]
    path = data.draw(st.sampled_from(_places(bodies)[1:]))
    changed = _with(bodies, path, data.draw(_ODD))
    _refused_or_written(packed({**files, name: lines(*changed)}), "cogx")


def _refused_or_written(data: bytes, name: Any) -> None:
    """Nothing but InvalidError with a reason may come of it, also where items become writes."""
    try:
        found = read(data, name)
        for _, item in found.items():
            if isinstance(item, dict):
                with contextlib.suppress(InvalidError):
                    write_of(item, Landing(agent_id="here", source=name, now=AT))
            else:
                assert item.reason
        found.loss.report().model_dump_json()
    except InvalidError as error:
        if error.reason is None:
            raise
