"""`serve`, and commands that speak to a server: one real one for all tests here, and others that are started for one."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.bootstrap import open_container
from quipu.config import Settings
from quipu.http.commands import signin_link
from quipu.model.principal import local
from tests.cli.conftest import PATIENCE_S, Cli, started


def announced(running: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What a server says of itself when it listens."""
    assert running.stdout is not None
    assert running.stderr is not None
    said = running.stdout.readline()
    assert said, running.stderr.read().decode()
    return json.loads(said)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("served")
    ours = {name: value for name, value in os.environ.items() if not name.startswith("QUIPU_")}
    environment = {**ours, "QUIPU_EMBEDDER": "none", "HOME": str(folder)}
    words = ("serve", "--port", "0", "--json", "--store-url", str(folder / "memory.db"))
    with started(*words, env=environment, stderr=subprocess.DEVNULL) as found:
        assert found.stdout is not None
        yield json.loads(found.stdout.readline()) | {"store": str(folder / "memory.db")}


@pytest.fixture
def server(running: dict[str, Any], home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The server, named by the environment. A command that speaks to it touches no file of this machine."""
    monkeypatch.setenv("QUIPU_SERVER", running["address"])
    monkeypatch.setenv("QUIPU_TOKEN", running["token"])
    monkeypatch.setenv("QUIPU_AGENT", home.name)
    monkeypatch.delenv("QUIPU_STORE")
    yield running
    assert not list(home.rglob("*.db*"))


# -- commands on a server ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("server")
def test_a_life_of_a_memory_on_a_server(cli: Cli) -> None:
    name = cli.remember("Mara is vegetarian", "--user-id", "mara")
    (hit,) = cli.json("recall", "vegetarian")["results"]
    assert (hit["id"], hit["provenance"]["written_by"]) == (name, "admin")
    assert "Mara is vegetarian" in cli.says("list")
    (event,) = [
        json.loads(text) for text in cli("changes", "--since", "0", "-n", "1", "--json").out.splitlines()
    ]
    assert event["seq"]
    assert cli.json("forget", name)["forgotten_ids"] == [name]
    assert cli.problem("show", "mem_no")["code"] == "not_found"


def test_the_doctor_of_a_server_says_how_it_is_and_who_one_is_there(cli: Cli, server: dict[str, Any]) -> None:
    checks = {one["name"]: one for one in cli.json("doctor")["checks"]}
    assert server["address"] in checks["server"]["detail"]
    assert checks["ledger"]["detail"].startswith("sqlite")
    assert checks["token"]["detail"].startswith("admin in tenant default: ")
    assert server["token"] not in cli.says("doctor")
    nowhere = {
        one["name"]: one for one in cli.json("doctor", "--server", "http://127.0.0.1:9", code=1)["checks"]
    }
    assert nowhere["server"]["status"] == "fail"


def test_a_token_of_a_file_wins_and_is_in_no_output(cli: Cli, server: dict[str, Any], home: Path) -> None:
    issued = cli.json("token", "create", home.name, "--roles", "agent", "--agents", "shop")
    (home / "token").write_text(issued["text"] + "\n", "utf-8")
    assert cli.json("whoami", "--token-file", "token")["name"] == home.name
    for name, content in (("empty", "\n"), ("nowhere", None)):
        if content is not None:
            (home / name).write_text(content, "utf-8")
        assert cli.problem("list", "--token-file", name)["reason"] == "no_file"
    shown = cli("config").out + cli("list", "--verbose").err + cli("show", "mem_no", "--verbose").err
    assert server["token"] not in shown
    assert issued["text"] not in shown


def test_the_token_of_the_environment_is_not_shown_to_another_server(
    cli: Cli, server: dict[str, Any]
) -> None:
    other = server["address"].replace("127.0.0.1", "localhost")  # the same server by another name
    assert cli.problem("whoami", "--server", other)["code"] == "unauthenticated"
    assert cli.json("whoami", "--server", f"{server['address']}/")["name"] == "admin"


def test_a_server_is_also_named_as_a_store(
    cli: Cli, server: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = cli.remember("tea")
    monkeypatch.setenv("QUIPU_STORE", f"quipu+{server['address']}")
    assert cli.json("show", name)["content"] == "tea"


def test_what_is_wrong_with_a_server_is_said_in_its_exit_code(
    cli: Cli, server: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_TIMEOUT_S", "30")
    assert cli.problem("list", "--server", "http://127.0.0.1:9", code=2)["code"] == "backend_unavailable"
    assert cli.problem("list", "--server", "http://memory.example.org")["code"] == "validation_error"
    monkeypatch.delenv("QUIPU_TOKEN")
    problem = cli.problem("list")
    assert (problem["code"], "--token-file" in problem["hint"]) == ("unauthenticated", True)


def test_an_operation_that_is_refused_by_the_server_names_what_was_typed(
    cli: Cli, server: dict[str, Any]
) -> None:
    assert cli.problem("store", "delete", "main", "--confirm", "other")["hint"]


def test_a_write_of_ones_own_is_approved_in_solo_mode_and_else_by_a_reviewer_whom_one_did_not_make(
    cli: Cli, server: dict[str, Any], home: Path
) -> None:
    def held() -> str:
        return str(cli.json("remember", "tea", "--approval-required", code=3)["proposal_id"])

    def created(*where: str) -> str:
        issued = cli.json("token", "create", f"{home.name}-{len(where)}", "--roles", "reviewer", *where)
        (home / issued["token"]["id"]).write_text(issued["text"], "utf-8")
        return str(issued["token"]["id"])

    assert cli.json("whoami")["solo"] is True
    cli.says("review", "approve", held())
    (entry,) = cli.json("audit", "log", "--op", "approve", "--newest-first", "--limit", "1")["entries"]
    assert entry["detail"]["self_approved"] is True

    proposal, minted = held(), created()
    for token in ((), ("--token-file", minted)):
        problem = cli.problem("review", "approve", proposal, *token)
        assert problem["reason"] == "self_approval"
        assert "quipu token create NAME --roles reviewer" in problem["hint"]
    second = created("--store-url", server["store"])  # where the server runs
    assert f"Approved {proposal}" in cli.says("review", "approve", proposal, "--token-file", second)
    for one in (minted, second):
        cli.says("token", "revoke", one)


# -- the server as a process ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_asked_to_end_finishes_what_it_began_and_leaves_a_closed_file(
    home: Path, number: signal.Signals
) -> None:
    with started("serve", "--port", "0", "--json") as running:
        said = announced(running)
        headers = {"Authorization": f"Bearer {said['token']}"}
        with httpx.Client(base_url=said["address"], headers=headers, timeout=PATIENCE_S) as http:
            http.post("/v1/memories", json={"content": "tea", "agent_id": "a"}).raise_for_status()
            assert http.get("/readyz").status_code == 200
        running.send_signal(number)
        assert running.wait(PATIENCE_S) == 0
        assert running.stderr is not None
        log = [
            json.loads(text) for text in running.stderr.read().decode().splitlines() if text.startswith("{")
        ]
        assert not [entry for entry in log if entry["level"] in ("warning", "error")]
        asked = [entry["route"] for entry in log if entry["logger"] == "quipu.access"]
        assert asked == ["/v1/memories"]
        assert said["token"] not in str(log)
    assert [path.name for path in home.glob("memory.db-*")] == [], "no log beside it"


def test_of_servers_that_start_at_once_one_makes_the_first_token(home: Path) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(started("serve", "--port", "0", "--json")) for _ in range(2)]
        said = [announced(one) for one in servers]
        (token,) = [one["token"] for one in said if "token" in one]
        for one in said:  # and all of them know it
            found = httpx.get(f"{one['address']}/v1/me", headers={"Authorization": f"Bearer {token}"})
            assert found.json()["name"] == "admin"
        for one in servers:
            one.send_signal(signal.SIGTERM)
        assert [one.wait(PATIENCE_S) for one in servers] == [0, 0]


def test_a_port_that_is_taken_is_told_before_anything_is_opened(
    running: dict[str, Any], cli: Cli, home: Path
) -> None:
    port = running["address"].rpartition(":")[2]
    problem = cli.problem("serve", "--port", port, code=2)
    assert problem["reason"] == "address_in_use"
    assert "--port" in problem["hint"]
    assert not (home / "memory.db").exists()


def test_a_server_does_not_listen_where_strangers_could_read_along(cli: Cli, home: Path) -> None:
    (home / "none.pem").write_text("no certificate", "utf-8")
    outside = ("--host", "192.0.2.1")
    for words, reason in (
        ([*outside], "no_tls"),
        ([*outside, "--no-auth"], "open_to_all"),
        (["--no-auth", "--trusted-proxy", "10.0.0.2"], "open_to_all"),
        ([*outside, "--tls-cert", str(home / "none.pem")], "bad_certificate"),
        (["--port", "99999"], "usage"),
    ):
        assert cli.problem("serve", *words)["reason"] == reason, words
    assert not (home / "memory.db").exists()


def test_an_open_server_asks_nobody_and_makes_no_token(cli: Cli, home: Path) -> None:
    with started("serve", "--port", "0", "--no-auth", "--json", "--store-url", ":memory:") as running:
        said = announced(running)
        assert said.keys() == {"address"}
        assert httpx.get(f"{said['address']}/v1/me").json()["name"] == "local"
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == 0
        assert running.stderr is not None
        log = running.stderr.read().decode()
    assert "Nothing is kept" in log
    assert list(home.glob("*.db")) == []


def test_the_token_is_shown_to_who_started_the_server_and_not_to_its_log() -> None:
    with started("serve", "--port", "0") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        first = running.stdout.readline().decode()
        assert first.startswith("Quipu listens on http://127.0.0.1:")
        httpx.get(f"{first.split()[-1]}/healthz").raise_for_status()
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == 0
        said = running.stdout.read()
        assert said.count(b"qp_default_") == 1
        assert b"Solo mode" in said, "what it may do alone, and what ends it"
        assert b"quipu token create NAME --roles reviewer`" in said
        assert b"qp_default_" not in running.stderr.read()


async def test_a_link_that_is_shown_signs_in_once() -> None:
    container = await open_container(Settings(), stores=[":memory:"], embedder="none")
    try:
        issued = await container.access.tokens.first(local(), container.clock())
        assert issued is not None
        link = await signin_link(container, issued.token.id, "http://127.0.0.1:8321")
        assert link is not None
        address, _, text = link.partition("?link=")
        assert address == "http://127.0.0.1:8321/signin"
        assert (await container.access.signin_links.redeemed(text)).name == "admin"
        assert await signin_link(container, "tok_unknown", "http://127.0.0.1:8321") is None
    finally:
        await container.close()


def test_a_server_that_cannot_open_its_memory_ends_with_an_error(cli: Cli) -> None:
    problem = cli.problem("serve", "--port", "0", "--store-url", "/proc/quipu/x.db", code=2)
    assert problem["code"] == "backend_unavailable"
