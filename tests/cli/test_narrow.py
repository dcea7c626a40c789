"""A terminal of 80 columns: tables that would be squeezed stand row below row, help flows, nothing is coloured in a pipe."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from quipu.cli import meant, output
from quipu.cli.help_text import flowed
from quipu.cli.program import CATALOGUE, loaded
from tests.cli.conftest import Cli, Process

ID = "mem_01M7H0EGM34PWWGPAXSE0K6054"
TEXT = "Luis plays the cello on Thursdays, and everybody who has heard him says that he is rather good at it."


def shown(width: int, columns: list[str], rows: list[list[Any]], **how: Any) -> str:
    paper = io.StringIO()
    Console(file=paper, width=width, highlight=False).print(output.table(columns, rows, **how))
    return paper.getvalue()


def test_a_table_with_room_has_its_rows_side_by_side() -> None:
    told = shown(
        160, ["id", "memory", "created"], [[ID, TEXT, "2026-11-16T01:44:49+00:00"]], whole=("id", "created")
    )
    assert re.search(rf"^ {ID} .* 2026-11-16T01:44:49", told, re.MULTILINE)
    assert re.search(r"^ id +memory +created", told, re.MULTILINE)


def test_a_squeezed_table_has_row_below_row_and_every_word_whole() -> None:
    rows = [[ID, "semantic", TEXT, None, "2026-11-16T01:44:49+00:00"]]
    told = shown(80, ["id", "type", "memory", "user", "created"], rows, whole=("id", "type", "created"))
    lines = told.splitlines()
    assert lines[0].strip() == ID
    assert lines[1].split() == ["type", "semantic"]
    assert " ".join(told.split()).count(TEXT) == 1, "no word is broken"
    assert "user" not in told, "what is empty is not told"
    assert max(map(len, lines)) <= 80


def test_what_is_no_id_is_called_by_its_name() -> None:
    columns = ["seq", "when", "op", "actor", "agent", "records", "hash"]
    row = [6, "2026-11-16T01:44:49+00:00", "issue_token", "local", None, ID + " and 1 more", "ddae1cdbc697"]
    assert shown(80, columns, [row], whole=("seq", "when", "op", "hash")).startswith("seq 6")


def test_what_acts_on_a_terminal_is_cleaned_in_both_layouts() -> None:
    for width in (60, 160):
        assert "\x1b" not in shown(width, ["id", "memory"], [[ID, "red \x1b[31malert " * 9]])


EMPTY = {
    "token list": "quipu token create",
    "run list": "quipu run open",
    "grant list": "quipu share",
    "mirror list": "quipu mirror add",
    "secret list": "quipu secret add",
    "imports list": "quipu import",
}


@pytest.mark.parametrize("words", EMPTY)
def test_where_there_is_nothing_the_way_to_something_is_told(cli: Cli, words: str) -> None:
    told = cli.said(*words.split())
    assert EMPTY[words] in told
    assert "──" not in told, "no head of a table that has no rows"


def every(command: Any, path: str) -> list[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    return [(path, command), *(one for name in below for one in every(below[name], f"{path} {name}"))]


def test_no_line_of_an_example_is_wider_than_a_narrow_terminal() -> None:
    wide = [
        (path, line)
        for name in CATALOGUE
        for path, command in every(loaded(name), name)
        for line in flowed(command.help or "").splitlines()
        if line.startswith(" ") and len(line) > 78
    ]
    assert wide == []


def test_help_flows(cli: Cli) -> None:
    for words in (["conformance"], ["token"], []):
        shown = cli(*words, "--help").output
        assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80
    assert "each scenario has an\n agent of its own, whose records are erased" in re.sub(
        r" +\n", "\n", cli("conformance", "--help").output
    )


def test_broken_sentences_are_joined_and_whole_ones_stay_apart() -> None:
    text = "Do it.\n\nA sentence that is\nbroken in the middle.\nSee also: that.\n\nExamples:\n  quipu a\n  quipu b\n"
    told = flowed(text)
    assert "A sentence that is broken in the middle.\nSee also: that.\n" in told
    assert "\n  quipu a\n  quipu b" in told


def test_a_long_example_is_broken_as_a_shell_takes_it() -> None:
    line = (
        "  quipu share did:web:contractor.example --label website_redesign --purpose 'Brief them' --dry-run"
    )
    first, second = flowed(line).splitlines()
    assert first.endswith(" \\")
    assert f"{first[:-2]} {second.strip()}" == line
    first, second = flowed(f"  quipu list{' ' * 40}what there is, all of it, the newest first").splitlines()
    assert (first, second.strip()) == ("  quipu list", "what there is, all of it, the newest first")


@pytest.mark.parametrize(
    "words", [["token", "create"], ["share"], ["remember"], ["backup"], ["tenant", "create"]]
)
def test_who_leaves_out_an_argument_is_shown_an_example(cli: Cli, words: list[str]) -> None:
    hint = cli.problem(*words)["hint"]
    assert hint.startswith(f"For example: `quipu {' '.join(words)} ")
    assert "\\" not in hint


def test_the_example_is_one_of_the_command_itself() -> None:
    assert meant.example_in(loaded("restore").help, "quipu restore") == (
        'quipu restore mem_... --reason "forgotten by mistake"'
    )
    assert meant.example_in("Nothing.\n  quipu other x", "quipu restore") is None


NOT_FOUND = {
    "token revoke nope": "quipu token list",
    "tenant suspend nope": "quipu tenant list",
    "run show nope": "quipu run list",
    "grant show nope": "quipu grant list",
    "secret remove nope": "quipu secret list",
    "imports undo imp_01M7H0EGM34PWWGPAXSE0K6054": "quipu imports list",
    "webhook remove nope": "quipu webhook list",
}


@pytest.mark.parametrize("words", NOT_FOUND)
def test_who_names_what_is_not_there_is_told_where_to_look(cli: Cli, words: str) -> None:
    cli.said("init")
    assert NOT_FOUND[words] in cli.problem(*words.split())["hint"]


def test_what_is_final_is_not_done_where_nobody_can_be_asked(cli: Cli) -> None:
    name = cli.remember("tea")
    for words in (["erase", name], ["grant", "revoke-all"]):
        told = cli.problem(*words)
        assert (told["reason"], "--yes" in told["hint"]) == ("confirmation_required", True)
    assert cli.json("show", name)["id"] == name


def test_an_operation_that_is_none_is_refused_not_answered_with_nothing(cli: Cli) -> None:
    cli.remember("tea")
    assert cli.problem("audit", "log", "--op", "rember")["hint"] == "Did you mean remember?"
    assert cli.problem("audit", "log", "--op", "zzzz")["hint"].startswith("Accepted: ")
    assert len(cli.json("audit", "log", "--op", "remember")["entries"]) == 1


def test_the_journal_is_told_in_words(cli: Cli) -> None:
    cli.said("token", "create", "bob", "--role", "reviewer")
    told = " ".join(cli.said("audit", "log", "--op", "issue_token").split())
    assert "memory:read and memory:review" in told
    assert "['" not in told


def test_nothing_is_coloured_in_a_pipe(process: Process) -> None:
    said = [
        process(*words.split())
        for words in ("--help", "recall --help", "list", "token list", "recal", "config")
    ]
    assert all(b"\x1b" not in one.stdout + one.stderr for one in said)
    assert all(one.stdout or one.stderr for one in said)
