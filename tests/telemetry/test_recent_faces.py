"""Without a collector the page of the last traces shows what came in by every face, and memory's part in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from quipu.bootstrap.telemetry import recent
from tests.faces.serving import Served, served
from tests.journeys.test_isolation import PAGES, filled, request_of, tries
from tests.oap.hosts import pair
from tests.requirement import requirement

#: A face → how its routes begin whose requests have memory's own spans beneath.
FACES = {
    "memorywire": "/memorywire/v0/re",
    "rest": "/quipu/v1/stores",
    "mcp": "/mcp",
    "openwop": "/v1/x-host-quipu-memory",
    "pages": "/memories",
}
_OPEN = {"/mcp", "/mcp/{store}"}


def _operations(at: Served) -> set[str]:
    """The requests with an operation of memory beneath."""
    ring = recent(at.web.running.parts.observer)
    assert ring is not None
    return {trace.name for trace in ring.traces if any(child.is_operation for child in trace.children)}


@requirement("telemetry:page")
@pytest.mark.parametrize("face", FACES)
def test_the_page_shows_what_came_by_each_face(face: str, tmp_path: Path) -> None:
    prefix = FACES[face]
    with served(tmp_path / "m.db", is_open=True) as at, at.client() as http:
        names = filled(http)
        ring = recent(at.web.running.parts.observer)
        assert ring is not None
        asked = [one for one in (*tries(), *PAGES) if one.path.startswith(prefix) and one.method != "DELETE"]
        for attempt in asked:
            if attempt.method != "GET" or attempt.path.partition("?")[0] not in _OPEN:
                http.send(request_of(http, attempt, names))
        done = {name for name in _operations(at) if name.partition(" ")[2].startswith(prefix)}
        page = http.get("/traces", headers={"Accept": "text/html"}).text
    assert done
    assert any(f"{name}<" in page for name in done), sorted(done)


@requirement("telemetry:page")
def test_the_page_shows_what_is_lent(tmp_path: Path) -> None:
    with pair(tmp_path) as (a, b):
        a.remember("The board meets on Tuesday.", scope_id="acme")
        grant = a.grant(b.owner)
        b.ask(a, grant, "board")
        assert "POST /oap/memory/query" in _operations(a.at)
