"""Misspelt words: variables of the environment, commands, options. What was meant is named; what may be a memory is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quipu.config import SETTINGS, load, misspelt
from tests.cli.conftest import Cli
from tests.faces.serving import Program

VALUE = "zqvaluemark"

MEANT = {
    "QUIPU_STOER": ("QUIPU_STORE",),
    "QUIPU_DATABSE": ("QUIPU_STORE",),
    "QUIPU_STORE_URL": ("QUIPU_STORE",),
    "QUIPU_AGENT_ID": ("QUIPU_AGENT",),
    "QUIPU_SWEEP_EVERY_S": ("QUIPU_SWEEP_S",),
    "QUIPU_OIDC_ISUER": ("QUIPU_OIDC_ISSUER",),
    "QUIPU_CONFG": ("QUIPU_CONFIG",),
    "QUIPU_ZZZZZZZZ": (),
}


@pytest.mark.parametrize("name", MEANT)
def test_a_variable_that_sets_nothing_is_named_with_the_one_that_was_meant(name: str) -> None:
    found = misspelt({name: VALUE, "OTHER_STOER": VALUE})
    assert [(one.name, one.meant) for one in found] == [(name, MEANT[name])]
    assert VALUE not in f"{found[0].said} {found[0].advice} {found[0]!r}"


def test_every_variable_that_is_read_is_known() -> None:
    given = {setting.environment: "1" for setting in SETTINGS} | {"QUIPU_CONFIG": "x", "_QUIPU_COMPLETE": "x"}
    assert misspelt(given) == []


def test_what_a_cluster_sets_for_a_service_called_quipu_is_no_setting() -> None:
    cluster = {
        "QUIPU_SERVICE_HOST": "10.0.0.7",
        "QUIPU_SERVICE_PORT_HTTP": "8321",
        "QUIPU_PORT": "tcp://10.0.0.7:8321",
        "QUIPU_PORT_8321_TCP": "tcp://10.0.0.7:8321",
        "QUIPU_PORT_8321_TCP_ADDR": "10.0.0.7",
        "QUIPU_CONFIG": "/dev/null",
    }
    assert misspelt(cluster) == []
    assert load(cluster).port == 8321
    assert load({**cluster, "QUIPU_PORT": "99"}).port == 99, "somebody chose it"


def test_doctor_and_config_name_it_and_not_its_value(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIPU_EMBEDER", VALUE)
    checks = cli.json("doctor", "--quick")["checks"]
    warning = next(check for check in checks if check["name"] == "settings" and check["status"] == "warn")
    assert warning["detail"].startswith("QUIPU_EMBEDER sets nothing")
    assert warning["advice"] == "Did you mean QUIPU_EMBEDDER?"
    assert cli.json("config")["unknown"] == [{"name": "QUIPU_EMBEDER", "meant": ["QUIPU_EMBEDDER"]}]
    shown = cli("config", "--quiet")
    assert (shown.exit_code, shown.stdout.count("QUIPU_EMBEDER")) == (0, 0)
    assert "Warning: QUIPU_EMBEDER sets nothing" in shown.stderr
    for words in (["doctor", "--quick"], ["config"], ["config", "--verbose"]):
        assert VALUE not in cli(*words).output


def test_a_starting_server_logs_it(tmp_path: Path) -> None:
    with Program(tmp_path / "memory.db", QUIPU_STOER=VALUE) as program:
        assert program.stop() == 0
    logged = [json.loads(line) for line in program.log.splitlines() if line.startswith("{")]
    told = [line["message"] for line in logged if line["level"] == "warning"]
    assert told == ["QUIPU_STOER sets nothing: there is no such setting. Did you mean QUIPU_STORE?"]


COMMANDS = {
    "a slip": (["recal", "x"], "quipu recall"),
    "another": (["rember", "x"], "quipu remember"),
    "one of a group": (["token", "creat"], "quipu token create"),
    "another program's word": (["search", "x"], "quipu recall"),
    "and for what is gone": (["delete", "x"], "quipu forget"),
    "in a group": (["token", "rm", "x"], "quipu token revoke"),
    "in capitals": (["RECALL", "x"], "quipu recall"),
    "an option": (["recall", "x", "--jsn"], "--json"),
    "an option with a line under": (["recall", "x", "--min_relevance", "0"], "--min-relevance"),
    "another program's option": (["recall", "x", "--limit", "3"], "-k"),
    "a short one": (["recall", "x", "-n", "3"], "-k"),
    "an option of the program": (["--vers"], "--version"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_misspelt_word_is_met_with_one_good_suggestion(cli: Cli, name: str) -> None:
    words, meant = COMMANDS[name]
    assert cli.problem(*words)["hint"].startswith(f"Did you mean `{meant}`? `")


@pytest.mark.parametrize("words", [["zzzzzz"], ["help"], ["recall", "x", "--zzzz"], ["token", "zzzz"]])
def test_where_nothing_is_near_nothing_is_suggested(cli: Cli, words: list[str]) -> None:
    told = cli.problem(*words)
    assert told["hint"].startswith("`quipu")
    assert "Did you mean" not in told["detail"] + told["hint"]


@pytest.mark.parametrize("text", ["hunter2 is secret", "it's hunter2", 'say "hunter2"', 'it\'s "hunter2"'])
def test_a_text_in_the_place_of_a_command_is_not_repeated(cli: Cli, text: str) -> None:
    for more in ([], ["--json"], ["--verbose"]):
        result = cli(text, *more)
        assert result.exit_code == 1
        assert "hunter2" not in result.output
        assert "quipu remember" in result.stderr
