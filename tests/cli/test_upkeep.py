"""The file as a whole: init, backup, vacuum, reembed, doctor, health, capabilities, config, demo."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import apsw
import pytest

from quipu.bootstrap.addresses import address
from quipu.cli.checks import file_checks
from quipu.config import data_dir, load
from quipu.errors import InvalidError
from quipu.sync import Memory
from tests.cli.conftest import Cli
from tests.cli.published import valid


def test_init_makes_a_memory_and_its_key_and_is_harmless_twice(cli: Cli, home: Path) -> None:
    assert "Made a memory" in cli.said("init")
    assert (home / "memory.db.key").stat().st_mode & 0o077 == 0
    body = cli.json("init")
    assert body["created"] is False
    assert body["path"] == str(home / "memory.db")
    assert json.loads(cli.said("audit", "keys")) == {body["key_id"]: body["public_key"]}
    assert cli.json("init", "project.db", "--skip-model")["created"] is True
    assert (home / "project.db").exists()


def test_backup_writes_a_copy_that_works(cli: Cli, home: Path) -> None:
    cli.remember("Mara is vegetarian")
    assert "Backed up to copy.db" in cli.said("backup", "copy.db")
    copied = cli.json("list", "--store-url", f"sqlite://{home / 'copy.db'}")
    assert copied["records"][0]["content"] == "Mara is vegetarian"
    assert cli.json("backup", "second.db")["bytes"] > 0
    assert "exists already" in cli.problem("backup", "copy.db")["detail"]


def test_backup_names_the_keys_that_are_not_in_the_copy(cli: Cli, home: Path) -> None:
    cli.remember("Mara is vegetarian")
    assert "memory.db.key" in cli("backup", "one.db").stderr
    cli.said("secret", "add", "pin", input="a long secret value")
    said = cli("backup", "two.db").stderr
    assert f"{home / 'memory.db.key'}." in said
    assert f"{home / 'memory.db.sealing-key'}." in said
    assert cli("backup", "three.db", "--quiet").stderr == ""


def test_a_backup_into_a_folder_that_is_not_there_says_so(cli: Cli, home: Path) -> None:
    cli.remember("Mara is vegetarian")
    problem = cli.problem("backup", "nowhere/copy.db", code=2)
    assert problem["reason"] == "backup"
    assert "no folder nowhere" in problem["hint"]
    assert not (home / "nowhere").exists()


def test_a_copy_without_its_sealing_key_is_found_out_and_can_be_mended(cli: Cli, home: Path) -> None:
    cli.remember("Mara is vegetarian")
    secret = cli.json("secret", "add", "pin", input="a long secret value")["id"]
    cli.said("webhook", "add", "https://hook.example/x")
    cli.said("backup", "copy.db")
    copy = ("--store-url", f"sqlite://{home / 'copy.db'}")

    def sealing(*words: str, code: int) -> str:
        found = cli.json("doctor", *copy, *words, code=code)["checks"]
        return " ".join(f"{one['detail']} {one['advice']}" for one in found if one["name"] == "sealing")

    for words in ((), ("--quick",)):
        assert "every write is refused" in sealing(*words, code=1)
        assert "quipu secret remove" in sealing(*words, code=1)
    refused = cli("remember", "an ordinary fact", *copy, "--json")
    assert (refused.exit_code, '"missing_key"' in refused.stderr) == (1, True)
    (home / "copy.db.sealing-key").write_bytes((home / "memory.db.sealing-key").read_bytes())
    assert sealing("--quick", code=0) == ""
    cli.said("remember", "an ordinary fact", *copy)
    (home / "copy.db.sealing-key").unlink()
    cli.said("secret", "remove", secret, *copy)
    said = sealing("--quick", code=1)
    assert "webhooks are told nothing" in said
    assert "secret remove" not in said
    cli.said("remember", "another ordinary fact", *copy)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_doctor_waits_for_no_pipe_and_takes_no_device_for_a_memory(cli: Cli, home: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(home / "pipe")
    place = home / "pipe" if kind == "pipe" else Path("/dev/null")
    checks = {one["name"]: one for one in cli.json("doctor", "--store-url", str(place), code=1)["checks"]}
    assert checks["file"]["status"] == "fail"
    assert "pipe or a device" in checks["file"]["detail"]


def test_doctor_tells_a_folder_that_is_read_only(cli: Cli) -> None:
    folder = Path(tempfile.mkdtemp())
    cli.remember("Mara is vegetarian", "--store-url", f"sqlite://{folder / 'memory.db'}")
    where = address(f"sqlite://{folder / 'memory.db'}")
    folder.chmod(0o555)
    is_root = os.geteuid() == 0  # who may write everywhere, and must not here
    if is_root:
        os.seteuid(65_534)
    try:
        checks = {one.name: one for one in file_checks(where, is_named=True)}
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)
    assert checks["folder"].status == "warn"
    assert str(folder) in checks["folder"].detail
    assert "folder" not in {one.name for one in file_checks(where, is_named=True)}
    shutil.rmtree(folder)


def test_doctor_tells_a_file_that_says_it_is_older_than_it_is(cli: Cli, home: Path) -> None:
    cli.remember("Mara is vegetarian")
    connection = apsw.Connection(str(home / "memory.db"))
    connection.pragma("user_version", 3)
    connection.close()
    checks = {one["name"]: one for one in cli.json("doctor", code=1)["checks"]}
    assert "version 3" in checks["ledger"]["detail"]
    assert "backup" in checks["ledger"]["advice"]


def test_vacuum_gives_space_back_and_lets_old_versions_go(cli: Cli) -> None:
    name = cli.remember("first " * 1000)
    cli.remember("second", "--id", name)
    assert "now" in cli.said("vacuum")
    body = cli.json("vacuum", "--keep-history-days", "0")
    assert body["emptied"] == 1
    assert body["bytes_before"] > 0
    assert cli.json("show", name)["content"] == "second"
    assert "Emptied 0 old versions" in cli.said("vacuum", "--keep-history-days", "0")
    assert cli.json("verify")["holds"] is True


def test_reembed_needs_an_embedder_where_all_terms_are_right(cli: Cli) -> None:
    cli.remember("Mara is vegetarian")
    problem = cli.problem("reembed")
    assert problem["code"] == "unsupported"
    assert "--embedder" in problem["hint"]


def test_memories_imported_without_a_model_are_found_by_meaning_after_reembed(cli: Cli) -> None:
    cli.lines("import", "-", input='{"content": "Mara is vegetarian"}\n{"content": "Ilir rides trains"}\n')
    checks = {check["name"]: check for check in cli.json("doctor")["checks"]}
    assert checks["vectors"]["status"] == "warn"
    assert "reembed" in checks["vectors"]["advice"]
    assert "Renewed the index of 2 versions" in cli.said("reembed", "--embedder", "onnx")
    assert cli.json("--embedder", "onnx", "reembed") == {"embedded": 0}
    found = cli.json("recall", "which person eats no meat?", "--embedder", "onnx", "--min-relevance", "off")
    assert found["results"][0]["content"] == "Mara is vegetarian"
    checks = {check["name"]: check for check in cli.json("doctor", "--embedder", "onnx")["checks"]}
    assert checks["vectors"]["status"] == checks["embedder"]["status"] == "ok"


def test_terms_of_an_earlier_build_are_told_and_renewed(cli: Cli, home: Path) -> None:
    cli.remember("\U0001f375tea with Mara")
    cli.remember("Ilir rides trains")
    with apsw.Connection(str(home / "memory.db")) as connection:
        connection.execute("UPDATE record SET terms = x'0102030401' WHERE content LIKE '%tea%'")
        connection.execute("UPDATE tenant SET terms = 0")
    assert cli.json("recall", "tea", "--min-relevance", "off")["results"] == []
    checks = {check["name"]: check for check in cli.json("doctor", "--quick")["checks"]}
    assert (checks["terms"]["status"], checks["terms"]["advice"]) == ("warn", "Run `quipu reembed`.")
    checks = {check["name"]: check for check in cli.json("doctor", code=1)["checks"]}
    assert "terms" not in checks
    assert "`quipu reembed`" in checks["integrity"]["detail"]
    assert "restore" not in checks["integrity"]["advice"]
    told = cli("verify").output
    assert "`quipu reembed`" in told
    assert "Restore a backup" not in told
    assert "Renewed the index of 1 version\n" in cli.said("reembed")
    assert cli.json("recall", "tea", "--min-relevance", "off")["results"] != []
    assert cli.json("verify")["holds"] is True
    checks = {check["name"]: check for check in cli.json("doctor", "--quick")["checks"]}
    assert "terms" not in checks


def test_reembed_without_an_embedder_looks_at_the_terms_of_a_file_from_before(cli: Cli, home: Path) -> None:
    cli.remember("Ilir rides trains")
    with apsw.Connection(str(home / "memory.db")) as connection:
        connection.execute("UPDATE tenant SET terms = 0")
    assert "Every version has its terms already" in cli.said("reembed")
    checks = {check["name"]: check for check in cli.json("doctor", "--quick")["checks"]}
    assert "terms" not in checks


def test_init_prepares_the_model(cli: Cli) -> None:
    body = cli.json("init", "--embedder", "onnx")
    assert body["embedder"]["dimensions"] == 384
    assert "384 dimensions" in cli.said("init", "--embedder", "onnx")


def test_doctor_finds_a_sound_memory_sound(cli: Cli) -> None:
    cli.remember("Mara is vegetarian")
    said = cli.said("doctor")
    for part in (
        "program",
        "settings",
        "file",
        "schema",
        "key",
        "integrity",
        "chain",
        "records",
        "embedder",
        "disk",
    ):
        assert part in said
    body = cli.json("doctor", "--quick")
    assert body["ok"] is True
    assert "integrity" not in {check["name"] for check in body["checks"]}


def test_doctor_does_not_make_a_memory_where_there_is_none(cli: Cli, home: Path) -> None:
    checks = {check["name"]: check for check in cli.json("doctor")["checks"]}
    assert checks["file"]["status"] == "warn"
    assert "quipu init" in checks["file"]["advice"]
    assert not (home / "memory.db").exists()


def test_doctor_names_what_is_wrong_and_what_to_do(cli: Cli, home: Path) -> None:
    (home / "memory.db").write_text("not a database, but long enough to be read as one " * 10, "utf-8")
    result = cli("doctor")
    assert result.exit_code == 1
    assert "fail" in result.stdout
    assert "→" in result.stdout
    assert cli.json("doctor", code=1)["ok"] is False


def test_doctor_warns_of_a_key_that_others_can_read(cli: Cli, home: Path) -> None:
    cli.said("init")
    (home / "memory.db.key").chmod(0o644)
    checks = {check["name"]: check for check in cli.json("doctor")["checks"]}
    assert checks["key"]["status"] == "warn"
    assert "chmod 600" in checks["key"]["advice"]


def test_doctor_reads_bad_settings_and_a_missing_model(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.said("init")
    monkeypatch.setenv("QUIPU_WEIGHTS", str(home / "nowhere"))
    monkeypatch.setenv("QUIPU_CACHE", str(home / "empty"))
    checks = {check["name"]: check for check in cli.json("doctor", "--embedder", "onnx")["checks"]}
    assert checks["embedder"]["status"] == "warn"
    assert checks["embedder"]["advice"]
    monkeypatch.setenv("QUIPU_THREADS", "many")
    assert cli.json("doctor", code=1)["checks"][-1]["name"] == "settings"


def test_without_a_model_a_memory_is_kept_and_a_warning_says_so(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_WEIGHTS", str(home / "nowhere"))
    monkeypatch.setenv("QUIPU_CACHE", str(home / "empty"))
    words = ("remember", "Mara is vegetarian", "--embedder", "onnx")
    warned = " ".join(cli(*words).stderr.split())
    assert warned.startswith("Warning: No embedder")
    assert "`quipu reembed` makes the vectors of what was written meanwhile" in warned
    assert "No embedder" in json.loads(cli(*words, "--json").stderr)["warning"]
    assert cli(*words, "--quiet").stderr == ""
    assert len(cli.json("list")["records"]) == 3


def test_health_says_that_the_memory_answers(cli: Cli) -> None:
    cli.said("init")
    assert cli.said("health").startswith("ok")
    body = cli.json("health")
    valid("health", body)
    assert body["stores"][0]["role"] == "ledger"


def test_capabilities_are_those_of_the_wire(cli: Cli) -> None:
    body = cli.json("capabilities", "--embedder", "onnx")
    valid("capabilities", body)
    assert len(body["capabilities"]) == 9
    assert body["embedder"]["dimensions"] == 384
    assert "recall_tracking" in cli.said("capabilities")


def test_capabilities_are_those_that_the_memory_itself_tells(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_LIMIT_K", "7")
    cli.remember("tea")
    with Memory() as memory:
        told = dict(memory.describe())
    assert cli.json("capabilities") == json.loads(json.dumps(told))
    assert "vector" not in told["capabilities"]


def test_config_tells_where_each_setting_came_from(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / "config" / "quipu"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('threads = 2\nembedder_key = "sk-secret"\n', "utf-8")
    monkeypatch.setenv("MEMORYWIRE_AGENT", "planner")
    monkeypatch.setenv("QUIPU_EMBEDDER_URL", "https://user:hunter2@models.example/v1")
    result = cli("config", "--embedder", "none", "--json")
    assert "sk-secret" not in result.output
    assert "hunter2" not in result.output
    body = json.loads(result.stdout)
    rows = {row["name"]: row for row in body["settings"]}
    assert body["file"] == str(folder / "config.toml")
    assert (rows["threads"]["value"], rows["threads"]["source"]) == (2, "file")
    assert (rows["agent"]["value"], rows["agent"]["source"]) == ("planner", "environment (MEMORYWIRE_AGENT)")
    assert rows["embedder"]["source"] == "option"
    assert rows["store_url"]["source"] == "environment"
    assert rows["cache_mb"]["source"] == "default"
    assert rows["embedder_url"]["value"] == "https://********@models.example/v1"
    said = cli.said("config")
    assert "sk-secret" not in said
    assert "QUIPU_THREADS" in cli.said("config", "--verbose")
    assert str(folder / "config.toml") in said


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://h/db?user=u&password=hunter2", "postgresql://h/db?user=u&password=********"),
        ("postgresql://u:p@hunter2@h/db", "postgresql://********@h/db"),
        ("https://h/v1?api-key=hunter2&x=1#a", "https://h/v1?api-key=********&x=1#a"),
        ("https://h/v1?Token=hunter2", "https://h/v1?Token=********"),
    ],
)
def test_config_shows_no_secret_of_an_address(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, given: str, shown: str
) -> None:
    monkeypatch.setenv("QUIPU_EMBEDDER_URL", given)
    monkeypatch.setenv("QUIPU_MIRRORS", f"mem0://x {given}")
    result = cli("config", "--json")
    rows = {row["name"]: row["value"] for row in json.loads(result.stdout)["settings"]}
    assert "hunter2" not in result.output
    assert (rows["embedder_url"], rows["mirrors"]) == (shown, f"mem0://x {shown}")


@pytest.mark.parametrize("value", ['["planner"]', '{name = "planner"}'])
def test_a_setting_that_is_a_list_is_not_taken_for_a_text(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    (tmp_path / "c.toml").write_text(f"agent = {value}\n", "utf-8")
    monkeypatch.setenv("QUIPU_CONFIG", str(tmp_path / "c.toml"))
    result = cli("remember", "tea", "--json")
    assert result.exit_code == 1
    problem = json.loads(result.stderr)
    assert problem["reason"] == "bad_setting"
    assert "agent in" in problem["detail"]


def test_a_settings_file_that_cannot_be_looked_at_is_a_setting_that_is_wrong(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_CONFIG", "a" * 300)
    with pytest.raises(InvalidError) as refused:
        load()
    assert refused.value.reason == "bad_setting"
    assert cli("config", "--json").exit_code == 1


def test_who_has_no_home_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(Path, "home", nowhere)
    assert load().agent == "default"
    with pytest.raises(InvalidError) as refused:
        data_dir()
    assert "XDG_DATA_HOME" in (refused.value.hint or "")


def test_the_demo_tells_its_story_and_leaves_nothing(cli: Cli, home: Path) -> None:
    said = cli.said("demo", "--once")
    for part in ("Remembering", "Nothing matches.", "Lisbon", "Porto", "Holds", "Try it yourself"):
        assert part in said
    assert not (home / "memory.db").exists()
    body = cli.json("demo")
    assert body["verified"] is True
    assert all(recall["results"] for recall in body["recalls"][:-1])
    assert body["recalls"][-1]["results"] == []
    assert "Lisbon" in body["time_travel"]["then"]
    assert "Porto" in body["time_travel"]["now"]


def test_the_demo_works_with_the_real_model(cli: Cli) -> None:
    body = cli.json("demo", "--embedder", "onnx")
    assert all(recall["results"] for recall in body["recalls"][:-1])
    assert body["recalls"][-1]["results"] == []
