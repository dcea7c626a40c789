"""Help teaches, options stand anywhere, and a shell can complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import quipu.cli
from quipu.cli.program import CATALOGUE, app
from tests.cli.conftest import Cli, Process


def tree(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, with the words that reach it."""
    yield path, command
    if hasattr(command, "list_commands"):
        context = command.make_context("quipu", [], resilient_parsing=True)
        for name in command.list_commands(context):
            yield from tree(command.get_command(context, name), (*path, name))


COMMANDS = dict(tree(typer.main.get_command(app)))
LEAVES = [path for path, command in COMMANDS.items() if not hasattr(command, "list_commands")]
PROMISED = [
    *("init", "remember", "recall", "forget", "merge", "expire", "show", "list", "history", "restore"),
    *("import", "export", "verify", "backup", "vacuum", "reembed", "sweep", "doctor", "health"),
    *("capabilities", "config", "demo", "serve"),
    *(f"store {name}" for name in ("create", "list", "delete")),
    *(
        f"review {name}"
        for name in ("desk", "list", "show", "approve", "edit", "reject", "merge", "supersede")
    ),
    *(f"rules {name}" for name in ("show", "set", "test", "suggested", "accept", "dismiss")),
    *("recover", *(f"webhook {name}" for name in ("add", "list", "remove", "ping"))),
    *(f"audit {name}" for name in ("verify", "export", "log", "keys")),
    *(f"db {name}" for name in ("init", "migrate", "status", "distribute", "index", "copy")),
    *("conformance", *(f"mirror {name}" for name in ("add", "remove", "list", "status", "verify", "resync"))),
    *(f"tenant {name}" for name in ("create", "list", "suspend", "resume")),
    *(f"token {name}" for name in ("create", "list", "revoke", "rotate")),
    *(f"secret {name}" for name in ("add", "list", "remove")),
    *(f"imports {name}" for name in ("list", "approve", "reject", "undo")),
    *(f"bundle {name}" for name in ("verify", "show", "key")),
    *(f"procedure {name}" for name in ("show", "step", "check", "draw", "history")),
    *("graph", "consolidate"),
    *(
        f"run {name}"
        for name in ("open", "put", "see", "complete", "fail", "cancel", "list", "show", "events")
    ),
    *(f"run {name}" for name in ("fork", "diff", "expire", "compact")),
    *("share", "erase", *(f"did {name}" for name in ("show", "resolve", "rotate", "trust"))),
    *(
        f"grant {name}"
        for name in ("list", "show", "seen", "revoke", "revoke-all", "receipts", "decisions", "ask", "held")
    ),
    *(f"grant {name}" for name in ("requests", "approve", "refuse", "request", "requested")),
    *(f"grant {name}" for name in ("vector", "give-up")),
    *("changes", "whoami", "mcp install", "mcp config", "telemetry check"),
]


def test_every_promised_command_is_there_and_no_other() -> None:
    assert {" ".join(path) for path in LEAVES} == set(PROMISED)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_with_an_example(cli: Cli, path: tuple[str, ...]) -> None:
    said = cli.said(*path, "--help")
    what = (COMMANDS[path].help or "").splitlines()[0]
    assert what.endswith(".")
    assert len(what) <= 90
    example = " ".join(("quipu", *path)) if path else "quipu remember"
    assert re.search(r"Examples?|Start here", said)
    assert re.search(rf"  .*{re.escape(example)}", said), "an example that can be typed"
    assert max(said) < "\U0001f000", "a word between colons, as of did:key, is read as a picture"
    if path in LEAVES:
        assert "See also" in said


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_option_is_explained(path: tuple[str, ...]) -> None:
    for param in COMMANDS[path].params:
        assert getattr(param, "hidden", False) or param.help, f"{' '.join(path)} {param.name}"


def test_every_option_is_made_by_typer_from_a_declaration() -> None:
    # How typer's own classes of options are constructed changed in 0.29, and no command worked with it.
    folder = Path(quipu.cli.__file__).parent
    builders = [
        file.name
        for file in sorted(folder.glob("*.py"))
        if re.search(r"\bTyper(Option|Argument)\b", file.read_text("utf-8"))
    ]
    assert builders == []


def test_the_exit_codes_are_documented(cli: Cli) -> None:
    said = " ".join(cli.said("--help").split())
    assert "0 done · 1 bad input · 2 the memory or a server failed · 3 held for approval" in said
    for name in ("remember", "forget", "merge", "expire", "verify", "doctor", "import"):
        assert "Exit codes" in cli.said(name, "--help")


def test_the_bare_command_shows_help(cli: Cli) -> None:
    for words in ((), ("store",), ("review",), ("audit",), ("tenant",), ("token",), ("secret",)):
        result = cli(*words)
        assert result.exit_code == 0
        assert "Usage" in result.stdout


def test_the_version_is_told(cli: Cli) -> None:
    assert re.fullmatch(r"quipu \d+\.\d+\.\S+\n", cli.said("--version"))


@pytest.mark.parametrize(
    "words",
    [
        ["--agent", "other", "--json", "list"],
        ["list", "--agent", "other", "--json"],
        ["--json", "list", "--agent", "other"],
        ["--agent", "default", "list", "--json", "--agent", "other"],
    ],
)
def test_shared_options_stand_before_and_after_the_command(cli: Cli, words: list[str]) -> None:
    cli.remember("theirs", "--agent", "other")
    result = cli(*words)
    assert result.exit_code == 0, result.output
    assert '"theirs"' in result.stdout


def test_shared_options_stand_anywhere_in_a_group(cli: Cli) -> None:
    for words in (["--json", "store", "list"], ["store", "--json", "list"], ["store", "list", "--json"]):
        assert cli(*words).stdout.startswith('{"stores"')


def test_a_store_url_can_be_given_as_store(cli: Cli, home: Path) -> None:
    url = f"sqlite://{home / 'other.db'}"
    for words in (
        ["--store", url, "remember", "x"],
        ["remember", "x", "--store", url],
        ["verify", "--store", url],
    ):
        assert cli(*words).exit_code == 0, words
    assert (home / "other.db").exists()
    assert not (home / "memory.db").exists()


def test_a_value_that_looks_like_an_option_stays_a_value(cli: Cli) -> None:
    name = cli.remember("x", "--source", "--json")
    assert cli.json("show", name)["source"] == "--json"
    assert cli.said("remember", "--", "--json").startswith("Remembered")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("quipu rem", {"remember"}),
        ("quipu store ", {"create", "list", "delete"}),
        ("quipu remember x --type ", {"semantic", "episodic", "procedural", "emotional"}),
        ("quipu expire --action ", {"forget", "archive", "demote"}),
        ("quipu recall x --min-relevance ", {"auto", "strict", "off"}),
        ("quipu list --embedder ", {"onnx", "fast", "openai", "none"}),
        ("quipu list --state f", {"forgotten"}),
        ("quipu mcp install cl", {"claude-desktop", "claude-code"}),
        ("quipu mcp --profile a", {"admin", "anthropic"}),
    ],
)
def test_a_shell_completes_commands_and_choices(process: Process, line: str, wanted: set[str]) -> None:
    done = process(_QUIPU_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(line.split(" ")) - 1))
    assert set(done.stdout.decode().split()) == wanted


@pytest.mark.parametrize("words", ["recall", "serve", "share", "import", "mcp", "grant"])
def test_a_shell_that_shows_meanings_reads_one_suggestion_a_line(process: Process, words: str) -> None:
    """The rest of a meaning that was broken would be offered as a word to complete with."""
    given = {"_TYPER_COMPLETE_ARGS": f"quipu {words} --", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = process(_QUIPU_COMPLETE="complete_fish", **given)
    lines = done.stdout.decode().splitlines()
    assert len(lines) > 5
    assert [line for line in lines if not line.startswith("--")] == []


def test_completion_can_be_shown_for_a_shell(process: Process) -> None:
    done = process("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert b"_QUIPU_COMPLETE" in done.stdout


def test_every_command_of_the_catalogue_can_be_loaded() -> None:
    assert {path[0] for path in COMMANDS if path} == set(CATALOGUE)
