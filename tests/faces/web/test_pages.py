"""What each page shows and does."""

import io
import os
import re
import shlex
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from quipu.bootstrap import canonical, verify
from quipu.faces.web import overview
from quipu.faces.web.visit import memory_path
from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.principal import Principal, local
from quipu.model.record import MemoryType
from quipu.model.value import Json
from quipu.service.exported_audit import verified_export
from quipu.service.runs import OpenRequest
from tests.conventions import command
from tests.faces.serving import served
from tests.faces.web.conftest import House, Person
from tests.faces.web.demo import HOME, SUPPORT, TRAVEL

INES = "Inês lives in Lisbon and flies from Humberto Delgado."


def hits(text: str) -> list[str]:
    found = re.findall(r'class="hit-link" href="[^"]+">(.*?)</a>', text, re.S)
    return [re.sub(r"<[^>]+>", "", hit) for hit in found]


# -- overview ----------------------------------------------------------------------------------------------------


def test_the_overview_counts_shows_and_leads_on(ana: Person) -> None:
    text = ana.get("/").text
    assert re.search(r'aria-label="semantic \d+, episodic \d+, procedural 1, emotional 2"', text)
    for said in (
        "Chain",
        "Activity",
        "wait for a decision",
        "All is well",
        TRAVEL,
        "team-notes",
        "Latest memories",
    ):
        assert said in text


def test_counts_of_the_newest_say_that_they_are(ana: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "among the newest" not in ana.get("/").text, "all are counted"
    monkeypatch.setattr(overview, "_RECORDS", 2)
    assert "among the newest 2 memories" in ana.get("/").text


def test_a_memory_with_many_tags_says_how_many_are_not_shown(house: House, ana: Person) -> None:
    request = RememberRequest(
        agent_id="tagged",
        type=MemoryType.SEMANTIC,
        content="tagged all over",
        tags=tuple(f"tag-{number}" for number in range(9)),
    )
    told = house.served.do(house.served.service.remember(local(), request))
    text = ana.get("/memories?agent=tagged").text
    assert "and 3 more tags" in text
    assert "tag-8" not in text
    assert "tag-8" in ana.get(memory_path(told.id)).text
    house.served.do(house.served.service.forget(local(), ForgetRequest(agent_id="tagged", ids=(told.id,))))


def test_an_empty_memory_says_what_to_do() -> None:
    with served() as running, Person(running.url) as person:
        person.sign_in(running.admin_token)
        for path in ("/", "/memories", "/memories?agent=ana"):
            text = person.get(path).text
            assert "No memories yet" in text, path
            assert "quipu remember" in text, path
        assert "Nothing waits for a decision" in person.get("/review").text
        assert "quipu store create" in person.get("/stores").text
        assert "opened the journal" in person.get("/journal").text


def test_what_a_page_tells_to_type_works_as_it_stands(tmp_path: Path) -> None:
    with served() as running, Person(running.url) as person:
        person.sign_in(running.admin_token)
        pages = [person.get(path).text for path in ("/signin", "/", "/review", "/stores", "/runs")]
    told = {unescape(line) for text in pages for line in re.findall("<code>(quipu [^<]+)</code>", text)}
    assert len(told) == len(pages)
    given = {
        "PATH": os.environ["PATH"],
        "QUIPU_STORE": f"sqlite://{tmp_path}/memory.db",
        "QUIPU_EMBEDDER": "none",
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    for line in sorted(told):
        done = subprocess.run(command(*shlex.split(line)[1:]), env=given, capture_output=True, check=False)
        held_for_approval = 3
        assert done.returncode in (0, held_for_approval), (line, done.stderr)


# -- explorer ----------------------------------------------------------------------------------------------------


def test_without_a_question_everything_is_listed_newest_first(ana: Person) -> None:
    text = ana.get("/memories").text
    assert "lift van" in hits(text)[0]
    assert "Why" not in text


def test_a_list_is_paged_by_cursor_without_gap_or_repetition(ana: Person) -> None:
    seen: list[str] = []
    path = "/memories"
    for _ in range(10):
        text = ana.get(path).text
        seen += re.findall(r'class="hit-link" href="([^"]+)"', text)
        older = re.search(r'rel="next" href="([^"]+)"', text)
        if older is None:
            break
        path = older.group(1).replace("&amp;", "&")
    assert len(seen) == len(set(seen)) > 25 or len(seen) == len(set(seen)) == 25


def test_a_question_ranks_and_says_why(ana: Person) -> None:
    text = ana.get(f"/memories?q=Mara+vegetarian+walnuts&agent={SUPPORT}").text
    assert hits(text)[0] == "Mara is vegetarian and allergic to walnuts."
    assert "<mark>vegetarian</mark>" in text
    assert 'aria-label="relevance ' in text
    assert re.search(r'class="why-said">[^<]*words \+\d', text)
    assert re.search(r"covers <b>\d+ %</b>", text)


def test_weaker_matches_are_counted_explained_and_one_click_away(ana: Person) -> None:
    many = "+".join(f"unheard{number}" for number in range(30))
    text = ana.get(f"/memories?q=refunds+{many}&agent={SUPPORT}").text
    found = re.search(r"(\d+) weaker match(?:es)? hidden", text)
    assert found is not None
    more = re.search(r'href="([^"]+)">Show (?:it|them)</a>', text)
    assert more is not None
    shown = ana.get(more.group(1).replace("&amp;", "&")).text
    assert len(hits(shown)) > len(hits(text))
    assert "Weak matches are shown" in shown


def test_that_nothing_matches_is_an_answer(ana: Person) -> None:
    text = ana.get(f"/memories?q=chromodynamics&agent={SUPPORT}").text
    assert "Nothing matches" in text
    assert hits(text) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("user=ines&type=emotional", ["guesthouse"]),
        ("tags=peru,policy", ["Machu Picchu"]),
        ("filter=city+%3D+Cusco", ["Jonas booked Cusco"]),
        ('filter={"nights": {"$gte": 7}}', ["Jonas booked Cusco"]),
        ("session=cusco-planning&q=ramp", ["Casa Andina"]),
        ("user=nobody", []),
        ("until=2020-01-01", []),
        ("as_of=1", []),
    ],
)
def test_filters_narrow(ana: Person, query: str, expected: list[str]) -> None:
    answer = ana.get(f"/memories?agent={TRAVEL}&{query}")
    assert answer.status_code == 200
    found = hits(answer.text)
    assert len(found) == len(expected)
    for words, text in zip(expected, found, strict=True):
        assert words in text


def test_that_nothing_passes_the_filters_is_told_from_that_nothing_is_near(ana: Person) -> None:
    asked = f"/memories?q=vegetarian&agent={SUPPORT}"
    text = ana.get(f"{asked}&user=nobody").text
    assert "No memory that passes the filters is near enough to the question." in text
    assert f'href="/memories?q=vegetarian&amp;agent={SUPPORT}">Ask without filters</a>' in text
    assert "Mara is" in ana.get(asked).text
    assert "that passes the filters" not in ana.get(f"/memories?q=chromodynamics&agent={SUPPORT}").text


def test_forgotten_memories_can_be_listed(ana: Person) -> None:
    assert any("plumber" in hit for hit in hits(ana.get(f"/memories?agent={HOME}&state=forgotten").text))


@pytest.mark.parametrize(
    "query", ["filter={", "filter={%22$x%22:1}", "since=never", "as_of=yesterday", "as_of=99999", "cursor=A"]
)
def test_a_question_that_cannot_be_read_is_answered_on_the_page(ana: Person, query: str) -> None:
    answer = ana.get(f"/memories?agent={TRAVEL}&user=ines&{query}")
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert 'name="user" value="ines"' in answer.text, "what was typed stays"


def test_a_missing_store_is_said_on_the_page(ana: Person) -> None:
    answer = ana.get(f"/memories?agent={TRAVEL}&store=nowhere")
    assert answer.status_code == 404
    assert "There is no such memory store." in answer.text


# -- one memory --------------------------------------------------------------------------------------------------


def test_a_memory_shows_its_text_origin_use_and_history(house: House, ana: Person) -> None:
    text = ana.get(f"/memories/{house.demo.ids[INES]}").text
    for said in (
        "near Bolhão",
        "Version 3 of 3",
        "Written by",
        TRAVEL,
        "3 versions",
        "Recalled",
        "Who saw or changed it?",
    ):
        assert said in text
    assert "<del>Lisbon</del> <ins>Porto</ins>" in text
    assert re.search(r"<code>source</code> <del>profile</del>.*<ins>chat</ins>", text)


def test_the_slider_is_a_form_that_shows_an_earlier_version(house: House, ana: Person) -> None:
    path = f"/memories/{house.demo.ids[INES]}"
    form = ana.get(path).text
    assert re.search(
        r'<input id="version" name="version" type="range" min="1" max="3" step="1" value="3"', form
    )
    earlier = ana.get(f"{path}?version=1").text
    shown = earlier.partition('id="reader"')[2].partition("<form")[0]
    assert "lives in Lisbon" in shown
    assert "not the newest" in shown


def test_a_memory_can_be_read_as_of_a_position(house: House, ana: Person) -> None:
    path = f"/memories/{house.demo.ids[INES]}"
    born = re.search(r"journal (\d+)", ana.get(f"{path}?version=2").text)
    assert born is not None
    shown = ana.get(f"{path}?as_of={born.group(1)}").text.partition('id="reader"')[2].partition("<form")[0]
    assert "lives in Porto and flies" in shown
    assert ana.get(f"{path}?as_of=1").status_code == 404
    assert ana.get(f"{path}?as_of=tomorrow").status_code == 400


def test_seeing_a_memory_leaves_a_knot_in_the_journal(house: House) -> None:
    ruth = house.person("ruth")
    record = house.demo.ids["Heating goes down to 17 °C at night, except in the study."]
    before = ruth.get(f"/journal?record={record}&op=read&actor=ruth").text.count('class="entry ')
    ruth.get(f"/memories/{record}")
    after = ruth.get(f"/journal?record={record}&op=read&actor=ruth").text.count('class="entry ')
    assert (before, after) == (0, 1)


def test_forgetting_asks_first_and_restoring_brings_back(house: House, ana: Person) -> None:
    path = (
        f"/memories/{house.demo.ids['Tomás asked whether the boots can be resoled; he was told yes, twice.']}"
    )
    assert "Forget this memory?" in ana.get(f"{path}/forget").text
    assert ana.send(f"{path}/forget", reason="asked twice <b>").headers["location"] == path
    gone = ana.get(path).text
    assert "Forgotten. No search finds it any more" in gone
    assert ">Forgotten: no search finds it any more." in gone
    assert "asked twice &lt;b&gt;" in gone
    assert "resoled" not in ana.get(f"/memories?agent={SUPPORT}").text
    assert "Forget…" not in gone
    assert ana.send(f"{path}/restore").headers["location"] == path
    assert "Restored" in ana.get(path).text
    assert "Restored" not in ana.get(path).text, "a notice is given once"
    assert "resoled" in ana.get(f"/memories?agent={SUPPORT}").text
    assert ana.send(f"{path}/restore").headers["location"] == path, "sent twice, as by a double click"
    assert "It is in use: there was nothing to restore." in ana.get(path).text


def test_a_restore_that_waits_is_not_said_to_be_done() -> None:
    with served() as running, Person(running.url) as person:
        service, do = running.service, running.do
        request = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="brought back")
        name = do(service.remember(local(), request)).id
        do(service.forget(local(), ForgetRequest(agent_id="ana", ids=(name,))))
        rule = {"id": "look", "effect": "hold", "when": {"operations": ["restore"]}}
        do(service.policies.set(local(), {"rules": [rule]}))
        person.sign_in(running.admin_token)
        path = memory_path(name)
        assert person.send(f"{path}/restore").headers["location"] == path
        page = person.get(path).text
        assert "Held: somebody has to approve it first." in page
        assert "Restored" not in page


def test_a_merged_memory_leads_to_the_one_that_stayed(house: House, ana: Person) -> None:
    text = ana.get(f"/memories/{house.demo.ids['twin']}").text
    assert "Merged into another memory" in text
    assert house.demo.ids["Mara is vegetarian and allergic to walnuts."] in text
    assert "same_as" in text


def test_a_machine_is_shown_as_such(house: House, ana: Person) -> None:
    text = ana.get(f"/memories/{house.demo.ids['return-parcel']}").text
    assert "&#34;name&#34;: &#34;return-parcel&#34;" in text


@pytest.mark.parametrize("name", ["mem_x", "%00", "..%2f..", "a" * 3000, "%F0%9F%92%A9", "prp_1"])
def test_what_is_no_memory_is_a_friendly_page(ana: Person, name: str) -> None:
    answer = ana.get(f"/memories/{name}")
    assert answer.status_code == 404
    assert "There is nothing here" in answer.text


def test_an_id_from_elsewhere_is_no_part_of_an_address() -> None:
    assert memory_path("a/../b?c=d#e&<f>") == "/memories/a%2F..%2Fb%3Fc%3Dd%23e%26%3Cf%3E"
    assert memory_path("mem_01M7") == "/memories/mem_01M7"


# -- journal, proof ----------------------------------------------------------------------------------------------


def test_the_journal_shows_knots_newest_first(ana: Person) -> None:
    text = ana.get("/journal").text
    places = [int(place.replace(",", "")) for place in re.findall(r'class="seq">([\d,]+)<', text)]
    assert places == sorted(places, reverse=True)
    assert len(places) == len(set(places)) == 40
    assert 'href="#k-read"' in text
    older = re.search(r'rel="next" href="([^"]+)"', text)
    assert older is not None
    further = ana.get(older.group(1).replace("&amp;", "&")).text
    assert int(re.findall(r'class="seq">([\d,]+)<', further)[0]) == places[-1] - 1


@pytest.mark.parametrize(
    ("query", "verb"),
    [
        ("op=forget", "forgot"),
        ("kind=decision", "proposed"),
        ("agent=home-assistant&op=remember", "remembered"),
        ("actor=mara", "forgot"),
    ],
)
def test_the_journal_can_be_narrowed(ana: Person, query: str, verb: str) -> None:
    said = re.findall(r'class="entry-said">(.*?)</p>', ana.get(f"/journal?{query}").text, re.S)
    assert said
    assert all(verb in one for one in said)


def test_a_search_in_the_journal_that_finds_nothing_says_so(ana: Person) -> None:
    assert "No entry passes these filters." in ana.get("/journal?actor=nobody").text


def test_verifying_says_that_nothing_was_altered(ana: Person) -> None:
    assert "names the first fault" in ana.get("/journal/proof").text
    answer = ana.send("/journal/verify")
    assert answer.headers["location"] == "/journal/proof"
    text = ana.get("/journal/proof").text
    assert "Nothing was altered" in text
    assert 'class="card result good"' in text
    assert "Nothing was altered" in ana.get("/").text, "the overview knows it, too"


@pytest.fixture
def tampered(tmp_path: Path) -> Iterator[Person]:
    """A memory that somebody wrote into behind the journal's back."""
    import apsw

    file = tmp_path / "memory.db"
    with served(file) as running, Person(running.url) as person:
        wish = RememberRequest(
            agent_id="ana", type=MemoryType.SEMANTIC, content="Refunds above 200 € need approval."
        )
        running.do(running.service.remember(local(), wish))
        connection = apsw.Connection(str(file))
        connection.execute("UPDATE record SET content = 'Refunds need no approval.'")
        connection.close()
        person.sign_in(running.admin_token)
        yield person


def test_a_fault_is_red_and_named(tampered: Person) -> None:
    tampered.send("/journal/verify")
    text = tampered.get("/journal/proof").text
    assert "Something was altered" in text
    assert 'class="card result bad"' in text
    assert re.search(r"First fault: <b>[a-z ]+</b> at position <b>\d+</b>", text)
    assert "A fault was found" in tampered.get("/").text


def test_the_proof_that_was_taken_away_holds_without_the_server(house: House, ana: Person) -> None:
    answer = ana.send("/journal/download")
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="quipu-proof-default.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        files = {name: archive.read(name).decode().splitlines() for name in archive.namelist()}
    assert set(files) == {"journal.ndjson", "checkpoints.ndjson", "keys.json", "records.ndjson"}
    found = verified_export(files, canonical, verify)
    assert found.holds
    assert found.entries > 50
    assert not found.unverifiable


# -- review ------------------------------------------------------------------------------------------------------


def test_a_proposal_shows_what_would_change_and_is_decided(house: House) -> None:
    ruth = house.person("ruth")
    texts = {proposal: ruth.get(f"/review/{proposal}").text for proposal in house.demo.proposals}
    (change,) = [proposal for proposal, text in texts.items() if "<ins>Braga</ins>" in text]
    assert "<del>Porto near Bolhão</del>" in texts[change]
    answer = ruth.send(f"/review/{change}", decision="reject", reason="she did not say so")
    assert answer.headers["location"] == "/review"
    assert "Rejected. Nothing was written." in ruth.get("/review").text
    settled = ruth.get(f"/review/{change}").text
    assert "Rejected by ruth" in settled
    assert "she did not say so" in settled
    assert '<form method="post" class="stack"' not in settled
    assert ruth.send(f"/review/{change}", decision="approve").status_code == 409
    assert change in ruth.get("/review?status=rejected").text


def test_an_approved_write_is_found_at_once(house: House) -> None:
    ruth = house.person("ruth")
    (wish,) = [
        proposal for proposal in house.demo.proposals if "5,000" in ruth.get(f"/review/{proposal}").text
    ]
    assert ruth.send(f"/review/{wish}", decision="approve").status_code == 303
    assert "up to 5,000" in ruth.get(f"/memories?agent={SUPPORT}").text


def test_neither_yes_nor_no_decides_nothing(house: House) -> None:
    """Only the word approve approves."""
    ruth = house.person("ruth")
    (left,) = [p for p in house.demo.proposals if "Forget this?" in ruth.get(f"/review/{p}").text]
    assert ruth.send(f"/review/{left}", decision="Approve").status_code == 400
    assert 'value="reject"' in ruth.get(f"/review/{left}").text


# -- errors ------------------------------------------------------------------------------------------------------


def test_an_unknown_address_is_a_page_for_people_and_a_problem_for_programs(
    house: House, ana: Person
) -> None:
    person = ana.get("/nowhere")
    assert person.status_code == 404
    assert "There is nothing here" in person.text
    program = ana.client.get("/nowhere", headers={"Accept": "application/json"})
    assert program.headers["content-type"].startswith("application/problem+json")
    assert house.person().get("/nowhere").status_code == 404, "also for who is not signed in"


def test_a_program_without_a_session_gets_a_problem_and_no_redirect(house: House) -> None:
    answer = house.person().client.get("/memories", headers={"Accept": "*/*"})
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("application/problem+json")


def test_what_is_too_large_is_called_so(ana: Person) -> None:
    answer = ana.client.post("/rules", data={"csrf": "x", "rules": "x" * 5_000_000})
    assert answer.status_code == 413
    assert "<h1>That is too large</h1>" in answer.text


def test_faults_look_like_faults_and_times_name_their_zone(house: House, ana: Person) -> None:
    for path in ("/grants?grantee=nobody", "/recover?agent=a&since=never"):
        assert '<p class="notice bad" role="alert">' in ana.get(path).text, path
    assert "Times are UTC." in ana.get("/journal").text
    assert "Days are those of UTC." in ana.get("/dashboard").text
    assert re.search(r"since \d+ \w+ \d{4}, \d\d:\d\d UTC; one bar", ana.get("/").text)


def test_the_overview_and_the_health_page_name_the_same_trouble(
    house: House, ana: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    health = house.served.service.health

    async def told(principal: Principal) -> dict[str, Json]:
        return {**await health(principal), "status": "degraded", "rules": {"since": 0}}

    monkeypatch.setattr(house.served.service, "health", told)
    for path in ("/", "/health"):
        assert "The rules file does not load" in ana.get(path).text, path


def test_a_fork_from_an_event_that_is_none_is_refused(house: House, ana: Person) -> None:
    service = house.served.service
    run = house.served.do(service.runs.open(local(), OpenRequest(workflow_id="w", is_external=True))).run
    house.served.do(service.runs.complete(local(), run.id))
    answer = ana.send(f"/runs/{run.id}/fork", mode="branch", from_seq="the first")
    assert answer.status_code == 400
    assert "whole number" in answer.text
    assert f'href="/runs/{run.id}">Back to the page</a>' in answer.text
    assert ana.send(f"/runs/{run.id}/fork", mode="branch", from_seq="0").status_code == 303


def test_a_method_that_is_not_taken_is_said(ana: Person) -> None:
    answer = ana.client.request("DELETE", "/stores")
    assert answer.status_code == 405
    assert "text/html" in answer.headers["content-type"]


def _held(house: House, text: str, reasoning: str | None = None) -> str:
    """The proposal of a memory that the bot wants kept."""
    service = house.served.service
    bot = replace(local(), name="bot", is_local=False)
    request = RememberRequest(
        agent_id=SUPPORT,
        type=MemoryType.SEMANTIC,
        content=text,
        approval_required=True,
        reasoning=reasoning,
    )
    held = house.served.do(service.remember(bot, request))
    return str(held.extensions["proposal_id"])


def _content(house: House, proposal: str) -> str:
    everybody = replace(local(), name="auditor", is_local=False)
    service = house.served.service
    found = house.served.do(service.governance.proposal(everybody, proposal))
    return house.served.do(service.reading.get(everybody, SUPPORT, found.record_id or "", None)).content


def test_a_reviewer_edits_before_approving(house: House) -> None:
    ruth, proposal = house.person("ruth"), _held(house, "Otis walks at nine", reasoning="he said <b>so</b>")
    page = ruth.get(f"/review/{proposal}").text
    assert "he said &lt;b&gt;so&lt;/b&gt;" in page
    etag = page.partition('name="etag" value="')[2].partition('"')[0]
    answer = ruth.send(f"/review/{proposal}", decision="edit", etag=etag, content="Otis walks at ten")
    assert answer.status_code == 303
    assert _content(house, proposal) == "Otis walks at ten"


def test_a_page_that_is_out_of_date_decides_nothing(house: House) -> None:
    ruth, proposal = house.person("ruth"), _held(house, "Otis sleeps late")
    assert ruth.send(f"/review/{proposal}", decision="approve", etag="old").status_code == 409
    assert ruth.send(f"/review/{proposal}", decision="shrug").status_code == 400
    assert 'value="approve"' in ruth.get(f"/review/{proposal}").text
    assert ruth.send(f"/review/{proposal}", decision="reject").status_code == 303


def test_memories_like_it_stand_beside_it_and_can_be_replaced(house: House) -> None:
    ruth = house.person("ruth")
    first = _held(house, "Otis eats dry food twice a day in the kitchen")
    ruth.send(f"/review/{first}", decision="approve")
    second = _held(house, "Otis eats dry food twice a day in the garden")
    page = ruth.get(f"/review/{second}").text
    assert "Memories like it" in page
    assert "Otis eats dry food twice a day in the kitchen" in page
    record = page.partition('name="record" value="')[2].partition('"')[0]
    assert ruth.send(f"/review/{second}", decision="supersede", record=record).status_code == 303
    assert _content(house, second).endswith("garden")
    gone = ruth.get(f"/memories/{record}").text
    assert "forgotten" in gone.lower()


def test_many_are_decided_at_once(house: House) -> None:
    ruth = house.person("ruth")
    names = [_held(house, f"Otis has toy number {number}") for number in range(3)]
    page = ruth.get("/review").text
    assert all(f'name="pick-{name}"' in page for name in names)
    ticked = {f"pick-{name}": "on" for name in names[:2]}
    assert ruth.send("/review", decision="approve", **ticked).status_code == 303
    assert "Approved 2 of 2 writes." in ruth.get("/review").text
    assert f'name="pick-{names[2]}"' in ruth.get("/review").text
    ruth.send("/review", decision="reject", **{f"pick-{name}": "on" for name in names})
    assert "Rejected 1 of 3 writes. The others could not be" in ruth.get("/review").text
    ruth.send("/review", decision="reject")
    assert "Nothing was ticked." in ruth.get("/review").text
