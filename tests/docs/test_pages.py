"""Every page that shows code is run from top to bottom; every link leads somewhere; every promise has its test."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Page, blocks, check, masked
from tests.docs.serving import served

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(ROOT.glob("examples/*.md")),
]
#: This one changes the tree; test_add_an_operation.py carries it out in a copy.
ELSEWHERE = {ROOT / "docs" / "howto" / "add-an-operation.md"}
WITH_A_SERVER = "<!-- with a server -->"
WITH_SERVER = {page for page in PAGES if WITH_A_SERVER in page.read_text("utf-8")}
WITH_CODE = [
    page
    for page in PAGES
    if page not in ELSEWHERE and {block.kind for block in blocks(page)} & {"python", "console"}
]

FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
PATH = re.compile(r"`((?:src|tests|docs|scripts|bench|examples|schemas)/[\w./*-]+)`")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder with a home of its own. What a page sets for the commands after it ends with the page."""
    before = dict(os.environ)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    yield here
    for name in os.environ.keys() - before.keys():
        del os.environ[name]


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
async def test_what_a_page_shows_is_what_happens(
    page: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page with the mark `with a server` finds one in its settings."""
    running = Page(page, place)
    if page in WITH_SERVER:
        with served(place) as (url, token):
            monkeypatch.setenv("QUIPU_SERVER", url)
            monkeypatch.setenv("QUIPU_TOKEN", token)
            await running.run()
    else:
        await running.run()
    assert running.ran or any(block.mark.startswith("not run") for block in blocks(page))


def test_a_block_that_is_not_run_says_why_and_fences_name_their_language() -> None:
    for page in PAGES:
        for block in blocks(page):
            if block.mark.startswith("not run"):
                assert len(block.mark.removeprefix("not run:").split()) >= 2, f"{page}: line {block.line}"
        fences = [line for line in page.read_text("utf-8").splitlines() if line.startswith("```")]
        assert len(fences) % 2 == 0, page
        if "explanation" not in page.parts and "adr" not in page.parts:  # there, plain blocks are drawings
            assert all(fence != "```" for fence in fences[::2]), page


def test_every_link_leads_somewhere() -> None:
    assert [fault for page in PAGES for fault in (*broken(page), *astray(page))] == []


def test_every_decision_is_listed() -> None:
    decisions = (ROOT / "docs" / "adr" / "README.md").read_text("utf-8")
    for page in (ROOT / "docs" / "adr").glob("0*.md"):
        assert f"({page.name})" in decisions, page.name


@pytest.mark.parametrize(
    ("name", "heading", "least"),
    [("README.md", "What it promises", 6), ("SECURITY.md", "What is promised", 4)],
)
def test_every_promise_leads_to_a_test_that_attacks_it(name: str, heading: str, least: int) -> None:
    text = (ROOT / name).read_text("utf-8")
    section = text.partition(f"## {heading}")[2].partition("\n## ")[0]
    promises = re.findall(r"^- .+?(?=^- |\Z)", section, re.M | re.S)
    assert len(promises) >= least
    for promise in promises:
        assert re.search(r"\[`test_\w+`\]\(tests/[\w/]+\.py\)", promise), f"no test: {promise}"


def test_every_protection_against_an_attack_names_its_test() -> None:
    text = (ROOT / "docs" / "explanation" / "threats.md").read_text("utf-8")
    rows = [row for row in re.findall(r"^\| .+ \|$", text, re.M) if not row.startswith("| protection")]
    assert len(rows) > 15
    assert [row for row in rows if "[`test_" not in row] == []


def test_every_test_that_a_page_names_is_there() -> None:
    for page in PAGES:
        for name, path in re.findall(r"\[`(test_\w+)`\]\(([\w./]+\.py)\)", page.read_text("utf-8")):
            file = (page.parent / path).resolve()
            assert re.search(rf"def {name}\(", file.read_text("utf-8")), (
                f"{name_of(page)}: {path} has no {name}"
            )


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    names: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text("utf-8"))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        names.add(slug if count == 0 else f"{slug}-{count}")
    return names


def broken(page: Path) -> Iterator[str]:
    """Links of a page that lead to no file or to no heading. Addresses on the web are not followed."""
    text = CODE.sub("", FENCE.sub("", page.read_text("utf-8")))
    for link in LINK.findall(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{name_of(page)}: no file at {link}"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{name_of(page)}: no heading at {link}"


def astray(page: Path) -> Iterator[str]:
    """Paths of this repository that a page names in code and that do not exist."""
    for path in PATH.findall(page.read_text("utf-8")):
        if page not in ELSEWHERE and not any(ROOT.glob(path.rstrip("/"))):
            yield f"{name_of(page)}: no file at `{path}`"


async def test_the_runner_fails_for_a_block_that_fails(place: Path) -> None:
    page = ROOT / "build" / "page-of-a-test.md"
    page.parent.mkdir(exist_ok=True)
    try:
        page.write_text("```python\nawait missing()\n```\n", "utf-8")
        with pytest.raises(NameError, match="missing"):
            await Page(page, place).run()
        page.write_text("```python\nprint('a')\n```\n\n```output\nb\n```\n", "utf-8")
        with pytest.raises(AssertionError, match="not printed"):
            await Page(page, place).run()
        page.write_text("```console\n$ quipu store list --nonsense\n```\n", "utf-8")
        with pytest.raises(AssertionError, match="ended with 1"):
            await Page(page, place).run()
    finally:
        page.unlink(missing_ok=True)


def test_outputs_are_compared_without_what_differs_from_run_to_run() -> None:
    real = "Remembered  mem_01M7F0WND4KM8PMTJQ86DXVVFY  version 1\n\n3 entries at 2026-11-15T07:14:03+00:00\nend\n"
    assert masked(real) == ["Remembered ID version N", "N entries at TIME", "end"]
    check(real, "Remembered  mem_01M7F0WND4KM8PMTJQ86DXVVFX  version 7\n...\nend\n", "here")
    with pytest.raises(AssertionError, match="not printed"):
        check(real, "end\nRemembered  mem_01M7F0WND4KM8PMTJQ86DXVVFX  version 1\n", "here")
