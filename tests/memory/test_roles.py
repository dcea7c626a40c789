"""What is remembered is embedded as a document, what is asked as a query."""

from collections.abc import Sequence

from quipu import Memory
from quipu.config import Settings
from quipu.embed.port import Role
from quipu.testing.embedders import WordEmbedder


async def test_the_embedder_is_told_which_texts_are_queries() -> None:
    seen: list[tuple[Role, str]] = []

    class Listening(WordEmbedder):
        async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
            seen.extend((role, text) for text in texts)
            return await super().embed(texts, role)

    async with Memory(agent_id="agent", stores=":memory:", embedder=Listening(), config=Settings()) as memory:
        await memory.remember("Mara is vegetarian")
        await memory.remember_many([{"content": "Tom plays the cello"}])
        await memory.recall("What does Mara eat?")
    roles = [(text, role) for role, text in seen]
    assert ("someone is vegetarian", "document") in roles
    assert ("someone plays the cello", "document") in roles
    assert [text for text, role in roles if role == "query"] == ["What does someone eat?"]
