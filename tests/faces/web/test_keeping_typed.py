"""What a person typed is not lost when it cannot be taken."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from typing import Any

import httpx
import pytest

from quipu.model.access import Role
from quipu.model.operations import RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from tests.faces.serving import served
from tests.faces.web.conftest import House, Opened, Person
from tests.faces.web.demo import SUPPORT

DRAFT = '[{"id": "mine", "effect": "hold", "when": {"tags": ["</textarea><b>"]}}]'


def ending(house: House, name: str) -> tuple[str, str]:
    """A token of its own, and its id, to be revoked while a form is open."""
    tokens = house.served.service.tokens
    issued = house.served.do(tokens.issue(local(), name=name, roles=(Role.ADMIN,)))
    return issued.text, issued.token.id


def end(house: House, token_id: str) -> None:
    house.served.do(house.served.service.tokens.revoke(local(), token_id))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("has_script", [True, False])
async def test_a_form_that_a_session_did_not_outlive_is_handed_back(
    house: House, window: Opened, has_script: bool
) -> None:
    text, token_id = ending(house, f"away-{has_script}")
    here = await window(java_script_enabled=has_script)
    await here.sign_in(text)
    await here.go("/rules?x=1")
    await here.page.fill("#rules", DRAFT)
    end(house, token_id)
    await here.page.click("button[value=try]")
    assert "Your session has ended" in await here.text("h1")
    assert "Nothing of what you sent was done." in await here.text()
    assert await here.page.input_value("textarea") == DRAFT
    assert await here.page.evaluate("document.querySelectorAll('main b').length") == 0 if has_script else True
    await here.page.click("main a.button")
    await here.page.fill("#token", house.demo.tokens["ana"])
    await here.page.click("button[type=submit]")
    await here.page.wait_for_url(re.compile(r"/rules\?x=1$"))
    here.complaints[:] = [one for one in here.complaints if "status of 401" not in one]


def test_what_nobody_typed_is_not_repeated(house: House) -> None:
    text, token_id = ending(house, "away-again")
    person = house.person()
    person.sign_in(text)
    secret = person.secret()
    end(house, token_id)
    answer = person.client.post("/journal/verify", data={"csrf": secret})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/signin?next=%2Fjournal&ended=1"


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"rules=%3Cb%3Emine", FORM, 401),
        (b"rules=%3Cb%3Emine", {**FORM, "Sec-Fetch-Site": "cross-site"}, 403),
        (b"rules=%3Cb%3Emine", {"Content-Type": "multipart/form-data; boundary=x"}, 303),
        (b"rules=" + b"x" * 300_000, FORM, 303),
        (b"&".join(b"a%d=1" % number for number in range(200)), FORM, 303),
    ],
    ids=["text", "foreign", "no form", "too long", "too many"],
)
def test_a_form_of_nobody_known_is_neither_obeyed_nor_followed(
    house: House, body: bytes, headers: dict[str, str], status: int
) -> None:
    person = house.person()
    person.client.cookies.set("quipu", "made-up")
    answer = person.client.post("/rules", content=body, headers=headers)
    assert answer.status_code == status
    assert "<b>mine" not in answer.text


def test_who_never_signed_in_is_not_handed_anything_back(house: House) -> None:
    answer = house.person().client.post("/rules", data={"rules": DRAFT})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/signin?next=%2Frules"


def test_a_form_of_an_earlier_session_is_handed_back(ana: Person) -> None:
    """Its tab stayed open while somebody signed in anew in another one."""
    answer = ana.client.post("/rules?x=1", data={"csrf": "of the session before", "rules": DRAFT})
    assert answer.status_code == 403
    kept = re.search(r"<textarea[^>]* readonly>\n(.*?)</textarea>", answer.text, re.S)
    assert kept is not None
    assert html.unescape(kept.group(1)) == DRAFT
    assert 'href="/rules?x=1">Back to the page</a>' in answer.text


def test_rules_that_somebody_else_changed_meanwhile_are_not_undone_unseen() -> None:
    def rule(name: str) -> dict[str, Any]:
        return {"id": name, "effect": "hold", "when": {"sources": [name]}}

    with served() as running, Person(running.url) as person:
        person.sign_in(running.admin_token)
        opened = person.get("/rules").text
        begun = opened.partition('name="begun" value="')[2].partition('"')[0]
        running.do(running.service.policies.set(local(), {"rules": [rule("theirs")]}))
        mine = json.dumps([rule("mine")])
        tried = person.send("/rules", do="try", rules=mine, begun=begun).text
        assert f'name="begun" value="{begun}"' in tried, "a draft that is tried was begun when it was begun"
        answer = person.send("/rules", do="keep", rules=mine, begun=begun)
        assert answer.status_code == 409
        assert "Nothing was kept." in answer.text
        assert "<code>theirs</code>" in answer.text, "what is in force stands above"
        assert html.unescape(answer.text).count(mine) == 1, "what was typed stays"
        kept = running.do(running.service.policies.own(local()))
        assert [one.id for one in kept] == ["theirs"]
        seen = answer.text.partition('name="begun" value="')[2].partition('"')[0]
        both = json.dumps([rule("theirs"), rule("mine")])
        assert person.send("/rules", do="keep", rules=both, begun=seen).status_code == 303
        kept = running.do(running.service.policies.own(local()))
        assert [one.id for one in kept] == ["theirs", "mine"]


PASTED = "Mara likes tea.\nMara likes <b>"


def typed_again(answer: httpx.Response) -> str:
    kept = re.search(r"<textarea[^>]* readonly>\n(.*?)</textarea>", answer.text, re.S)
    assert kept is not None
    return html.unescape(kept.group(1)).replace("\r\n", "\n")


@pytest.mark.parametrize("file", [("", b""), ("memories.txt", b"one\ntwo")], ids=["no file", "a file"])
def test_a_text_that_was_pasted_outlives_the_session(house: House, file: tuple[str, bytes]) -> None:
    text, token_id = ending(house, f"away-{file[0]}")
    person = house.person()
    person.sign_in(text)
    fields = {"csrf": person.secret(), "agent": "desk", "text": PASTED}
    end(house, token_id)
    answer = person.client.post("/imports", data=fields, files={"file": file})
    assert answer.status_code == 401
    assert typed_again(answer) == PASTED


def test_a_text_that_was_pasted_in_an_earlier_session_is_handed_back(ana: Person) -> None:
    fields = {"csrf": "of the session before", "agent": "desk", "text": PASTED}
    answer = ana.client.post("/imports", data=fields, files={"file": ("", b"")})
    assert answer.status_code == 403
    assert typed_again(answer) == PASTED


def test_a_secret_that_was_refused_is_not_repeated() -> None:
    secret = "sk-ant-api03-" + "A1b2" * 20
    with served(secrets_policy="reject") as running, Person(running.url) as person:
        person.sign_in(running.admin_token)
        wishes = [
            RememberRequest(
                agent_id="desk", type=MemoryType.SEMANTIC, content=text, approval_required=is_held
            )
            for text, is_held in (("stays", False), ("waits", True))
        ]
        writer = replace(local(), name="bot")
        kept, held = (running.do(running.service.remember(writer, wish)) for wish in wishes)
        proposal = held.extensions["proposal_id"]
        for path, fields in (
            (f"/memories/{kept.id}/forget", {"reason": f"because of {secret}"}),
            (f"/review/{proposal}", {"decision": "edit", "content": f"with {secret}"}),
        ):
            answer = person.send(path, **fields)
            assert answer.status_code == 422
            assert "holds a secret" in answer.text
            assert secret not in answer.text


@pytest.mark.parametrize(
    ("fields", "said", "status"),
    [
        ({"agent": "desk", "text": "Mara likes tea.\nMara likes <b>", "store": "team-notes"}, "Nothing came in.", 403),
        ({"agent": SUPPORT, "text": "  "}, "Choose a file, or paste some text.", 400),
    ],
    ids=["an agent of others", "nothing"],
)  # fmt: skip
def test_a_text_that_cannot_be_brought_in_stays_in_the_form(
    house: House, fields: dict[str, str], said: str, status: int
) -> None:
    bot = house.person("bot")
    answer = bot.client.post("/imports", data={"csrf": bot.secret(), **fields}, files={"file": ("", b"")})
    assert answer.status_code == status
    assert said in answer.text
    kept = re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', answer.text, re.S)
    assert kept is not None
    assert html.unescape(kept.group(1)).replace("\r\n", "\n") == fields["text"]
    assert f'name="agent" value="{fields["agent"]}"' in answer.text
    assert f'value="{fields.get("store", "")}"' in answer.text


def test_ids_that_cannot_be_erased_stay_in_the_form(ana: Person) -> None:
    answer = ana.send("/erasures", ids="mem_one, mem_two", reason="asked <i>twice</i>")
    assert answer.status_code == 400
    assert "Nothing was erased." in answer.text
    assert 'value="mem_one, mem_two"' in answer.text
    assert "asked &lt;i&gt;twice&lt;/i&gt;" in answer.text
