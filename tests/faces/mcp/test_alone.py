"""`quipu mcp --http`: the server's own plumbing, with MCP as its only face."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import httpx
import pytest

from quipu import Memory
from quipu.config import Config
from tests.conventions import command
from tests.faces.mcp.hosts import body, fault, over_http
from tests.faces.mcp.test_http import HEADERS, LISTING
from tests.faces.serving import Program, Served
from tests.requirement import requirement

ELSEWHERE = ("/", "/memories", "/memorywire/v0/records?agent_id=x", "/quipu/v1/tokens", "/docs")
FACT = {"type": "semantic", "content": "Mara is vegetarian"}


class Alone(Program):
    """It as a process of its own; to clients it looks like any other server."""

    command = ("mcp", "--http")

    def headers(self, token: str | None = None) -> dict[str, str]:
        given = self.told.get("token", "") if token is None else token
        return {"Authorization": f"Bearer {given}"} if given else {}


def run(store: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QUIPU_")}
    given = {
        "QUIPU_STORE": f"sqlite://{store}",
        "QUIPU_EMBEDDER": "none",
        "XDG_CONFIG_HOME": str(store.parent),
    }
    return subprocess.run(
        command("mcp", *words),
        input="",
        capture_output=True,
        text=True,
        env={**kept, **given, **environment},
        timeout=60,
        check=False,
    )


def seen(program: Alone) -> Served:
    """The part of a server that clients need: its address, and headers."""
    at: object = program
    return at  # type: ignore[return-value]  # both have `url` and `headers`, which is all that is asked for


@requirement("mcp:alone")
async def test_it_is_mcp_and_nothing_else(tmp_path: Path, mode: str) -> None:
    with Alone(tmp_path / "m.db") as program:
        assert program.url.startswith("http://127.0.0.1:")
        async with over_http(seen(program), mode) as client:
            kept = body(await client.call_tool("remember", FACT))
            found = body(await client.call_tool("recall", {"query": "Mara"}))
        async with httpx.AsyncClient(base_url=program.url, headers=program.headers(), timeout=30) as http:
            bad = {**HEADERS, "Authorization": "Bearer qp_default_wrong"}
            refused = await http.post("/mcp", json=LISTING, headers=bad)
            elsewhere = [(await http.get(path)).status_code for path in ELSEWHERE]
            probes = [(await http.get(path)).status_code for path in ("/healthz", "/readyz")]
        assert program.stop() == 0
    assert [hit["id"] for hit in found["results"]] == [kept["id"]]
    assert refused.status_code == 401
    assert set(elsewhere) == {404}
    assert probes == [200, 200]


@requirement("mcp:alone.words")
async def test_the_words_of_the_command_hold_there_too(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    async with Memory("ana", config=Config(store_url=f"sqlite://{store}", embedder="none")) as memory:
        await memory.create_store("team")
    words = ["--no-auth", "--prefix", "memory_", "--store", "main", "--read-only", "--profile", "default"]
    with Alone(store, *words) as program:
        async with over_http(seen(program)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            refused = await client.call_tool("memory_remember", FACT)
            other = await client.call_tool("memory_recall", {"query": "x", "store": "team"})
        async with httpx.AsyncClient(base_url=program.url, headers=HEADERS, timeout=30) as http:
            missing = (await http.post("/mcp/team", json=LISTING)).status_code
            named = (await http.post("/mcp/main", json=LISTING)).status_code
    assert names == ["memory_recall"]
    assert (fault(refused), fault(other)) == ("forbidden", "forbidden")
    assert (missing, named) == (404, 200)


@requirement("mcp:alone.exposure")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--http", "--host", "0.0.0.0", "--no-auth"], "this machine only"),  # noqa: S104  what must be refused
        (["--http", "--host", "0.0.0.0"], "unencrypted"),  # noqa: S104  what must be refused
        (["--http", "--no-auth", "--behind-proxy"], "behind no proxy"),
        (["--port", "8765"], "--http"),
        (["--no-auth"], "--http"),
        (["--http", "--user", "mara"], "token"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_listens(
    tmp_path: Path, words: list[str], said: str
) -> None:
    ended = run(tmp_path / "m.db", *words)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert not (tmp_path / "m.db").exists()
