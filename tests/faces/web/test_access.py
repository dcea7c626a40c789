"""Everybody sees what their token reaches, and nothing else; what is missing is said kindly."""

import re

import pytest

from quipu.model.access import Role
from quipu.model.operations import RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from tests.faces.web.conftest import House, Person
from tests.faces.web.demo import HOME, SUPPORT, TRAVEL

PAGES = ("/", "/memories", "/stores", "/journal", "/journal/proof", "/review", "/health")
JONAS = "Jonas needs step-free hotels: he travels with his mother, who uses a wheelchair."
TOMAS = "Tomás wears size 43 and wants hiking boots with wide toes."
MARA = "Mara is vegetarian and allergic to walnuts."
#: As a word of its own: the same digits are in many a digest.
CODE = re.compile(r"\b4711\b")


def statuses(person: Person) -> dict[str, int]:
    return {path: person.get(path).status_code for path in PAGES}


def test_who_may_do_all_sees_every_page(ana: Person) -> None:
    assert set(statuses(ana).values()) == {200}


def test_a_reviewer_reads_and_decides_but_has_no_button_that_writes(house: House) -> None:
    ruth = house.person("ruth")
    assert set(statuses(ruth).values()) == {200}
    page = ruth.get(f"/memories/{house.demo.ids[JONAS]}").text
    assert "Forget…" not in page
    gone = ruth.get(f"/memories/{house.demo.ids['The plumber is Rui Carvalho; he comes on Thursdays.']}").text
    assert "no search finds it any more" in gone
    assert "<button" not in gone.partition("<main")[2]
    assert "Download the proof" not in ruth.get("/journal").text
    assert ruth.send(f"/memories/{house.demo.ids[JONAS]}/forget").status_code == 403
    assert ruth.get(f"/memories/{house.demo.ids[JONAS]}/forget").status_code == 403
    assert ruth.send("/journal/download").status_code == 403


def test_an_agents_token_reads_and_writes_but_does_not_review(house: House) -> None:
    bot = house.person("bot")
    seen = statuses(bot)
    assert {path for path, status in seen.items() if status == 403} == {"/journal", "/review"}
    refusal = bot.get("/review").text
    assert "You may not see or do this" in refusal
    assert "memory:review" in refusal
    assert 'href="/review"' not in bot.get("/").text
    assert "Forget…" in bot.get(f"/memories/{house.demo.ids[TOMAS]}").text


def test_who_sees_agent_by_agent_is_not_told_that_there_is_nothing(house: House) -> None:
    """A token for every agent that may not list them all knows of none; that is no empty memory."""
    token = house.served.do(house.served.service.tokens.issue(local(), name="any-bot", roles=(Role.AGENT,)))
    with Person(house.url) as bot:
        bot.sign_in(token.text)
        text = bot.get("/").text
    assert "No memories yet" not in text
    assert "Nothing has been remembered" not in text
    assert '<a href="/memories">Name the agent</a>' in text


def test_an_operators_token_sees_no_memory(house: House) -> None:
    oper = house.person("oper")
    seen = statuses(oper)
    assert {path for path, status in seen.items() if status == 200} == {"/", "/health"}
    for path in ("/", "/health"):
        text = oper.get(path).text
        assert "Mara" not in text
        assert TRAVEL not in text


def test_a_token_for_one_agent_sees_that_agent_only(house: House) -> None:
    reader = house.person("reader")
    for path in (*PAGES, "/memories?agent=" + TRAVEL, "/memories?q=Jonas&agent=" + TRAVEL):
        text = reader.get(path).text
        assert SUPPORT not in text, path
        assert "Mara" not in text, path
    assert "step-free" in reader.get("/memories").text
    assert reader.get(f"/memories?agent={SUPPORT}").status_code == 403
    assert reader.get(f"/memories?q=Mara&agent={SUPPORT}").status_code == 403


def test_a_token_for_one_user_sees_that_user_only(house: House) -> None:
    mara = house.person("only-mara")
    assert "walnuts" in mara.get(f"/memories?agent={SUPPORT}").text
    for path in ("/", f"/memories?agent={SUPPORT}", f"/memories?q=boots&agent={SUPPORT}&weak=1"):
        text = mara.get(path).text
        assert "Tomás" not in text, path
        assert "Refunds above" not in text, path
    assert mara.get(f"/memories?agent={SUPPORT}&user=tomas").status_code == 403


@pytest.mark.parametrize("name", ["reader", "only-mara", "bot"])
def test_what_is_out_of_reach_is_as_if_it_were_not_there(house: House, name: str) -> None:
    person = house.person(name)
    foreign = {"reader": MARA, "only-mara": TOMAS, "bot": JONAS}[name]
    record = house.demo.ids[foreign]
    nothing = person.get("/memories/mem_00000000000000000000000000")
    for path in (f"/memories/{record}", f"/memories/{record}?version=1", f"/memories/{record}?as_of=5"):
        answer = person.get(path)
        assert answer.status_code == nothing.status_code == 404, path
        assert foreign not in answer.text
    for path in (f"/memories/{record}/forget", f"/memories/{record}/restore"):
        assert person.send(path).status_code in (403, 404), path


def test_another_tenant_is_another_world(house: House) -> None:
    """Every address that takes an id, with every id of the other tenant."""
    service = house.served.service
    house.served.do(service.tenancy.create(local(), "other"))
    issued = house.served.do(service.tokens.issue(local(), name="otto", roles=(Role.ADMIN,), tenant="other"))
    otto = house.person()
    assert otto.sign_in(issued.text).status_code == 303
    for path in PAGES:
        answer = otto.get(path)
        assert answer.status_code == 200, path
        assert "walnuts" not in answer.text, path
        assert TRAVEL not in answer.text, path
    for record in house.demo.ids.values():
        assert otto.get(f"/memories/{record}").status_code == 404
        assert otto.get(f"/memories/{record}/forget").status_code == 404
        assert otto.send(f"/memories/{record}/forget").status_code == 404
        assert otto.send(f"/memories/{record}/restore").status_code == 404
        assert record not in otto.get(f"/journal?record={record}").text.partition("<ol")[2]
    for proposal in house.demo.proposals:
        assert otto.get(f"/review/{proposal}").status_code == 404
        assert otto.send(f"/review/{proposal}", decision="approve").status_code == 404
    assert otto.get("/memories?agent=" + SUPPORT).text.count("hit-link") == 0
    assert otto.get("/memories?tenant=default&agent=" + SUPPORT).text.count("hit-link") == 0


def test_pending_writes_are_in_no_list_and_no_search(house: House, ana: Person) -> None:
    for path in (f"/memories?agent={SUPPORT}", f"/memories?agent={SUPPORT}&q=order+on+account&weak=1", "/"):
        assert "up to 5,000" not in ana.get(path).text
    assert "up to 5,000" in ana.get("/review").text


def test_a_secret_is_shown_only_where_it_was_opened(house: House, ana: Person) -> None:
    for path in ("/", f"/memories?agent={HOME}", f"/memories?agent={HOME}&q=alarm+code", "/journal"):
        assert not CODE.search(ana.get(path).text), path
    page = ana.get(f"/memories/{house.demo.ids['The alarm code is 4711.']}").text
    assert CODE.search(page.partition("<details")[2].partition("</details>")[0])
    assert not CODE.search(page.partition("<details")[0])
    assert not CODE.search(page.partition("</details>")[2])


def test_nobody_approves_their_own_write(house: House) -> None:
    service = house.served.service
    token = house.served.do(service.tokens.issue(local(), name="both", roles=(Role.ADMIN,))).text
    both = house.person()
    both.sign_in(token)
    principal = house.served.do(service.credentials.principal(token))
    wish = RememberRequest(agent_id="x", type=MemoryType.SEMANTIC, content="mine", approval_required=True)
    held = house.served.do(service.remember(principal, wish))
    proposal = held.extensions["proposal_id"]
    assert 'value="approve"' not in both.get(f"/review/{proposal}").text
    answer = both.send(f"/review/{proposal}", decision="approve")
    assert answer.status_code == 403
    assert "own write" in answer.text
    assert both.send(f"/review/{proposal}", decision="reject").status_code == 303
