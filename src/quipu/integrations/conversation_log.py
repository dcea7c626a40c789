"""The messages of one conversation, each of them one memory, in the order in which they were said."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from quipu import sync
from quipu.errors import ConflictError
from quipu.integrations.records import every
from quipu.memory.model import RecordView

#: Where it is said in the metadata that a memory is a message of a chain.
_KEY = "langchain"
_PAGE = 1000
#: Whose turn it is: a call of a tool and its answer stay side by side, though every request has a log of its own.
_writing: WeakKeyDictionary[sync.Memory, Lock] = WeakKeyDictionary()
_making = Lock()


@dataclass(frozen=True, slots=True)
class Said:
    """One message: its text, who said it, and the whole of it as JSON."""

    text: str
    source: str
    whole: dict[str, Any]


class ConversationLog:
    """Adds and reads the messages of a conversation."""

    def __init__(self, memory: sync.Memory, session_id: str, *, user_id: str | None = None) -> None:
        self._memory, self._session_id, self._user_id = memory, session_id, user_id
        with _making:
            self._turn = _writing.setdefault(memory, Lock())

    def messages(self) -> list[dict[str, Any]]:
        """Oldest first, as they were added."""
        # Two processes that wrote at once may have given one turn twice: then the older memory comes first.
        records = sorted(self._records(), key=lambda record: (self._place(record), record.id))
        return [record.metadata[_KEY]["message"] for record in records]

    def add(self, messages: Sequence[Said]) -> None:
        """Keep them side by side, in order. ConflictError where they have to wait for a person."""
        with self._turn:
            first = 1 + max(map(self._place, self._records()), default=0)
            items = [self._item(first + place, message) for place, message in enumerate(messages)]
            for start in range(0, len(items), _PAGE):
                if self._memory.remember_many(items[start : start + _PAGE], atomic=True).is_held:
                    raise ConflictError(
                        "The messages wait for approval and are not in the history yet.",
                        reason="waits_for_approval",
                    )

    def _item(self, turn: int, message: Said) -> dict[str, Any]:
        return {
            "type": "episodic",
            "content": message.text,
            "user_id": self._user_id,
            "session_id": self._session_id,
            "source": message.source,
            "metadata": {_KEY: {"turn": turn, "message": message.whole}},
        }

    def clear(self) -> None:
        """Forget them; `restore` brings them back."""
        ids = [record.id for record in self._records()]
        for start in range(0, len(ids), _PAGE):
            self._memory.forget(ids=ids[start : start + _PAGE], reason="The conversation was cleared.")

    def _place(self, record: RecordView) -> int:
        turn: int = record.metadata[_KEY]["turn"]
        return turn

    def _records(self) -> list[RecordView]:
        is_message = {f"metadata.{_KEY}.turn": {"$gte": 1}}
        return every(self._memory, session_id=self._session_id, user_id=self._user_id, filter=is_message)
