"""A LangChain chat history kept as records: it survives a restart, and can be found, reviewed and erased as such.

    history = QuipuChatMessageHistory(quipu.sync.Memory(agent_id="assistant"), session_id="thread-7")
    chain = RunnableWithMessageHistory(model, lambda session_id: QuipuChatMessageHistory(memory, session_id))

Each message is an episodic memory of its session, with the whole message in its metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from threading import Lock
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from quipu import sync
from quipu.errors import QuipuError
from quipu.model.record import MemoryType, Record

# Named at run time: the package is the user's, and what it hands over is as untyped here as JSON would be.
_messages: Any = import_module("langchain_core.messages")
BaseChatMessageHistory: Any = import_module("langchain_core.chat_history").BaseChatMessageHistory

T = TypeVar("T")
_KEY = "langchain"
_PAGE = 200
#: Whose turn it is: a call of a tool and its answer must stay side by side, and every request has a history of its own.
_writing: WeakKeyDictionary[sync.Memory, Lock] = WeakKeyDictionary()
_making = Lock()


class QuipuChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session. The memory is not closed with it."""

    def __init__(self, memory: sync.Memory, session_id: str, *, user_id: str | None = None) -> None:
        self._memory, self._session_id, self._user_id = memory, session_id, user_id
        with _making:
            self._turn = _writing.setdefault(memory, Lock())

    @property
    def messages(self) -> list[Any]:
        """Oldest first, as they were added."""
        # Two processes that wrote at once may have given one turn twice: then the older record comes first.
        records = sorted(self._records(), key=lambda record: (_kept(record)["turn"], record.id))
        said = [_kept(record)["message"] for record in records]
        return _messages.messages_from_dict(said)

    def add_messages(self, messages: Sequence[Any]) -> None:
        """Keep them side by side, in order; the first that is refused is raised."""
        with self._turn:
            self._add(messages)

    def _add(self, messages: Sequence[Any]) -> None:
        first = 1 + max((_kept(record)["turn"] for record in self._records()), default=0)
        requests: list[dict[str, Any]] = [
            {
                "type": MemoryType.EPISODIC,
                "content": message.text.strip() or message.type,
                "user_id": self._user_id,
                "session_id": self._session_id,
                "source": "user" if message.type == "human" else "agent",
                "metadata": {_KEY: {"turn": first + place, "message": _messages.message_to_dict(message)}},
            }
            for place, message in enumerate(messages)
        ]
        for some in _batched(requests):
            for answer in self._memory.remember_many(some):
                if isinstance(answer, QuipuError):
                    raise answer

    def clear(self) -> None:
        """Forget the session's messages; `restore` brings them back."""
        for ids in _batched([record.id for record in self._records()]):
            self._memory.forget(ids=ids, reason="The chat history was cleared.")

    def _records(self) -> list[Record]:
        records: list[Record] = []
        cursor = None
        while True:
            page = self._memory.list(
                session_id=self._session_id,
                user_id=self._user_id,
                filter={f"{_KEY}.turn": {"$gte": 1}},
                limit=_PAGE,
                cursor=cursor,
            )
            records += page.records
            cursor = page.next_cursor
            if cursor is None:
                return records


def _batched(items: Sequence[T]) -> list[Sequence[T]]:
    """As many at a time as one call takes."""
    return [items[start : start + _PAGE] for start in range(0, len(items), _PAGE)]


def _kept(record: Record) -> dict[str, Any]:
    return cast("dict[str, Any]", record.metadata[_KEY])
