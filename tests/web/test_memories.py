"""The list of memories, one memory, the stores, the first page."""

from quipu.governance.operations import SET_RULES
from quipu.memory.operations import GET, LIST, UPDATE
from quipu.web.view_log import HOUR_MS
from tests.web.conftest import House


async def test_an_empty_memory_says_how_to_begin_and_fills_itself(house: House) -> None:
    person = await house.person("ana", "admin")
    page = await person.get("/")
    assert "Three ways to begin" in page.text
    seen = await person.send(page, "fill")
    assert "9 memories" in seen.text
    assert "Three ways" not in seen.text
    assert "Handle a return" in (await person.get("/memories")).text


async def test_a_search_looks_into_every_agent_that_the_visitor_may_act_for(house: House) -> None:
    for agent in ("shop-one", "shop-two", "bank"):
        await house.remember(f"{agent} sells tea", agent_id=agent)
    person = await house.person("ben", "reviewer", agents=("shop-*",))
    for path in ("/memories?q=tea", "/memories"):
        seen = await person.get(path)
        assert "shop-one sells tea" in seen.text, path
        assert "shop-two sells tea" in seen.text, path
        assert "bank" not in seen.text, path
    alone = await person.get("/memories?q=tea&agent=shop-two")
    assert "shop-one sells tea" not in alone.text
    assert "strong" in alone.text or "fair" in alone.text


async def test_facts_that_contradict_each_other_lead_to_each_other(house: House) -> None:
    for room in ("Andes", "Atlas"):
        await house.remember(f"The standup meeting is held in the room {room}")
    person = await house.person("ana", "admin")
    found = await person.get("/memories?q=where+is+the+standup+meeting+held")
    order = [found.text.index(f"in the room {name}") for name in ("Atlas", "Andes")]
    assert order == sorted(order), "the newer stands first"
    assert found.text.count("contradicted") == 2


async def test_filters_narrow_lists_and_searches(house: House) -> None:
    await house.remember(
        "Ana drinks tea", user_id="ana", tags=["food"], metadata={"city": "Lisbon", "year": 2025}
    )
    await house.remember("Ben drinks tea", user_id="ben", source="document")
    person = await house.person("ana", "admin")
    for query, has_ana in (
        ("user=ana", True),
        ("tags=food", True),
        ("filter=city+%3D+Lisbon", True),
        ("filter=year=2025", True),
        ("filter=%7B%22metadata.year%22:%7B%22%24lt%22:2026%7D%7D", True),
        ("source=document", False),
        ("user=ben", False),
        ("until=2001-01-01", None),
        ("type=episodic", None),
        ("state=archived", None),
    ):
        for question in ("", "q=tea&weak=1&"):
            text = (await person.get(f"/memories?{question}{query}")).text
            if "state" in query and question:
                continue  # a search finds live memories only
            assert ("Ana drinks tea" in text) is (has_ana is True), (query, question)
            assert ("Ben drinks tea" in text) is (has_ana is False), (query, question)


async def test_a_filter_that_cannot_be_read_is_said_and_shows_nothing(house: House) -> None:
    await house.remember("Ana drinks tea")
    person = await house.person("ana", "admin")
    for query in ("filter=%7B", "filter=nonsense", "since=tomorrow", "as_of=soon", "filter=%7B%22no%22:1%7D"):
        seen = await person.get(f"/memories?{query}")
        assert seen.status == 200
        assert "Ana drinks tea" not in seen.text, query
        assert 'role="alert"' in seen.html.source, query


async def test_the_past_is_shown_as_it_was(house: House) -> None:
    record = await house.remember("Ana lives in Lisbon")
    house.clock.now += 3_600_000
    await house(UPDATE, id=record, content="Ana lives in Porto")
    person = await house.person("ana", "admin")
    seen = await person.get("/memories?as_of=2025-06-15T15:30")
    assert "Lisbon" in seen.text
    assert "Porto" not in seen.text
    assert "You are looking at the past" in seen.text
    assert not seen.html.has_form("forget")


async def test_ticked_memories_are_tagged_and_forgotten(house: House) -> None:
    one, two = await house.remember("tea", tags=["hot"]), await house.remember("milk", agent_id="other")
    await house.remember("bread")
    person = await house.person("ana", "admin")
    page = await person.get("/memories")
    seen = await person.send(page, "tag", pick=[f"agent/{one}", f"other/{two}"], new_tags="drink, cold")
    assert "Tagged 2 of 2." in seen.text
    assert (await house(GET, id=one)).tags == ("hot", "drink", "cold")
    seen = await person.send(await person.get("/memories"), "forget", pick=[f"agent/{one}", f"other/{two}"])
    assert "Forgot 2 of 2." in seen.text
    assert [one.content for one in (await house(LIST, all_agents=True)).records] == ["bread"]
    assert (await person.send(seen, "forget")).status == 400  # nothing was ticked


async def test_a_memory_is_edited_forgotten_restored_and_erased(house: House) -> None:
    record = await house.remember("Ana lives in Lisbon", tags=["home"])
    person = await house.person("ana", "admin")
    page = await person.get(f"/memories/{record}")
    page = await person.send(page, "edit", content="Ana lives in Porto", tags="home, moved")
    assert "Changed." in page.text
    assert "<del>Lisbon</del><ins>Porto</ins>" in page.html.source
    page = await person.send(page, "forget", reason="asked for it")
    assert "no search finds it any more" in page.text
    assert "“asked for it”" in page.text
    page = await person.send(page, "restore")
    assert "Restored." in page.text
    refused = await person.send(page, "erase")
    assert refused.status == 400
    page = await person.send(page, "erase", sure="1")
    assert "Erased. Its text and vectors are gone for good" in page.text
    assert "Porto" not in page.html.source


async def test_an_edit_of_what_changed_meanwhile_is_refused_and_keeps_what_was_typed(house: House) -> None:
    record = await house.remember("Ana lives in Lisbon")
    person = await house.person("ana", "admin")
    page = await person.get(f"/memories/{record}")
    await house(UPDATE, id=record, content="Ana lives in Faro")
    seen = await person.send(page, "edit", content="Ana lives in Porto")
    assert seen.status == 409
    assert ("content", "Ana lives in Porto") in seen.html.form("edit").fields


async def test_a_held_write_says_so_and_changes_nothing(house: House) -> None:
    record = await house.remember("Ana lives in Lisbon")
    await house(SET_RULES, rules=[{"id": "all", "effect": "hold"}])
    person = await house.person("ana", "admin")
    page = await person.get("/memories")
    seen = await person.send(page, "add", content="tea", agent="agent")
    assert "It waits for approval" in seen.text
    page = await person.get(f"/memories/{record}")
    seen = await person.send(page, "forget")
    assert "It waits for approval" in seen.text
    assert (await house(GET, id=record)).content == "Ana lives in Lisbon"


async def test_a_secret_memory_shows_neither_text_nor_former_text(house: House) -> None:
    record = await house.remember("tangerine", privacy_intent={"sensitivity": "secret"}, tags=["plum"])
    await house(UPDATE, id=record, content="apricot")
    person = await house.person("ben", "reviewer", agents=("agent",))
    for path in (f"/memories/{record}", "/memories", "/"):
        source = (await person.get(path)).html.source
        assert not any(word in source for word in ("tangerine", "apricot", "plum")), path


async def test_links_and_procedures_are_drawn(house: House) -> None:
    machine = {
        "name": "Return",
        "initial": "asked",
        "states": ["asked", "done"],
        "transitions": [{"trigger": "refund", "source": "asked", "dest": "done"}],
    }
    procedure = await house.remember(machine, type="procedural")
    record = await house.remember("Ana returned a desk", links=[{"to": procedure, "rel": "follows"}])
    person = await house.person("ana", "admin")
    drawn = await person.get(f"/memories/{procedure}")
    assert drawn.html.source.count('class="state-box') == 2
    assert "refund" in drawn.text
    linked = await person.get(f"/memories/{record}")
    assert linked.html.source.count("memory-dot") == 2
    assert "follows" in linked.text


async def test_stores_are_created_and_deleted_by_their_name(house: House) -> None:
    person = await house.person("ana", "admin")
    page = await person.send(
        await person.get("/stores"), "create", name="team", scope="team", tier="long_term"
    )
    assert "Created the store team" in page.text
    await house.remember("shared", store="team")
    page = await person.get("/stores")
    refused = await person.send(page, "delete", name="team", confirm="main")
    assert refused.status == 400
    assert (
        "Deleted the store team, and forgot 1"
        in (await person.send(page, "delete", name="team", confirm="team")).text
    )


async def test_looking_leaves_one_entry_for_a_session_and_an_hour(house: House) -> None:
    one, two = await house.remember("tea"), await house.remember("milk")
    person = await house.person("ana", "admin")
    for _ in range(3):
        for path in ("/memories", f"/memories/{one}", "/memories?q=tea", "/"):
            await person.get(path)
    assert await house.entries("read", "recall", "view") == []
    house.clock.now += HOUR_MS
    views = house.app.jobs._jobs  # what a server does by itself
    for job in views:
        if job.name == "views":
            await job.work()
    (entry,) = await house.entries("view")
    assert entry.actor == "ana"
    assert {mention.id for mention in entry.records} == {one, two}
    seen = await person.get(f"/memories/{two}")
    assert "ana looked at it with others" in seen.text


async def test_what_was_seen_is_written_at_sign_out_and_outlives_the_server(house: House) -> None:
    record = await house.remember("tea")
    person = await house.person("ana", "admin")
    page = await person.get(f"/memories/{record}")
    form = next(form for form in page.html.forms if form.action == "/signout")
    await person.post("/signout", form.fields)
    (entry,) = await house.entries("view")
    assert [mention.id for mention in entry.records] == [record]


async def test_what_is_out_of_reach_is_as_if_it_were_not_there(house: House) -> None:
    record = await house.remember("tangerine", agent_id="bank")
    person = await house.person("ben", "reviewer", agents=("shop-*",))
    for path in (f"/memories/{record}", "/memories/mem_none", "/nowhere", f"/memories/{record}?version=7"):
        seen = await person.get(path)
        assert seen.status == 404
        assert "There is nothing here" in seen.text
        assert "tangerine" not in seen.text
