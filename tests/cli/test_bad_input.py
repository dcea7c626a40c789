"""What is wrong is said in one line, what to do in another, with a stable code; nothing is half-written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.published import valid


@dataclass(frozen=True)
class Case:
    words: list[str]
    code: str = "validation_error"
    reason: str | None = None
    exit: int = 1
    input: str | None = None
    before: Callable[[Path], object] = field(default=lambda _: None)


@pytest.fixture(autouse=True)
def made(cli: Cli) -> None:
    """There is a memory: what is wrong is something else."""
    cli.said("init")


def _another_program(home: Path) -> None:
    with sqlite3.connect(home / "memory.db") as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("PRAGMA application_id = 7")
    connection.close()


def _newer(home: Path) -> None:
    """A file of ours, from the future."""
    with sqlite3.connect(home / "memory.db") as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute(f"PRAGMA application_id = {0x51554950}")
        connection.execute("PRAGMA user_version = 9999")
    connection.close()


def _settings(text: str) -> Callable[[Path], object]:
    def write(home: Path) -> None:
        (home / "config" / "quipu").mkdir(parents=True)
        (home / "config" / "quipu" / "config.toml").write_text(text, "utf-8")

    return write


CASES: dict[str, Case] = {
    "empty content": Case(["remember", ""], reason="bad_value"),
    "empty standard input": Case(["remember", "-"], reason="bad_value", input=""),
    "an unknown type": Case(["remember", "x", "--type", "olfactory"], reason="bad_value"),
    "NaN confidence": Case(["remember", "x", "--confidence", "nan"], reason="bad_value"),
    "confidence above one": Case(["remember", "x", "--confidence", "1.5"], reason="bad_value"),
    "a confidence that is no number": Case(["remember", "x", "--confidence", "high"], reason="bad_value"),
    "metadata that is no JSON": Case(["remember", "x", "--metadata", "{a: 1}"], reason="bad_json"),
    "metadata that is a list": Case(["remember", "x", "--metadata", "[1]"], reason="bad_value"),
    "metadata with a name twice": Case(["remember", "x", "--metadata", '{"a":1,"a":2}'], reason="bad_json"),
    "an end that is no time": Case(["remember", "x", "--expires", "soon"], reason="bad_value"),
    "an end that is a name": Case(["remember", "x", "--expires", "forever"], reason="bad_value"),
    "an end that has been": Case(["remember", "x", "--expires", "yesterday"], reason="bad_value"),
    "an end at once": Case(["remember", "x", "--expires", "0d"], reason="bad_value"),
    "an export into a directory": Case(["export", ".", "--force"], reason="bad_value"),
    "an export below nothing": Case(
        ["export", "nowhere/out.ndjson"], code="backend_unavailable", reason="cannot_open", exit=2
    ),
    "a link without a relation": Case(["remember", "x", "--link", "mem_1"], reason="bad_value"),
    "an unknown store": Case(["remember", "x", "--store", "nowhere"], "not_found", "store"),
    "an unknown id": Case(["remember", "x", "--id", "mem_unknown"], "not_found", "record"),
    "too much content": Case(["remember", "-"], reason="too_large", input="x" * ((1 << 20) + 1)),
    "U+0000": Case(["remember", "-"], reason="bad_value", input="a\0b"),
    "k out of range": Case(["recall", "x", "-k", "1001"], reason="bad_value"),
    "k of nothing": Case(["recall", "x", "-k", "0"], reason="bad_value"),
    "an empty query": Case(["recall", ""], reason="bad_value"),
    "an unknown filter operator": Case(["recall", "x", "--filter", '{"a": {"$like": 1}}'], reason="unknown_operator"),
    "an empty $and": Case(["list", "--filter", '{"$and": []}'], reason="bad_filter"),
    "an unknown floor": Case(["recall", "x", "--min-relevance", "high"], reason="bad_value"),
    "hops out of range": Case(["recall", "x", "--hops", "9"], reason="bad_value"),
    "as of nonsense": Case(["recall", "x", "--as-of", "yesterday"], reason="bad_value"),
    "as of the future": Case(["list", "--as-of", "99999"], reason="bad_value"),
    "forget without a scope": Case(["forget"], reason="no_scope"),
    "forget with an empty filter": Case(["forget", "--filter", "{}"], reason="no_scope"),
    "expire with an empty policy": Case(["expire"], reason="empty_policy"),
    "expire after no days": Case(["expire", "--older-than-days", "0"], reason="bad_value"),
    "merge into an unknown id": Case(["merge", "mem_unknown", "mem_b"], "not_found", "canonical"),
    "merge of nothing": Case(["merge", "mem_a"], reason="usage"),
    "show an unknown id": Case(["show", "mem_unknown"], "not_found", "record"),
    "history of an unknown id": Case(["history", "mem_unknown"], "not_found", "record"),
    "restore an unknown id": Case(["restore", "mem_unknown"], "not_found", "record"),
    "list with a bad cursor": Case(["list", "--cursor", "here"], reason="bad_value"),
    "list too many": Case(["list", "--limit", "5000"], reason="bad_value"),
    "a store with an empty name": Case(["store", "create", ""], reason="bad_value"),
    "a store that is there": Case(["store", "create", "main"], "conflict"),
    "delete an unknown store": Case(["store", "delete", "nowhere", "--yes"], "not_found", "store"),
    "an unknown proposal": Case(["review", "approve", "prp_unknown"], "not_found", "proposal"),
    "import of a missing file": Case(["import", "nowhere.ndjson"], reason="no_file"),
    "import of a folder": Case(["import", "."], reason="no_file"),
    "an unknown command": Case(["remembr"], reason="usage"),
    "an unknown option": Case(["list", "--colour"], reason="usage"),
    "an unknown embedder": Case(["list", "--embedder", "magic"], reason="bad_value"),
    "a ledger as its own mirror": Case(["remember", "x", "--store-url", "sqlite://./a.db", "--store-url", "sqlite://./a.db"], reason="bad_value"),
    "a scheme nobody knows": Case(["list", "--store-url", "carrier-pigeon://loft"], reason="bad_value"),
    "a store name where a URL is meant": Case(["verify", "--store", "main"]),
    "a setting nobody knows": Case(["list"], reason="bad_setting", before=_settings("colour = 1")),
    "a setting of the wrong kind": Case(["list"], reason="bad_setting", before=_settings('threads = "many"')),
    "a backup onto something": Case(["backup", "memory.db"], before=lambda home: (home / "memory.db").touch()),
    "a file that is not a database": Case(
        ["list"], "backend_unavailable", "not_a_database", 2, before=lambda home: (home / "memory.db").write_text("x" * 200)
    ),
    "a database of another program": Case(["list"], "backend_unavailable", "not_a_database", 2, before=_another_program),
    "a newer schema": Case(["remember", "x"], "backend_unavailable", "newer_schema", 2, before=_newer),
    "a directory instead of a file": Case(["list", "--store-url", "sqlite://./folder"], reason="bad_value", before=lambda home: (home / "folder").mkdir()),
    "a place where nothing can be made": Case(
        ["remember", "x", "--store-url", "sqlite:///proc/quipu/memory.db"], "backend_unavailable", "cannot_open", 2
    ),
    "a directory nobody can write to": Case(
        ["remember", "x", "--store-url", "sqlite:///proc/memory.db"], "backend_unavailable", "cannot_open", 2
    ),
    "a folder that is a file": Case(
        ["remember", "x", "--store-url", "sqlite://./plain/memory.db"],
        "backend_unavailable",
        "cannot_open",
        2,
        before=lambda home: (home / "plain").touch(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_with_a_code_and_a_hint(cli: Cli, home: Path, name: str) -> None:
    case = CASES[name]
    case.before(home)
    problem = cli.problem(*case.words, code=case.exit, input=case.input)
    assert problem["code"] == case.code
    if case.reason is not None:
        assert problem["reason"] == case.reason
    assert problem["hint"]
    valid("problem", problem)


@pytest.mark.parametrize("name", CASES)
def test_a_person_reads_what_is_wrong_and_what_to_do(cli: Cli, home: Path, name: str) -> None:
    case = CASES[name]
    case.before(home)
    result = cli(*case.words, input=case.input)
    assert result.exit_code == case.exit
    assert result.stdout == ""
    first, second = result.stderr.strip().splitlines()
    assert first.startswith("Error: ")
    assert second.startswith("Hint:  ")
    assert "Traceback" not in result.stderr


def test_nothing_of_a_refused_write_is_kept(cli: Cli) -> None:
    cli.said("init")
    before = cli.json("health")["seq"]
    for case in CASES.values():
        if case.words[0] in ("remember", "forget", "merge", "expire") and case.exit == 1:
            assert cli(*case.words, input=case.input).exit_code == 1
    assert cli.json("health")["seq"] == before
    assert cli.json("verify")["holds"] is True


@pytest.mark.parametrize(
    "words",
    [
        ["remember", "my secret is hunter2", "extra hunter2"],
        ["remember", "hunter2", "--type", "nonsense"],
        ["recall", "--hunter2 is my secret"],
        ["remember", "hunter2", "--metadata", "{hunter2"],
        ["recall", "hunter2", "--filter", '{"hunter2": {"$x": 1}, "$y": "hunter2 too"}'],
        ["remember", "hunter2", "--confidence", "9"],
    ],
)
def test_an_error_never_repeats_the_memory_or_the_query(cli: Cli, words: list[str]) -> None:
    for more in ([], ["--json"], ["--verbose"]):
        result = cli(*words, *more)
        assert result.exit_code == 1
        assert "hunter2" not in result.stderr.replace('"/filter/hunter2', "").replace("'/filter/hunter2", "")


def test_a_traceback_is_shown_only_when_asked_for(cli: Cli) -> None:
    assert "Traceback" not in cli("show", "mem_unknown").stderr
    assert "Traceback" in cli("show", "mem_unknown", "--verbose").stderr


HINTS: dict[str, tuple[list[str], str, str | None]] = {
    "a command that is none": (["zzzzzz"], "`quipu --help` lists the commands.", None),
    "a command of a group that is none": (
        ["grant", "dance"],
        "`quipu grant --help` lists the commands.",
        None,
    ),
    "a store of a name that is taken": (["store", "create", "main"], "Choose a name that is free.", None),
    "a user with a long name": (
        ["remember", "tea", "--user", "x" * 300],
        "Accepted: at most 256 characters.",
        None,
    ),
    "completion": (["completion"], "`quipu --install-completion` sets completion up for your shell.", None),
    "somebody's home who is nobody, for a memory": (
        ["remember", "tea", "--store-url", "~nobody-of-this-name/memory.db"],
        "Write the whole path, from / on.",
        None,
    ),
    "somebody's home who is nobody, for a token": (
        ["list", "--server", "http://127.0.0.1:1", "--token-file", "~nobody-of-this-name/token"],
        "Write the whole path, from / on.",
        None,
    ),
    "a setting that is nearly one": (["list"], "Did you mean port?", "prot = 1"),
    "a settings file that is none": (
        ["list"],
        'It is TOML: one setting on a line, text between quotes, such as agent = "planner".',
        "agent = planner",
    ),
    "a number that is none": (["list"], "Write digits only, such as 8321.", 'port = "many"'),
    "neither true nor false": (["list"], "Write true or false.", 'behind_proxy = "perhaps"'),
}


@pytest.mark.parametrize("name", HINTS)
def test_a_hint_says_what_to_do(cli: Cli, home: Path, name: str) -> None:
    words, hint, settings = HINTS[name]
    if settings is not None:
        _settings(settings)(home)
    assert cli.problem(*words)["hint"] == hint


def test_another_host_that_is_not_there_is_no_matter_for_the_doctor_of_this_memory(cli: Cli) -> None:
    told = cli.problem("did", "resolve", "did:web:nobody.invalid", code=2)
    assert told["reason"] == "peer_unreachable"
    assert told["hint"] == "Check the other host's address, and that it can be reached from here."


def test_a_hint_names_a_file_where_a_folder_was_named(cli: Cli, home: Path) -> None:
    (home / "folder").mkdir()
    assert "folder/memory.db" in cli.problem("init", str(home / "folder"))["hint"]


@pytest.mark.parametrize("given", ["yesterday", "0d", "-5d", "2000000d", "session", "forever"])
def test_an_end_that_is_refused_names_only_what_is_taken(cli: Cli, given: str) -> None:
    problem = cli.problem("remember", "x", "--expires", given, code=1)
    accepted = problem["errors"][0]["accepted"]
    assert "forever" not in problem["hint"]
    for end in accepted[:-1]:  # the last one is described, the others are meant word for word
        cli.said("remember", "x", "--expires", end)


@pytest.mark.parametrize(
    ("variable", "value"), [("QUIPU_LIMIT_K", "-5"), ("QUIPU_CHECKPOINT_S", "-1"), ("QUIPU_LIMIT_K", "many")]
)
def test_a_setting_that_counts_is_never_below_nothing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    problem = cli.problem("recall", "x", code=1)
    assert problem["reason"] == "bad_setting"
    assert variable in problem["detail"]


def test_a_settings_file_that_cannot_be_opened_is_not_called_bad_toml(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_CONFIG", str(home))
    assert "QUIPU_CONFIG" in cli.problem("recall", "x", code=1)["hint"]


def test_rules_that_cannot_be_read_are_named_with_their_setting(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_RULES", str(home / "nowhere.toml"))
    assert "QUIPU_RULES" in cli.problem("recall", "x", code=1)["hint"]
