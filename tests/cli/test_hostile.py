"""Memories hold text of anybody: what would act on a terminal is shown as text. And screens are narrow."""

import io
import json
import re
from typing import Any

import pytest
from rich.console import Console

from quipu.cli import output
from tests.cli.conftest import Cli

#: Colours, another window title, cursor moves, deletion, text that runs backwards, invisible marks.
EVIL = "tea \x9b31m\x7f\u202egnp.exe \u061c\x1b[2J\x1b]0;title\x07 \u2066x\u2069\u200f end"
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
ID = "mem_01M7H0EGM34PWWGPAXSE0K6054"
TEXT = "Luis plays the cello on Thursdays, and everybody who has heard him says that he is rather good at it."


def kept(cli: Cli) -> str:
    """A memory with hostile text in every place that takes text."""
    return cli.remember(
        "-",
        *("--metadata", json.dumps({"note": EVIL})),
        input=EVIL,
    )


def test_nothing_of_a_hostile_memory_acts_on_a_terminal(cli: Cli) -> None:
    name = kept(cli)
    for words in (["list"], ["show", name], ["history", name], ["recall", "tea"]):
        for more in ([], ["--json"]):
            shown = cli(*words, *more)
            assert "end" in shown.out, words
            assert ACTS.search(shown.out + shown.err) is None, (words, more)


def test_json_of_a_hostile_memory_reads_back_the_same(cli: Cli) -> None:
    name = kept(cli)
    assert cli.json("show", name)["content"] == EVIL
    assert cli.json("show", name)["metadata"] == {"note": EVIL}


def test_an_error_shows_hostile_names_as_text(cli: Cli) -> None:
    for words in (["list", "--store-url", f"/nowhere/{EVIL}"], ["forget", f"@{EVIL}"]):
        for more in ([], ["--json"]):
            shown = cli(*words, *more)
            assert shown.code == 1
            assert ACTS.search(shown.err.replace("\n", "")) is None, (words, more)


def test_whoever_forgets_to_clean_a_text_has_it_cleaned(capsys: pytest.CaptureFixture[str]) -> None:
    output.console().print(f"owner {EVIL}", markup=False)
    output.console(is_error=True).print(f"lost {EVIL}", markup=False)
    shown = capsys.readouterr()
    assert ACTS.search(shown.out.replace("\n", "") + shown.err.replace("\n", "")) is None


def test_a_memory_is_no_markup(cli: Cli) -> None:
    name = cli.remember("[bold red]loud[/] :warning: [link=http://x]y[/link]")
    for words in (["list"], ["show", name], ["recall", "loud"]):
        assert "[bold red]loud[/] :warning: [link=http://x]y[/link]" in cli.says(*words), words


# -- narrow screens ---------------------------------------------------------------------------------------------------


def drawn(width: int, columns: list[str], rows: list[dict[str, Any]]) -> str:
    paper = io.StringIO()
    Console(file=paper, width=width, highlight=False).print(output.Table(columns, rows))
    return paper.getvalue()


def test_a_table_with_room_has_its_rows_side_by_side() -> None:
    said = drawn(160, ["id", "content"], [{"id": ID, "content": TEXT}])
    assert re.search(rf"^ *{ID} .*cello", said, re.MULTILINE)


def test_a_squeezed_table_has_row_below_row_every_word_whole_and_no_line_too_long() -> None:
    row = {"id": ID, "type": "semantic", "content": TEXT, "user_id": None, "created_at": 1_795_035_779_670}
    said = drawn(60, ["id", "type", "content", "user_id", "created_at"], [row])
    assert re.search(rf"^id +{ID}$", said, re.MULTILINE)
    assert " ".join(said.split()).count(TEXT) == 1, "no word is broken"
    assert "user_id" not in said, "what is empty is not shown"
    assert max(map(len, said.splitlines())) <= 60


@pytest.mark.parametrize("columns", ["1", "20", "60", "200"])
def test_an_id_is_whole_on_every_screen(cli: Cli, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    name = cli.remember(TEXT)
    monkeypatch.setenv("COLUMNS", columns)
    for words in (["list"], ["show", name]):
        assert name in "".join(cli.says(*words).split()), words


def test_nothing_is_coloured_in_a_pipe(cli: Cli) -> None:
    cli.remember("tea")
    for words in (["--help"], ["recall", "--help"], ["list"], ["recal"], ["config"], ["doctor", "--quick"]):
        result = cli(*words)
        assert "\x1b" not in result.out + result.err, words
        assert result.out or result.err
