"""Addresses of vendors: what each means, what is refused, and that no credential is repeated."""

from pathlib import Path
from typing import Any

import pytest

from quipu.bootstrap import other_memories
from quipu.config import Settings
from quipu.errors import InvalidError, UnsupportedError
from quipu.mirrors.registry import VENDORS, adapter_at
from quipu.testing.embedders import WordEmbedder


def opened(url: str, *, embedder: Any = None) -> Any:
    return adapter_at(url, folder=Path("nowhere"), open_memory=other_memories(Settings()), embedder=embedder)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("letta://default", "http://127.0.0.1:8283"),
        ("letta://localhost:9", "http://localhost:9"),
        ("letta://letta.example", "https://letta.example"),
        ("letta://:pw@letta.example:444", "https://letta.example:444"),
        ("letta+http://letta.example", "http://letta.example"),
        ("letta://[::1]:9", "http://[::1]:9"),
    ],
)
def test_where_a_server_is(url: str, address: str) -> None:
    made: Any = opened(url)
    assert made._address == address


@pytest.mark.parametrize(
    "url",
    [
        "letta+http://:hunter2@letta.example",
        "letta://h:port",
        "letta://h?model=hunter2",
        "mem0://default?model=hunter2",
        "langgraph://hunter2",
        "langgraph+sqlite:///file?mode=hunter2",
        "cognee://prefix?key=hunter2",
        "graphiti://prefix?key=hunter2",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidError) as refused:
        opened(url, embedder=WordEmbedder(8))
    assert refused.value.faults
    assert "hunter2" not in f"{refused.value} {refused.value.faults}"


@pytest.mark.parametrize("scheme", [name for name in VENDORS if not name.startswith("letta")])
def test_a_vendor_that_finds_by_meaning_only_is_refused_without_an_embedder(scheme: str) -> None:
    """Letta embeds by itself."""
    with pytest.raises(UnsupportedError) as refused:
        opened(f"{scheme}://")
    assert refused.value.hint is not None
