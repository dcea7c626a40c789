"""Messages of a conversation, kept as memories. The chat history itself is tested on the real package."""

import threading
from pathlib import Path

import pytest

from quipu import sync
from quipu.errors import ConflictError
from quipu.integrations.conversation_log import ConversationLog, Said
from quipu.testing.embedders import WordEmbedder


def said(*texts: str) -> list[Said]:
    return [Said(text, "user", {"text": text}) for text in texts]


def texts(log: ConversationLog) -> list[str]:
    return [message["text"] for message in log.messages()]


def test_messages_come_back_in_their_order_and_only_those_of_the_conversation(blocking: sync.Memory) -> None:
    one, other = (ConversationLog(blocking, name, user_id="mara") for name in ("one", "other"))
    one.add(said("tea", "milk"))
    other.add(said("coffee"))
    one.add(said("sugar"))
    ConversationLog(blocking, "one", user_id="bob").add(said("water"))
    assert texts(one) == ["tea", "milk", "sugar"]
    one.clear()
    assert texts(one) == []
    assert texts(other) == ["coffee"]
    one.clear()


def test_a_message_is_found_like_any_memory(blocking: sync.Memory) -> None:
    ConversationLog(blocking, "one", user_id="mara").add(said("Mara eats no meat"))
    (hit,) = blocking.recall("who eats meat", user_id="mara")
    assert (hit.type, hit.session_id, hit.source) == ("episodic", "one", "user")


def test_it_survives_a_restart(tmp_path: Path) -> None:
    for expected in ([], ["tea"]):
        with sync.Memory("agent", tmp_path / "chat.db", embedder=WordEmbedder()) as memory:
            log = ConversationLog(memory, "one")
            assert texts(log) == expected
            log.add(said("tea"))


def test_a_conversation_longer_than_one_call_takes(blocking: sync.Memory) -> None:
    log = ConversationLog(blocking, "long")
    log.add(said(*(f"number {n}" for n in range(1_001))))
    assert texts(log) == [f"number {n}" for n in range(1_001)]
    log.clear()
    assert texts(log) == []


def test_what_was_added_together_stays_together_however_many_add(blocking: sync.Memory) -> None:
    def add(n: int) -> None:
        ConversationLog(blocking, "one").add(said(f"call {n}", f"answer {n}"))

    threads = [threading.Thread(target=add, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = texts(ConversationLog(blocking, "one"))
    assert len(found) == 16
    for call, answer in zip(found[::2], found[1::2], strict=True):
        assert call.removeprefix("call ") == answer.removeprefix("answer ")


def test_messages_that_wait_for_a_person_are_an_error(blocking: sync.Memory) -> None:
    blocking.set_rules([{"id": "ask", "effect": "hold"}])
    log = ConversationLog(blocking, "one")
    with pytest.raises(ConflictError, match="wait for approval"):
        log.add(said("tea"))
    assert texts(log) == []
