"""Search: every restriction holds before the best are chosen, and the best are the best."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from quipu.errors import InvalidError
from quipu.model.change import Close, Put
from quipu.model.record import Ending, Link, MemoryType, PrivacyIntent, Record, Sensitivity, State
from quipu.model.search import Context
from quipu.rules.reach import in_reach
from quipu.testing.builders import FixedClock, Scribe, adding, cosine, vector
from quipu.testing.ledger.case import LedgerCase


def nearest(query: bytes, records: Sequence[tuple[str, bytes]], limit: int) -> list[str]:
    """What exact search comes back with."""
    return [name for name, _ in sorted(records, key=lambda pair: -cosine(query, pair[1]))[:limit]]


class FindingContract(LedgerCase):
    """Both legs, their restrictions, and the statistics of words."""

    # -- the vector leg -----------------------------------------------------------------------------------------

    async def test_vector_search_is_exact(self, scribe: Scribe) -> None:
        given = [(scribe.drafted(f"text {number}"), vector(number)) for number in range(300)]
        await scribe.commit(*(adding(record, vector=data) for record, data in given))
        pairs = [(record.id, data) for record, data in given]
        for number in range(20):
            query = vector(f"query {number}")
            for limit in (1, 7, 300):
                assert await scribe.ranked(query, limit=limit) == nearest(query, pairs, limit)

    async def test_a_candidate_carries_its_cosine(self, scribe: Scribe) -> None:
        data = {(await scribe.put(f"text {n}", vector=vector(n))).id: vector(n) for n in range(20)}
        query = vector("query")
        found = await scribe.search("", query, limit=20)
        assert len(found.candidates) == 20
        for candidate in found.candidates:
            assert candidate.cosine == pytest.approx(cosine(query, data[candidate.id]), abs=1e-5)

    async def test_up_to_a_thousand_come_back_when_asked_for(self, scribe: Scribe) -> None:
        given = [(scribe.drafted("same word"), vector(number)) for number in range(1500)]
        await scribe.commit(*(adding(record, vector=data) for record, data in given))
        pairs = [(record.id, data) for record, data in given]
        for limit in (257, 1000):
            assert set(await scribe.ranked(vector("q"), limit=limit)) == set(
                nearest(vector("q"), pairs, limit)
            )
            assert len(await scribe.found("word", limit=limit)) == limit

    async def test_a_record_without_a_vector_is_found_by_its_words_alone(self, scribe: Scribe) -> None:
        silent, spoken = await scribe.put("word"), await scribe.put("word", vector=vector(1))
        assert await scribe.ranked(vector(1)) == [spoken.id]
        found = {c.id: c for c in (await scribe.search("word", vector(1))).candidates}
        assert set(found) == {silent.id, spoken.id}
        assert (found[silent.id].cosine, found[silent.id].near) == (None, None)

    async def test_a_query_without_a_vector_has_no_cosines(self, scribe: Scribe) -> None:
        await scribe.put("word", vector=vector(1))
        assert [(c.cosine, c.near) for c in (await scribe.search("word")).candidates] == [(None, None)]

    async def test_vectors_of_the_wrong_width_are_refused(self, scribe: Scribe) -> None:
        record = await scribe.put("word", vector=vector(1))
        with pytest.raises(InvalidError) as refused:
            await scribe.put("wide", vector=vector(2, dimensions=9))
        assert refused.value.reason == "embedding_mismatch"
        with pytest.raises(InvalidError):
            await scribe.search("", vector(2, dimensions=9))
        assert await scribe.ranked(vector(1)) == [record.id]
        assert await scribe.scanned() == [record.id]

    # -- the keyword leg ----------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("content", "query"),
        [
            ("she was running late", "run"),
            ("Ana enjoys cooking meals", "who cooks a meal?"),
            ("Crème brûlée", "creme brulee"),
            ("STRASSE und Brücke", "brucke"),
            ("お茶を飲みました", "茶"),
            ("it's Ana's birthday", "birthdays"),
            ("state-of-the-art", "art"),
        ],
    )
    async def test_words_are_found_in_other_forms(self, scribe: Scribe, content: str, query: str) -> None:
        record = await scribe.put(content)
        await scribe.put("nothing of the kind")
        assert await scribe.found(query) == {record.id}

    async def test_common_words_find_nothing_beside_content_words(self, scribe: Scribe) -> None:
        await scribe.put("the and of to")
        tea = await scribe.put("green tea")
        assert await scribe.found("the tea of the day") == {tea.id}
        assert len(await scribe.found("the of")) == 1

    async def test_coverage_is_the_share_of_the_query_a_record_has(self, scribe: Scribe) -> None:
        whole = await scribe.put("alpha beta gamma")
        half = await scribe.put("alpha")
        for n in range(30):
            await scribe.put(f"other {n}")
        found = {c.id: c for c in (await scribe.search("alpha beta gamma")).candidates}
        assert found[whole.id].coverage == pytest.approx(1.0)
        assert 0 < found[half.id].coverage < 0.5
        assert found[whole.id].keyword > found[half.id].keyword > 0

    async def test_coverage_never_leaves_its_bounds(self, scribe: Scribe) -> None:
        words = [f"word{n}" for n in range(40)]
        drafts = [scribe.drafted(" ".join(words[: n + 1])) for n in range(40)]
        await scribe.commit(*(adding(draft) for draft in drafts))
        for size in range(1, 41):
            for candidate in (await scribe.search(" ".join(words[:size]), limit=50)).candidates:
                assert 0 <= candidate.coverage <= 1
                assert candidate.keyword >= 0

    async def test_nobody_elses_text_moves_a_score(self, scribe: Scribe) -> None:
        await scribe.put("green tea", user_id="u")
        await scribe.put("black coffee", user_id="u")
        scope = scribe.scope(user_id="u")
        before = (await scribe.search("tea", scope=scope)).candidates
        for n in range(20):
            await scribe.put(f"tea {n}", user_id="v")
            await scribe.put(f"tea {n}", agent_id="bo", user_id="u")
        assert (await scribe.search("tea", scope=scope)).candidates == before

    async def test_turns_inherit_from_the_turns_beside_them(self, scribe: Scribe, clock: FixedClock) -> None:
        turns: list[Record] = []
        for text in ("one", "question", "answer", "four"):
            turns.append(await scribe.put(text, session_id="s"))
            clock.move(1000)
        context = Context(previous_words=0.5, next_words=0.25)
        found = {c.id: c for c in (await scribe.search("question", context=context)).candidates}
        assert set(found) == {turn.id for turn in turns[:3]}
        before, asked, after = (found[turn.id] for turn in turns[:3])
        assert asked.keyword > after.keyword > before.keyword > 0
        assert (before.coverage, asked.coverage, after.coverage) == (0, 1, 0)
        assert await scribe.found("question") == {turns[1].id}

    async def test_turns_inherit_nearness_from_the_turns_beside_them(
        self, scribe: Scribe, clock: FixedClock
    ) -> None:
        cosines: list[float] = []
        ids: list[str] = []
        for n in range(4):
            ids.append((await scribe.put(f"turn {n}", session_id="s", vector=vector(n))).id)
            cosines.append(cosine(vector("q"), vector(n)))
            clock.move(1000)
        context = Context(previous_vector=0.5, next_vector=0.25)
        found = {c.id: c for c in (await scribe.search("", vector("q"), context=context)).candidates}
        padded = [0.0, *cosines, 0.0]
        for n, record_id in enumerate(ids):
            expected = cosines[n] + 0.5 * padded[n] + 0.25 * padded[n + 2]
            assert found[record_id].cosine == pytest.approx(cosines[n], abs=1e-5)
            assert found[record_id].near == pytest.approx(expected, abs=1e-5)
        (alone,) = (await scribe.search("", vector(0), limit=1)).candidates
        assert alone.near == alone.cosine

    async def test_an_invisible_turn_gives_and_gets_nothing(self, scribe: Scribe, clock: FixedClock) -> None:
        context = Context(previous_words=0.5, next_words=0.5, previous_vector=0.5, next_vector=0.5)
        question = await scribe.put("question", session_id="s", vector=vector(1))
        clock.move(1)
        hidden = await scribe.put("hidden", session_id="s", vector=vector(2))
        clock.move(1)
        answer = await scribe.put("answer", session_id="s", vector=vector(3))
        await scribe.put("elsewhere", session_id="t", vector=vector(4))
        await scribe.forget(hidden)
        assert await scribe.found("question", context=context) == {question.id, answer.id}
        found = {c.id: c for c in (await scribe.search("", vector(2), context=context)).candidates}
        near = cosine(vector(2), vector(3)) + 0.5 * cosine(vector(2), vector(1))
        assert found[answer.id].near == pytest.approx(near, abs=1e-5)
        await scribe.forget(question)
        assert await scribe.found("question", context=context) == set()

    async def test_turns_of_others_count_for_nothing(self, scribe: Scribe) -> None:
        context = Context(previous_words=0.5, next_words=0.5)
        scope = scribe.scope(user_id="u")
        await scribe.put("question", session_id="s", user_id="u")
        before = (await scribe.search("question", scope=scope, context=context)).candidates
        await scribe.put("question", session_id="s", user_id="v")
        await scribe.put("question", session_id="s", agent_id="bo", user_id="u")
        assert (await scribe.search("question", scope=scope, context=context)).candidates == before

    # -- restrictions -------------------------------------------------------------------------------------------

    async def _hostile(self, scribe: Scribe, **fields: Any) -> None:
        """Many records nearer to the query than any other."""
        drafts = [scribe.drafted("word word word", **fields) for _ in range(60)]
        await scribe.commit(*(adding(draft, vector=vector("q")) for draft in drafts))

    @pytest.mark.parametrize(
        ("theirs", "asked"),
        [
            ({"agent_id": "bo"}, {}),
            ({"user_id": "v"}, {"scope": {"user_id": "u"}}),
            ({}, {"scope": {"user_id": "u"}}),
            ({"session_id": "t"}, {"session_id": "s"}),
            ({"type": MemoryType.EMOTIONAL}, {"types": frozenset({MemoryType.SEMANTIC})}),
            ({"metadata": {"n": 2}}, {"filter": {"n": 1}}),
            ({"created_at": 5}, {"created_from": 6}),
            (
                {"privacy": PrivacyIntent(sensitivity=Sensitivity.SECRET)},
                {"without_sensitivity": frozenset({"secret"})},
            ),
            ({"state": State.ARCHIVED}, {}),
            ({"expires_at": 5}, {}),
        ],
        ids=[
            "agent", "user", "no user", "session", "type", "filter", "age", "sensitivity", "archived", "expired",
        ],
    )  # fmt: skip
    async def test_nearer_records_out_of_reach_do_not_crowd_out(
        self, scribe: Scribe, theirs: dict[str, Any], asked: dict[str, Any]
    ) -> None:
        await self._hostile(scribe, **theirs)
        mine = await scribe.put(
            "a word", user_id="u", session_id="s", metadata={"n": 1}, vector=vector("far away")
        )
        await self._hostile(scribe, **theirs)
        asked = dict(asked)
        scope = scribe.scope(**asked.pop("scope", {}))
        found = await scribe.search("word", vector("q"), scope=scope, limit=5, **asked)
        assert {c.id for c in found.candidates} == {mine.id}
        assert await scribe.ranked(vector("q"), scope=scope, limit=1, **asked) == [mine.id]

    async def test_nearer_records_of_other_stores_and_tenants_do_not_crowd_out(self, scribe: Scribe) -> None:
        store = await scribe.open_store("mine")
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await other.ledger.adopt_space("other", (await scribe.ledger.space(scribe.tenant)) or _no_space())
        await self._hostile(scribe)
        await self._hostile(other)
        mine = await scribe.put("a word", store_id=store.id, vector=vector("far away"))
        scope = scribe.scope(store_id=store.id)
        assert await scribe.found("word", vector("q"), scope=scope, limit=5) == {mine.id}
        assert len(await other.found("word", vector("q"), limit=100)) == 60

    async def test_nearer_records_that_are_gone_do_not_crowd_out(self, scribe: Scribe) -> None:
        forgotten = [scribe.drafted("word word") for _ in range(60)]
        erased = [scribe.drafted("word word") for _ in range(60)]
        await scribe.commit(*(adding(r, vector=vector("q")) for r in (*forgotten, *erased)))
        mine = await scribe.put("a word", vector=vector("far away"))
        assert len(await scribe.found("word", vector("q"), limit=200)) == 121
        await scribe.commit(*(Close(record=r, ending=Ending.FORGOTTEN) for r in forgotten))
        await scribe.erase(*(r.id for r in erased))
        assert await scribe.found("word", vector("q"), limit=5) == {mine.id}

    async def test_filters_find_what_the_rule_says(self, scribe: Scribe) -> None:
        ids = {
            n: (
                await scribe.put(
                    "word",
                    metadata={"n": n, "deep": {"list": [n, "x"]}},
                    tags=("even",) if n % 2 == 0 else ("odd", "t"),
                    links=(Link("mem_1", "about"),) if n == 3 else (),
                    importance=n / 10,
                )
            ).id
            for n in range(10)
        }

        async def numbers(filter: dict[str, Any]) -> set[int]:
            found = await scribe.found("word", filter=filter, limit=100)
            return {n for n, record_id in ids.items() if record_id in found}

        assert await numbers({"n": {"$in": [1, 2, 99]}}) == {1, 2}
        assert await numbers({"n": {"$gte": 3, "$lt": 5}}) == {3, 4}
        assert await numbers({"tags": "even"}) == {0, 2, 4, 6, 8}
        assert await numbers({"$not": {"tags": {"$in": ["even"]}}}) == {1, 3, 5, 7, 9}
        assert await numbers({"deep.list.0": 4}) == {4}
        assert await numbers({"$or": [{"n": 1}, {"record.importance": 0.2}]}) == {1, 2}
        assert await numbers({"store": "main", "n": {"$ne": 0}}) == set(range(1, 10))
        with pytest.raises(InvalidError):
            await numbers({"n": {"$near": 1}})

    async def test_filters_see_records_written_after_the_first_search(self, scribe: Scribe) -> None:
        first = await scribe.put("word", metadata={"n": 1})
        assert await scribe.found("word", filter={"n": 1}) == {first.id}
        second = await scribe.put("word", metadata={"n": 1})
        await scribe.put("word", metadata={"n": 2})
        assert await scribe.found("word", filter={"n": 1}) == {first.id, second.id}
        await scribe.change(first, metadata={"n": 2})
        assert await scribe.found("word", filter={"n": 1}) == {second.id}
        assert await scribe.found("word", filter={"n": 1}, seq=second.born) == {first.id, second.id}

    async def test_search_as_of_every_position_is_what_it_was_then(
        self, scribe: Scribe, clock: FixedClock
    ) -> None:
        answers: dict[int, tuple[object, ...]] = {}
        context = Context(previous_words=0.5, next_words=0.5, previous_vector=0.5, next_vector=0.5)

        async def answered(seq: int | None) -> tuple[object, ...]:
            found = await scribe.search("tea at noon", vector("q"), seq=seq, context=context, limit=3)
            told = [(c.id, c.version, round(c.near or 0, 5), round(c.keyword, 5)) for c in found.candidates]
            return (found.in_reach, *told)

        async def note() -> None:
            answers[(await scribe.ledger.head(scribe.tenant)).seq] = await answered(None)

        records: list[Record] = []
        for n in range(6):
            records.append(await scribe.put(f"tea number {n}", session_id="s", vector=vector(n)))
            await note()
        records[2] = await scribe.change(records[2], content="no such drink", vector=vector("other"))
        await note()
        for record in records[:2]:
            await scribe.forget(record)
            await note()
        await scribe.merge(records[3], records[4])
        await note()
        await scribe.change(records[0], vector=vector(0))
        await note()
        for seq, answer in answers.items():
            assert await answered(seq) == answer

    async def test_a_version_that_keeps_its_index_is_found_as_before(self, scribe: Scribe) -> None:
        record = await scribe.put("word", vector=vector(1))
        following = scribe.next_version(record, metadata={"n": 1})
        await scribe.commit(Put(record=following, expects=1, keeps_index=True))
        found = (await scribe.search("word", vector(1))).candidates
        assert [(c.id, c.version, c.coverage) for c in found] == [(record.id, 2, 1.0)]
        assert found[0].cosine == pytest.approx(1.0, abs=1e-5)

    async def test_a_candidate_tells_what_ranking_needs(self, scribe: Scribe) -> None:
        await scribe.put("word", session_id="s", subject="Ana", confidence=0.25, created_at=77)
        (candidate,) = (await scribe.search("word")).candidates
        assert (candidate.session_id, candidate.subject) == ("s", "Ana")
        assert (candidate.confidence, candidate.created_at, candidate.version) == (0.25, 77, 1)

    async def test_a_scope_without_records_answers_empty(self, scribe: Scribe) -> None:
        await scribe.put("word", vector=vector(1))
        nothing = await scribe.search("word", vector(1), scope=scribe.scope("nobody"))
        assert (nothing.candidates, nothing.in_reach) == ((), 0)
        stranger = await scribe.search("word", vector(1), scope=scribe.scope(tenant="nobody"))
        assert (stranger.candidates, stranger.in_reach) == ((), 0)

    async def test_searches_during_writes_agree_with_a_moment(self, scribe: Scribe) -> None:
        async def write() -> None:
            for n in range(100):
                await scribe.put("word", vector=vector(n), metadata={"n": n})

        writing = asyncio.create_task(write())
        sizes: list[int] = []
        while not writing.done():
            found = await scribe.search("word", vector("q"), filter={"n": {"$gte": 0}}, limit=1000)
            assert len(found.candidates) == found.in_reach
            sizes.append(found.in_reach)
        await writing
        assert sizes == sorted(sizes)
        assert len(await scribe.found("word", limit=1000)) == 100

    async def test_found_records_are_those_the_reach_rule_allows(self, scribe: Scribe) -> None:
        store = await scribe.open_store("other")
        records = [
            await scribe.put("word", agent_id=agent, user_id=user, store_id=place, vector=vector(1))
            for agent in ("ana", "bo")
            for user in (None, "", "u")
            for place in (scribe.main, store.id)
        ]
        for scope in (
            scribe.scope(agent, user_id=user, store_id=place)
            for agent in ("ana", "bo", "cy")
            for user in (None, "", "u", "v")
            for place in (None, scribe.main, store.id)
        ):
            expected = {record.id for record in records if in_reach(record, scope)}
            assert await scribe.found("word", vector(1), scope=scope, limit=100) == expected


def _no_space() -> Any:
    raise AssertionError("the tenant has no space")
