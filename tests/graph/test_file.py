"""`quipu graph --html`: one file that needs nothing else, says the same as the page, and runs nobody's words."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from quipu.faces.web import graph_drawing, graph_file
from quipu.model.graph import Edge, EdgeKind, Graph
from quipu.model.record import MemoryType, State
from tests.cli.conftest import Cli, cli, home, model_cache
from tests.graph.test_pictures import edge, node, star
from tests.requirement import requirement

__all__ = ["cli", "home", "model_cache"]

EVIL = "\"'></title></style></svg><script>alert(1)</script><img src=x onerror=alert(1)> javascript:alert(1)\u202e"
#: Elements and attributes that fetch, run or send something.
ACTIVE = {
    "script",
    "img",
    "link",
    "iframe",
    "object",
    "embed",
    "form",
    "base",
    "use",
    "image",
    "foreignobject",
}


class Seen(HTMLParser):
    """What a browser would find in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.given: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.given += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def hostile() -> Graph:
    """Every field that somebody can write into is an attack."""
    root = replace(node(f"mem_{EVIL}", 0, EVIL), subject=EVIL)
    other = replace(node(f"other_{EVIL}", 1, EVIL), subject=EVIL, state=State.FORGOTTEN, valid_to=9)
    kinds = [Edge(source=other.id, target=root.id, kind=kind, rel=EVIL) for kind in EdgeKind]
    return Graph(root=root.id, hops=1, nodes=(root, other), edges=tuple(kinds), is_cut=True)


@requirement("memorywire:graph.file")
def test_nothing_is_fetched_run_or_sent(tmp_path: Path) -> None:
    for graph in (star(100), hostile()):
        text = graph_file.html(graph)
        seen = Seen(text)
        assert not ACTIVE.intersection(seen.tags)
        assert [name for name, _ in seen.given if name.startswith("on")] == []
        assert {value[0] for name, value in seen.given if name in ("href", "src")} == {"#"}
        assert not re.search(r"(https?:)?//|@import|url\(", re.sub(r"/\*.*?\*/", "", text))
        policy = next(value for name, value in seen.given if name == "content" and "default-src" in value)
        assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_words_in_every_field_are_only_shown() -> None:
    text = graph_file.html(hostile())
    assert "<script>" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    said = " ".join(Seen(text).texts)
    assert said.count("<script>alert(1)</script>") >= 8, "it is shown as what it is"


def test_each_field_alone_is_escaped() -> None:
    """So that no field hides behind another."""
    plain = node("mem_1", 0, "a memory")
    links = [edge("mem_2", "mem_1"), edge("mem_2", "mem_1", EVIL)]
    made = [
        (replace(plain, text=EVIL), links[0]),
        (replace(plain, subject=EVIL), links[0]),
        (plain, links[1]),
    ]
    for root, link in made:
        graph = Graph(root="mem_1", hops=1, nodes=(root, node("mem_2", 1, "other")), edges=(link,))
        text = graph_file.html(graph)
        assert "<script>" not in text
        assert "&lt;script&gt;" in text


def test_it_is_drawn_as_the_page_draws_it() -> None:
    graph = star(7)
    picture = graph_drawing.picture(graph)
    text = graph_file.html(graph)
    for dot in picture.dots:
        assert f'cx="{dot.x}" cy="{dot.y}"' in text
        assert f'href="#m-{dot.node.id}"' in text
        assert f'id="m-{dot.node.id}"' in text
    assert text.count("<line ") == len(picture.lines)
    assert text.startswith("<!doctype html>")


def test_kinds_states_and_times_are_told() -> None:
    gone = replace(node("b", 1), text="", type=MemoryType.EMOTIONAL, state=State.FORGOTTEN, valid_to=1_000)
    graph = Graph(root="a", hops=1, nodes=(node("a", 0), gone), edges=(edge("b", "a"),))
    text = graph_file.html(graph)
    for told in ("kind-emotional", "forgotten", "Secret", "until <time"):
        assert told in text
    alone = graph_file.html(Graph(root="a", hops=1, nodes=(node("a", 0, "\ud800 lone"),), edges=()))
    assert "Nothing is linked with it" in alone


def test_the_command_writes_it_once_and_for_its_owner(cli: Cli, tmp_path: Path) -> None:
    root = cli.remember("Mara <b>likes</b> tea")
    cli.remember("She drinks it at home", "--link", f"{root}:about")
    file = tmp_path / "memory.html"
    assert "Drew 2 memories into" in cli.said("graph", root, "--html", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert "Mara &lt;b&gt;likes&lt;/b&gt; tea" in file.read_text("utf-8")
    assert cli.problem("graph", root, "--html", str(file))["reason"] == "exists"
    told = cli.json("graph", root, "--html", str(file), "--force")
    assert told == {"file": str(file), "memories": 2, "is_cut": False}
    assert cli.said("graph", root, "--html", "-").startswith("<!doctype html>")
    assert cli.problem("graph", root, "--html", str(file), "--dot")["reason"] == "usage"
    nowhere = tmp_path / "none" / "memory.html"
    assert cli.problem("graph", root, "--html", str(nowhere), code=2)["reason"] == "cannot_open"
    assert [one.name for one in tmp_path.glob(".*draft")] == []
