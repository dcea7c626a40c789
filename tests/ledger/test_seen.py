"""What is kept between two searches of the same reader is what would be worked out anew."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.ledger.search import legs, seen
from quipu.ledger.search.bm25 import K1, B, Corpus, corpus_of
from quipu.ledger.search.legs import Matrix, Reach, best, found
from quipu.ledger.search.partition import Partition
from quipu.ledger.search.seen import Seen, Sights
from quipu.model.search import Context, Restriction, Scope, Search, Snapshot
from quipu.rules.texts import is_common

NOW = 1_000
SCOPE = Scope(tenant="t", agent_id="a")
TURNS = Context(previous_words=0.8, next_words=0.4, previous_vector=0.2, next_vector=0.3)
WORDS = range(1, 9)


@st.composite
def versions(draw: st.DrawFn, min_size: int = 1, max_size: int = 14) -> list[dict[str, Any]]:
    """Records of three users, some of them turns, some expired, some without words or without a vector."""
    size = draw(st.integers(min_size, max_size))
    return [
        {
            "terms": draw(st.dictionaries(st.sampled_from(WORDS), st.integers(1, 4), max_size=5)),
            "user": draw(st.sampled_from((None, "ana", "bo", "cy"))),
            "session": draw(st.sampled_from((None, "s1", "s2"))),
            "expires": draw(st.sampled_from((None, NOW, NOW + 5, NOW + 9))),
            "vector": draw(st.none() | st.tuples(*[st.floats(-1, 1, width=32)] * 4)),
        }
        for _ in range(size)
    ]


def blob(terms: dict[int, int]) -> bytes | None:
    keys = sorted(terms)
    return struct.pack(f"<{len(keys)}I", *keys) + bytes(terms[key] for key in keys) if keys else None


def partition_of(rows: Sequence[dict[str, Any]]) -> Partition:
    partition = Partition(4)
    extend(partition, rows)
    partition.seq = 1
    return partition


def extend(partition: Partition, rows: Sequence[dict[str, Any]]) -> None:
    partition.extend(
        [
            (number + 1, f"r{number}", 1, 1, None, one["expires"], number, one["user"], "main", one["session"],
             "semantic", "live", 0.5, one["user"], None, number, blob(one["terms"]),
             None if one["vector"] is None else np.array(one["vector"], "<f4").tobytes(), "a", None, False)
            for number, one in enumerate(rows, start=len(partition))
        ]
    )  # fmt: skip


def asked(limit: int, **more: Any) -> Search:
    return Search(
        scope=SCOPE,
        snapshot=Snapshot(1, NOW),
        restriction=Restriction(),
        text="",
        vector=b"",
        limit=limit,
        context=TURNS,
        **more,
    )


def plainly_scored(view: Seen, context: Context, terms: Sequence[int], names: frozenset[int]) -> np.ndarray:
    """The definition, term by term and with nothing kept."""
    partition, size = view.partition, len(view.mask)
    lengths = partition["length"]
    has_turns = not context.is_empty and bool((partition["session"][view.mask] >= 0).any())
    turns = partition.turns.seen(partition["record"], view.mask)
    shares = ((context.previous_words, turns.before), (context.next_words, turns.after))
    mean = max(float(lengths[view.mask].mean()), 1e-9)
    if has_turns:
        mean *= 1 + context.previous_words + context.next_words
    table, total, commons = np.zeros((4, size), np.float32), 0.0, 0
    for term in terms:
        posting = partition.postings.of(term)
        own = posting.rows[view.mask[posting.rows]].astype(np.int64)
        counts = posting.counts[view.mask[posting.rows]].astype(np.float32)
        weight = np.log1p((view.count - len(own) + 0.5) / (len(own) + 0.5))
        if term in names:
            table[3, own] += 1
        else:
            total += float(weight)
            table[1, own] += np.float32(weight)
        if not len(own):
            continue
        if is_common(len(own), view.count, 0.3):
            table[2, own] += 1
            commons += 1
        frequency = np.zeros(size, np.float32)
        frequency[own] = counts
        length = lengths.astype(np.float32)
        if has_turns:
            every = np.arange(size)
            for (share, before), (_, after) in zip(shares, reversed(shares), strict=True):
                others = after(own)
                frequency[others[others >= 0]] += np.float32(share) * counts[others >= 0]
                beside = before(every)
                length += share * np.where(beside >= 0, lengths[beside], 0)
        rows = np.flatnonzero(frequency)
        most = float(np.log1p((view.count - len(rows) + 0.5) / (len(rows) + 0.5))) * (K1 + 1)
        norms = K1 * (1 - B + B * length[rows] / mean)
        table[0, rows] += most * frequency[rows] / (frequency[rows] + norms)
    if total:
        table[1] = np.minimum(table[1] / np.float32(total), 1)
    table[2] /= np.float32(max(commons, 1))
    table[3] /= np.float32(max(len(names), 1))
    return table


QUERIES = st.lists(st.sampled_from((*WORDS, 99)), unique=True, max_size=5)


@given(
    versions(),
    st.lists(st.tuples(QUERIES, st.frozensets(st.sampled_from(WORDS), max_size=2)), min_size=1, max_size=4),
    st.sampled_from((TURNS, Context())),
    st.sampled_from((None, "ana")),
)
def test_scores_are_those_of_the_definition_however_often_a_term_was_asked_for(
    rows: list[dict[str, Any]],
    queries: list[tuple[list[int], frozenset[int]]],
    context: Context,
    user: str | None,
) -> None:
    scope = Scope(tenant="t", agent_id="a", user_id=user)
    view = Seen(partition_of(rows), scope, Snapshot(1, NOW))
    if not view.count:
        return
    for terms, names in [*queries, *queries]:
        told = corpus_of(view, context).scored(terms, 0.3, names).table
        plain = plainly_scored(view, context, terms, names)
        np.testing.assert_allclose(told, plain, rtol=1e-6)
        assert told.tolist() == Corpus(view, context).scored(terms, 0.3, names).table.tolist()


@given(versions(), st.sampled_from((None, "ana", "bo")))
def test_what_is_counted_is_what_the_mask_shows(rows: list[dict[str, Any]], user: str | None) -> None:
    partition = partition_of(rows)
    view = Seen(partition, Scope(tenant="t", agent_id="a", user_id=user), Snapshot(1, NOW))
    mine = [one for one, is_seen in zip(rows, view.mask.tolist(), strict=True) if is_seen]
    assert mine == [one for one in rows if user in (None, one["user"]) and one["expires"] != NOW]
    assert view.count == len(mine)
    for term in (*WORDS, 99):
        having = sum(term in one["terms"] for one in mine)
        assert len(view.having(term)[0]) == having
        assert view.share(term) == (having / len(mine) if mine else 0.0)
    for name in ("ana", "bo", "cy"):
        assert view.count_of(partition.users.find(name)) == sum(one["user"] == name for one in mine)
    codes = [partition.users.find(one["user"]) for one in mine if one["user"] is not None]
    assert view.users == ((min(codes), max(codes)) if codes else (-1, -1))


@given(versions(), st.lists(st.integers(NOW - 2, NOW + 12), min_size=1, max_size=8))
def test_a_sight_that_is_kept_shows_what_has_not_expired(
    rows: list[dict[str, Any]], moments: list[int]
) -> None:
    sights, partition = Sights(), partition_of(rows)
    for now in moments:
        kept = sights.of(partition, SCOPE, Snapshot(None, now)).mask
        assert kept.tolist() == partition.in_reach(SCOPE, Snapshot(1, now)).tolist()


def test_a_sight_is_kept_for_each_reader_and_position_and_only_so_many() -> None:
    partition, sights = partition_of([{"terms": {1: 1}, "user": "ana", "session": None, "expires": None,
                                       "vector": None}]), Sights()  # fmt: skip
    first = sights.of(partition, SCOPE, Snapshot(None, NOW))
    assert sights.of(partition, SCOPE, Snapshot(1, NOW + 50)) is first
    assert not sights.of(partition, SCOPE, Snapshot(0, NOW)).count
    assert not sights.of(partition, Scope(tenant="t", agent_id="a", user_id="bo"), Snapshot(1, NOW)).count
    assert sights.of(partition, SCOPE, Snapshot(1, NOW)) is first
    for number in range(40):
        sights.of(partition, Scope(tenant="t", agent_id="a", user_id=f"u{number}"), Snapshot(1, NOW))
    assert sights.of(partition, SCOPE, Snapshot(1, NOW)) is not first


def test_of_many_rows_only_the_latest_sights_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "_ROWS", 1)
    row = {"terms": {1: 1}, "user": "ana", "session": None, "expires": None, "vector": None}
    partition, sights = partition_of([row, row]), Sights()
    first = sights.of(partition, SCOPE, Snapshot(1, NOW))
    assert sights.of(partition, SCOPE, Snapshot(1, NOW)) is first
    sights.of(partition, SCOPE, Snapshot(0, NOW))
    assert sights.of(partition, SCOPE, Snapshot(1, NOW)) is not first


def test_what_is_kept_of_terms_stays_bounded() -> None:
    row = {"terms": {1: 1}, "user": "ana", "session": None, "expires": None, "vector": None}
    view = Seen(partition_of([row]), SCOPE, Snapshot(1, NOW))
    corpus = corpus_of(view, TURNS)
    for term in range(5_000):
        corpus.scored([term], 0.3)
    assert len(corpus._terms) <= 1_100
    assert len(view._having) <= 512


# -- candidates ---------------------------------------------------------------------------------------------------


@given(versions(), QUERIES, st.booleans())
def test_where_there_is_nothing_to_choose_choosing_gives_the_same(
    rows: list[dict[str, Any]], terms: list[int], has_users: bool
) -> None:
    partition = partition_of(rows)
    view = Seen(partition, SCOPE, Snapshot(1, NOW))
    words = [(f"word{term}", [term]) for term in terms]
    query = np.array([0.5, -0.5, 0.5, 0.5], np.float32)
    users = frozenset({"ana"} if has_users else ())
    told = found(asked(len(rows), users=users), Reach(view, view.mask), words, Matrix(partition, query))
    assert told.searched == told.in_reach == view.count
    expected = {
        f"r{number}"
        for number, one in enumerate(rows)
        if view.mask[number] and (one["vector"] is not None or _is_lent(view, terms, number))
    }
    assert {one.id for one in told.candidates} == expected
    chosen = _chosen(view, words, query, len(rows))
    assert [one.id for one in told.candidates] == [f"r{number}" for number in chosen]


def _is_lent(view: Seen, terms: Sequence[int], row: int) -> bool:
    """Whether a row has one of the words, or is lent one by a neighbour."""
    return bool(corpus_of(view, TURNS).scored(terms, 1.0).scores[row] > 0)


def _chosen(view: Seen, words: Any, query: Any, limit: int) -> list[int]:
    """The rows, as both legs would choose them among more."""
    if not view.count:
        return []
    corpus = corpus_of(view, TURNS)
    scores = corpus.scored(legs.query_terms(words), 1.0).scores
    leg = legs.VectorLeg(view.partition, Matrix(view.partition, query), view.mask, corpus.turns, TURNS)
    return np.union1d(best(scores, limit, above=0), leg.nearest(limit)).tolist()


@given(versions(min_size=2), st.data())
def test_cosines_are_the_same_to_the_last_bit_whatever_else_was_compared(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    partition = partition_of(rows)
    query = np.array([0.1, -0.7, 0.3, 0.6], np.float32)
    places = np.array(data.draw(st.lists(st.integers(-1, len(rows) - 1), min_size=1, max_size=6)))
    alone = [Matrix(partition, query).cosines(places[at : at + 1]).tolist()[0] for at in range(len(places))]
    assert Matrix(partition, query).cosines(places).tolist() == alone
    matrix = Matrix(partition, query)
    matrix.cosines()
    assert matrix.cosines(places).tolist() == alone


@given(versions(), st.data())
def test_what_is_told_of_rows_is_what_stands_in_the_columns(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    partition = partition_of(rows)
    for marked in (False, True):
        partition.set_demoted([("r0", marked)])
        places = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True))
        told = list(map(list, partition.told(np.array(places, np.int64))))
        subjects = [rows[place]["user"] for place in places]
        assert told == [
            [f"r{place}" for place in places],
            [1] * len(places),
            [rows[place]["session"] for place in places],
            subjects,
            [0.5] * len(places),
            [marked and not place for place in places],
            places,
            [sum(rows[place]["terms"].values()) for place in places],
            [False] * len(places),
            subjects,
        ]
    extend(partition, rows)
    everything = np.arange(2 * len(rows))
    assert list(partition.told(everything)[0]) == [f"r{place}" for place in everything.tolist()]
