"""Tokens and webhooks with words that nobody has: told in our words, and by `verify` too."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from quipu import BackendUnavailableError, Memory


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("""UPDATE token SET permissions = '["memory:fly"]'""", "Token"),
        ("""UPDATE webhook SET events = '["flown"]'""", "Webhook"),
    ],
)
async def test_an_unknown_word_is_told_as_damage(statement: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    async with Memory("ana", file, embedder="none") as memory:
        await memory.create_token("writer", roles=["agent"])
        await memory.add_webhook("https://hooks.example.org/x")
    with sqlite3.connect(file) as database:
        database.execute(statement)
    database.close()
    async with Memory("ana", file, embedder="none") as memory:
        with pytest.raises(BackendUnavailableError) as refused:
            await (memory.list_tokens() if what == "Token" else memory.list_webhooks())
        assert refused.value.reason == "corrupt"
        assert refused.value.message.startswith(what)
        assert "damaged_file" in {fault.kind for fault in (await memory.verify()).faults}
