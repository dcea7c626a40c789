"""Commands about this machine: init, doctor, config, demo."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from quipu.cli.doctor import odd_settings
from quipu.config import Settings
from tests.cli.conftest import Cli
from tests.embed.small_model import written

# -- init -------------------------------------------------------------------------------------------------------------


def test_init_makes_a_memory_and_its_first_token_and_is_harmless_twice(cli: Cli, home: Path) -> None:
    said = cli.says("init")
    assert f"Created a memory: sqlite://{home / 'memory.db'}" in said
    assert said.count("qp_default_") == 1
    assert cli.json("init") == {
        "store": f"sqlite://{home / 'memory.db'}",
        "is_new": False,
        "embedder": None,
        "token": None,
    }
    assert "A memory is there" in cli.says("init")
    (token,) = cli.json("token", "list")["tokens"]
    assert token["name"] == "admin"
    elsewhere = home / "a b" / "memory.db"
    assert f"--roles reviewer --store-url '{elsewhere}'" in cli.says("init", str(elsewhere), "--no-model")
    made = cli.json("init", str(home / "other" / "project.db"), "--no-model")
    assert (made["is_new"], made["token"][:11]) == (True, "qp_default_")
    assert (home / "other" / "project.db").is_file()


def test_init_makes_the_tables_of_a_database(cli: Cli, database: str) -> None:
    made = cli.json("init", database)
    assert (made["is_new"], bool(made["token"])) == (True, True)
    assert "@" not in made["store"], "no user and no password"
    assert cli.json("init", database)["is_new"] is False
    name = cli.remember("tea", "--store-url", database)
    assert cli.json("show", name, "--store-url", database)["content"] == "tea"
    checks = {one["name"]: one for one in cli.json("doctor", "--store-url", database)["checks"]}
    assert checks["ledger"]["detail"].startswith("postgresql")


def test_init_says_when_the_model_cannot_be_had_and_makes_the_memory_all_the_same(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_EMBEDDER", "onnx")
    monkeypatch.setenv("QUIPU_WEIGHTS", str(home / "nowhere"))
    result = cli("init")
    assert result.code == 0, result
    assert "words alone" in result.err
    assert "qp_default_" in result.out


# -- doctor -----------------------------------------------------------------------------------------------------------


def checks(cli: Cli, *words: str, code: int = 0) -> dict[str, Any]:
    found = cli.json("doctor", *words, code=code)
    assert found["ok"] is (code == 0)
    return {one["name"]: one for one in found["checks"]}


def test_the_doctor_finds_a_sound_memory_sound(cli: Cli) -> None:
    cli.remember("tea")
    said = cli.says("doctor")
    for part in ("program", "settings", "store", "ledger", "key", "embedder", "disk", "All is well."):
        assert part in said
    assert {one["status"] for one in checks(cli).values()} == {"ok"}
    assert "1 records" in checks(cli, "--quick")["ledger"]["detail"]


def test_the_doctor_creates_nothing_and_says_what_to_type(cli: Cli, home: Path) -> None:
    found = checks(cli)
    assert found["store"]["status"] == "warn"
    assert "`quipu remember`" in found["store"]["advice"]
    cli.says("remember", "tea", "--store-url", str(home / "notes.db"))
    named = checks(cli, "--store-url", str(home / "note.db"), code=1)
    assert "notes.db" in named["store"]["advice"]
    assert not (home / "memory.db").exists()


def test_the_doctor_waits_for_no_pipe_and_takes_no_folder_for_a_memory(cli: Cli, home: Path) -> None:
    os.mkfifo(home / "pipe")
    for place in (home / "pipe", home, Path("/dev/null")):
        assert checks(cli, "--store-url", str(place), code=1)["store"]["status"] == "fail", place
    (home / "empty.db").touch()
    assert "quipu init" in checks(cli, "--store-url", str(home / "empty.db"))["store"]["advice"]
    assert (home / "empty.db").stat().st_size == 0


def test_the_doctor_names_a_damaged_file_and_a_schema_that_was_changed(cli: Cli, home: Path) -> None:
    (home / "plain.db").write_text("not a database, but long enough to be read as one " * 100, "utf-8")
    damaged = checks(cli, "--store-url", str(home / "plain.db"), code=1)["ledger"]
    assert "backup" in damaged["advice"]
    cli.remember("tea")
    import apsw

    connection = apsw.Connection(str(home / "memory.db"))
    connection.execute("CREATE TABLE foreign_table (x)")
    connection.close()
    assert "foreign_table is not ours" in checks(cli, code=1)["ledger"]["detail"]
    assert "→" in cli.says("doctor", code=1)


def test_the_doctor_looks_after_the_key_of_the_secrets(cli: Cli, home: Path) -> None:
    cli.says("secret", "add", "pin", input="a long secret value")
    key = home / "memory.db.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert checks(cli)["key"]["status"] == "ok"
    key.chmod(0o644)
    assert f"chmod 600 {key}" in checks(cli)["key"]["advice"]
    key.unlink()
    lost = checks(cli, code=1)["key"]
    assert "Every write" in lost["detail"]
    assert "quipu secret remove" in lost["advice"]


def test_the_doctor_says_what_the_model_cannot_do_and_that_another_is_not_calibrated(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.remember("tea")
    monkeypatch.setenv("QUIPU_EMBEDDER", "onnx")
    said = [one for one in cli.json("doctor")["checks"] if one["name"] == "embedder"]
    assert [one["status"] for one in said] == ["ok"]
    assert "in another language than the memory it answered 1 of 12" in said[0]["detail"]
    monkeypatch.setenv("QUIPU_WEIGHTS", str(written(home / "small", limits="It knows eight words.")))
    named = ["--store-url", str(home / "other.db")]
    monkeypatch.setenv("QUIPU_EMBEDDER", "none")
    cli.says("remember", "tea", *named)
    monkeypatch.setenv("QUIPU_EMBEDDER", "onnx")
    said = [one for one in cli.json("doctor", *named)["checks"] if one["name"] == "embedder"]
    assert [one["status"] for one in said] == ["ok", "warn"]
    assert said[0]["detail"].endswith("4 dimensions. It knows eight words.")
    assert "is not calibrated" in said[1]["detail"]
    assert "min_relevance" in said[1]["advice"]


def test_the_doctor_says_how_a_model_that_is_chosen_by_name_is_had(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.remember("tea")
    monkeypatch.setenv("QUIPU_EMBEDDER", "arctic-s")
    monkeypatch.setenv("QUIPU_CACHE", str(home / "cache"))
    said = checks(cli)["embedder"]
    assert said["status"] == "warn"
    assert f"-d {home / 'cache' / 'arctic-s'}" in said["advice"]


def test_the_doctor_names_a_missing_model_and_bad_settings(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.remember("tea")
    monkeypatch.setenv("QUIPU_EMBEDDER", "onnx")
    monkeypatch.setenv("QUIPU_WEIGHTS", str(home / "nowhere"))
    monkeypatch.setenv("QUIPU_STOER", "zqvaluemark")
    result = cli("doctor", "--json")
    found = json.loads(result.out)["checks"]
    assert next(one for one in found if one["name"] == "embedder")["status"] == "warn"
    said = " ".join(one["detail"] for one in found if one["name"] == "settings")
    assert "QUIPU_STOER sets nothing" in said
    assert "nowhere, which is not there" in said
    assert "zqvaluemark" not in result.out + result.err
    monkeypatch.setenv("QUIPU_EMBEDDER", "openai")
    monkeypatch.delenv("QUIPU_WEIGHTS")
    assert "QUIPU_EMBEDDER_URL" in str(checks(cli, code=1)["settings"])
    monkeypatch.setenv("QUIPU_PORT", "many")
    assert checks(cli, code=1)["settings"]["status"] == "fail"


def test_each_setting_that_looks_wrong_is_named_with_what_to_do() -> None:
    odd: dict[str, dict[str, Any]] = {
        "rules": {"rules": Path("/nowhere/rules.toml")},
        "tls_key": {"tls_cert": Path("/dev/null")},
        "embedder_url": {"embedder_url": "https://models.example", "embedder": "none"},
        "address or a model": {"embedder": "openai"},
        "extractor_model": {"extractor_url": "https://models.example"},
        "no server": {"token": "qp_default_x"},
        "unencrypted": {"insecure": True},
        "secrets_marker": {"secrets_marker": "***"},
        "audience": {"oidc_issuer": "https://id.example"},
        "openwop_conformance": {"openwop_conformance": True},
    }
    assert list(odd_settings(Settings())) == []
    for word, given in odd.items():
        found = list(odd_settings(Settings().with_values(**given)))
        assert len(found) == 1, (word, found)
        assert word in found[0][0]
        assert found[0][1].endswith((".", "production.", ">."))
        assert "qp_default_x" not in str(found)


# -- config -----------------------------------------------------------------------------------------------------------


def test_config_shows_where_each_value_came_from_and_no_secret(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / "config" / "quipu"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('port = 9000\nembedder_key = "sk-secret"\n', "utf-8")
    monkeypatch.setenv("MEMORYWIRE_AGENT", "planner")
    monkeypatch.setenv("QUIPU_EMBEDDER_URL", "https://user:hunter2@models.example/v1?key=hunter2")
    monkeypatch.setenv("QUIPU_TOKEN", "qp_default_hunter2")
    monkeypatch.setenv("QUIPU_MIRRORS", "mem0://user:hunter2@x")
    for words in (["config"], ["config", "--all"], ["config", "--json"], ["config", "--verbose"]):
        result = cli(*words)
        assert result.code == 0
        assert "hunter2" not in result.out + result.err, words
        assert "sk-secret" not in result.out + result.err, words
    body = cli.json("config", "--store-url", "postgresql://u:hunter2@h/db")
    rows = {row["name"]: row for row in body["settings"]}
    assert body["file"] == str(folder / "config.toml")
    assert (rows["port"]["value"], rows["port"]["source"]) == (9000, f"file {folder / 'config.toml'}")
    assert (rows["agent"]["value"], rows["agent"]["source"]) == ("planner", "environment MEMORYWIRE_AGENT")
    assert (rows["token"]["value"], rows["embedder_key"]["value"]) == ("(set)", "(set)")
    assert (rows["store"]["value"], rows["store"]["source"]) == ("postgresql://h/db", "option")
    assert rows["cache_mb"]["source"] == "default"
    said = cli.says("config")
    assert "cache_mb" not in said, "only what is set"
    assert "QUIPU_CACHE_MB" in cli.says("config", "--all")


def test_config_says_where_memory_is_and_which_variables_set_nothing(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUIPU_STORE")
    monkeypatch.delenv("QUIPU_EMBEDDER")
    assert "Nothing is set" in cli.says("config")
    monkeypatch.setenv("QUIPU_EMBEDER", "zqvaluemark")
    result = cli("config", "--json")
    body = json.loads(result.out)
    rows = {row["name"]: row["value"] for row in body["settings"]}
    assert rows["store"] == f"sqlite://{home / 'data' / 'quipu' / 'memory.db'}"
    assert body["unknown"] == [{"name": "QUIPU_EMBEDER", "near": "QUIPU_EMBEDDER"}]
    assert "zqvaluemark" not in result.out + result.err


# -- demo -------------------------------------------------------------------------------------------------------------


def test_the_demo_shows_a_memory_and_leaves_nothing(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_SERVER", "https://memory.example.org")  # it stays on this machine
    said = cli.says("demo", "--once")
    assert cli("demo", "--once").err == "", "a bar is drawn for who watches"
    for part in ("Remembering", "Nothing matches.", "Lisbon", "Porto", "Try it yourself"):
        assert part in said
    body = cli.json("demo")
    assert all(recall["results"] for recall in body["recalls"][:-1])
    assert body["recalls"][-1]["results"] == []
    assert "Lisbon" in body["time_travel"]["then"]
    assert "Porto" in body["time_travel"]["now"]
    assert [path for path in home.rglob("*") if path.is_file()] == []
