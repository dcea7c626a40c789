"""A LangChain chat history kept as memories: it survives a restart, and can be found, reviewed and erased as such.

memory = quipu.sync.Memory("assistant")
chain = RunnableWithMessageHistory(model, lambda session: QuipuChatMessageHistory(memory, session))
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from quipu import sync
from quipu.integrations.conversation_log import ConversationLog, Said

if TYPE_CHECKING:  # the package is the user's, and what it hands over is as untyped here as JSON would be
    _messages: Any = None
    _Base: Any = object
else:
    _messages = import_module("langchain_core.messages")
    _Base = import_module("langchain_core.chat_history").BaseChatMessageHistory


class QuipuChatMessageHistory(_Base):
    """The messages of one session, each an episodic memory. The memory is not closed with it."""

    def __init__(self, memory: sync.Memory, session_id: str, *, user_id: str | None = None) -> None:
        self._log = ConversationLog(memory, session_id, user_id=user_id)

    @property
    def messages(self) -> list[Any]:
        """Oldest first, as they were added."""
        return _messages.messages_from_dict(self._log.messages())

    def add_messages(self, messages: Sequence[Any]) -> None:
        """Keep them side by side, in order; where one is refused, none is kept."""
        self._log.add([_said(message) for message in messages])

    def clear(self) -> None:
        """Forget the session's messages; `restore` brings them back."""
        self._log.clear()


def _said(message: Any) -> Said:
    text = str(message.text).strip() or str(message.type)
    source = "user" if message.type == "human" else "agent"
    return Said(text, source, _messages.message_to_dict(message))
