"""Deciding is pure: what stands and what is asked give the entries and rows to write, whatever the engine."""

import json
import re
from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import ConflictError, InvalidError
from quipu.ledger.commit import Close, Commit, Demote, Drop, Erase, Keep, Once, Put, Suspend, Touch
from quipu.ledger.decide import Caller, State, VersionState, decide
from quipu.ledger.digests import entry_hash, record_digest
from quipu.ledger.records import entries_of
from quipu.ledger.table import Table
from quipu.memory.scope import STORES
from quipu.model.journal import GENESIS, Head
from quipu.model.record import Link
from quipu.model.store import Store
from quipu.secrets.model import SECRETS, Secret
from tests.ledger.builders import T, commit, put

IDS = st.sampled_from(("mem_1", "mem_2", "mem_3"))


def counted() -> Callable[[int], bytes]:
    """Randomness that is the same in every run, and never twice the same."""
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


def state(**fields: Any) -> State:
    given: dict[str, Any] = {
        "tenant": T,
        "head": Head(),
        "space": None,
        "model": None,
        **{name: ChainMap() for name in ("versions", "rows", "unique", "answers", "derived")},
    }
    return State(**{**given, **fields})


def known() -> ChainMap[str, VersionState]:
    """One record, at its first version."""
    return ChainMap({"mem_1": VersionState(1, "00", is_current=True)})


def written(state: State) -> list[tuple[str, dict[str, Any]]]:
    return [(query.text, row) for query, rows in state.statements() for row in rows]


def store(store_id: str, name: str) -> Store:
    return Store(id=store_id, name=name, created_at=1)


def secret() -> Secret:
    return Secret(id="sec_1", label="key", created_at=1, created_by="me", sealed=b"s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A row that names a record and has nothing that could be emptied."""

    record_id: str
    proposal_id: str


SUBJECTS = Table("subject", Subject, key=("record_id", "proposal_id"), names=("record_id",))

CHANGES: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        lambda id_, expects, text: put(id_, text, expects), IDS, st.integers(0, 2), st.sampled_from("abc")
    ),
    st.builds(
        lambda id_, expects: Close(id=id_, expects=expects, ending="forgotten"), IDS, st.integers(1, 2)
    ),
    st.builds(lambda id_: Erase(id=id_), IDS),
    st.builds(lambda id_, expects: Demote(id=id_, expects=expects), IDS, st.integers(1, 2)),
    st.builds(lambda id_: Touch(ids=(id_,), at=5), IDS),
    st.builds(
        lambda id_, name, expects: Keep(STORES, store(id_, name), expects),
        st.sampled_from(("ms_1", "ms_2")),
        st.sampled_from("ab"),
        st.sampled_from((None, 0, 1)),
    ),
    st.builds(lambda id_: Drop(STORES, (id_,)), st.sampled_from(("ms_1", "ms_2"))),
    st.builds(lambda: Keep(SECRETS, secret())),
)
CALLERS = st.lists(
    st.builds(
        lambda lists, checked: Caller(
            tuple(commit(*changes, at=at) for changes, at in lists), checked_at=checked
        ),
        st.lists(st.tuples(st.lists(CHANGES, max_size=3), st.integers(0, 9)), min_size=1, max_size=2),
        st.sampled_from((None, None, 0, 3)),
    ),
    max_size=6,
)


@given(CALLERS)
def test_a_group_is_decided_as_its_callers_one_after_the_other(callers: Sequence[Caller]) -> None:
    """Who commits together changes nothing, and whoever is refused leaves nothing."""
    together, alone = state(), state()
    told = decide(together, callers, counted())
    after: list[Any] = []
    random = counted()
    for caller in callers:
        after += decide(alone, [caller], random)
    assert [one if isinstance(one, list) else (type(one), one.args) for one in told] == [
        one if isinstance(one, list) else (type(one), one.args) for one in after
    ]
    assert together.head == alone.head
    # The same rows; within each phase in the order of the callers.
    assert sorted(map(repr, written(together))) == sorted(map(repr, written(alone)))


@given(CALLERS)
def test_whoever_is_refused_leaves_nothing_for_those_who_come_after(callers: Sequence[Caller]) -> None:
    everybody, those_who_succeeded = state(), state()
    random, same = counted(), counted()
    told = decide(everybody, callers, lambda size: random(size))
    fine = [caller for caller, one in zip(callers, told, strict=True) if isinstance(one, list)]
    again = decide(those_who_succeeded, fine, lambda size: same(size))
    assert [len(one) if isinstance(one, list) else None for one in again] == [
        len(one) for one in told if isinstance(one, list)
    ]
    assert everybody.head.seq == those_who_succeeded.head.seq
    assert [text for text, _ in written(everybody)] == [text for text, _ in written(those_who_succeeded)]


@given(CALLERS)
def test_what_is_decided_is_a_chain_whose_times_never_run_back(callers: Sequence[Caller]) -> None:
    decided = state(head=Head(seq=4, hash=b"\7" * 32, at=3))
    decide(decided, callers, counted())
    rows = [row for text, row in written(decided) if text.startswith("INSERT INTO journal")]
    columns = ("seq", "at", "actor", "op", "store", "agent", "run", "node", "records", "detail", "hash")
    prev, seq, at = b"\7" * 32, 4, 3
    for row in rows:
        (entry,) = entries_of([tuple(row[name] for name in columns)], prev)
        assert entry.seq == seq + 1
        assert entry.at >= at
        assert entry_hash(T, entry) == entry.hash
        prev, seq, at = entry.hash, entry.seq, entry.at
    assert (decided.head.seq, decided.head.hash) == (seq, prev)


@given(CALLERS)
def test_every_version_that_is_written_is_named_with_its_digest(callers: Sequence[Caller]) -> None:
    decided = state()
    decide(decided, callers, counted())
    named = {
        tuple(mention)
        for text, row in written(decided)
        if text.startswith("INSERT INTO journal")
        for mention in _json(row["records"])
    }
    for text, row in written(decided):
        if text.startswith("INSERT INTO record"):
            assert (row["id"], row["version"], row["digest"].hex()) in named
            assert len(row["salt"]) == 16


def _json(text: str) -> Any:
    return json.loads(text)


@given(CALLERS)
def test_deciding_changes_nothing_that_it_was_given(callers: Sequence[Caller]) -> None:
    before = repr(callers)
    decide(state(), callers, counted())
    assert repr(callers) == before


# -- by example ----------------------------------------------------------------------------------------------------------


def outcomes(
    *commits: Commit, given: State | None = None, checked_at: Sequence[int | None] = ()
) -> list[Any]:
    positions = list(checked_at) or [None] * len(commits)
    callers = [Caller((one,), at) for one, at in zip(commits, positions, strict=True)]
    return decide(given or state(), callers, counted())


def test_a_write_is_refused_that_was_checked_before_a_secret_that_came_in_its_own_group() -> None:
    told = outcomes(
        commit(put("mem_1")),
        commit(Keep(SECRETS, secret())),
        commit(put("mem_2")),
        commit(put("mem_3")),
        commit(put("mem_4")),
        checked_at=[0, None, 0, 2, None],
    )
    assert [isinstance(one, ConflictError) for one in told] == [False, False, True, False, False]
    assert told[2].reason == "secrets_changed"


def test_a_refused_secret_does_not_refuse_the_writes_beside_it() -> None:
    told = outcomes(commit(Keep(SECRETS, secret(), expects=7)), commit(put("mem_1")), checked_at=[None, 0])
    assert [isinstance(one, ConflictError) for one in told] == [True, False]


def test_entry_times_never_run_back_within_a_group_either() -> None:
    (first,), (second,), (third,) = outcomes(
        commit(put("mem_1"), at=50), commit(put("mem_2"), at=10), commit(put("mem_3"), at=60)
    )
    assert [first.at, second.at, third.at] == [50, 50, 60]


def test_of_two_with_one_key_in_a_group_the_second_gets_the_first_answer() -> None:
    def once(fingerprint: str) -> Once:
        return Once(principal="p", operation="o", key="k", fingerprint=fingerprint, answer={"n": 1})

    decided = state()
    told = outcomes(
        commit(put("mem_1"), once=once("f")),
        commit(put("mem_2"), once=once("f")),
        commit(put("mem_3"), once=once("other")),
        given=decided,
    )
    assert told[1][0].replayed == {"n": 1}
    assert told[1][0].seq == told[0][0].seq
    assert told[2].reason == "idempotency_key_mismatch"
    assert decided.head.seq == 1


def test_an_erasure_sees_what_was_made_of_its_record_in_the_same_group() -> None:
    made = put("mem_2", links=(Link("mem_1", "derived_from"),))
    told = outcomes(commit(made), commit(Erase(id="mem_1"), erases_as_of=0), given=state(versions=known()))
    assert told[1].reason == "derived_meanwhile"
    told = outcomes(commit(Erase(id="mem_1"), erases_as_of=0), commit(made), given=state(versions=known()))
    assert all(isinstance(one, list) for one in told)


def test_an_erasure_takes_along_rows_that_came_to_name_its_record_in_the_same_group() -> None:
    decided = state(versions=known())
    subject = Subject(record_id="mem_1", proposal_id="prop_1")
    told = outcomes(commit(Keep(SUBJECTS, subject, 0)), commit(Erase(id="mem_1")), given=decided)
    assert all(isinstance(one, list) for one in told)
    assert [text.split()[0] for text, _ in written(decided) if re.search(r"(INTO|FROM) subject ", text)] == [
        "INSERT",
        "DELETE",
    ]
    assert decided.rows["subject", ("mem_1", "prop_1")] == 0
    # Of a caller who was refused nothing is taken along.
    decided = state(versions=known())
    told = outcomes(commit(Keep(SUBJECTS, subject, 7)), commit(Erase(id="mem_1")), given=decided)
    assert [isinstance(one, list) for one in told] == [False, True]
    assert not [text for text, _ in written(decided) if re.search(r"(INTO|FROM) subject ", text)]


def test_a_touch_after_an_erasure_in_the_same_group_marks_nothing() -> None:
    decided = state(versions=known())
    outcomes(commit(Erase(id="mem_1")), commit(Touch(ids=("mem_1", "mem_9"), at=5)), given=decided)
    assert not [text for text, _ in written(decided) if text.startswith("INSERT INTO mark")]


def test_a_name_that_is_free_again_may_be_taken_in_the_same_group() -> None:
    taken = ChainMap({("store", "name", "a"): ("ms_1",)})
    rows = ChainMap({("store", ("ms_1",)): 1})
    told = outcomes(
        commit(Keep(STORES, store("ms_2", "a"))),
        commit(Drop(STORES, ("ms_1",))),
        commit(Keep(STORES, store("ms_2", "a"))),
        given=state(unique=taken, rows=rows),
    )
    assert [isinstance(one, list) for one in told] == [False, True, True]


@pytest.mark.parametrize("bad", ["a\0b", "\ud800"])
def test_what_one_of_the_engines_cannot_keep_is_refused_everywhere(bad: str) -> None:
    for given_ in (
        commit(put(content=bad)),
        commit(put(metadata={bad: 1})),
        commit(put(metadata={"a": [{"b": bad}]})),
        commit(put(metadata={"a": 2**63})),
        commit(put(tags=(bad,))),
        commit(put(), reason=bad),
        commit(Keep(STORES, store("ms_1", bad))),
    ):
        (told,) = outcomes(given_)
        assert isinstance(told, InvalidError)
    for fine in (2**63 - 1, -(2**63), 1e300, True):
        (told,) = outcomes(commit(put(metadata={"a": fine})))
        assert isinstance(told, list)


def test_a_suspension_is_of_the_head() -> None:
    decided = state()
    outcomes(commit(Suspend(5)), given=decided)
    assert decided.head.suspended_at == 5
    assert decided.head.changed == 0


def test_a_version_ends_when_the_next_begins_and_its_digest_covers_what_is_kept() -> None:
    decided = state()
    given_ = put("mem_1", metadata={"a": 1.5})
    outcomes(commit(given_), commit(put("mem_1", "again", expects=1)), given=decided)
    ends = [row for text, row in written(decided) if text.startswith("UPDATE record SET died")]
    assert [(row["version"], row["died"], row["ending"]) for row in ends] == [(1, 2, "replaced")]
    first = next(row for text, row in written(decided) if text.startswith("INSERT INTO record"))
    assert isinstance(given_, Put)
    assert record_digest(given_.record, first["salt"]) == first["digest"]
    assert bytes(32) == GENESIS
