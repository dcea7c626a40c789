"""What a process loads: a command what it needs and no more; a server everything at its start, except for MCP.

Time is not measured here, since a busy machine would tell lies. What is loaded is what a start costs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import httpx
import pytest

from quipu.bootstrap.serving import web_app
from quipu.config import Config
from quipu.service.memory import MemoryService
from tests.cli.conftest import Process
from tests.faces.mcp.test_http import HEADERS, LISTING

#: Packages that nothing needs that only reads: models, servers, clients, keys, other databases.
SLOW = frozenset(
    {
        "cryptography",
        "httpx",
        "importlib.metadata",
        "mcp",
        "numpy",
        "onnxruntime",
        "opentelemetry",
        "psycopg",
        "pydantic",
        "starlette",
        "tokenizers",
        "tomllib",
        "uvicorn",
    }
)
#: Parts of ours that only those load who use them; a name stands for everything below it as well.
ELSEWHERE = frozenset(
    {
        "quipu.backends",
        "quipu.bootstrap.governing",
        "quipu.bootstrap.lending",
        "quipu.bootstrap.mcp",
        "quipu.bootstrap.mirrors",
        "quipu.bootstrap.serving",
        "quipu.client.connection",
        "quipu.crypto.jose",
        "quipu.crypto.keys",
        "quipu.crypto.sealing",
        "quipu.formats",
        "quipu.ledger.postgres",
        "quipu.ledger.sqlite.grants",
        "quipu.model.disclosure",
        "quipu.model.grants",
        "quipu.model.moving",
        "quipu.rules.projection_recognisers",
        "quipu.service.consolidating",
        "quipu.service.disclosing",
        "quipu.service.exporting",
        "quipu.service.importing",
        "quipu.service.lending",
        "quipu.service.mirrors",
        "quipu.service.recovery",
        "quipu.service.reviewing",
        "quipu.service.runs",
        "quipu.service.sharing",
    }
)
#: What takes part in writes; a list takes part in none.
WRITES = frozenset(
    {
        "quipu.ledger.search.finding",
        "quipu.service.gate",
        "quipu.service.operating",
        "quipu.service.policies",
        "quipu.service.removing",
        "quipu.service.writing",
    }
)
#: So many modules of ours a list loads at most. Whoever needs more asks first whether a list needs them.
MOST = 223

_RUN = """
import atexit, json, pathlib, sys
into = pathlib.Path(sys.argv.pop(1))
atexit.register(lambda: into.write_text(json.dumps(sorted(sys.modules)), "utf-8"))
from quipu.cli import main
main()
"""


def loaded(home: Path, *words: str) -> frozenset[str]:
    """Every module that is there when a command ends."""
    into = home / "modules.json"
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(into), *words],
        capture_output=True,
        check=False,
        cwd=home,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    return frozenset(json.loads(into.read_text("utf-8")))


def among(modules: frozenset[str], names: frozenset[str]) -> list[str]:
    """Those modules that bear one of the names, or stand below one."""
    return sorted(
        module for module in modules if any(module == name or module.startswith(f"{name}.") for name in names)
    )


@pytest.mark.parametrize("words", [["list"], ["list", "--json"]], ids=" ".join)
def test_a_list_loads_only_what_reads(process: Process, home: Path, words: list[str]) -> None:
    assert process("remember", "x").returncode == 0
    modules = loaded(home, *words)
    assert "quipu.service.reading" in modules, "otherwise nothing is proved here"
    assert among(modules, SLOW | ELSEWHERE | WRITES) == []
    ours = among(modules, frozenset({"quipu"}))
    assert len(ours) <= MOST, f"{len(ours)} modules"


def test_a_recall_by_words_loads_nothing_for_lending_runs_or_servers(process: Process, home: Path) -> None:
    assert process("remember", "x").returncode == 0
    modules = loaded(home, "recall", "x")
    assert "quipu.service.recalling" in modules
    assert among(modules, (SLOW - {"numpy"}) | ELSEWHERE) == []


@pytest.mark.parametrize("words", [["sweep"], ["capabilities"], ["doctor", "--quick"]], ids=" ".join)
def test_a_command_without_a_model_loads_no_keys_servers_or_lending(
    process: Process, home: Path, words: list[str]
) -> None:
    assert process("remember", "x").returncode == 0
    modules = loaded(home, *words)
    # The doctor looks into the settings file, and a sweep lets go of what is kept for taking decisions back.
    spared = {
        "tomllib",
        "quipu.service.recovery",
        "quipu.model.grants",
        "quipu.model.disclosure",
        "quipu.ledger.sqlite.grants",
    }
    assert among(modules, (SLOW | ELSEWHERE) - spared) == []


def test_an_export_of_lines_loads_nothing_that_reads_requests(process: Process, home: Path) -> None:
    assert process("remember", "x").returncode == 0
    modules = loaded(home, "export")
    assert "quipu.faces.memorywire.wire_shown" in modules
    assert (
        among(modules, (SLOW - {"cryptography"}) | {"quipu.faces.memorywire.wire", "quipu.service.sharing"})
        == []
    )


def test_every_name_that_must_not_be_loaded_exists() -> None:
    """A part that was renamed would otherwise never be found loaded."""
    for name in ELSEWHERE | WRITES:
        place = Path(__file__).parents[2] / "src" / name.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").is_file(), name


async def test_a_server_loads_every_part_at_its_start(home: Path) -> None:
    """Nobody's first request waits for modules, unless it speaks MCP."""
    made = await web_app(Config(store_url=f"sqlite://{home / 'served.db'}", embedder="none"))
    try:
        parts = {
            name
            for kind in MemoryService.__mro__
            for name, part in vars(kind).items()
            if isinstance(part, cached_property)
        }
        assert {"sharing", "runs", "consolidating", "_writing"} <= parts
        assert [name for name in sorted(parts) if not made.running.service.is_built(name)] == []
    finally:
        await made.running.close()


def served(home: Path, ask: Callable[[httpx.Client], object], *words: str) -> frozenset[str]:
    """Every module that a server has loaded by the time it has been asked something."""
    into = home / "modules.json"
    line = [sys.executable, "-c", _RUN, str(into), *words, "--json", "--port", "0", "--no-auth"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=home) as process:
        try:
            assert process.stdout is not None
            with httpx.Client(
                base_url=json.loads(process.stdout.readline())["address"], timeout=60
            ) as client:
                ask(client)
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert process.returncode == 0
    return frozenset(json.loads(into.read_text("utf-8")))


def asked(client: httpx.Client) -> None:
    """Something of each kind, except for MCP; and what comes before it."""
    for address in ("/readyz", "/docs", "/quipu/v1/stores", "/.well-known/oauth-protected-resource/mcp"):
        client.get(address).raise_for_status()
    recall = {"agent_id": "ana", "query": "tea"}
    client.post("/memorywire/v0/recall", json=recall).raise_for_status()
    assert client.post("/mcp?profile=none", json={}).status_code == 400


def spoken(client: httpx.Client) -> None:
    client.post("/mcp", json=LISTING, headers=HEADERS).raise_for_status()


SDK = frozenset({"mcp", "mcp_types", "quipu.faces.mcp.sessions"})


def test_a_server_loads_no_mcp_until_somebody_speaks_it(home: Path) -> None:
    """It would take as long as half of everything else."""
    silent = served(home, asked, "serve")
    assert {"quipu.faces.mcp.routes", "quipu.faces.web.routes"} <= silent
    assert among(silent, SDK) == []
    assert served(home, spoken, "serve") >= SDK


def test_a_server_of_nothing_but_mcp_has_it_at_its_start(home: Path) -> None:
    assert served(home, lambda client: client.get("/readyz").raise_for_status(), "mcp", "--http") >= SDK


@pytest.mark.parametrize("setting", ["QUIPU_OAP_FREE_TEXT", "QUIPU_OAP_OWNERS", "QUIPU_RULES"])
def test_a_setting_of_a_part_that_is_loaded_later_still_stops_the_start(
    process: Process, setting: str
) -> None:
    done = process("list", **{setting: "nonsense"})
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
