"""What a reader may not see changes nothing of what they find: not others' records, and not what came later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from quipu.ledger.search.cache import PartitionCache
from quipu.ledger.search.finding import Finder
from quipu.ledger.search.legs import Floats, Nearness
from quipu.ledger.search.partition import Partition
from quipu.ledger.search.source import Known, News, Owner, Vectors
from quipu.ledger.search.terms import Tokenizer
from quipu.model.record import Record
from quipu.model.search import Context, Found, Restriction, Scope, Search, Snapshot, WordShares
from quipu.model.value import Json

NOW, SEQ = 1_000, 10
TOKENIZER = Tokenizer()
SCOPE = Scope(tenant="t", agent_id="a", store_id="main")
TURNS = Context(previous_words=0.8, next_words=0.4, previous_vector=0.2, next_vector=0.3)
QUERY = np.array([0.5, -0.5, 0.5, 0.5], "<f4").tobytes()
WORDS = ("tea", "quay", "boat", "Mara", "Bo")

Row = dict[str, Any]


class Rows:
    """A ledger with these versions."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def news(self, owner: Owner, known: Known) -> News | None:
        if known.seq:
            return None
        told = [_told(row) for row in self._rows]
        return News(SEQ, 10_000, Vectors(1, 4, 0, "m"), is_whole=True, rows=told, deaths=(), marks=())

    def store_names(self, tenant: str) -> Mapping[str, str]:
        return {}

    def metadata(self, tenant: str, rows: Sequence[int]) -> Iterable[Mapping[str, Json]]:
        raise NotImplementedError

    def records(self, tenant: str, rows: Sequence[int]) -> Iterator[Record]:
        raise NotImplementedError

    def linked(self, tenant: str, ids: Sequence[str], seq: int) -> Mapping[str, set[str]]:
        return {}

    def nearness(self, tenant: str, partition: Partition, vectors: Vectors, query: Floats) -> Nearness:
        raise NotImplementedError


def _told(row: Row) -> tuple[Any, ...]:
    number = row["number"]
    vector = np.random.default_rng(number).standard_normal(4).astype("<f4")
    return (number, f"r{number:05}", 1, row.get("born", 1), None, row.get("expires"), number, row.get("user"),
            row.get("store", "main"), row.get("session"), "semantic", "live", 0.5, row.get("user"), None,
            row.get("moment", number), TOKENIZER.terms(row["text"]), vector.tobytes(), "a", None,
            False)  # fmt: skip


def _is_seen(row: Row) -> bool:
    expires = row.get("expires")
    is_there = row.get("born", 1) <= SEQ and row.get("store", "main") == "main"
    return is_there and (expires is None or expires > NOW)


def answer(rows: Sequence[Row], text: str) -> tuple[WordShares, Found, Any]:
    """All that a recall asks of a ledger."""
    finder, source, snapshot = Finder(PartitionCache(1 << 30)), Rows(rows), Snapshot(SEQ, NOW)
    shares = finder.word_shares(source, TOKENIZER, SCOPE, snapshot, text)
    search = Search(
        scope=SCOPE,
        snapshot=snapshot,
        restriction=Restriction(),
        text=text,
        vector=QUERY,
        model="m",
        limit=3,
        context=TURNS,
        common_from=0.1,
        names=shares.mentions,
        users=shares.users,
    )
    found = finder.search(source, TOKENIZER, search)
    seen = [f"r{row['number']:05}" for row in rows if _is_seen(row)]
    return shares, found, finder.neighbours(source, SCOPE, snapshot, seen)


def check(rows: Sequence[Row], text: str) -> None:
    seen = [row for row in rows if _is_seen(row)]
    assert answer(rows, text) == answer(seen, text)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "text": st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
                "user": st.sampled_from((None, "mara", "bo", "cy", "mara.k", "mara.l", "mara.m")),
                "session": st.sampled_from((None, "s1", "s2")),
                "born": st.sampled_from((1, 1, SEQ, SEQ + 1)),
                "store": st.sampled_from(("main", "main", "attic")),
                "expires": st.sampled_from((None, None, NOW, NOW + 1)),
                "moment": st.integers(0, 9),
            }
        ),
        min_size=1,
        max_size=24,
    ),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
)
def test_what_is_found_is_what_is_found_among_the_seen_alone(rows: list[Row], text: str) -> None:
    numbered = [{**row, "number": number} for number, row in enumerate(rows, start=1)]
    check(numbered, text)


def test_turns_stay_neighbours_however_many_came_between_them_later() -> None:
    later = [
        {"number": 10 + place, "text": "boat", "session": "s1", "born": SEQ + 1, "moment": 1}
        for place in range(40)
    ]
    rows = [
        {"number": 1, "text": "tea", "session": "s1", "moment": 0},
        {"number": 2, "text": "quay", "session": "s1", "moment": 2},
        {"number": 3, "text": "quay", "session": None},
        *later,
    ]
    check(rows, "tea")
    _, _, near = answer(rows, "tea")
    assert near["r00001"] == {"r00002"}


def test_turns_of_others_do_not_weigh_on_records_that_are_none() -> None:
    others = [{"number": 10 + place, "text": "tea", "session": "s1", "store": "attic"} for place in range(3)]
    check([{"number": 1, "text": "tea at noon"}, {"number": 2, "text": "quay"}, *others], "tea")


def test_namesakes_that_came_later_do_not_take_a_name_away() -> None:
    later = [
        {"number": 10 + place, "text": "boat", "user": f"mara.{letter}", "born": SEQ + 1}
        for place, letter in enumerate(("kay", "lee", "moe", "nye"))
    ]
    rows = [
        {"number": 1, "text": "tea", "user": "mara"},
        {"number": 2, "text": "quay", "user": "bo"},
        *later,
    ]
    check(rows, "what does Mara drink")
    shares, _, _ = answer(rows, "what does Mara drink")
    assert shares.users == {"mara"}


def test_whose_a_word_is_does_not_depend_on_how_many_of_them_are_hidden() -> None:
    """There are so many that only every fourth would be looked at."""
    hidden = [
        {"number": number, "text": "Noura", "user": "x2", "store": "attic"}
        for number in (1, *range(9, 1_208))
    ]
    mine = [{"number": number, "text": "Noura rows", "user": "x1"} for number in (2, 3, 4)]
    rows = [hidden[0], *mine, {"number": 5, "text": "quay", "user": "x3"}, *hidden[1:]]
    check(rows, "where does Noura row")
    shares, _, _ = answer(rows, "where does Noura row")
    assert shares.users == {"x1"}
