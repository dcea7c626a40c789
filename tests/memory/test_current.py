"""Facts that contradict each other: the newer comes first, and each names the other."""

from quipu import Memory
from quipu.testing.embedders import WordEmbedder


async def test_the_newer_of_two_contradicting_facts_comes_first_and_each_names_the_other() -> None:
    async with Memory("agent", ":memory:", embedder=WordEmbedder()) as memory:
        old = await memory.remember("The standup meeting is held in the room called Andes")
        new = await memory.remember("The standup meeting is held in the room called Atlas")
        await memory.remember("The canteen serves soup on Mondays")
        first, second, *_ = await memory.recall("In which room is the standup meeting held?")
        assert (first.id, first.contradicts) == (new.id, (old.id,))
        assert (second.id, second.contradicts) == (old.id, (new.id,))


async def test_whoever_asks_for_what_was_gets_the_older_in_its_place() -> None:
    async with Memory("agent", ":memory:", embedder=WordEmbedder()) as memory:
        old = await memory.remember("The standup meeting is held in the room called Andes")
        await memory.remember("The standup meeting is held in the large room called Atlas")
        first, *_ = await memory.recall("In which room was the standup meeting previously held?")
        assert first.id == old.id


async def test_what_the_question_tells_apart_contradicts_nothing() -> None:
    async with Memory("agent", ":memory:", embedder=WordEmbedder()) as memory:
        three = await memory.remember("The ferry to island number 3 leaves at noon")
        await memory.remember("The ferry to island number 7 leaves at noon")
        first, *_ = await memory.recall("When does the ferry to island number 3 leave?")
        assert (first.id, first.contradicts) == (three.id, ())


async def test_what_is_said_of_somebody_else_contradicts_nothing() -> None:
    async with Memory("agent", ":memory:", embedder=WordEmbedder()) as memory:
        await memory.remember("Tom lives in a flat in Berlin")
        await memory.remember("Anna lives in a flat in Berlin")
        assert all(hit.contradicts == () for hit in await memory.recall("Who lives in a flat?"))


async def test_a_denial_contradicts_what_it_denies() -> None:
    async with Memory("agent", ":memory:", embedder=WordEmbedder()) as memory:
        old = await memory.remember("The backup server is encrypted")
        new = await memory.remember("The backup server is not encrypted")
        first, second, *_ = await memory.recall("What about the backup server?")
        assert (first.id, second.id, first.contradicts) == (new.id, old.id, (old.id,))


async def test_a_long_text_is_shown_with_the_passage_that_answers() -> None:
    filler = "The committee discussed the budget at length and came to no decision. " * 20
    async with Memory("agent", ":memory:", embedder=WordEmbedder()) as memory:
        await memory.remember(filler + "The spare key hangs behind the organ.\n\n" + filler)
        await memory.remember("The committee meets in May")
        hit = (await memory.recall("Where hangs the spare key behind the organ?"))[0]
        assert hit.passage is not None
        assert "spare key" in hit.content[hit.passage.start : hit.passage.end]
        assert hit.passage.end - hit.passage.start <= 1_000
        short = (await memory.recall("When does the committee meet?", k=2))[0]
        assert short.content == "The committee meets in May"
        assert short.passage is None


async def test_the_same_said_of_somebody_else_is_not_named_as_similar() -> None:
    """Vectors say nothing of names, so names are looked at."""
    async with Memory("agent", ":memory:", embedder=WordEmbedder()) as memory:
        tom = await memory.remember("Tom lives in a flat in Berlin")
        anna = await memory.remember("Anna lives in a flat in Berlin", find_similar=True)
        again = await memory.remember("Tom lives in a flat, in Berlin.", find_similar=True)
    assert anna.similar == ()
    assert tom.id in again.similar
    assert anna.id not in again.similar


async def test_a_long_text_is_kept_beside_others() -> None:
    async with Memory("agent", ":memory:", embedder=WordEmbedder()) as memory:
        await memory.remember("Tea at noon")
        kept = await memory.remember("Tea is served at noon and at four. " * 100, find_similar=True)
        assert kept.similar == ()
