"""A chat history of LangChain's, kept by Quipu."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from quipu import sync
from quipu.integrations.langchain import QuipuChatMessageHistory
from quipu.testing.embedders import WordEmbedder

TALK = [
    HumanMessage("What do I eat?", id="1"),
    AIMessage("", tool_calls=[{"name": "look", "args": {"for": "food"}, "id": "c1"}], id="2"),
    ToolMessage("no meat", tool_call_id="c1", id="3"),
    AIMessage("No meat.", id="4"),
]


def test_messages_come_back_as_they_were_in_their_order(memory: sync.Memory) -> None:
    history = QuipuChatMessageHistory(memory, "thread-1", user_id="mara")
    history.add_messages(TALK[:2])
    history.add_messages(TALK[2:])
    assert history.messages == TALK


def test_sessions_and_users_are_kept_apart(memory: sync.Memory) -> None:
    one, other = (QuipuChatMessageHistory(memory, name, user_id="mara") for name in ("one", "other"))
    one.add_user_message("tea")
    other.add_ai_message("coffee")
    QuipuChatMessageHistory(memory, "one", user_id="bob").add_user_message("water")
    assert [message.content for message in one.messages] == ["tea"]
    one.clear()
    assert one.messages == []
    assert [message.content for message in other.messages] == ["coffee"]
    one.clear()


def test_it_survives_a_restart(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/chat.db"
    with sync.Memory(agent_id="ana", stores=url, embedder=WordEmbedder()) as memory:
        QuipuChatMessageHistory(memory, "thread").add_messages(TALK)
    with sync.Memory(agent_id="ana", stores=url, embedder=WordEmbedder()) as memory:
        assert QuipuChatMessageHistory(memory, "thread").messages == TALK


def test_many_messages(memory: sync.Memory) -> None:
    history = QuipuChatMessageHistory(memory, "long")
    history.add_messages([HumanMessage(f"number {n}") for n in range(230)])
    assert [message.content for message in history.messages] == [f"number {n}" for n in range(230)]


def test_a_chain_of_langchain_uses_it(memory: sync.Memory) -> None:
    counting = RunnableLambda(lambda said: AIMessage(f"{len(said)} so far"))
    chain = RunnableWithMessageHistory(counting, lambda session: QuipuChatMessageHistory(memory, session))
    config = {"configurable": {"session_id": "t"}}
    chain.invoke([HumanMessage("one")], config)
    assert chain.invoke([HumanMessage("two")], config).content == "3 so far"
    assert len(QuipuChatMessageHistory(memory, "t").messages) == 4


def test_a_history_longer_than_one_call_takes_is_added_and_cleared(memory: sync.Memory) -> None:
    history = QuipuChatMessageHistory(memory, "longer")
    history.add_messages([HumanMessage(f"number {n}") for n in range(1_001)])
    assert len(history.messages) == 1_001
    history.clear()
    assert history.messages == []


def test_what_was_added_together_stays_together_however_many_add(memory: sync.Memory) -> None:
    pairs = [
        [
            AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": f"call-{n}"}]),
            ToolMessage(f"seen {n}", tool_call_id=f"call-{n}"),
        ]
        for n in range(8)
    ]

    def add(pair: list[BaseMessage]) -> None:
        QuipuChatMessageHistory(memory, "thread").add_messages(pair)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, pairs))
    said = QuipuChatMessageHistory(memory, "thread").messages
    assert len(said) == 16
    for call, answer in zip(said[::2], said[1::2], strict=True):
        assert call.tool_calls[0]["id"] == answer.tool_call_id


def test_of_two_messages_with_one_turn_the_older_comes_first(memory: sync.Memory) -> None:
    one, other = (QuipuChatMessageHistory(memory, "thread") for _ in "ab")
    nothing_yet = one._records()
    one._records = other._records = lambda: nothing_yet  # both look before either has written
    one.add_user_message("first")
    other.add_user_message("second")
    said = QuipuChatMessageHistory(memory, "thread").messages
    assert [message.content for message in said] == ["first", "second"]
