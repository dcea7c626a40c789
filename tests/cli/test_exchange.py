"""Import and export of records as lines."""

from __future__ import annotations

import gzip
import json
import os
import threading
import tracemalloc
from pathlib import Path

import apsw
import pytest

from quipu.formats.archives import LONGEST_LINE
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


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_without_end_is_not_read_into_memory(cli: Cli, home: Path, packed: bool) -> None:
    long = b'{"content": "' + b"x" * (6 * LONGEST_LINE) + b'"}'
    data = b'{"content": "one"}\n' + long + b'\n\n{"content": "two"}\nnonsense\n' + long
    (home / "in.ndjson").write_bytes(gzip.compress(data, 1) if packed else data)
    tracemalloc.start()
    try:
        *errors, end = cli.lines("import", "in.ndjson", code=1)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()  # left on, it would slow down every test that follows
    assert most < 5 * LONGEST_LINE
    assert [(one["line"], "too long" in one["error"]["detail"]) for one in errors] == [
        (2, True),
        (5, False),
        (6, True),
    ]
    assert (end["summary"]["stored"], end["summary"]["failed"]) == (2, 3)


def test_a_pipe_with_a_name_is_read_like_standard_input(cli: Cli, home: Path) -> None:
    cli.remember("one")
    cli.said("export", "out.bundle.zip")
    for number, (words, data) in enumerate(
        [
            ([], TEXT.encode()),
            (["--format", "quipu-bundle-v1", "--dry-run"], (home / "out.bundle.zip").read_bytes()),
        ]
    ):
        pipe = home / f"pipe{number}"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(data,), daemon=True)
        writer.start()
        cli.said("import", str(pipe), *words)
        writer.join(10)
        assert not writer.is_alive()


def test_an_import_onto_a_full_disk_ends_as_a_failure_of_the_memory(cli: Cli, home: Path) -> None:
    cli.remember("one")

    def full(connection: apsw.Connection) -> None:
        if connection.filename == str(home / "memory.db"):
            connection.pragma("max_page_count", connection.pragma("page_count"))

    (home / "in.ndjson").write_text(
        "".join(json.dumps({"content": f"fact {number} " * 2000}) + "\n" for number in range(40)), "utf-8"
    )
    apsw.connection_hooks.append(full)
    try:
        *errors, end = cli.lines("import", "in.ndjson", code=2)
    finally:
        apsw.connection_hooks.remove(full)
    assert {one["error"]["code"] for one in errors} == {"backend_unavailable"}
    assert end["summary"]["stored"] + end["summary"]["failed"] == 40
    assert cli.json("verify")["holds"] is True


def test_export_to_a_file_packs_it_and_does_not_write_over_another(cli: Cli, home: Path) -> None:
    cli.remember("one")
    assert "Exported 1 record to out.ndjson.gz" in cli.said("export", "out.ndjson.gz")
    assert json.loads(gzip.decompress((home / "out.ndjson.gz").read_bytes()))["content"] == "one"
    assert cli.problem("export", "out.ndjson.gz")["reason"] == "exists"
    assert cli.json("export", "out.ndjson.gz", "--force") == {"file": "out.ndjson.gz", "records": 1}
    assert [path.name for path in home.glob("*draft")] == []


@pytest.mark.parametrize("name", ["memory.db", "memory.db.key", "memory.db.sealing-key", "link.db"])
@pytest.mark.parametrize("format", ["ndjson", "quipu-bundle-v1"])
def test_export_never_writes_over_the_memory_itself(cli: Cli, home: Path, name: str, format: str) -> None:
    cli.remember("one")
    cli.said("init", "--skip-model")
    cli.said("secret", "add", "pin", input="a long secret value")
    (home / "link.db").symlink_to("memory.db")
    before = (home / name).read_bytes()
    problem = cli.problem("export", name, "--force", "--format", format)
    assert "the memory itself" in problem["detail"]
    assert (home / name).read_bytes() == before
    assert cli.json("list")["records"][0]["content"] == "one"


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
