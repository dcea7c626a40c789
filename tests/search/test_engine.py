"""The best are exactly the best, of exactly what may be seen, whatever else is there and however it came to be read."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import ConflictError, InvalidError, TamperedError
from quipu.ledger.index import Known, News, Owner, Space
from quipu.model.record import PrivacyIntent, Record
from quipu.model.search import Scope, SessionContext
from quipu.search import engine as engines
from quipu.search import visibility
from quipu.search.arrays import best
from quipu.search.cache import Loaded, PartitionCache
from quipu.search.engine import SearchEngine
from quipu.search.filter_tree import passes
from quipu.search.filters import compiled
from quipu.search.neighbours import VectorScores
from quipu.search.partition import Partition
from quipu.search.visibility import Visible
from tests.search import drawn
from tests.search.fake import (
    AGENT,
    DIMENSIONS,
    MAIN,
    NO_CONTEXT,
    TENANT,
    Asker,
    FakeLedger,
    cosine,
    drafted,
    index_row,
    linked,
    unit,
    vector,
)

QUERY = vector("query")
TURNS = SessionContext(previous_words=0.8, next_words=0.4, previous_vector=0.2, next_vector=0.3)
WORDS = ("tea", "quay", "boat", "Mara", "Bo")

Fields = dict[str, Any]

#: Versions that differ in everything a search may be narrowed by. Few vectors, so that many are equally near.
FIELDS: st.SearchStrategy[Fields] = st.fixed_dictionaries(
    {
        "content": st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
        "user_id": st.sampled_from((None, "mara", "bo", "mara.k")),
        "session_id": st.sampled_from((None, "s1", "s2")),
        "type": st.sampled_from(("semantic", "episodic")),
        "store_id": st.sampled_from((MAIN, "ms_other")),
        "state": st.sampled_from(("live", "live", "archived")),
        "expires_at": st.sampled_from((None, None, 1_000_000, 1_000_001)),
        "created_at": st.integers(1, 5),
        "metadata": st.sampled_from(({}, {"n": 1}, {"n": 2})),
        "vector": st.none() | st.integers(0, 3).map(lambda number: vector(f"v{number}")),
    }
)
HISTORY = st.lists(
    st.tuples(FIELDS, st.sampled_from(("stays", "stays", "changed", "forgotten"))), max_size=16
)


def written(history: Sequence[tuple[Fields, str]]) -> Asker:
    """A ledger in which that has happened."""
    asker = Asker()
    for fields, became in history:
        fields = dict(fields)
        record = asker.ledger.put(vector=fields.pop("vector"), **fields)
        if became == "changed":
            asker.ledger.change(record, content="quay", vector=vector("changed"))
        elif became == "forgotten":
            asker.ledger.forget(record)
    return asker


def in_reach(asker: Asker, scope: Scope, seq: int | None = None) -> list[Record]:
    """The definition: live at the position, not expired, and the scope's own."""
    at = asker.ledger.seq if seq is None else seq
    return [
        record
        for record in asker.ledger.versions.values()
        if record.born <= at < (record.died or at + 1)
        and record.state == "live"
        and not record.is_expired(asker.ledger.now)
        and scope.user_id in (None, record.user_id)
        and scope.store_id in (None, record.store_id)
    ]


def nearest(asker: Asker, records: Sequence[Record], limit: int) -> list[tuple[float, int, str]]:
    """Every vector compared, one by one, with as many digits as a number has."""
    found = [
        (-round(cosine(QUERY, data), 6), record.born, record.id)
        for record in records
        if (data := asker.ledger.vectors.get((record.id, record.version))) is not None
    ]
    return sorted(found)[:limit]


@given(
    HISTORY,
    st.integers(1, 6),
    st.sampled_from((None, "mara")),
    st.sampled_from((None, MAIN)),
    st.sampled_from((None, 1, 4)),
)
def test_the_nearest_are_those_of_comparing_everything(
    history: list[tuple[Fields, str]], limit: int, user: str | None, store: str | None, seq: int | None
) -> None:
    asker = written(history)
    scope = asker.scope(user_id=user, store_id=store)
    expected = nearest(asker, in_reach(asker, scope, seq), limit)
    assert asker.ranked(QUERY, scope=scope, seq=seq, limit=limit) == [record_id for *_, record_id in expected]


@given(
    HISTORY,
    st.integers(1, 4),
    st.fixed_dictionaries(
        {},
        optional={
            "types": st.just(frozenset({"semantic"})),
            "session_id": st.just("s1"),
            "created_from": st.integers(1, 5),
            "filter": st.just({"metadata.n": 1}),
        },
    ),
)
def test_every_restriction_is_applied_before_the_best_are_chosen(
    history: list[tuple[Fields, str]], limit: int, restriction: Fields
) -> None:
    asker = written(history)
    fitting = [
        record
        for record in in_reach(asker, asker.scope())
        if record.type in restriction.get("types", (record.type,))
        and restriction.get("session_id") in (None, record.session_id)
        and record.created_at >= restriction.get("created_from", 0)
        and ("filter" not in restriction or record.metadata.get("n") == 1)
    ]
    expected = nearest(asker, fitting, limit)
    found = asker.ranked(QUERY, limit=limit, **restriction)
    assert found == [record_id for *_, record_id in expected]


@pytest.mark.parametrize(
    "restriction",
    [
        {"types": frozenset({"episodic"})},
        {"session_id": "s1"},
        {"created_from": 100},
        {"filter": {"metadata.n": 1}},
        {"filter": {"tags": "far"}},
        {"without_sensitivity": frozenset({"secret"})},
    ],
)
def test_what_a_restriction_leaves_is_found_though_much_else_is_nearer(restriction: Fields) -> None:
    asker = Asker()
    near, far = unit([1.0, *[0.0] * 7]), unit([0.6, 0.8, *[0.0] * 6])
    wanted = {
        "type": "episodic",
        "session_id": "s1",
        "created_at": 100,
        "metadata": {"n": 1},
        "tags": ("far",),
    }
    secret = PrivacyIntent(sensitivity="secret")
    for number in range(60):
        is_wanted = number % 12 == 0
        fields: Fields = wanted if is_wanted else {"created_at": 1, "privacy": secret}
        asker.ledger.put("tea", id=f"mem_{number:02}", vector=far if is_wanted else near, **fields)
    expected = [f"mem_{number:02}" for number in range(0, 60, 12)]
    assert asker.ranked(near, limit=3, **restriction) == expected[:3]
    words = asker.search("tea", limit=3, **restriction)
    assert {one.id for one in words.candidates} <= set(expected)
    assert words.searched == 5


@given(HISTORY, st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join))
def test_what_may_not_be_seen_changes_nothing_of_what_is_found(
    history: list[tuple[Fields, str]], text: str
) -> None:
    """Neither others' records, nor what has ended, nor what came later: not a score, not a name, not a neighbour."""
    asker = written(history)
    scope = asker.scope(user_id="mara", store_id=MAIN)
    seq = max(1, asker.ledger.seq - 3)
    alone = Asker(FakeLedger(seq=asker.ledger.seq))
    for record in in_reach(asker, scope, seq):
        key = (record.id, record.version)
        alone.ledger.versions[key] = replace(record, died=None, ending=None)
        if key in asker.ledger.vectors:
            alone.ledger.vectors[key] = asker.ledger.vectors[key]

    def answers(one: Asker) -> tuple[Any, ...]:
        shares = one.shares(text, scope, seq)
        found = one.search(text, QUERY, scope=scope, seq=seq, limit=3, context=TURNS, names=shares.names)
        ids = sorted(record.id for record in in_reach(alone, scope))
        return shares, found, one.neighbours(*ids, scope=scope, seq=seq)

    assert answers(asker) == answers(alone)


def scores_of(partition: Partition, query: Any) -> VectorScores:
    return VectorScores(Visible(partition, Asker().scope(), 10**9, 0), query, NO_CONTEXT)


@given(HISTORY, st.data())
def test_cosines_are_the_same_to_the_last_bit_whatever_else_is_compared(
    history: list[tuple[Fields, str]], data: st.DataObject
) -> None:
    asker = written(history)
    partition = Partition(DIMENSIONS)
    rows = [index_row(record, asker.ledger.vectors.get(key)) for key, record in asker.ledger.versions.items()]
    partition.extend(rows)
    if not rows:
        return
    query = np.frombuffer(QUERY, "<f4")
    places = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6)))
    alone = [
        scores_of(partition, query).cosines(places[at : at + 1]).tolist()[0] for at in range(len(places))
    ]
    some = scores_of(partition, query)
    assert some.cosines(places).tolist() == alone
    everything = scores_of(partition, query)
    everything.cosines(np.arange(len(rows)))
    assert everything.cosines(places).tolist() == alone


def test_cosines_of_many_dimensions_do_not_depend_on_how_many_rows_are_compared() -> None:
    """A product with the whole matrix sums in another order for one row than for a thousand."""
    random = np.random.default_rng(5)
    partition = Partition(384)
    made = [unit(random.standard_normal(384).tolist()) for _ in range(700)]
    partition.extend([index_row(drafted(id=f"mem_{n:04}", born=n + 1), data) for n, data in enumerate(made)])
    query = random.standard_normal(384).astype("<f4")
    every = scores_of(partition, query).cosines(np.arange(700)).tolist()
    for rows in ([3], [699], list(range(0, 700, 7)), list(range(350))):
        some = scores_of(partition, query).cosines(np.array(rows))
        assert some.tolist() == [every[row] for row in rows]


@given(st.lists(st.floats(-2, 2, width=32), max_size=30), st.integers(1, 8), st.none() | st.just(0.0))
def test_the_best_of_scores_are_those_of_sorting_and_ties_stay_in_order(
    scores: list[float], limit: int, above: float | None
) -> None:
    places = [place for place, score in enumerate(scores) if above is None or score > above]
    expected = sorted(places, key=lambda place: (-scores[place], place))[:limit]
    assert best(np.array(scores, np.float32), limit, above).tolist() == expected


@given(st.lists(drawn.records(), max_size=8), drawn.filters())
def test_a_filter_over_a_partition_means_what_it_means_for_a_record(
    records: list[Record], filter_: dict[str, Any]
) -> None:
    asker = Asker()
    kept = [
        replace(record, id=f"mem_{n}", agent_id=AGENT, state="live", expires_at=None, store_id=MAIN)
        for n, record in enumerate(records)
    ]
    kept = [replace(record, valid_until=None) for record in kept]
    if not kept:
        return
    asker.ledger.put_all(kept, [vector(record.id) for record in kept])
    tree = compiled(filter_, plain_names="fields")
    found = asker.found("", QUERY, limit=20, filter=filter_, store_names={MAIN: "main"})
    assert found == {record.id for record in kept if passes(tree, record, "main")}


# -- following the ledger --------------------------------------------------------------------------------------------------


def test_a_row_that_cannot_be_read_is_named_and_not_left_out() -> None:
    asker = Asker()
    records = [asker.ledger.put(f"tea {n}", vector=vector(n)) for n in range(3)]
    rows = [index_row(record, vector(record.id)) for record in records]
    for broken in (
        {"terms": b"123456"},
        {"vector": b"123"},
        {"vector": np.array([np.nan] * DIMENSIONS, "<f4").tobytes()},
        {"state": "odd"},
        {"share_with": "{"},
        {"created_at": "x"},
    ):
        partition = Partition(DIMENSIONS)
        with pytest.raises(TamperedError) as refused:
            partition.extend([rows[0], rows[1]._replace(**broken), rows[2]])
        assert records[1].id in refused.value.message
        assert refused.value.reason == "altered_record"


def test_a_partition_that_met_a_row_it_cannot_read_holds_nothing_of_it() -> None:
    asker = Asker()
    good = asker.ledger.put("tea", vector=vector(1))
    assert asker.found("tea") == {good.id}
    bad = asker.ledger.put("tea too", vector=b"short")
    for _ in range(2):
        with pytest.raises(TamperedError):
            asker.found("tea")
    asker.ledger.erase(bad.id)
    assert asker.found("tea") == {good.id}


@given(HISTORY)
def test_who_follows_finds_what_who_reads_anew_finds(history: list[tuple[Fields, str]]) -> None:
    following = Asker()
    for number, (fields, became) in enumerate(history):
        fields = dict(fields)
        record = following.ledger.put(vector=fields.pop("vector"), **fields)
        if number % 3 == 0:
            following.found("tea", QUERY)
        if became == "changed":
            following.ledger.change(record, content="quay tea")
        elif became == "forgotten":
            following.ledger.forget(record)
        if number % 4 == 0:
            following.ledger.demote(record, number % 8 == 0)
        if number % 7 == 6:
            following.ledger.erase(record.id)
    anew = Asker(following.ledger)
    for seq in (None, 1, 3):
        assert following.search("tea quay", QUERY, seq=seq, limit=99, context=TURNS) == anew.search(
            "tea quay", QUERY, seq=seq, limit=99, context=TURNS
        )


def test_a_reader_with_an_earlier_moment_sees_that_moment_though_others_were_here_since() -> None:
    asker = Asker()
    first = asker.ledger.put("tea", vector=vector(1))
    earlier = asker.reader()
    second = asker.ledger.put("tea", vector=vector(2))
    asker.ledger.forget(first)
    assert asker.found("tea") == {second.id}
    assert asker.found("tea", source=earlier) == {first.id}
    assert asker.search("tea").in_reach == 1, "and it is there once only"
    asker.ledger.erase(second.id)
    assert asker.found("tea") == set()
    assert asker.found("tea", source=earlier) == {first.id}
    assert asker.found("tea") == set()


def test_moving_to_another_space_reads_all_vectors_anew_and_mixes_none() -> None:
    asker = Asker()
    record = asker.ledger.put("tea", vector=vector(1))
    assert asker.ranked(QUERY, model="m") == [record.id]
    asker.ledger.embed_again(Space("n", 4), {(record.id, 1): vector(1, 4)})
    with pytest.raises(ConflictError) as refused:
        asker.search("", QUERY, model="m")
    assert refused.value.reason == "embedding_mismatch"
    with pytest.raises(InvalidError):
        asker.search("", QUERY)
    assert asker.ranked(vector("query", 4), model="n") == [record.id]


def test_a_vector_that_comes_late_is_found() -> None:
    asker = Asker()
    record = asker.ledger.put("tea")
    assert asker.ranked(QUERY) == []
    asker.ledger.embed_again(Space("m", DIMENSIONS), {(record.id, 1): vector(1)})
    assert asker.ranked(QUERY) == [record.id]


# -- what is kept between searches ---------------------------------------------------------------------------------------------


def test_what_expires_is_gone_from_that_millisecond_on_though_nothing_was_written() -> None:
    asker = Asker()
    record = asker.ledger.put("tea", expires_at=asker.ledger.now + 5)
    asker.ledger.put("tea")
    now = asker.ledger.now
    for later, is_there in ((0, True), (4, True), (5, False), (4, True), (99, False)):
        assert (record.id in asker.found("tea", now=now + later)) is is_there


def test_partitions_take_no_more_memory_than_they_may_and_the_one_that_is_searched_stays() -> None:
    ledger = FakeLedger()
    for agent in ("ana", "bo", "cy"):
        for number in range(200):
            ledger.put(f"tea number {number}", agent_id=agent, vector=vector(number))
    whole = Asker(ledger)
    for agent in ("ana", "bo", "cy"):
        whole.found("tea", scope=whole.scope(agent), limit=5)
    one = whole.engine.nbytes // 3
    small = Asker(ledger, SearchEngine(int(one * 1.5)))
    for _ in range(2):
        for agent in ("ana", "bo", "cy"):
            found = small.search("tea", QUERY, scope=small.scope(agent), limit=5)
            assert found == whole.search("tea", QUERY, scope=whole.scope(agent), limit=5)
            assert small.engine.nbytes <= one * 1.6
    tiny = Asker(ledger, SearchEngine(1))
    assert len(tiny.found("tea", scope=tiny.scope("ana"), limit=5)) == 5
    assert tiny.engine.nbytes <= one * 1.1


def test_only_some_readers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visibility, "_MOST_KEPT", 3)
    asker = Asker()
    asker.ledger.put("tea")
    for number in range(9):
        asker.found("tea", scope=asker.scope(user_id=f"u{number}"))
    cache: PartitionCache = asker.engine._cache
    (loaded,) = cache._loaded.values()
    assert len(loaded.visible_rows._kept) == 3


def test_news_of_another_owner_say_nothing_of_this_one() -> None:
    """A partition is followed by what is its own: rows, deaths, demotions."""
    ledger = FakeLedger()
    mine = ledger.put("tea")
    loaded = Loaded()
    owner = Owner(AGENT, is_store=False)
    news = ledger.reader().news(owner, Known())
    assert isinstance(news, News)
    loaded.take_in(news)
    ledger.put("tea", agent_id="bo")
    later = ledger.reader().news(owner, loaded.known)
    assert later is not None
    assert (later.is_whole, later.rows) == (False, [])
    loaded.take_in(later)
    assert list(loaded.partition.keys(slice(None))) == [(mine.id, 1)]


def test_a_large_partition_is_searched_exactly_too() -> None:
    """There is no size from which on something else than every vector is compared."""
    random = np.random.default_rng(9)
    ledger, limit = FakeLedger(), 10
    matrix = random.standard_normal((5_000, DIMENSIONS)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    records = [drafted("tea", id=f"mem_{n:06}", user_id=f"u{n % 3}") for n in range(len(matrix))]
    ledger.put_all(records, [row.astype("<f4").tobytes() for row in matrix])
    asker = Asker(ledger)
    query = np.frombuffer(QUERY, "<f4")
    cosines = np.vecdot(matrix, query)
    for scope, rows in (
        (asker.scope(), np.arange(len(matrix))),
        (asker.scope(user_id="u1"), np.arange(1, len(matrix), 3)),
    ):
        order = rows[np.lexsort((rows, -cosines[rows]))][:limit]
        assert asker.ranked(QUERY, scope=scope, limit=limit) == [f"mem_{row:06}" for row in order.tolist()]


def test_a_search_is_brief_once_its_partition_is_in_memory_small_and_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asker = Asker()
    asker.ledger.put("tea")
    assert not asker.engine.is_brief(asker.scope()), "it has to be read first"
    asker.search("tea")
    assert asker.engine.is_brief(asker.scope())
    assert not asker.engine.is_brief(asker.scope("bo")), "another agent's"
    cache: PartitionCache = getattr(asker.engine, "_cache")  # noqa: B009  who else reads it cannot be seen from outside
    is_held, may_go = threading.Event(), threading.Event()

    def read_on() -> None:
        with cache.partition(asker.reader(), asker.scope()):
            is_held.set()
            may_go.wait(60)

    other = threading.Thread(target=read_on)
    other.start()
    assert is_held.wait(60)
    assert not asker.engine.is_brief(asker.scope()), "somebody else is at it"
    may_go.set()
    other.join()
    assert asker.engine.is_brief(asker.scope())
    monkeypatch.setattr(engines, "_SMALL", 0)
    assert not asker.engine.is_brief(asker.scope()), "it is large"


def test_links_turns_and_subjects_are_neighbours_in_reach_only() -> None:
    asker = Asker()
    hidden = asker.ledger.put("boat", user_id="bo")
    one = asker.ledger.put("tea", user_id="ana", session_id="s1", created_at=1)
    two = asker.ledger.put("quay", user_id="ana", session_id="s1", created_at=2, links=linked(hidden.id))
    three = asker.ledger.put("boat", user_id="ana", links=linked(two.id), subject="Ana")
    four = asker.ledger.put("fish", user_id="ana", subject="Ana")
    scope = Scope(tenant=TENANT, agent_id=AGENT, user_id="ana")
    ids = [one.id, two.id, three.id, four.id]
    assert asker.neighbours(*ids, scope=scope) == {
        one.id: {two.id},
        two.id: {one.id, three.id},
        three.id: {two.id, four.id},
        four.id: {three.id},
    }
