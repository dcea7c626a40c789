"""Files in and out on the page: sent, looked at, carried out, decided on, undone; and downloaded."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

import httpx

from quipu.model.access import Role
from quipu.model.principal import local
from tests.faces.web.conftest import House, Person

HOSTILE = "<script>alert(1)</script> Mara likes tea"


def sent(person: Person, file: bytes | None, **fields: str) -> httpx.Response:
    files: Any = {"file": ("their.txt", file)} if file is not None else {"file": ("", b"")}
    data = {"csrf": person.secret("/imports"), "agent": "ana", **fields}
    return person.client.post("/imports", data=data, files=files)


def named(answer: httpx.Response) -> str:
    found = re.search(r'action="/imports/(imp_[0-9A-Z]{26})"', answer.text)
    assert found is not None, answer.text
    return found.group(1)


def test_a_file_is_looked_at_then_brought_in_then_undone(ana: Person) -> None:
    answer = sent(ana, f"- {HOSTILE}\n- Mara lives in Utrecht\n".encode(), format="text")
    assert answer.status_code == 200
    assert "&lt;script&gt;" in answer.text
    assert "<script>alert" not in answer.text
    assert "lives in Utrecht" not in ana.get("/memories?agent=ana&q=Utrecht").text
    name = named(answer)
    assert ana.send(f"/imports/{name}", action="commit").status_code == 303
    shown = ana.get("/imports").text
    assert "2 memories came in" in shown
    assert name in shown
    assert ana.send(f"/imports/{name}", action="commit").status_code == 303, (
        "sent twice, as by a double click"
    )
    assert "Nothing came in anew." in ana.get("/imports").text
    assert ana.send(f"/imports/{name}", action="undo").status_code == 303
    assert "undone" in ana.get("/imports").text


def test_what_waits_of_an_import_is_seen_before_all_of_it_is_let_in(house: House, ana: Person) -> None:
    brought: list[str] = []
    for thing in ("harp", "drum"):
        with Person(house.url) as bot:
            token = house.served.do(
                house.served.service.tokens.issue(local(), name=f"{thing}-bot", roles=(Role.AGENT,))
            )
            bot.sign_in(token.text)
            answer = sent(bot, None, text=f"- Mara plays the {thing}\n- The {thing} is <b>old</b>\n")
            brought.append(named(answer))
            assert bot.send(f"/imports/{brought[-1]}", action="commit").status_code == 303
    link = f'href="/review?import={brought[0]}">See what waits</a>'
    assert link in ana.get("/imports").text
    page = ana.get(f"/review?import={brought[0]}").text
    assert "Mara plays the harp" in page
    assert "The harp is &lt;b&gt;old&lt;/b&gt;" in page
    assert "drum" not in page
    assert f'name="import" value="{brought[0]}"' in page
    assert '<a class="button quiet" href="/review?status=pending">Clear</a>' in page
    begun = ana.get(f"/review/next?import={brought[0]}").headers["location"]
    assert f"import={brought[0]}" in begun, "who works through them stays within it"
    assert ana.send(f"/imports/{brought[0]}", action="approve").status_code == 303
    assert "Nothing that waits passes the filters." in ana.get(f"/review?import={brought[0]}").text
    assert "drum" in ana.get(f"/review?import={brought[1]}").text


def test_text_is_pasted_instead_of_a_file(ana: Person) -> None:
    answer = sent(ana, None, text="- Mara prefers mountains\n")
    assert "Mara prefers mountains" in answer.text
    assert "preference" in answer.text
    assert sent(ana, None, text="  ").status_code == 400


def test_what_is_wrong_is_told_on_a_page(ana: Person) -> None:
    answer = sent(ana, b"PK\x03\x04 torn", format="")
    assert answer.status_code == 400
    assert "damaged" in answer.text
    assert sent(ana, b"- x\n", format="nonsense").status_code == 400
    assert ana.send("/imports/imp_nothing", action="commit").status_code == 404
    assert ana.send("/imports/imp_nothing", action="dance").status_code == 400


def test_a_form_of_another_site_is_refused(ana: Person) -> None:
    for secret, headers in (("wrong", {}), (ana.secret("/imports"), {"Origin": "https://evil.example"})):
        answer = ana.client.post(
            "/imports", data={"csrf": secret, "agent": "ana", "text": "- x"}, headers=headers
        )
        assert answer.status_code == 403


def test_memories_are_downloaded_in_the_format_that_was_chosen(ana: Person) -> None:
    page = ana.get("/export").text
    for format in ("quipu-bundle-v1", "pam-1.0", "omi-l1", "markdown", "mem0", "letta-blocks"):
        assert f'value="{format}"' in page
    answer = ana.send("/export", format="quipu-bundle-v1")
    assert answer.headers["content-disposition"].startswith("attachment")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert "manifest.json" in archive.namelist()
    assert ana.send("/export", format="mem0", agent="nobody").json() == {"results": []}
    assert ana.send("/export", format="chatgpt").status_code == 400


def test_who_only_reads_sees_neither(house: House) -> None:
    for name in house.demo.tokens:
        person = house.person(name)
        for path in ("/imports", "/export"):
            assert person.get(path).status_code in (200, 403)
        if person.get("/export").status_code == 403:
            assert person.send("/export", format="mem0").status_code == 403
