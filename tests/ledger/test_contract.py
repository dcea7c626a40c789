"""What the ledger promises, on both engines."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from quipu.errors import BackendUnavailableError, ConflictError, InvalidError
from quipu.ledger.commit import (
    KEY_LIFE_MS,
    Close,
    Commit,
    Demote,
    Drop,
    Erase,
    Keep,
    Once,
    Put,
    Suspend,
    Touch,
)
from quipu.ledger.driver import Driver
from quipu.ledger.index import Known, Owner, Space
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.memory.scope import STORES
from quipu.model.record import Link, PrivacyIntent
from quipu.model.search import Scope, Selection, Snapshot
from quipu.model.store import Store
from quipu.secrets.model import SECRETS, Secret
from tests.ledger.builders import T, commit, faults, put, record

AGENT = Owner("agent", is_store=False)


def secret(secret_id: str = "sec_1", label: str = "key") -> Secret:
    return Secret(id=secret_id, label=label, created_at=1, created_by="tester", sealed=b"sealed")


def store(store_id: str = "ms_1", name: str = "main") -> Store:
    return Store(id=store_id, name=name, created_at=1)


async def test_what_was_committed_is_read_back_whole(ledger: Ledger) -> None:
    given = record(
        user_id="ana",
        session_id="s1",
        metadata={"city": "Lisbon", "n": 1.5, "deep": {"a": [1, None, True]}},
        tags=("home", "work"),
        links=(Link("mem_2", "about"),),
        confidence=0.25,
        importance=0.5,
        source="user",
        details={"event_time": 5},
        privacy=PrivacyIntent(retain="30d", share_with=("b",), sensitivity="secret"),
        expires_at=2**53 - 1,
        key="city",
        valid_from=1,
    )
    (done,) = await ledger.commit(commit(Put(record=given)))
    found = (await ledger.records(T, ["mem_1", "mem_9"]))["mem_1"]
    assert replace(found, born=0, salt=b"", digest="") == given
    assert found.born == done.seq == 1
    assert await faults(ledger) == []


async def test_a_version_that_is_not_the_expected_one_is_a_conflict_and_nothing_is_kept(
    ledger: Ledger,
) -> None:
    await ledger.commit(commit(put()))
    for changes in (
        [put(content="again")],
        [put(content="new", expects=2)],
        [put("mem_2"), Close(id="mem_1", expects=3, ending="forgotten")],
        [Close(id="mem_9", expects=1, ending="forgotten")],
        [Demote(id="mem_1", expects=2)],
    ):
        with pytest.raises(ConflictError) as refused:
            await ledger.commit(commit(*changes))
        assert refused.value.reason == "version_mismatch"
    assert (await ledger.head(T)).seq == 1
    assert await ledger.records(T, ["mem_2"]) == {}


async def test_a_change_never_revives_what_was_forgotten_meanwhile(ledger: Ledger) -> None:
    await ledger.commit(commit(put()))
    await ledger.commit(commit(Close(id="mem_1", expects=1, ending="forgotten"), op="forget"))
    with pytest.raises(ConflictError):
        await ledger.commit(commit(put(content="back", expects=1, must_stand=True)))
    await ledger.commit(commit(put(content="restored", expects=1), op="restore"))
    assert (await ledger.records(T, ["mem_1"]))["mem_1"].version == 2


async def test_a_snapshot_shows_what_was_current_then(ledger: Ledger) -> None:
    await ledger.commit(commit(put()))
    await ledger.commit(commit(put(content="Ana lives in Porto", expects=1)))
    await ledger.commit(commit(Close(id="mem_1", expects=2, ending="forgotten")))
    texts = [
        {name: found.content for name, found in (await ledger.records(T, ["mem_1"], seq)).items()}
        for seq in (0, 1, 2, 3)
    ]
    assert texts == [{}, {"mem_1": "Ana lives in Lisbon"}, {"mem_1": "Ana lives in Porto"}, {}]
    assert [one.ending for one in await ledger.versions(T, "mem_1")] == ["replaced", "forgotten"]


async def test_entry_times_never_run_back_and_tell_the_position_of_a_moment(ledger: Ledger) -> None:
    await ledger.commit(commit(put("mem_1"), at=2000))
    await ledger.commit(commit(put("mem_2"), at=1000))
    await ledger.commit(commit(put("mem_3"), at=3000))
    assert [entry.at for entry in await ledger.entries(T, JournalQuery())] == [2000, 2000, 3000]
    assert [await ledger.position_at(T, moment) for moment in (1999, 2000, 2999, 9999)] == [0, 2, 2, 3]
    assert await faults(ledger) == []


async def test_commits_that_belong_together_are_kept_all_or_none(ledger: Ledger) -> None:
    with pytest.raises(ConflictError):
        await ledger.commit(commit(put("mem_1")), commit(put("mem_2", expects=7)))
    assert (await ledger.head(T)).seq == 0
    done = await ledger.commit(commit(put("mem_1")), commit(put("mem_1", content="b", expects=1)))
    assert [one.seq for one in done] == [1, 2]
    assert await faults(ledger) == []


async def test_one_callers_refusal_leaves_the_others_of_its_group_whole(ledger: Ledger) -> None:
    await ledger.commit(commit(put("mem_0")))
    work = [ledger.commit(commit(put(f"mem_{n}"))) for n in range(20)]  # mem_0 is there already
    done = await asyncio.gather(*work, return_exceptions=True)
    assert isinstance(done[0], ConflictError)
    assert all(not isinstance(one, BaseException) for one in done[1:])
    assert await faults(ledger) == []


async def test_a_write_that_was_handed_in_is_done_though_its_caller_goes_away(ledger: Ledger) -> None:
    task = asyncio.create_task(ledger.commit(commit(put())))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await ledger.commit(commit(put("mem_2")))
    assert set(await ledger.records(T, ["mem_1", "mem_2"])) == {"mem_1", "mem_2"}


async def test_two_processes_lose_nothing_and_keep_one_chain(
    new_driver: Callable[[], Driver], tables: Sequence[Any]
) -> None:
    first, second = Ledger(new_driver(), tables), Ledger(new_driver(), tables)
    try:

        async def count_up(ledger: Ledger) -> None:
            for _ in range(15):
                while True:
                    known = (await ledger.records(T, ["mem_1"])).get("mem_1")
                    expects = 0 if known is None else known.version
                    content = str(1 if known is None else int(known.content) + 1)
                    try:
                        await ledger.commit(commit(put(content=content, expects=expects)))
                        break
                    except ConflictError:
                        continue

        await asyncio.gather(count_up(first), count_up(second))
        assert (await first.records(T, ["mem_1"]))["mem_1"].content == "30"
        assert await faults(second) == []
    finally:
        await first.close()
        await second.close()


async def test_tenants_are_apart(ledger: Ledger) -> None:
    await ledger.commit(commit(put()))
    await ledger.commit(commit(put(content="theirs"), tenant="other"))
    assert (await ledger.records(T, ["mem_1"]))["mem_1"].content == "Ana lives in Lisbon"
    assert (await ledger.records("other", ["mem_1"]))["mem_1"].content == "theirs"
    assert [one.tenant for one in await ledger.tenants()] == [T, "other"]
    assert await faults(ledger) == await faults(ledger, "other") == []


async def test_what_neither_engine_can_keep_is_refused(ledger: Ledger) -> None:
    for bad in ("a\0b", "\ud800"):
        with pytest.raises(InvalidError):
            await ledger.commit(commit(put(content=bad)))
        with pytest.raises(InvalidError):
            await ledger.commit(commit(put(metadata={"a": [bad]})))
        assert await ledger.records(T, [bad]) == {}
        assert await ledger.versions(T, bad) == []
    assert (await ledger.head(T)).seq == 0


# -- once --------------------------------------------------------------------------------------------------------------


def once(fingerprint: str = "f", record_ids: tuple[str, ...] = ()) -> Once:
    return Once(
        principal="p",
        operation="remember",
        key="k",
        fingerprint=fingerprint,
        answer={"id": "mem_1"},
        record_ids=record_ids,
    )


async def test_a_repeated_key_gives_the_first_answer_and_writes_nothing(ledger: Ledger) -> None:
    (first,) = await ledger.commit(commit(put(), once=once()))
    (again,) = await ledger.commit(commit(put("mem_2"), once=once(), at=2000))
    assert (again.seq, again.replayed) == (first.seq, {"id": "mem_1"})
    assert await ledger.records(T, ["mem_2"]) == {}
    assert (await ledger.replayed(T, "p", "remember", "k", "f", 2000)) == again
    with pytest.raises(ConflictError) as refused:
        await ledger.commit(commit(put("mem_3"), once=once("other")))
    assert refused.value.reason == "idempotency_key_mismatch"
    later = 1000 + KEY_LIFE_MS + 1
    (late,) = await ledger.commit(commit(put("mem_4"), once=once(), at=later))
    assert late.replayed is None


async def test_of_two_with_one_key_at_once_one_is_written(ledger: Ledger) -> None:
    done = await asyncio.gather(*(ledger.commit(commit(put(f"mem_{n}"), once=once())) for n in range(5)))
    assert sum(one[0].replayed is None for one in done) == 1
    assert (await ledger.head(T)).seq == 1


# -- rows of capabilities ----------------------------------------------------------------------------------------------


async def test_rows_are_kept_changed_and_dropped_as_they_were_expected(ledger: Ledger) -> None:
    await ledger.commit(commit(Keep(STORES, store(), 0)))
    kept = await ledger.kept(STORES, T, "ms_1")
    assert kept is not None
    assert (kept.value, kept.seq) == (store(), 1)
    with pytest.raises(ConflictError):
        await ledger.commit(commit(Keep(STORES, store(name="b"), 0)))
    await ledger.commit(commit(Keep(STORES, store(name="b"), 1)))
    with pytest.raises(ConflictError):
        await ledger.commit(commit(Keep(STORES, store(name="c"), 1)))
    await ledger.commit(commit(Drop(STORES, ("ms_1",), 2)))
    assert await ledger.get(STORES, T, "ms_1") is None
    with pytest.raises(ConflictError):
        await ledger.commit(commit(Drop(STORES, ("ms_1",))))
    assert await faults(ledger) == []


async def test_a_value_that_only_one_row_may_have_is_refused_in_the_commit(ledger: Ledger) -> None:
    await ledger.commit(commit(Keep(STORES, store("ms_1", "a"))))
    done = await asyncio.gather(
        *(ledger.commit(commit(Keep(STORES, store(f"ms_{n}", "b")))) for n in (2, 3)), return_exceptions=True
    )
    assert sum(isinstance(one, ConflictError) for one in done) == 1
    with pytest.raises(ConflictError) as refused:
        await ledger.commit(commit(Keep(STORES, store("ms_9", "a"))))
    assert refused.value.reason == "name_taken"
    await ledger.commit(commit(Keep(STORES, store("ms_1", "z"))), commit(Keep(STORES, store("ms_9", "a"))))
    assert await faults(ledger) == []


async def test_rows_come_in_pages_by_their_key(ledger: Ledger) -> None:
    await ledger.commit(commit(*(Keep(STORES, store(f"ms_{n}", f"s{n}")) for n in range(5))))
    first = await ledger.page(STORES, T, limit=2)
    rest = await ledger.page(STORES, T, after=(first[-1].id,), limit=10)
    assert [one.id for one in (*first, *rest)] == [f"ms_{n}" for n in range(5)]
    assert [one.id for one in await ledger.page(STORES, T, newest_first=True, limit=1)] == ["ms_4"]
    assert [one.id for one in await ledger.matching(STORES, T, "name", ["s1", "s3"])] == ["ms_1", "ms_3"]
    assert await ledger.count(STORES, T, {"scope": "agent"}) == 5


async def test_a_write_that_was_checked_against_an_older_list_is_refused(ledger: Ledger) -> None:
    await ledger.commit(commit(Keep(SECRETS, secret())))
    with pytest.raises(ConflictError) as refused:
        await ledger.commit(commit(put()), checked_at=0)
    assert refused.value.reason == "secrets_changed"
    await ledger.commit(commit(put()), checked_at=1)
    both = await asyncio.gather(
        ledger.commit(commit(Drop(SECRETS, ("sec_1",)))),
        ledger.commit(commit(put("mem_2")), checked_at=1),
        return_exceptions=True,
    )
    assert isinstance(both[1], ConflictError)


async def test_a_tenant_can_be_suspended_and_let_in_again(ledger: Ledger) -> None:
    await ledger.commit(commit(Suspend(5), op="suspend"))
    assert (await ledger.head(T)).suspended_at == 5
    await ledger.commit(commit(Suspend(None), op="resume"))
    assert (await ledger.head(T)).suspended_at is None


# -- erasure and marks -------------------------------------------------------------------------------------------------


async def test_an_erasure_leaves_only_that_there_was_something(ledger: Ledger) -> None:
    await ledger.commit(commit(put(content="hunter2 one")))
    await ledger.commit(
        commit(
            put(content="hunter2 two", expects=1),
            once=once(record_ids=("mem_1",)),
            reason="hunter2 why",
            op="update",
        )
    )
    await ledger.commit(commit(Touch(ids=("mem_1",), at=5), op="recall"))
    await ledger.commit(commit(Erase(id="mem_1"), op="erase"))
    versions = await ledger.versions(T, "mem_1")
    assert [(one.standing, one.content, one.salt) for one in versions] == [("erased", "", b"")] * 2
    assert await ledger.records(T, ["mem_1"]) == await ledger.records(T, ["mem_1"], 2) == {}
    assert await ledger.reasons(T, "mem_1") == {}
    assert await ledger.marks(T, ["mem_1"]) == {}
    assert await ledger.replayed(T, "p", "remember", "k", "f", 1000) is None
    assert await faults(ledger) == []
    with pytest.raises(ConflictError):
        await ledger.commit(commit(put(content="again", expects=2)))


async def test_a_mark_dies_with_an_erasure_and_stays_dead(ledger: Ledger) -> None:
    await ledger.commit(commit(put()))
    await asyncio.gather(
        ledger.commit(commit(Erase(id="mem_1"), op="erase")),
        ledger.commit(commit(Touch(ids=("mem_1", "mem_9"), at=5), op="recall")),
    )
    await ledger.commit(commit(Touch(ids=("mem_1",), at=6), op="recall"))
    assert await ledger.marks(T, ["mem_1", "mem_9"]) == {}


async def test_an_erasure_leaves_nothing_behind_that_was_made_since_it_was_decided(ledger: Ledger) -> None:
    await ledger.commit(commit(put("mem_1"), put("mem_2")))
    position = (await ledger.head(T)).seq
    made = put("mem_3", source="consolidation", links=(Link("mem_1", "derived_from"),))
    await ledger.commit(commit(made))
    with pytest.raises(ConflictError) as refused:
        await ledger.commit(commit(Erase(id="mem_1"), erases_as_of=position))
    assert refused.value.reason == "derived_meanwhile"
    assert await ledger.derived(T, ["mem_1"]) == ["mem_3"]
    await ledger.commit(commit(Erase(id="mem_1"), Erase(id="mem_3"), erases_as_of=position + 1))


async def test_marks_count_recalls_and_demotion_is_lifted_by_a_change(ledger: Ledger) -> None:
    await ledger.commit(commit(put()))
    await ledger.commit(commit(Touch(ids=("mem_1",), at=50)), commit(Touch(ids=("mem_1",), at=40)))
    await ledger.commit(commit(Demote(id="mem_1", expects=1), op="demote"))
    mark = (await ledger.marks(T, ["mem_1"]))["mem_1"]
    assert (mark.recall_count, mark.last_recalled_at, mark.is_demoted) == (2, 50, True)
    await ledger.commit(commit(put(content="new", expects=1)))
    assert not (await ledger.marks(T, ["mem_1"]))["mem_1"].is_demoted


# -- reading -----------------------------------------------------------------------------------------------------------


async def test_a_walk_finds_everything_page_by_page(ledger: Ledger) -> None:
    await ledger.commit(commit(*(put(f"mem_{n:04}", user_id="a" if n % 2 else "b") for n in range(1100))))
    await ledger.commit(commit(Close(id="mem_0001", expects=1, ending="forgotten")))
    now = Snapshot(None, 5000)
    everything = [one.id async for one in ledger.scan(Selection(tenant=T), now)]
    assert everything == [f"mem_{n:04}" for n in range(1099, -1, -1) if n != 1]
    of_a = [one.id async for one in ledger.scan(Selection(tenant=T, user_id="a", below="mem_0006"), now)]
    assert of_a == ["mem_0005", "mem_0003"]
    gone = Selection(tenant=T, states=frozenset({"forgotten"}))
    assert [one.id async for one in ledger.scan(gone, now)] == ["mem_0001"]
    before = Snapshot(1, 5000)
    assert len([one async for one in ledger.scan(Selection(tenant=T), before)]) == 1100
    odd = Selection(tenant=T, matches=lambda one: one.id.endswith("99"))
    assert len([one async for one in ledger.scan(odd, now)]) == 11


async def test_what_has_expired_is_due_until_it_is_closed(ledger: Ledger) -> None:
    await ledger.commit(commit(put("mem_1", expires_at=10), put("mem_2", expires_at=30), put("mem_3")))
    assert [one.id for one in await ledger.due(T, 10)] == ["mem_1"]
    await ledger.commit(commit(Close(id="mem_1", expects=1, ending="expired"), op="sweep"))
    assert await ledger.due(T, 10) == []


async def test_the_journal_can_be_asked_by_what_it_says(ledger: Ledger) -> None:
    await ledger.commit(commit(put("mem_1")))
    await ledger.commit(commit(put("mem_2"), op="update", at=2000))
    await ledger.commit(commit(Touch(ids=("mem_1",), at=1), op="recall", at=3000))

    async def seqs(**query: Any) -> list[int]:
        return [entry.seq for entry in await ledger.entries(T, JournalQuery(**query))]

    assert await seqs(op="update") == [2]
    assert await seqs(record="mem_1") == [1]
    assert await seqs(since=2000, until=2999) == [2]
    assert await seqs(newest_first=True, limit=2) == [3, 2]
    assert await seqs(after=1, before=3) == [2]
    assert await seqs(actor="nobody") == []
    for entry in await ledger.entries(T, JournalQuery(op="update")):
        assert entry.prev == (await ledger.entries(T, JournalQuery(limit=1)))[0].hash


async def test_named_facts_are_found_by_their_key(ledger: Ledger) -> None:
    await ledger.commit(
        commit(put("mem_1", key="city"), put("mem_2", key="city", user_id="ana"), put("mem_3"))
    )
    assert [one.id for one in await ledger.facts(T, "agent", None, "ms_1", "city")] == ["mem_1"]
    assert [one.id for one in await ledger.facts(T, "agent", "ana", "ms_1", "city")] == ["mem_2"]


async def test_a_scope_is_summed_up(ledger: Ledger) -> None:
    await ledger.commit(commit(put("mem_1", created_at=5), put("mem_2", type="episodic", created_at=9)))
    summary = await ledger.summary(Scope(tenant=T, agent_id="agent"), Snapshot(None, 100))
    assert dict(summary.counts) == {"semantic": 1, "episodic": 1}
    assert (summary.oldest_at, summary.newest_at) == (5, 9)


# -- what search follows -------------------------------------------------------------------------------------------------


async def test_whoever_follows_an_owner_reads_only_what_is_new(ledger: Ledger) -> None:
    space = await ledger.settle_space(T, Space("m", 2))
    assert await ledger.settle_space(T, Space("other", 3)) == space
    vector = b"\0" * 8
    await ledger.commit(commit(put("mem_1", vector=vector, model="m", terms=b"12345"), put("mem_2")))

    async def news(known: Known) -> Any:
        return await ledger.read(T, lambda reader: reader.news(AGENT, known))

    first = await news(Known())
    assert first.is_whole
    assert [(row.id, row.vector, row.terms) for row in first.rows] == [
        ("mem_1", vector, b"12345"),
        ("mem_2", None, None),
    ]
    assert await news(first.known) is None
    await ledger.commit(commit(put("mem_1", content="b", expects=1, keeps_index=True)))
    await ledger.commit(commit(Demote(id="mem_2", expects=1)))
    second = await news(first.known)
    assert not second.is_whole
    assert [(row.id, row.version, row.vector, row.terms) for row in second.rows] == [
        ("mem_1", 2, vector, b"12345")
    ]
    assert second.deaths == [("mem_1", 1, 2)]
    assert second.demoted == [("mem_2", True)]
    await ledger.commit(commit(put("mem_8", agent_id="other"), put("mem_9", agent_id="other")))
    await ledger.commit(commit(Demote(id="mem_8", expects=1)))
    await ledger.commit(commit(Erase(id="mem_9")))
    third = await news(second.known)
    assert not third.is_whole  # another owner's erasure is no reason to read everything anew
    assert (third.rows, third.deaths, third.demoted) == ([], [], [])
    await ledger.commit(commit(Erase(id="mem_2")))
    assert (await news(third.known)).is_whole


async def test_a_vector_of_another_model_is_refused(ledger: Ledger) -> None:
    await ledger.settle_space(T, Space("m", 2))
    with pytest.raises(ConflictError) as refused:
        await ledger.commit(commit(put(vector=b"\0" * 8, model="other")))
    assert refused.value.reason == "embedding_mismatch"


async def test_moving_to_another_space_goes_version_by_version(ledger: Ledger) -> None:
    await ledger.settle_space(T, Space("m", 2))
    await ledger.commit(commit(put("mem_1", vector=b"\0" * 8, model="m"), put("mem_2")))
    target = Space("n", 3)
    missing = await ledger.without_vector(T, target, 10)
    assert [one.id for one in missing] == ["mem_1", "mem_2"]
    await ledger.commit(commit(Erase(id="mem_2")))
    await ledger.add_vectors(T, target, [((one.id, one.version), b"\1" * 12) for one in missing])
    assert await ledger.without_vector(T, target, 10) == []
    assert await ledger.space(T) == Space("m", 2)
    await ledger.adopt_space(T, target)
    assert await ledger.space(T) == target
    assert await ledger.vectors(T, [("mem_1", 1), ("mem_2", 1)]) == {("mem_1", 1): b"\1" * 12}


async def test_a_vector_that_comes_late_is_news_to_who_has_read_the_rows(ledger: Ledger) -> None:
    space = await ledger.settle_space(T, Space("m", 2))
    await ledger.commit(commit(put("mem_1")))
    read = await ledger.read(T, lambda reader: reader.news(AGENT, Known()))
    assert read is not None
    await ledger.add_vectors(T, space, [(("mem_1", 1), b"\1" * 8)])
    again = await ledger.read(T, lambda reader: reader.news(AGENT, read.known))
    assert again is not None
    assert [(row.id, row.vector) for row in again.rows] == [("mem_1", b"\1" * 8)]


async def test_a_memory_is_moved_to_one_other_space_at_a_time(ledger: Ledger) -> None:
    await ledger.settle_space(T, Space("m", 2))
    await ledger.commit(commit(put("mem_1", vector=b"\0" * 8, model="m")))
    await ledger.add_vectors(T, Space("n", 3), [(("mem_1", 1), b"\1" * 12)])
    with pytest.raises(ConflictError) as refused:
        await ledger.add_vectors(T, Space("o", 1), [(("mem_1", 1), b"\2" * 4)])
    assert refused.value.reason == "embedding_mismatch"
    await ledger.adopt_space(T, Space("m", 2))  # the move is given up
    head = await ledger.read(T, lambda reader: reader.news(AGENT, Known()))
    await ledger.adopt_space(T, Space("m", 2))
    assert head is not None
    assert await ledger.read(T, lambda reader: reader.news(AGENT, head.known)) is None, "nothing to read anew"
    await ledger.add_vectors(T, Space("o", 1), [(("mem_1", 1), b"\2" * 4)])
    await ledger.adopt_space(T, Space("o", 1))
    assert await ledger.vectors(T, [("mem_1", 1)]) == {("mem_1", 1): b"\2" * 4}


async def test_listeners_hear_of_every_commit_after_it(ledger: Ledger) -> None:
    heard: list[tuple[str, int, int]] = []
    ledger.on_commit(lambda tenant, seq, commits: heard.append((tenant, seq, len(commits or ()))))
    await ledger.commit(commit(put()), commit(put("mem_2")))
    with pytest.raises(ConflictError):
        await ledger.commit(commit(put()))
    assert heard == [(T, 2, 2)]


async def test_work_under_the_lock_decides_on_what_it_read(ledger: Ledger) -> None:
    def next_number(reader: Any) -> tuple[int, list[Commit]]:
        seq = reader.head().seq
        return seq, [commit(put(f"mem_{seq}"))]

    done = await asyncio.gather(*(ledger.locked(T, next_number) for _ in range(8)))
    assert sorted(done) == list(range(8))
    assert await faults(ledger) == []


async def test_retention_empties_replaced_versions_and_says_so(ledger: Ledger) -> None:
    await ledger.commit(commit(put(content="one")))
    await ledger.commit(commit(put(content="two", expects=1)))
    assert await ledger.prune(T, 2, "tester", 5000) == 1
    assert [one.content for one in await ledger.versions(T, "mem_1")] == ["", "two"]
    assert (await ledger.head(T)).horizon == 2
    assert await faults(ledger) == []


async def test_a_closed_ledger_says_so(new_driver: Callable[[], Driver], tables: Sequence[Any]) -> None:
    ledger = Ledger(new_driver(), tables)
    await ledger.close()
    for work in (ledger.commit(commit(put())), ledger.head(T)):
        with pytest.raises(BackendUnavailableError) as refused:
            await work
        assert refused.value.reason == "closed"


async def test_totals_are_of_all_tenants(ledger: Ledger) -> None:
    before = await ledger.totals()
    await ledger.commit(commit(put()))
    await ledger.commit(commit(put("mem_2")))
    await ledger.commit(commit(Close(id="mem_2", expects=1, ending="forgotten"), op="forget"))
    after = await ledger.totals()
    assert after["live_records"] - before["live_records"] == 1
    assert after["journal_entries"] - before["journal_entries"] == 3
    assert (after["pending_proposals"], after["owed_copies"]) == (0, 0)
