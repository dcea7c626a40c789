"""The last traces: for who runs the server, and without a word of what was remembered."""

from __future__ import annotations

import re

import httpx

from quipu.bootstrap.telemetry import Watched
from quipu.faces.web.traces import waterfall
from quipu.telemetry.recent import Kept, Recent
from quipu.telemetry.settings import Side
from tests.faces.serving import served
from tests.faces.web.conftest import House, Person
from tests.requirement import requirement


@requirement("telemetry:page")
def test_who_runs_the_server_sees_what_took_how_long() -> None:
    with served(is_open=True) as at, at.client() as http:
        body = {"agent_id": "ana", "query": "walnuts", "user_id": "mara", "store": "main"}
        for _ in range(2):
            http.post("/memorywire/v0/recall", json=body).raise_for_status()
        http.post("/memorywire/v0/recall", json={**body, "store": "nowhere"})
        page = http.get("/traces", headers={"Accept": "text/html"}).text
    counts = re.search(r"search_memory</code></td><td[^>]*>(\d+)</td><td[^>]*>(\d+)", page)
    assert counts is not None
    assert counts.groups() == ("3", "1")
    assert page.count('<svg class="waterfall"') >= 2
    assert "POST /memorywire/v0/recall" in page
    told = re.findall(r'<text class="said"[^>]*>([^<]*)</text>', page)
    assert any(re.fullmatch(r"\d+\.\d ms, 0 found, 5 asked for", said) for said in told), told
    assert any(re.fullmatch(r"\d+\.\d ms, 5 asked for, not_found", said) for said in told), told
    for word in ("walnuts", "mara", "search_memory main"):
        assert word not in page.partition("<main")[2]


@requirement("telemetry:page")
def test_nobody_else_sees_it(house: House, ana: Person) -> None:
    assert house.person("oper").get("/traces").status_code == 200
    assert 'href="/traces"' in house.person("oper").get("/").text
    for name in ("ruth", "bot", "reader"):
        person = house.person(name)
        assert person.get("/traces").status_code == 403
        assert 'href="/traces"' not in person.get("/").text


@requirement("telemetry:page")
def test_with_a_collector_the_page_says_where_traces_are() -> None:
    with served(is_open=True, watched=Watched(side=Side.SERVER)) as at:
        page = httpx.get(f"{at.url}/traces", headers={"Accept": "text/html"}).text
    assert "go to the collector" in page


@requirement("telemetry:page")
def test_the_ring_is_bounded_and_keeps_only_what_memory_had_a_part_in() -> None:
    recent = Recent(traces=3)
    for number in range(5):
        outer, first = recent.open(f"request {number}", 0)
        for _ in range(100):
            inner, second = recent.open("search_memory", 1)
            inner.is_operation = True
            recent.close(inner, second, 2)
        recent.close(outer, first, 3)
    idle, token = recent.open("GET /health", 0)
    recent.close(idle, token, 1)
    assert [trace.name for trace in recent.traces] == ["request 4", "request 3", "request 2"]
    assert len(recent.traces[0].children) == 63


@requirement("telemetry:page")
def test_bars_stand_where_their_spans_were() -> None:
    root = Kept("root", 0, 100_000_000)
    root.children = [Kept("late", 50_000_000, 100_000_000), Kept("early", 0, 25_000_000, error="timeout")]
    drawn = waterfall(root)
    assert [(bar.name, bar.y, bar.x, bar.width) for bar in drawn.bars] == [
        ("root", 0, 300.0, 420.0),
        ("early", 26, 300.0, 105.0),
        ("late", 52, 510.0, 210.0),
    ]
    assert (drawn.height, drawn.error, drawn.milliseconds) == (78, "timeout", 100.0)
