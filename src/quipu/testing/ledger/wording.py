"""The statistics of words, and whom a text names."""

from __future__ import annotations

import pytest

from quipu.rules.names import SHARED
from quipu.rules.texts import search_text
from quipu.testing.builders import Scribe, unit, vector
from quipu.testing.ledger.case import LedgerCase


class WordingContract(LedgerCase):
    """Shares of words, subjects and users that a text names."""

    # -- words --------------------------------------------------------------------------------------------------

    async def test_word_shares_count_the_records_in_reach(self, scribe: Scribe) -> None:
        for n in range(4):
            await scribe.put("green tea" if n else "black coffee", user_id="u")
        for _ in range(20):
            await scribe.put("coffee", user_id="v")
            await scribe.put("coffee", agent_id="bo", user_id="u")
        gone = await scribe.put("coffee", user_id="u")
        await scribe.forget(gone)
        scope = scribe.scope(user_id="u")
        shares = await scribe.shares("Greens, coffee & maté!", scope)
        assert shares.in_reach == 4
        assert dict(shares.words) == {"Greens": 0.75, "coffee": 0.25, "maté": 0.0}
        past = await scribe.shares("coffee", scope, seq=gone.born)
        assert dict(past.words) == {"coffee": 0.4}

    async def test_subjects_named_by_a_text_are_those_in_reach(self, scribe: Scribe) -> None:
        await scribe.put("one", subject="Ana María", user_id="u")
        await scribe.put("two", subject="Bo", user_id="v")
        forgotten = await scribe.put("three", subject="Cy", user_id="u")
        await scribe.forget(forgotten)
        scope = scribe.scope(user_id="u")
        text = "what did ana maría's friends Bo, Cy and Anastasia say?"
        assert (await scribe.shares(text, scope)).subjects == {"Ana María"}
        assert (await scribe.shares(text, scope, seq=forgotten.born)).subjects == {"Ana María", "Cy"}
        assert (await scribe.shares("nobody", scope)).subjects == frozenset()

    async def test_a_possessive_s_is_no_word(self, scribe: Scribe) -> None:
        await scribe.put("Ana's bread")
        await scribe.put("Bo's bread")
        shares = await scribe.shares("Cy's bread and Ana's")
        assert dict(shares.words) == {"Cy's": 0.0, "bread": 1.0, "and": 0.0, "Ana's": 0.5}
        assert await scribe.found("Cy's") == set()

    async def test_a_word_of_several_terms_is_as_common_as_the_rarest(self, scribe: Scribe) -> None:
        for text in ("l'eau", "l'air", "l'avion", "l'or"):
            await scribe.put(text)
        assert dict((await scribe.shares("l'avion")).words) == {"l'avion": 0.25}

    async def test_a_text_names_users_by_their_ids(self, scribe: Scribe) -> None:
        for user in ("ana", "bo.jensen", "u-17"):
            await scribe.put("bread", user_id=user)
            await scribe.put("water", user_id=user)
        await scribe.put("bread")
        shares = await scribe.shares("What do Ana's dog and Mr Jensen eat?")
        assert shares.users == {"ana", "bo.jensen"}
        assert shares.names == {"Ana's", "Jensen"}
        assert shares.theirs == 4
        assert shares.has_several_users

    async def test_a_text_names_users_by_what_their_records_call_them(self, scribe: Scribe) -> None:
        for meal in ("bread", "rice", "plums"):
            await scribe.put(f"Ana eats {meal}", user_id="u-1")
            await scribe.put(f"she eats {meal}", user_id="u-2")
        await scribe.put("I am Cy", user_id="u-3")
        assert (await scribe.shares("what does ana like?")).users == {"u-1"}
        assert (await scribe.shares("what does Cy like?")).users == {"u-3"}
        assert (await scribe.shares("what does cy like?")).users == frozenset()
        assert (await scribe.shares("who eats plums?")).users == frozenset()

    async def test_nobody_out_of_reach_is_named(self, scribe: Scribe) -> None:
        await scribe.put("bread", user_id="ana")
        await scribe.put("bread", user_id="bo")
        gone = await scribe.put("bread", user_id="cy")
        await scribe.forget(gone)
        await scribe.put("bread", user_id="dee", agent_id="another")
        shares = await scribe.shares("Ana, Bo, Cy and Dee")
        assert shares.users == {"ana", "bo"}
        assert (await scribe.shares("Cy", seq=gone.born)).users == {"cy"}

    async def test_in_one_users_records_the_name_is_a_name_and_nobody_is_told_apart(
        self, scribe: Scribe
    ) -> None:
        await scribe.put("bread", user_id="ana")
        await scribe.put("bread", user_id="bo")
        shares = await scribe.shares("What does Ana eat with Bo?", scribe.scope(user_id="ana"))
        assert shares.names == {"Ana"}
        assert not shares.users
        assert not shares.has_several_users

    async def test_the_nearest_of_the_users_meant_are_candidates(self, scribe: Scribe) -> None:
        for _ in range(6):
            await scribe.put("near", user_id="bo", vector=vector(1))
        hers = await scribe.put("far", user_id="ana", vector=vector(2))
        his = await scribe.put("far", user_id="cy", vector=vector(2))
        assert hers.id not in await scribe.found("", vector(1), limit=3)
        found = await scribe.found("", vector(1), limit=3, users=frozenset({"ana"}))
        assert hers.id in found
        assert his.id not in found

    async def test_a_candidate_tells_whose_it_is_and_whom_it_names(self, scribe: Scribe) -> None:
        hers = await scribe.put("bread, says Ana", user_id="ana")
        his = await scribe.put("bread", user_id="bo")
        found = await scribe.search("Ana bread", names=frozenset({"Ana"}))
        told = {one.id: (one.user_id, one.named, one.coverage) for one in found.candidates}
        assert told == {hers.id: ("ana", 1.0, 1.0), his.id: ("bo", 0.0, 1.0)}

    async def test_a_name_that_others_have_more_often_may_be_a_word_like_any_other(
        self, scribe: Scribe
    ) -> None:
        theirs = await scribe.put("bread", user_id="home")
        hers = await scribe.put("home on Fridays", user_id="ana")
        await scribe.put("home again", user_id="bo")
        shares = await scribe.shares("when am I home on Fridays?")
        assert (shares.users, shares.names, shares.mentions) == ({"home"}, {"home"}, frozenset())
        found = await scribe.search("home bread Fridays", shared_names=frozenset({"home"}))
        told = {one.id: (one.user_id, one.named) for one in found.candidates}
        assert told[theirs.id] == ("home", 0.0)
        assert told[hers.id] == ("ana", SHARED)
        (whole,) = [
            one.coverage
            for one in (await scribe.search("home Fridays", shared_names=shares.names)).candidates
            if one.id == hers.id
        ]
        assert whole == 1.0

    async def test_what_was_searched_is_what_the_restrictions_leave(self, scribe: Scribe) -> None:
        await scribe.put("one", session_id="s")
        await scribe.put("two")
        found = await scribe.search("one two", session_id="s")
        assert (found.in_reach, found.searched) == (2, 1)

    async def test_the_index_holds_the_words_of_the_search_text(self, scribe: Scribe) -> None:
        record = scribe.drafted("body", tags=("blue",), subject="Ana", details={"location": "Cusco"})
        assert "Cusco" in search_text(record)
        await scribe.put_drafted(record)
        for word in ("body", "blue", "ana", "cusco"):
            assert await scribe.found(word) == {record.id}

    async def test_signs_are_not_lost_in_vectors(self, scribe: Scribe) -> None:
        one = await scribe.put(vector=unit([1, 0, 0, 0, 0, 0, 0, 0]))
        other = await scribe.put(vector=unit([-1, 0, 0, 0, 0, 0, 0, 0]))
        found = await scribe.search("", unit([1, 0.1, 0, 0, 0, 0, 0, 0]))
        by_id = {c.id: c.cosine or 0.0 for c in found.candidates}
        assert by_id[one.id] == pytest.approx(-by_id[other.id])
        assert by_id[one.id] > 0.99
