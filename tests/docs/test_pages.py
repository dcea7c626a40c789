"""Every page that shows code is run, from top to bottom."""

from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, shown
from tests.docs.blocks import Page, blocks, check, masked
from tests.faces.serving import served

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_A_SERVER = "<!-- with a server -->"
WITH_A_DATABASE = "<!-- with a database -->"
WITH_SERVER = {page for page in PAGES if WITH_A_SERVER in page.read_text("utf-8")}
WITH_DATABASE = {page for page in PAGES if WITH_A_DATABASE in page.read_text("utf-8")}
WITH_CODE = [page for page in PAGES if {block.kind for block in blocks(page)} & {"python", "console"}]


@pytest.mark.parametrize("page", WITH_CODE, ids=shown)
async def test_what_a_page_shows_is_what_happens(
    page: Path, place: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A page with the mark `with a server` finds one in its settings, and one `with a database` a PostgreSQL."""
    running = Page(page, place)
    if page in WITH_DATABASE:
        monkeypatch.setenv("DATABASE_URL", request.getfixturevalue("empty_url"))
    if page not in WITH_SERVER:
        await running.run()
    else:
        with served() as server:
            monkeypatch.setenv("QUIPU_SERVER", server.url)
            monkeypatch.setenv("QUIPU_TOKEN", server.admin_token)
            await running.run()
    assert running.ran


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_block_that_is_not_run_says_why(page: Path) -> None:
    for block in blocks(page):
        if block.mark.startswith("not run"):
            assert len(block.mark.removeprefix("not run:").split()) >= 2, f"line {block.line}"


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_fences_name_their_language(page: Path) -> None:
    fences = [line for line in page.read_text("utf-8").splitlines() if line.startswith("```")]
    assert len(fences) % 2 == 0
    opening = fences[::2]
    if "explanation" not in page.parts and "adr" not in page.parts:  # there, plain blocks are drawings
        assert all(fence != "```" for fence in opening)


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


def test_a_relevance_is_shown_as_it_came() -> None:
    real = "1  █████░░░░░ 0.51  Mara is vegan since May\n2  ███░░░░░░░ 0.31  Mara lives in Lisbon\n"
    check(real, "1  █████░░░░░ 0.53  Mara is vegan since May\n...\n", "here")
    with pytest.raises(AssertionError, match="did not come"):
        check(real, "1  █████████░ 0.90  Mara is vegan since May\n...\n", "here")
