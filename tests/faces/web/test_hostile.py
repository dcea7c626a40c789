"""Memory is written by strangers: nothing they write acts on the page, whatever page it is shown on."""

from __future__ import annotations

import time

import pytest

from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import Link, MemoryType
from quipu.model.runs import EventType
from quipu.service.runs import OpenRequest
from tests.faces.web.conftest import House, Opened, Person

pytestmark = pytest.mark.asyncio(loop_scope="module")

AGENT = "hostile<script>alert(1)</script>"
TEXTS = (
    "<script>window.hit = 1</script>",
    '<img src=x onerror="window.hit = 1">',
    "\"><svg onload=window.hit=1><a href='javascript:window.hit=1'>",
    "{{ 7 * 7 }} {% for x in y %} ${7*7} <%= 7*7 %>",
    "# heading\n\n[link](javascript:window.hit=1) **bold** `code` <!-- comment -->",
    "\u202egpj.exe\u202c and \u2066isolated\u2069 \u200f",
    "&lt;b&gt; &amp;amp; &#60;script&#62;",
    "null",
    "None",
    "undefined",
    "NaN",
    "]]></template></textarea></title><script>window.hit=1</script>",
    " ",
    "'; DROP TABLE record; --",
    "a" * 5000,
    "שלום עולם وسلام",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \u0301\u0301\u0301 z\u0351\u036b\u0343",
)


@pytest.fixture(scope="module")
def planted(house: House) -> list[str]:
    """Hostile text in every field that takes text."""
    service = house.served.service
    ids: list[str] = []
    for text in TEXTS:
        short = text[:100]
        wish = RememberRequest(
            agent_id=AGENT,
            user_id=short.strip() or "u",
            session_id=short.strip() or "s",
            type=MemoryType.SEMANTIC,
            content=text,
            source=short.strip() or "x",
            tags=(short.strip() or "t",),
            metadata={short: text, "nested": {"k": [text]}},
            links=(Link(to=ids[-1], rel=short.strip() or "r"),) if ids else (),
        )
        made = house.served.do(service.remember(local(), wish))
        ids.append(made.id)
    changed = RememberRequest(agent_id=AGENT, type=MemoryType.SEMANTIC, content="<del>" + TEXTS[1], id=ids[0])
    house.served.do(service.remember(local(), changed))
    for text in ("stays", "stays <img src=x onerror=window.hit=1> stays", "stays stays"):
        change = RememberRequest(agent_id=AGENT, type=MemoryType.SEMANTIC, content=text, id=ids[1])
        house.served.do(service.remember(local(), change))
    house.served.do(service.forget(local(), ForgetRequest(agent_id=AGENT, ids=(ids[2],), reason=TEXTS[1])))
    held = RememberRequest(
        agent_id=AGENT, type=MemoryType.SEMANTIC, content=TEXTS[1], reasoning=TEXTS[0], approval_required=True
    )
    proposal = house.served.do(service.remember(local(), held)).extensions["proposal_id"]
    return [*ids, str(proposal)]


def addresses(planted: list[str]) -> list[str]:
    *ids, proposal = planted
    agent = "hostile%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    text = "%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.hit%3D1%3E"
    return [
        "/",
        f"/memories?agent={agent}",
        f"/memories?agent={agent}&state=forgotten",
        f"/memories?agent={agent}&q=script+window+hit+onerror&weak=1",
        f"/memories?agent={agent}&q={text}&user={text}&session={text}&tags={text}&since={text}",
        f"/memories?agent={agent}&filter={text}&as_of={text}",
        f"/memories?agent={text}&store={text}",
        f"/journal?agent={agent}",
        f"/journal?actor={text}&record={text}&op={text}&kind={text}&about={text}",
        "/journal/proof",
        f"/signin?next={text}",
        "/review",
        f"/review?status={text}",
        f"/review/{proposal}",
        f"/review/{proposal}?ask={text}&queue=1",
        f"/review?agent={agent}&operation={text}&writer={text}&rule={text}&import={text}&cursor={text}",
        "/rules",
        "/patterns",
        "/candidates",
        "/dashboard",
        f"/grants?grantee={text}&purpose={text}&labels={text}&scope={text}&days={text}&most={text}&level={text}",
        f"/recover?agent={agent}&since=0",
        f"/recover?agent={text}&source={text}&by={text}&since={text}&trusted={text}",
        f"/review/{text}",
        f"/memories/{text}",
        f"/{text}",
        f"/static/{text}",
        *(f"/memories/{record}" for record in ids),
        *(f"/memories/{record}/forget" for record in ids[:3]),
    ]


async def test_no_page_lets_text_act(house: House, window: Opened, planted: list[str]) -> None:
    here = await window()
    await here.page.add_init_script(
        "document.addEventListener('securitypolicyviolation', (event) => console.error('refused ' + event.effectiveDirective))"
    )
    await here.sign_in(house.demo.tokens["ana"])
    for path in addresses(planted):
        await here.go(path)
        state = await here.page.evaluate(
            """() => [window.hit === undefined, document.querySelectorAll('script').length,
                      document.querySelectorAll('main img, main iframe, main object, [onerror], [onload], a[href^="javascript:"]').length]"""
        )
        assert state[0], f"text acted on {path}"
        assert state[1] <= 1, f"a script of somebody else's on {path}"
        assert state[2] == 0, f"markup of somebody else's on {path}"
    here.complaints[:] = [text for text in here.complaints if "responded with a status of 40" not in text]


async def test_text_is_shown_as_it_was_written(house: House, window: Opened, planted: list[str]) -> None:
    here = await window()
    await here.sign_in(house.demo.tokens["ana"])
    for record, text in zip(planted[2:], TEXTS[2:], strict=False):
        if "\u202e" in text or not text.strip():
            continue
        await here.go(f"/memories/{record}")
        shown = await here.page.text_content("#reader .content")
        assert shown == text


async def test_characters_that_reorder_are_named(house: House, window: Opened, planted: list[str]) -> None:
    here = await window()
    await here.sign_in(house.demo.tokens["ana"])
    await here.go(f"/memories/{planted[5]}")
    shown = await here.page.text_content("#reader .content")
    assert shown is not None
    assert "\u202e" not in shown
    assert "U+202Egpj.exeU+202C" in shown
    assert "\u202e" not in await here.page.content()


async def test_a_control_character_in_a_name_breaks_no_picture(house: House, window: Opened) -> None:
    """Markup inside a drawing would end the drawing: what follows would stand on the page as loose text."""
    service, name = house.served.service, "name \u202eeman"
    machine = {"name": name, "initial": name, "states": [name, "end"], "transitions": [{"trigger": name, "source": name, "dest": "end"}]}  # fmt: skip
    wishes = [
        RememberRequest(agent_id="bells", session_id="s", type=MemoryType.PROCEDURAL, content=machine),
        RememberRequest(
            agent_id="bells", session_id="s", type=MemoryType.SEMANTIC, content="bell\x07" + name
        ),
    ]
    procedure, fact = (house.served.do(service.remember(local(), wish)).id for wish in wishes)
    run = house.served.do(service.runs.open(local(), OpenRequest(workflow_id="w", is_external=True))).run
    for node in (name, "after"):
        house.served.do(service.runs.node(local(), run.id, node, EventType.NODE_STARTED))
    here = await window()
    await here.sign_in(house.demo.tokens["ana"])
    for path, last in (
        (f"/memories/{procedure}/procedure", ".drawing .state-box:last-of-type text"),
        (f"/memories/{fact}/graph", ".drawing .memory-dot text"),
        (f"/runs/{run.id}", ".timeline text:last-of-type"),
    ):
        await here.go(path)
        assert await here.page.locator("main svg span, main > span").count() == 0, path
        assert await here.page.locator(f"main {last}").count() >= 1, path
        assert await here.page.evaluate("document.querySelectorAll('main rect, main circle').length === document.querySelectorAll('main svg rect, main svg circle').length"), path  # fmt: skip


async def test_a_memory_of_a_million_characters_is_shown_in_part_and_quickly(
    house: House, ana: Person
) -> None:
    text = ("word <b> " * 120_000)[: 1 << 20]
    wish = RememberRequest(agent_id="long", type=MemoryType.SEMANTIC, content=text)
    made = house.served.do(house.served.service.remember(local(), wish))
    change = RememberRequest(agent_id="long", type=MemoryType.SEMANTIC, content=text[:-1] + "!", id=made.id)
    house.served.do(house.served.service.remember(local(), change))
    began = time.perf_counter()
    answer = ana.get(f"/memories/{made.id}")
    assert time.perf_counter() - began < 1
    assert answer.status_code == 200
    assert len(answer.content) < 300_000
    assert "1,028,576 more characters" in answer.text
    assert "too long to compare" in answer.text
    assert "template data-version" not in answer.text
    whole = ana.get(f"/memories/{made.id}?whole=1").text
    assert whole.count("&lt;b&gt;") >= 116_000
    listed = ana.get("/memories?agent=long")
    assert len(listed.content) < 50_000
    assert len(ana.get("/memories?agent=long&q=word").content) < 50_000


async def test_a_memory_of_a_hundred_versions_is_shown_in_part(house: House, ana: Person) -> None:
    service = house.served.service
    first = RememberRequest(agent_id="many", type=MemoryType.SEMANTIC, content="version 1")
    made = house.served.do(service.remember(local(), first))
    for number in range(2, 101):
        wish = RememberRequest(
            agent_id="many", type=MemoryType.SEMANTIC, content=f"version {number}", id=made.id
        )
        house.served.do(service.remember(local(), wish))
    text = ana.get(f"/memories/{made.id}").text
    assert text.count('class="strand-head"') == 20
    assert "80 older versions" in text
    assert ana.get(f"/memories/{made.id}?all=1").text.count('class="strand-head"') == 100
    assert 'min="1" max="100"' in text
