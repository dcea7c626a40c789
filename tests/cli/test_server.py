"""Every family of commands against a real server, and what cannot be done there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from quipu.model.access import Role
from quipu.model.principal import local
from tests.cli.conftest import Cli, Process
from tests.faces.serving import Served, served


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served") / "memory.db") as found:
        yield found


@pytest.fixture
def server(running: Served, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Served:
    """The server, named by the environment, and an agent of the test's own on it."""
    monkeypatch.setenv("QUIPU_SERVER", running.url)
    monkeypatch.setenv("QUIPU_TOKEN", running.admin_token)
    monkeypatch.setenv("QUIPU_AGENT", request.node.name)
    monkeypatch.delenv("QUIPU_STORE")
    return running


@pytest.fixture(autouse=True)
def nothing_stays_here(home: Path) -> Iterator[None]:
    """A command that speaks to a server touches no memory of this machine."""
    yield
    assert not [file.name for file in home.rglob("*.db*") if "here" not in file.name]


@pytest.mark.usefixtures("server")
def test_the_five_operations(cli: Cli) -> None:
    first = cli.remember("Mara is vegetarian", "--user", "mara", "--tag", "food")
    second = cli.remember("Mara eats no meat", "--user", "mara")
    (hit,) = cli.json("recall", "vegetarian", "--min-relevance", "off")["results"]
    assert (hit["id"], hit["provenance"]["written_by"]) == (first, "admin")
    assert cli.json("merge", first, second)["merged_count"] == 1
    assert cli.json("expire", "--type", "semantic", "--action", "demote")["matched_count"] == 1
    assert cli.json("forget", "--id", first)["forgotten_ids"] == [first]
    assert "Restored" in cli.said("restore", first)
    assert cli.said("recall", "nothing at all like it", "--min-relevance", "strict").startswith(
        "Nothing matches"
    )


@pytest.mark.usefixtures("server")
def test_reading(cli: Cli) -> None:
    name = cli.remember("tea", "--metadata", '{"n": 1}')
    cli.json("remember", "tea at noon", "--id", name, "--if-version", "1")
    assert cli.json("show", name)["content"] == "tea at noon"
    assert [version["version"] for version in cli.json("history", name)["versions"]] == [1, 2]
    assert [record["id"] for record in cli.json("list")["records"]] == [name]
    assert "tea at noon" in cli.said("list")
    assert cli.problem("remember", "late", "--id", name, "--if-version", "1")["reason"] == "version_mismatch"
    assert cli.problem("show", "mem_no")["reason"] == "record"


@pytest.mark.usefixtures("server")
def test_stores(cli: Cli) -> None:
    assert cli.json("store", "create", "recipes", "--scope", "team")["name"] == "recipes"
    assert "recipes" in cli.said("store", "list")
    cli.remember("soup", "--store", "recipes")
    assert cli.json("store", "delete", "recipes", "--yes")["removed"] == 1


def test_reviews(cli: Cli, server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    held = cli.json("remember", "Wire 900 EUR", "--approve", code=3)
    assert held["approval_url"].startswith(server.url)
    proposal = held["extensions"]["quipu"]["proposal_id"]
    assert cli.said("remember", "Wire 1 EUR", "--approve", code=3).startswith("Held for approval  prp_")
    assert cli.json("review", "show", held["approval_url"])["request"]["content"] == "Wire 900 EUR"
    assert cli.problem("review", "approve", proposal)["reason"] == "self_approval"
    other = server.do(server.service.tokens.issue(local(), name="second", roles=[Role.ADMIN]))
    monkeypatch.setenv("QUIPU_TOKEN", other.text)
    assert cli.json("review", "approve", proposal, "--reason", "checked")["reviewer"] == "second"
    assert cli.json("show", held["id"])["content"] == "Wire 900 EUR"


def test_in_and_out(cli: Cli, server: Served, home: Path) -> None:
    lines = "".join(json.dumps({"content": f"fact {n}"}) + "\n" for n in range(3)) + "no json\n"
    *errors, summary = cli.lines("import", "-", input=lines, code=1)
    assert summary["summary"]["stored"] == 3
    assert [error["line"] for error in errors] == [4]
    exported = [json.loads(line) for line in cli.said("export").splitlines()]
    assert sorted(record["content"] for record in exported) == ["fact 0", "fact 1", "fact 2"]
    assert cli.json("export", str(home / "out.ndjson"))["records"] == 3


def test_proof(cli: Cli, server: Served, home: Path) -> None:
    cli.remember("tea")
    assert cli.json("verify")["holds"] is True
    assert cli.json("audit", "log", "--limit", "2")["entries"]
    (home / "trusted.json").write_text(cli.said("audit", "keys"), "utf-8")
    cli.json("audit", "export", "proof")
    assert cli.json("verify", "--export", "proof", "--keys", "trusted.json")["holds"] is True


@pytest.mark.usefixtures("server")
def test_upkeep(cli: Cli, home: Path) -> None:
    cli.remember("tea")
    assert cli.json("sweep") == {"closed": 0}
    assert cli.json("vacuum")["emptied"] == 0
    assert cli.json("backup", "here.db")["bytes"] == (home / "here.db").stat().st_size
    copied = cli.json("list", "--store-url", "sqlite://./here.db")["records"]
    assert [record["content"] for record in copied] == ["tea"]
    assert cli.json("health")["status"] == "ok"
    assert cli.json("capabilities")["wire"] == "memorywire/v0"
    assert cli.problem("reembed")["reason"] == "no_embedder"


@pytest.mark.usefixtures("server")
def test_changes(cli: Cli) -> None:
    name = cli.remember("tea")
    (event,) = cli.lines("changes", "--since", "0", "--limit", "1")
    assert (event["op"], event["records"][0]["id"]) == ("remembered", name)
    assert f"remembered  {event['agent_id']}  {name}" in cli.said("changes", "--since", "0", "-n", "1")


def test_who_one_is(cli: Cli, server: Served) -> None:
    assert cli.json("whoami")["tenant"] == "default"
    assert "server:operate" in cli.said("whoami")


def test_tenants_tokens_and_secrets(cli: Cli, server: Served, home: Path) -> None:
    manage(cli)
    issued = cli.json(
        "token",
        "create",
        "bot",
        "--role",
        "agent",
        "--agent",
        "shop-*",
        "--agent",
        "desk",
        "--tenant",
        "acme",
    )
    assert issued["token"]["agents"] == ["shop-*", "desk"]
    (home / "token").write_text(issued["text"] + "\n", "utf-8")
    mine = ["--token-file", "token", "--agent", "shop-1"]
    assert cli.json("whoami", *mine)["tenant"] == "acme"
    assert cli.json("remember", "tea", *mine)["id"]
    assert (
        cli.problem("remember", "tea", "--token-file", "token", "--agent", "other")["reason"]
        == "agent_not_allowed"
    )
    assert cli.problem("tenant", "list", *mine)["code"] == "forbidden"


def manage(cli: Cli) -> None:
    """The three groups, the same here and on a server."""
    assert cli.json("tenant", "create", "acme")["id"] == "acme"
    assert cli.problem("tenant", "create", "acme")["reason"] == "name_taken"
    assert cli.json("tenant", "suspend", "acme")["suspended_at"]
    assert "acme" in cli.said("tenant", "list")
    assert cli.json("tenant", "resume", "acme")["suspended_at"] is None
    assert cli.said("tenant", "suspend", "acme").strip() == "Suspended tenant acme"
    assert cli.said("tenant", "resume", "acme").strip() == "Resumed tenant acme"

    issued = cli.json(
        *("token", "create", "shop", "--role", "agent", "--scope", "memory:review", "--user", "mara"),
        *("--expires", "90d", "--rate", "60", "--recall-budget", "5"),
    )
    token, text = issued["token"], issued["text"]
    assert text.startswith("qp_default_")
    assert (token["rate"], token["recall_budget"], token["user_id"]) == (60, 5, "mara")
    assert token["expires_at"] - token["created_at"] == pytest.approx(90 * 86_400_000, abs=60_000)
    assert "memory:review" in token["permissions"]
    shown = cli("token", "create", "looker", "--role", "reviewer")
    assert shown.stdout.splitlines()[1].startswith("qp_default_")
    assert "shown once" in shown.stderr
    assert cli.said("token", "create", "third", "--role", "agent", "--quiet").startswith("qp_default_")
    listed = cli.said("token", "list")
    assert text not in listed
    assert "shop" in listed
    rotated = cli.json("token", "rotate", token["id"], "--grace", "1d")
    assert rotated["text"] != text
    assert cli.json("token", "revoke", rotated["token"]["id"])["revoked_at"]
    assert cli.problem("token", "rotate", token["id"], "--grace", "soon")["reason"] == "bad_value"
    assert cli.problem("token", "create", "nobody")["reason"] == "missing_field"

    made = cli.json("secret", "add", "codeword", input="swordfish-42-swordfish\n")
    assert "swordfish" not in cli.said("secret", "list")
    kept = cli.json("show", cli.remember("the codeword is swordfish-42-swordfish"))
    assert "swordfish" not in kept["content"]
    assert cli.problem("secret", "add", "empty", input="")["reason"] == "missing_field"
    assert cli.json("secret", "remove", made["id"]) == {"removed": made["id"]}
    assert cli.problem("secret", "remove", made["id"])["reason"] == "secret"


# -- what cannot be done there, and what goes wrong ----------------------------------------------------------------


@pytest.mark.parametrize("words", [["init"], ["doctor"], ["serve"]])
def test_what_is_about_this_machine_says_so(cli: Cli, server: Served, words: list[str]) -> None:
    problem = cli.problem(*words)
    assert problem["reason"] == "usage"
    assert f"quipu {words[0]}" in problem["detail"]
    assert "--store-url" in problem["hint"]


def test_a_place_that_is_named_wins_over_the_environment(cli: Cli, server: Served, home: Path) -> None:
    cli.remember("on this machine", "--store-url", "sqlite://./here.db")
    assert cli.json("list")["records"] == []
    assert len(cli.json("list", "--store-url", "sqlite://./here.db")["records"]) == 1
    assert (
        cli.problem("list", "--server", server.url, "--store-url", "sqlite://./here.db")["reason"] == "usage"
    )


def test_the_option_names_the_server(cli: Cli, server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUIPU_SERVER")
    name = cli.remember("tea", "--server", server.url)
    assert cli.json("--server", server.url, "show", name)["content"] == "tea"
    assert cli.json("show", name, "--store-url", f"quipu+{server.url}")["content"] == "tea"


def test_the_demo_stays_on_this_machine(cli: Cli, server: Served) -> None:
    assert cli.json("demo", "--once")["verified"] is True


def test_without_a_token_one_is_told_how_to_get_in(
    cli: Cli, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUIPU_TOKEN")
    problem = cli.problem("list")
    assert problem["code"] == "unauthenticated"
    assert "--token-file" in problem["hint"]


def test_a_token_file_that_is_none_is_said_to_be_so(cli: Cli, server: Served, home: Path) -> None:
    (home / "empty").write_text("\n", "utf-8")
    for name in ("nowhere", "empty"):
        assert cli.problem("list", "--token-file", name)["reason"] == "no_file"


def test_a_server_that_is_not_there_is_exit_code_2(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIPU_RETRIES", "0")
    problem = cli.problem("list", "--server", "http://127.0.0.1:9", code=2)
    assert (problem["code"], problem["reason"]) == ("backend_unavailable", "unreachable")
    assert cli.problem("list", "--server", "http://memory.example.org")["reason"] == "insecure"
    assert cli.problem("list", "--server", "nonsense")["reason"] == "bad_value"


def test_the_token_is_in_no_output(cli: Cli, server: Served) -> None:
    said = cli("config").output + cli("list", "--verbose").output + cli("show", "mem_no", "--verbose").output
    assert server.admin_token not in said
    row = next(row for row in cli.json("config")["settings"] if row["name"] == "server_token")
    assert (row["value"], row["source"]) == ("********", "environment")
    assert "--token" not in {word for word in cli.said("list", "--help").split() if word == "--token"}


def test_the_environment_s_token_is_not_shown_to_another_server(cli: Cli, server: Served) -> None:
    other = server.url.replace("127.0.0.1", "localhost")  # the same server by another name
    assert cli.problem("whoami", "--server", other)["code"] == "unauthenticated"
    assert cli.json("whoami", "--server", f"{server.url}/")["name"] == "admin"


def test_a_secret_cannot_be_given_as_a_word(cli: Cli, server: Served) -> None:
    assert cli.problem("secret", "add", "label", "hush hush")["reason"] == "usage"


def test_a_remote_command_as_a_process(process: Process, server: Served) -> None:
    done = process("remember", "tea", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["id"]
    assert server.admin_token.encode() not in done.stdout + done.stderr


def test_ctrl_c_ends_a_feed(cli: Cli, server: Served, home: Path) -> None:
    cli.remember("tea")
    following = subprocess.Popen(
        Process.line("changes", "--since", "0", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=home,
    )
    assert following.stdout is not None
    assert following.stderr is not None
    try:
        assert json.loads(following.stdout.readline())["op"] == "remembered"
        following.send_signal(signal.SIGINT)
        assert following.wait(30) == 130
        assert following.stderr.read().decode().strip() == "Interrupted"
    finally:
        following.kill()
        following.stdout.close()
        following.stderr.close()


def test_the_groups_work_on_a_memory_of_this_machine_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIPU_STORE", "sqlite://./here.db")
    assert "QUIPU_SERVER" not in os.environ
    manage(cli)
    assert cli.json("whoami")["name"] == "local"
    cli.remember("tea")
    assert cli.lines("changes", "--since", "0", "--limit", "1")[0]["op"] == "remembered"
