"""A memory that is not there: who puts something in creates it, everybody else creates nothing and says so."""

from pathlib import Path

import pytest

from quipu import catalogue
from quipu.cli.program import HAND_COMMANDS
from quipu.cli.render import use_of
from tests.cli.conftest import Cli

#: How commands are typed, where their words alone are not enough.
TYPED = {
    "remember": "remember tea",
    "update": "update mem_1 --content tea",
    "recall": "recall tea",
    "forget": "forget mem_1",
    "merge": "merge mem_1 mem_2",
    "expire": 'expire --policy {"type":"semantic"}',
    "store create": "store create notes",
    "store delete": "store delete notes --confirm notes",
    "secret add": "secret add label",
    "token create": "token create bot --roles agent",
    "tenant create": "tenant create acme",
}
#: Rooms whose commands are walked here.
ROOMS = ("memory", "secrets", "access")


def typed(words: str) -> list[str]:
    """The command with the least that it takes."""
    operation = catalogue.operation(catalogue.COMMANDS[words][0])
    assert operation.cli is not None
    plain = TYPED.get(words, " ".join((words, *("x" for _ in operation.cli.arguments))))
    return [*plain.split(), *(["--count", "1"] if operation.is_stream else [])]


def walked(*uses: str) -> list[str]:
    """Commands of the rooms here that do this with a memory that is not there."""
    found: list[str] = []
    for words, (name, _) in catalogue.COMMANDS.items():
        if catalogue.PLACES[name].split(".")[1] in ROOMS:
            operation = catalogue.operation(name)
            if use_of(operation, {}) in uses:
                found.append(words)
    return found


def files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def test_each_use_of_a_memory_has_commands() -> None:
    assert {"remember", "store create", "secret add", "token create", "tenant create"} == set(
        walked("creates")
    )
    assert {"recall", "list", "show", "whoami"} <= set(walked("reads"))
    assert {"forget", "merge", "update", "token rotate"} <= set(walked("works"))


def test_who_looks_at_a_wrong_path_or_works_on_it_is_refused_and_nothing_is_created(
    cli: Cli, home: Path
) -> None:
    cli.remember("tea")  # the usual place does not stand in for the one that was named
    before, wrong = files(home), home / "wrong.db"
    for words in walked("reads", "works"):
        problem = cli.problem(*typed(words), "--store-url", f"sqlite://{wrong}")
        assert (problem["code"], problem["reason"]) == ("not_found", "no_memory_here"), words
        assert str(wrong) in problem["detail"]
        assert "quipu remember" in problem["hint"]
        assert files(home) == before, words


def test_who_works_on_the_usual_memory_is_refused_where_there_is_none(cli: Cli, home: Path) -> None:
    for words in walked("works"):
        assert cli.problem(*typed(words))["reason"] == "no_memory_here", words
        assert files(home) == set(), words


def test_who_looks_before_anything_is_remembered_creates_nothing(cli: Cli, home: Path) -> None:
    for words in walked("reads"):
        if words == "changes":  # it would wait for the first one
            continue
        result = cli(*typed(words))
        assert result.code in (0, 1), (words, result)
        assert "Nothing is remembered yet" in result.err, words
        assert files(home) == set(), words


def test_who_puts_something_in_creates_the_memory(cli: Cli, home: Path) -> None:
    for number, words in enumerate(walked("creates")):
        place = home / "new" / f"{number}.db"
        result = cli(*typed(words), "--store-url", str(place), input="a value that is secret\n")
        assert result.code == 0, (words, result)
        assert place.is_file(), words


def test_help_errors_and_commands_without_a_memory_create_nothing(cli: Cli, home: Path) -> None:
    for words in (
        *(["list", "--help"], ["--help"], ["--version"], ["remember", ""], ["remember", "x", "--type", "y"]),
        *(["config"], ["doctor"], ["doctor", "--quick", "--json"], ["demo", "--once"]),
    ):
        cli(*words)
        assert files(home) == set(), words
    assert {place.words for place in HAND_COMMANDS} >= {"config", "doctor", "demo"}


def test_a_dry_run_into_a_new_memory_creates_nothing(cli: Cli, home: Path) -> None:
    assert cli("remember", "tea", "--dry-run").code == 0
    assert files(home) == set()


def test_a_fresh_machine_answers_kindly(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUIPU_STORE")
    usual = home / "data" / "quipu" / "memory.db"
    for words in (["recall", "what does Mara eat?"], ["list"], ["store", "list"]):
        result = cli(*words)
        assert result.code == 0, result
        assert str(usual) in result.err
        assert "quipu remember" in result.err
    assert cli("list", "--quiet").err == ""
    assert cli.json("recall", "tea")["results"] == []
    assert files(home) == set()
    cli.remember("tea")
    assert usual.is_file()


@pytest.mark.parametrize("place", ["sqlite://", "sqlite://:memory:", ":memory:"])
def test_a_memory_that_would_be_gone_with_the_command_is_refused(cli: Cli, place: str) -> None:
    for words in (["remember", "tea"], ["init"], ["recall", "tea"]):
        problem = cli.problem(*words, "--store-url", place)
        assert (problem["code"], problem["reason"]) == ("validation_error", "in_memory"), words
        assert "--store-url sqlite:///" in problem["hint"]


def test_a_near_name_in_the_same_folder_is_suggested(cli: Cli, home: Path) -> None:
    cli.says("remember", "tea", "--store-url", f"sqlite://{home / 'notes.db'}")
    (home / "notesx.db").write_text("as near, and no memory", "utf-8")
    hint = cli.problem("list", "--store-url", f"sqlite://{home / 'notess.db'}")["hint"]
    assert f"Did you mean {home / 'notes.db'}?" in hint
    assert "notesx.db" not in hint
    assert "Did you mean" not in cli.problem("list", "--store-url", str(home / "other.db"))["hint"]
    assert (
        f"no folder {home / 'nowhere'}"
        in cli.problem("list", "--store-url", str(home / "nowhere" / "m.db"))["hint"]
    )


def test_a_file_is_named_by_a_path_or_an_address_and_never_twice(cli: Cli, home: Path) -> None:
    """The check whether it is there, and the ledger that opens it, read an address alike."""
    for address in (
        "./a b.db",
        f"sqlite://{home}/a%20b.db",
        f"sqlite:///{home}/a b.db",
        f"sqlite://{home}/a b.db?x=1",
    ):
        name = cli.remember("tea", "--store-url", address)
        assert cli.json("show", name, "--store-url", str(home / "a b.db"))["id"] == name, address
    assert [name for name in files(home) if name.endswith(".db")] == ["a b.db"]
    problem = cli.problem("list", "--store-url", "~nobody-of-this-name/memory.db")
    assert problem["hint"] == "Write the whole path, from / on."


def test_what_cannot_be_opened_is_exit_code_2(cli: Cli, home: Path) -> None:
    (home / "plain").write_text("x" * 2000, "utf-8")
    (home / "folder").mkdir()
    for place in ("/proc/quipu/x.db", f"{home}/plain/x.db", f"{home}/plain", f"{home}/folder"):
        problem = cli.problem("remember", "x", "--store-url", place, code=2)
        assert problem["hint"], place
    assert (home / "plain").read_text("utf-8") == "x" * 2000


# -- a server or a file -----------------------------------------------------------------------------------------------


def test_a_server_and_a_file_are_never_both_named(cli: Cli, home: Path) -> None:
    both = ("--server", "https://memory.example.org", "--store-url", str(home / "x.db"))
    for words in (["remember", "tea"], ["list"], ["doctor"], ["init"], ["serve"]):
        assert cli.problem(*words, *both)["reason"] == "usage", words
    assert files(home) == set()


def test_what_is_about_this_machine_is_not_done_on_a_server(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_SERVER", "https://memory.example.org")
    for words in ("init", "serve"):
        problem = cli.problem(words)
        assert (problem["reason"], f"quipu {words}" in problem["detail"]) == ("usage", True)
        assert "--store-url" in problem["hint"]
    assert files(home) == set()
    cli.remember("on this machine", "--store-url", str(home / "here.db"))
    assert len(cli.json("list", "--store-url", str(home / "here.db"))["records"]) == 1
