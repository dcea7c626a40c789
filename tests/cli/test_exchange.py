"""Import and export of records as lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

LINES = [{"content": f"fact {number}", "tags": ["t"]} for number in range(7)]
TEXT = "".join(json.dumps(line) + "\n" for line in LINES)


def test_import_reads_a_file_and_says_how_many(cli: Cli, home: Path) -> None:
    (home / "in.ndjson").write_text(TEXT, "utf-8")
    assert "Imported 7 of 7 lines" in cli.said("import", "in.ndjson")
    assert len(cli.json("list")["records"]) == 7


def test_import_answers_with_a_summary_line(cli: Cli) -> None:
    (end,) = cli.lines("import", "-", input=TEXT)
    summary = end["summary"]
    assert (summary["read"], summary["stored"], summary["held"], summary["failed"]) == (7, 7, 0, 0)
    assert summary["import_id"].startswith("imp_")


@pytest.mark.parametrize("packed", [True, False])
def test_import_reads_gzip_from_a_file_and_from_a_pipe(cli: Cli, home: Path, packed: bool) -> None:
    data = gzip.compress(TEXT.encode()) if packed else TEXT.encode()
    (home / "in").write_bytes(data)
    assert "7 of 7" in cli.said("import", "in")
    assert "7 of 7" in cli.said("import", "-", input=data)


def test_a_bad_line_is_told_by_its_number_and_the_rest_is_in(cli: Cli) -> None:
    text = '{"content": "one"}\n\n{"contnt": "two"}\n{not json\n\n{"content": "three"}\n'
    result = cli("import", "-", input=text)
    assert result.exit_code == 1
    assert "line 3: validation_error" in result.stderr
    assert "line 4: validation_error" in result.stderr
    assert "contnt" not in result.stdout
    assert "Imported 2 of 4 lines" in result.stdout
    *errors, end = cli.lines("import", "-", input=text, code=1)
    assert [error["line"] for error in errors] == [3, 4]
    assert errors[0]["error"]["code"] == "validation_error"
    assert end["summary"]["failed"] == 2


def test_import_can_stop_at_the_first_bad_line(cli: Cli) -> None:
    text = '{"content": ""}\n' + TEXT
    (error, end) = cli.lines("import", "-", "--on-error", "stop", input=text, code=1)
    assert error["line"] == 1
    assert end["summary"]["stored"] == 0


def test_a_dry_run_imports_nothing(cli: Cli) -> None:
    assert "Would import 7 of 7 lines" in cli.said("import", "-", "--dry-run", input=TEXT)
    assert cli.lines("import", "-", "--dry-run", input=TEXT)[0]["summary"]["dry_run"] is True
    assert cli.json("list")["records"] == []


def test_import_puts_lines_into_a_store_and_under_an_agent(cli: Cli) -> None:
    cli.json("store", "create", "notes")
    cli.lines("import", "-", "--store", "notes", "--agent", "other", input=TEXT)
    record = cli.json("list", "--agent", "other")["records"][0]
    assert (record["store"], record["agent_id"]) == ("notes", "other")


def test_what_is_not_text_is_refused_line_by_line(cli: Cli) -> None:
    *errors, end = cli.lines("import", "-", input=b'{"content": "\xff"}\n{"content": "ok"}\n', code=1)
    assert [error["line"] for error in errors] == [1]
    assert end["summary"]["stored"] == 1


def test_a_damaged_gzip_file_is_a_clear_error(cli: Cli, home: Path) -> None:
    (home / "in.gz").write_bytes(gzip.compress(TEXT.encode())[:-9])
    problem = cli.problem("import", "in.gz")
    assert (problem["code"], problem["reason"]) == ("validation_error", "bad_file")


def test_export_writes_lines_that_import_takes_back_equal(cli: Cli, home: Path) -> None:
    for number in range(3):
        cli.remember(f"fact {number}", "--metadata", '{"a": {"b": 1.5}}', "--confidence", "0.5")
    (home / "out.ndjson").write_text(cli.said("export"), "utf-8")
    elsewhere = f"sqlite://{home / 'other.db'}"
    cli.lines("import", "out.ndjson", "--store-url", elsewhere)
    here = cli.json("list")["records"]
    there = cli.json("list", "--store-url", elsewhere)["records"]
    for record in here + there:
        record.pop("provenance")
    assert there == here


def test_export_to_a_file_packs_it_and_does_not_write_over_another(cli: Cli, home: Path) -> None:
    cli.remember("one")
    assert "Exported 1 record to out.ndjson.gz" in cli.said("export", "out.ndjson.gz")
    assert json.loads(gzip.decompress((home / "out.ndjson.gz").read_bytes()))["content"] == "one"
    assert cli.problem("export", "out.ndjson.gz")["reason"] == "exists"
    assert cli.json("export", "out.ndjson.gz", "--force") == {"file": "out.ndjson.gz", "records": 1}
    assert [path.name for path in home.glob("*draft")] == []


def test_export_narrows_by_state_filter_time_and_agent(cli: Cli) -> None:
    gone = cli.remember("gone", "--tag", "x")
    cli.remember("here", "--tag", "y")
    cli.remember("theirs", "--agent", "other")
    cli.json("forget", "--id", gone)

    def contents(*words: str) -> list[str]:
        return sorted(json.loads(line)["content"] for line in cli.said("export", *words).splitlines())

    assert contents() == ["here"]
    assert contents("--state", "forgotten") == ["gone"]
    assert contents("--filter", '{"tags": "y"}') == ["here"]
    assert contents("--as-of", "3") == ["gone", "here"]
    assert contents("--all-agents", "--state", "live") == ["here", "theirs"]
