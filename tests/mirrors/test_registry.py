"""From a place to its adapter: names, parameters, what is refused, and that no credential is shown."""

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from quipu import InvalidError, Memory
from quipu.bootstrap import other_memories
from quipu.config import Settings
from quipu.errors import UnsupportedError
from quipu.mirrors import registry
from quipu.mirrors.registry import adapter_at, addresses, is_ledger
from quipu.sync import Memory as BlockingMemory
from tests.mirrors.shelf import ShelfBackend


def opened(place: Any, folder: Path = Path("nowhere")) -> Any:
    return adapter_at(place, folder=folder, open_memory=other_memories(Settings()))


def test_mirrors_are_named_after_their_schemes_and_repeats_are_counted() -> None:
    store = Memory(stores=":memory:")
    places = [
        "./a.db",
        "https://a.example",
        "sqlite:///b.db",
        "https://b.example?name=b",
        store,
        "https://c.example",
    ]
    found = addresses(places, taken=["sqlite"])
    assert [one.name for one in found] == ["sqlite-2", "https", "sqlite-3", "b", "store", "https-2"]
    assert found[4].store is store


def test_our_parameters_are_ours_and_the_others_stay_in_the_url() -> None:
    url = "postgresql://u:pw@h/db?weight=0.5&deadline_ms=1500&sslmode=require&contents=own&python=/opt/python"
    (one,) = addresses([url])
    assert (one.weight, one.deadline_ms, one.contents, one.python) == (0.5, 1500, "own", "/opt/python")
    assert one.url == "postgresql://u:pw@h/db?sslmode=require"
    assert one.parameters == {"sslmode": "require"}


def test_no_credential_is_shown() -> None:
    (one,) = addresses(["postgresql://u:hunter2@h/db?password=hunter2"])
    assert one.shown == "postgresql://h/db"
    assert "hunter2" not in repr(one)


@pytest.mark.parametrize(
    "place",
    [
        "nothing://hunter2",
        "hunter2!://x",
        "https://h?weight=hunter2",
        "https://h?weight=-1",
        "https://h?weight=nan",
        "https://h?deadline_ms=5",
        "https://h?contents=hunter2",
        "https://h?name=hunter2%20x",
        "https://h?name=taken",
        "https://h?other=hunter2",
        "http://elsewhere.example/?name=x",
        "quipu+http://:hunter2@elsewhere.example",
    ],
)
def test_a_place_that_is_none_is_refused_and_not_repeated(place: str) -> None:
    with pytest.raises(InvalidError) as refused:
        opened(addresses([place], taken=["taken"])[0])
    said = f"{refused.value} {refused.value.hint} {refused.value.faults}"
    assert "hunter2" not in said.replace("nothing", "")
    assert refused.value.faults or refused.value.hint, "what would be accepted"


def test_what_blocks_or_speaks_something_else_is_refused() -> None:
    with pytest.raises(InvalidError, match="cannot be a mirror"):
        opened(object())
    with BlockingMemory(stores=":memory:") as blocking, pytest.raises(InvalidError, match="blocks"):
        opened(blocking)


@pytest.mark.parametrize(
    ("place", "answer"),
    [
        ("a.db", True),
        ("sqlite:///a.db", True),
        ("pgvector://h/db", True),
        ("https://h", False),
        (object(), False),
    ],
)
def test_where_a_ledger_can_be_opened(place: object, answer: bool) -> None:
    assert is_ledger(place) is answer


def test_other_packages_offer_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Point:
        name = "shelf"

        def load(self) -> Any:
            return lambda setup: (made.append(setup), ShelfBackend())[1]

    class Broken(Point):
        name = "broken"

        def load(self) -> Any:
            raise ImportError("no module named hunter2")

    monkeypatch.setattr(
        metadata, "entry_points", lambda group: [Point(), Broken()] * (group == registry.GROUP)
    )
    assert isinstance(opened("shelf://somewhere?depth=3"), ShelfBackend)
    assert (made[0].name, made[0].url, made[0].parameters) == (
        "shelf",
        "shelf://somewhere?depth=3",
        {"depth": "3"},
    )
    with pytest.raises(UnsupportedError) as missing:
        opened("broken://x")
    assert missing.value.reason == "missing_extra"
