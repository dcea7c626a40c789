"""What can be measured of how the page looks: labels, headings, contrast, widths, day and night."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu.faces.web import sheets
from quipu.model.operations import RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.model.runs import EventType, RunError, Variable
from quipu.service.runs import OpenRequest
from tests.faces.web.conftest import House, Opened, Window
from tests.faces.web.demo import SUPPORT, TRAVEL
from tests.faces.web.test_grants import GRANTEE, disputed

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Pictures of every page are left here when the variable names a folder.
SHOTS = os.environ.get("QUIPU_SHOTS")

#: Everything a checker without eyes can say about a page. Returns complaints.
CHECK = """
() => {
  const complaints = [];
  const say = (what, node) => complaints.push(`${what}: ${node.outerHTML.slice(0, 120)}`);
  const text = (node) => (node.innerText || node.textContent || '').trim();
  const isShown = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  if (document.documentElement.lang !== 'en') complaints.push('no language');
  if (!document.title.includes('Quipu')) complaints.push('no title');
  if (document.querySelectorAll('main').length !== 1) complaints.push('not one main');
  if (document.querySelectorAll('h1').length !== 1) complaints.push('not one h1');

  let level = 0;
  for (const heading of document.querySelectorAll('h1, h2, h3, h4')) {
    const now = Number(heading.tagName[1]);
    if (now > level + 1) say('a heading skips a level', heading);
    if (!text(heading)) say('an empty heading', heading);
    level = now;
  }
  for (const field of document.querySelectorAll('input:not([type=hidden]), select, textarea'))
    if (!field.labels.length && !field.getAttribute('aria-label')) say('no label', field);
  for (const control of document.querySelectorAll('a, button, summary'))
    if (!text(control) && !control.getAttribute('aria-label')) say('no name', control);
  for (const picture of document.querySelectorAll('svg'))
    if (picture.getAttribute('aria-hidden') !== 'true' && !picture.getAttribute('aria-label')) say('no words for a picture', picture);
  for (const image of document.querySelectorAll('img')) if (!image.hasAttribute('alt')) say('no alt', image);
  const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);
  for (const id of ids) if (ids.filter((other) => other === id).length > 1) complaints.push(`id twice: ${id}`);
  for (const node of document.querySelectorAll('[aria-labelledby], [aria-describedby]'))
    for (const id of `${node.getAttribute('aria-labelledby') || ''} ${node.getAttribute('aria-describedby') || ''}`.split(' '))
      if (id && !document.getElementById(id)) say('names what is not there', node);
  for (const node of document.querySelectorAll('[style], [onclick], [onerror], [onload]')) say('inline', node);

  for (const cell of document.querySelectorAll('td'))
    if (text(cell).length > 12 && cell.clientWidth < 56) say(`squeezed to ${cell.clientWidth}`, cell);

  // Contrast of every text against what is behind it (WCAG 2, 1.4.3).
  const drawing = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const colour = (value) => {
    drawing.clearRect(0, 0, 1, 1); drawing.fillStyle = value; drawing.fillRect(0, 0, 1, 1);
    return [...drawing.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, under) => top.slice(0, 3).map((part, place) => (part * top[3] + under[place] * (255 - top[3])) / 255);
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const own = colour(getComputedStyle(at).backgroundColor);
      if (own[3]) layers.push(own);
      if (own[3] === 255) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((part) => { const c = part / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(node) || node.closest('svg, template, .unseen, .skip, script, option, [aria-hidden=true]') || !isShown(node)) continue;
    seen.add(node);
    const style = getComputedStyle(node);
    const under = behind(node);
    const [one, other] = [light(over(colour(style.color), under)), light(under)].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) say(`contrast ${ratio.toFixed(2)}`, node);
  }
  return complaints;
}
"""


def paths(house: House, grant_id: str) -> dict[str, str]:
    ids = house.demo.ids
    ines = ids["Inês lives in Lisbon and flies from Humberto Delgado."]
    return {
        "overview": "/",
        "memories": "/memories",
        "search": f"/memories?q=Jonas+and+his+mother&agent={TRAVEL}&weak=1",
        "nothing": f"/memories?q=chromodynamics&agent={SUPPORT}",
        "filters": f"/memories?agent={SUPPORT}&tags=food&type=semantic&filter=%7B",
        "past": f"/memories?agent={TRAVEL}&as_of=12",
        "record": f"/memories/{ines}",
        "record-past": f"/memories/{ines}?version=1",
        "record-gone": f"/memories/{ids['The plumber is Rui Carvalho; he comes on Thursdays.']}",
        "record-secret": f"/memories/{ids['The alarm code is 4711.']}",
        "record-machine": f"/memories/{ids['return-parcel']}",
        "forget": f"/memories/{ines}/forget",
        "stores": "/stores",
        "journal": "/journal",
        "journal-of-one": f"/journal?record={ines}",
        "proof": "/journal/proof",
        "review": "/review",
        "review-decided": "/review?status=approved",
        "rules": "/rules",
        "patterns": "/patterns",
        "candidates": "/candidates",
        "recover": f"/recover?agent={SUPPORT}&source=chat",
        "dashboard": "/dashboard",
        "proposal": f"/review/{house.demo.proposals[0]}",
        "graph": f"/memories/{ines}/graph",
        "runs": "/runs",
        "imports": "/imports",
        "export": "/export",
        "grants": "/grants",
        "grant": f"/grants/{grant_id}",
        "erasures": "/erasures",
        "health": "/health",
        "traces": "/traces",
        "missing": "/memories/mem_nothing",
    }


async def looked_at(here: Window, house: House, width: int, scheme: str) -> dict[str, Any]:
    """Complaints about every page, and a picture of each if somebody wants them."""
    found: dict[str, Any] = {}
    await here.go("/signin")
    found["signin"] = await here.page.evaluate(CHECK)
    await shot(here, f"signin-{scheme}-{width}")
    await here.sign_in(house.demo.tokens["ana"])
    grant_id = await asyncio.to_thread(disputed, house, 3)
    for name, path in paths(house, grant_id).items():
        await here.go(path)
        if name == "proof":
            await here.page.click("main button")
            await here.page.wait_for_selector(".result")
        if name == "search":
            await here.page.locator(".why summary").first.click()
        found[name] = await here.page.evaluate(CHECK)
        wide = await here.page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            found[name].append(f"{wide} wide on a screen of {width}")
        await shot(here, f"{name}-{scheme}-{width}")
    # A page that answers 400 or 404 is told in the console by the browser itself.
    here.complaints[:] = [text for text in here.complaints if "responded with a status of 40" not in text]
    return {name: complaints for name, complaints in found.items() if complaints}


async def shot(here: Window, name: str) -> None:
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  only when somebody wants pictures
        await here.page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(1280, "light"), (1280, "dark"), (800, "light"), (375, "light"), (375, "dark"), (320, "light")],
)
async def test_every_page_is_labelled_ordered_legible_and_fits(
    house: House, window: Opened, width: int, scheme: str
) -> None:
    here = await window(color_scheme=scheme, viewport={"width": width, "height": 844})
    assert await looked_at(here, house, width, scheme) == {}


async def test_the_checker_finds_what_is_wrong(window: Opened) -> None:
    """A check that cannot fail is none."""
    here = await window()
    await here.page.set_content(
        "<main><h1>a</h1><h3>b</h3><input><button></button><svg></svg><p id=x id=x style='color:#999;background:#fff'>pale</p><a href=x id=x></a></main>"
    )
    found = " ".join(await here.page.evaluate(CHECK))
    for wrong in (
        "no language",
        "skips a level",
        "no label",
        "no name",
        "no words",
        "contrast 2.85",
        "id twice",
        "inline",
    ):
        assert wrong in found


async def test_on_a_narrow_screen_the_open_page_is_in_sight_among_the_pages(
    house: House, window: Opened
) -> None:
    here = await window(viewport={"width": 375, "height": 844})
    await here.sign_in(house.demo.tokens["ana"])
    for path in ("/", "/review", "/grants", "/health"):
        await here.go(path)
        box = await here.page.locator(".pages [aria-current]").bounding_box()
        assert box is not None
        assert box["x"] >= 0, path
        assert box["x"] + box["width"] <= 375, path


async def test_the_page_of_a_starting_server_fits_and_comes_back_by_itself(window: Opened) -> None:
    for scheme in ("light", "dark"):
        here = await window(color_scheme=scheme, viewport={"width": 375, "height": 844})
        await here.go("/signin")  # from here it has its styles
        page = sheets.rendered("starting.html", {"wait": 60}, 503)
        await here.page.evaluate(
            "(text) => { document.documentElement.innerHTML = new DOMParser().parseFromString(text, 'text/html').documentElement.innerHTML; }",
            bytes(page.body).decode(),
        )
        await here.page.wait_for_load_state("networkidle")
        assert await here.page.evaluate(CHECK) == []
        assert await here.page.evaluate("document.documentElement.scrollWidth") <= 375
        await shot(here, f"starting-{scheme}-375")
        here.complaints.clear()


async def test_day_and_night_are_different_and_nothing_else_changes(house: House, window: Opened) -> None:
    pictures: dict[str, bytes] = {}
    backgrounds: dict[str, str] = {}
    for scheme in ("light", "dark"):
        here = await window(color_scheme=scheme)
        await here.sign_in(house.demo.tokens["ana"])
        await here.go("/stores")
        backgrounds[scheme] = await here.page.evaluate("getComputedStyle(document.body).backgroundColor")
        pictures[scheme] = await here.page.screenshot()
    assert backgrounds == {"light": "rgb(246, 243, 236)", "dark": "rgb(21, 20, 17)"}
    assert pictures["light"] != pictures["dark"]


async def test_on_paper_it_is_day_and_nothing_is_folded_away(house: House, window: Opened) -> None:
    """A printer leaves backgrounds out: light letters would not be read."""
    here = await window(color_scheme="dark")
    await here.sign_in(house.demo.tokens["ana"])
    await here.go("/dashboard")
    await here.page.emulate_media(media="print", color_scheme="dark")
    assert await here.page.evaluate("getComputedStyle(document.body).color") == "rgb(37, 34, 29)"
    numbers = here.page.locator("details dl").first
    assert await numbers.is_visible(), "a reader of paper cannot unfold it"
    assert not await here.page.locator(".side").is_visible()


async def test_on_paper_changes_are_seen_and_times_are_moments(house: House, window: Opened) -> None:
    """Without backgrounds a new word would look like an old one, and "an hour ago" says nothing tomorrow."""
    here = await window()
    await here.sign_in(house.demo.tokens["ana"])
    ines = house.demo.ids["Inês lives in Lisbon and flies from Humberto Delgado."]
    await here.go(f"/memories/{ines}")
    await here.page.emulate_media(media="print")
    assert "underline" in await style(here, ".diff ins", "textDecorationLine")
    ago = ".strand-head .ago"
    assert await style(here, ago, "fontSize") == "0px"
    told = await here.page.evaluate(
        f"getComputedStyle(document.querySelector('{ago}'), '::after').content.slice(1, -1)"
    )
    assert told.endswith(" UTC")
    assert told == await here.page.get_attribute(f"{ago} >> nth=0", "title")


async def test_with_a_persons_own_colours_what_colours_said_is_still_told(
    house: House, window: Opened
) -> None:
    here = await window(forced_colors="active")
    await here.sign_in(house.demo.tokens["ana"])
    ines = house.demo.ids["Inês lives in Lisbon and flies from Humberto Delgado."]
    await here.go(f"/memories/{ines}")
    assert "underline" in await style(here, ".diff ins", "textDecorationLine")
    assert "line-through" in await style(here, ".diff del", "textDecorationLine")
    await here.go("/health")
    yes, no = [await style(here, f".ticks .{one} .mark", "backgroundColor") for one in ("yes", "no")]
    assert yes != no, "what one may and may not do"


async def test_on_a_low_screen_the_way_out_is_in_sight(house: House, window: Opened) -> None:
    here = await window(viewport={"width": 1300, "height": 640})
    await here.sign_in(house.demo.tokens["ana"])
    for height in (640, 420):
        await here.page.set_viewport_size({"width": 1300, "height": height})
        await here.go("/journal")
        button = here.page.locator(".who button")
        if height < 500:
            await button.scroll_into_view_if_needed()
        box = await button.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= height
        assert await here.page.evaluate("scrollY") == 0, "not at the end of a long page only"


async def style(here: Window, selector: str, name: str) -> str:
    return await here.page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{name}")


def planted(house: House) -> dict[str, str]:
    """Pages that show names as long as they may be, and texts without a space."""
    service, do, word = house.served.service, house.served.do, "w" * 120
    run = do(service.runs.open(local(), OpenRequest(workflow_id=word, is_external=True))).run
    do(service.runs.node(local(), run.id, word, EventType.NODE_STARTED))
    ending = EventType.NODE_COMPLETED
    do(service.runs.node(local(), run.id, word, ending, variables=(Variable(word, "z" * 500),)))
    do(service.runs.fail(local(), run.id, RunError("boom", word * 3)))
    wishes = [
        RememberRequest(agent_id=word, user_id=word, type=MemoryType.SEMANTIC, content=text, tags=(word,))
        for text in (word * 40, word * 40 + "x")
    ]
    ids = [do(service.remember(local(), wish)).id for wish in wishes]
    items = [replace(wish, approval_required=True, metadata={word: word * 9}) for wish in wishes]
    held = do(service.remember(replace(local(), name="bot"), items[0]))
    together = do(service.remember_many(replace(local(), name="bot"), items, atomic=True))[0]
    return {
        "runs": "/runs",
        "run": f"/runs/{run.id}",
        "run-diff": f"/runs/{run.id}/diff?with={run.id}",
        "memories": f"/memories?agent={word}",
        "record": f"/memories/{ids[0]}",
        "graph": f"/memories/{ids[0]}/graph",
        "candidates": f"/candidates?agent={word}",
        "proposal": f"/review/{held.extensions['proposal_id']}",
        "batch": f"/review/{together.extensions['proposal_id']}?whole=1",  # pyright: ignore[reportAttributeAccessIssue]  none was refused
        "review": "/review",
        "journal": f"/journal?agent={word}",
        "lending": f"/grants?grantee={GRANTEE}&purpose={word}&everything=1&level=4&days=3&most=5",
        "overview": "/",
    }


@pytest.mark.parametrize("width", [1280, 360])
async def test_no_word_is_too_long_for_a_page(house: House, window: Opened, width: int) -> None:
    here = await window(viewport={"width": width, "height": 844})
    await here.sign_in(house.demo.tokens["ana"])
    found: dict[str, Any] = {}
    for name, path in (await asyncio.to_thread(planted, house)).items():
        await here.go(path)
        wide = await here.page.evaluate("document.documentElement.scrollWidth")
        complaints = await here.page.evaluate(CHECK)
        if wide > width or complaints:
            found[name] = (wide, complaints)
        await shot(here, f"long-{name}-{width}")
    assert found == {}


async def test_the_policy_is_in_force_in_the_browser(house: House, window: Opened) -> None:
    """A script that got into a page would not run, a style would not apply, a frame would stay empty."""
    here = await window()
    await here.sign_in(house.demo.tokens["ana"])
    ran = await here.page.evaluate(
        """() => new Promise((resolve) => {
          const refused = [];
          document.addEventListener('securitypolicyviolation', (event) => refused.push(event.effectiveDirective));
          const script = document.createElement('script'); script.textContent = 'window.ran = true'; document.body.append(script);
          const image = document.createElement('img'); image.src = 'https://evil.example/x.png'; document.body.append(image);
          const styled = document.createElement('div'); styled.setAttribute('style', 'color: red'); document.body.append(styled);
          fetch('https://evil.example/').catch(() => 0);
          setTimeout(() => resolve([!!window.ran, refused.sort()]), 300);
        })"""
    )
    assert ran[0] is False
    assert ran[1] == ["connect-src", "img-src", "script-src-elem", "style-src-attr"]
    assert here.complaints, "the browser complains about each"
    here.complaints.clear()
    await here.page.set_content(f'<iframe src="{here.url}/signin"></iframe>')
    await here.page.wait_for_timeout(300)
    inside = [await frame.content() for frame in here.page.frames[1:]]
    assert inside
    assert not any("Your token" in text for text in inside)
    here.complaints.clear()
