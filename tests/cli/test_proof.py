"""verify, audit, and the offline check of an exported journal."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path

import apsw
import pytest

from quipu.memory.upkeep import LineFiles
from tests.cli.conftest import Cli


@pytest.fixture
def exported(cli: Cli, home: Path) -> Path:
    name = cli.remember("Mara lives in Lisbon")
    cli.remember("Mara lives in Porto", "--id", name)
    cli.remember("Ilir prefers trains")
    cli.json("export", "--journal", "proof")
    return home / "proof"


def test_a_sound_memory_holds(cli: Cli) -> None:
    cli.remember("Mara is vegetarian")
    said = cli.said("verify")
    assert said.startswith("Holds")
    assert "2 entries" in said
    body = cli.json("verify")
    assert body["holds"] is True
    assert body["faults"] == []
    assert re.fullmatch(r"[0-9a-f]{64}", body["head"]["hash"])
    assert cli.json("audit", "verify")["holds"] is True


def test_a_record_altered_behind_the_ledgers_back_is_named(cli: Cli, home: Path) -> None:
    name = cli.remember("Mara owes 10 EUR")
    with apsw.Connection(str(home / "memory.db")) as connection:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f'DROP TRIGGER "{trigger}"')
        connection.execute("UPDATE record SET content = replace(content, '10', '99')")
    connection.close()
    result = cli("verify")
    assert result.exit_code == 2
    assert result.stdout.startswith("First fault: ")
    assert name in result.stdout
    body = cli.json("verify", code=2)
    assert body["faults"][0]["id"] == name
    checks = {check["name"]: check for check in cli.json("doctor", code=1)["checks"]}
    assert checks["integrity"]["status"] == "fail"


def test_an_export_verifies_without_any_database(cli: Cli, exported: Path, home: Path) -> None:
    (home / "memory.db").rename(home / "moved.db")
    said = cli("verify", "--export", "proof")
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith("Holds")
    assert "--keys" in said.stderr
    body = cli.json("verify", "--export", str(exported))
    assert body["records"] == 3
    assert not (home / "memory.db").exists()


def altered(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")


def cut(file: Path, keep: slice) -> None:
    file.write_text("".join(file.read_text("utf-8").splitlines(keepends=True)[keep]), "utf-8")


TAMPERED = {
    "a changed text": (lambda d: altered(d / "records.ndjson", "Lisbon", "London"), "altered_record"),
    "a changed actor": (lambda d: altered(d / "journal.ndjson", '"actor":"local"', '"actor":"mallory"'), "altered_entry"),
    "a missing entry": (lambda d: cut(d / "journal.ndjson", slice(1, None)), "gap"),
    "a shortened journal": (lambda d: cut(d / "journal.ndjson", slice(None, -1)), "truncated"),
    "a missing record": (lambda d: cut(d / "records.ndjson", slice(1, None)), "missing_record"),
    "a line that is no JSON": (lambda d: altered(d / "journal.ndjson", '{"', '{{"'), "altered_entry"),
    "a foreign signature": (lambda d: altered(d / "checkpoints.ndjson", '"at":1', '"at":2'), "bad_signature"),
}  # fmt: skip


@pytest.mark.parametrize("case", TAMPERED)
def test_an_altered_export_is_found_out(cli: Cli, exported: Path, case: str) -> None:
    alter, kind = TAMPERED[case]
    alter(exported)
    body = cli.json("verify", "--export", "proof", code=2)
    assert kind in {fault["kind"] for fault in body["faults"]}


def test_a_checkpoint_of_another_form_is_tampering_not_a_crash(cli: Cli, exported: Path) -> None:
    altered(exported / "checkpoints.ndjson", '"key_id"', '"kid"')
    body = cli.json("verify", "--export", "proof", code=2)
    assert [fault["kind"] for fault in body["faults"]] == ["bad_signature"]


def test_trusted_keys_decide_whether_a_signature_counts(cli: Cli, exported: Path, home: Path) -> None:
    (home / "trusted.json").write_text(cli.said("audit", "keys"), "utf-8")
    assert cli("verify", "--export", "proof", "--keys", "trusted.json").exit_code == 0
    (home / "others.json").write_text("{}", "utf-8")
    result = cli("verify", "--export", "proof", "--keys", "others.json")
    assert result.exit_code == 1
    assert "Not checked" in result.stdout
    assert cli.json("verify", "--export", "proof", "--keys", "others.json", code=1)["unverifiable"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--export", "nowhere"], "unverifiable"),
        (["--export", "proof", "--keys", "nowhere.json"], "unverifiable"),
        (["--keys", "trusted.json"], "validation_error"),
    ],
)
def test_what_cannot_be_checked_is_said_to_be_so(
    cli: Cli, exported: Path, words: list[str], code: str
) -> None:
    assert cli.problem("verify", *words)["code"] == code


def test_the_exported_journal_has_all_its_files_and_is_kept_from_others(cli: Cli, exported: Path) -> None:
    names = {path.name for path in exported.iterdir()}
    assert names == {"journal.ndjson", "checkpoints.ndjson", "keys.json", "records.ndjson"}
    assert exported.stat().st_mode & 0o077 == 0
    assert cli.problem("export", "--journal", "proof")["reason"] == "exists"
    assert "Exported the journal" in cli.said("audit", "export", "again")
    assert cli.json("audit", "export", "again", "--force")["lines"] > 0


def test_the_journal_is_shown_as_a_table_without_text(cli: Cli) -> None:
    name = cli.remember("Mara is vegetarian")
    cli.json("forget", "--id", name)
    said = cli.said("audit", "log")
    assert "genesis" in said
    assert name in said
    assert "vegetarian" not in said
    body = cli.json("audit", "log", "--id", name)
    assert [entry["op"] for entry in body["entries"]] == ["remember", "forget"]
    assert [e["seq"] for e in cli.json("audit", "log", "--after", "1", "--limit", "1")["entries"]] == [2]
    assert [e["op"] for e in cli.json("audit", "log", "--op", "forget")["entries"]] == ["forget"]
    assert cli.json("audit", "log", "--limit", "1")["entries"][0]["seq"] == body["head"]


def test_the_public_key_is_one_json_object(cli: Cli) -> None:
    cli.said("init")
    keys = json.loads(cli.said("audit", "keys"))
    assert len(keys) == 1
    assert keys == cli.json("audit", "keys")


def test_an_export_without_its_records_is_not_said_to_hold(cli: Cli, exported: Path) -> None:
    (exported / "records.ndjson").unlink()
    said = cli("verify", "--export", "proof")
    assert said.exit_code == 1
    assert "Holds" not in said.stdout
    assert "records are not in the export" in said.stdout.replace("\n", " ")
    body = cli.json("verify", "--export", "proof", code=1)
    assert (body["holds"], body["records"], body["reasons"]) == (True, 0, ["missing_records"])


def test_an_export_of_the_journal_that_breaks_off_leaves_nothing(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.remember("Ana lives in Lisbon")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LineFiles, "write", full)
    before = {item.name for item in home.iterdir()}
    assert cli("export", "--journal", "proof").exit_code != 0
    assert {item.name for item in home.iterdir()} == before


# -- what was kept elsewhere ----------------------------------------------------------------------------------------


def grown(cli: Cli, home: Path) -> None:
    """The file is set back to what it was before the export, and more is written since."""
    (home / "memory.db").write_bytes((home / "before.db").read_bytes())
    for beside in ("memory.db-wal", "memory.db-shm"):
        (home / beside).unlink(missing_ok=True)
    for number in range(4):
        cli.remember(f"another story {number}")


@pytest.fixture
def before(cli: Cli, home: Path) -> None:
    cli.remember("Mara lives in Lisbon")
    (home / "before.db").write_bytes((home / "memory.db").read_bytes())
    cli.remember("Mara lives in Porto")
    cli.json("export", "--journal", "proof")
    (home / "trusted.json").write_text(cli.said("audit", "keys"))


@pytest.mark.usefixtures("before")
def test_a_memory_holds_against_what_was_kept_of_it(cli: Cli) -> None:
    assert cli.json("verify", "--kept", "proof")["holds"] is True
    cli.remember("and more since")
    for place in ("proof", "proof/checkpoints.ndjson"):
        assert cli.json("verify", "--kept", place, "--keys", "trusted.json")["holds"] is True
    assert cli.json("audit", "verify", "--kept", "proof")["holds"] is True
    cli.json("export", "--journal", "later")
    assert cli.json("verify", "--export", "later", "--kept", "proof")["holds"] is True


@pytest.mark.usefixtures("before")
def test_a_memory_that_was_set_back_is_found_by_what_was_kept(cli: Cli, home: Path) -> None:
    grown(cli, home)
    assert cli.json("verify")["holds"] is True
    body = cli.json("verify", "--kept", "proof", code=2)
    assert body["faults"][0]["kind"] == "rewritten"
    cli.json("export", "--journal", "later")
    assert (
        cli.json("verify", "--export", "later", "--kept", "proof", code=2)["faults"][0]["kind"] == "rewritten"
    )


@pytest.mark.usefixtures("before")
def test_a_memory_that_was_cut_short_is_found_by_what_was_kept(cli: Cli, home: Path) -> None:
    (home / "memory.db").write_bytes((home / "before.db").read_bytes())
    for beside in ("memory.db-wal", "memory.db-shm"):
        (home / beside).unlink(missing_ok=True)
    assert cli.json("verify", "--kept", "proof", code=2)["faults"][0]["kind"] == "truncated"


@pytest.mark.usefixtures("before")
def test_what_was_kept_has_to_be_signed_by_a_key_that_is_known(cli: Cli, home: Path) -> None:
    (home / "others.json").write_text('{"0000000000000000": "AAAA"}')
    body = cli.json("verify", "--kept", "proof", "--keys", "others.json", code=1)
    assert body["reasons"] == ["missing_key"]
    altered(home / "proof" / "checkpoints.ndjson", '"at":1', '"at":2')
    assert cli.json("verify", "--kept", "proof", code=2)["faults"][0]["kind"] == "bad_signature"


@pytest.mark.parametrize("text", ["", "{}", "[", '{"seq": 1}', "\udcff", '{"a":' * 2000])
def test_what_holds_no_signed_position_is_told(cli: Cli, home: Path, text: str) -> None:
    cli.remember("Mara lives in Lisbon")
    (home / "kept").write_text(text, "utf-8", "surrogateescape")
    for place in ("kept", "nowhere"):
        result = cli("verify", "--kept", place)
        assert result.exit_code == 1
        assert "There are no signed positions" in result.stderr


def test_keys_that_are_nested_beyond_reading_are_none(cli: Cli, exported: Path, home: Path) -> None:
    (home / "deep.json").write_text("[" * 200_000)
    result = cli("verify", "--export", "proof", "--keys", "deep.json")
    assert result.exit_code == 1
    assert "no public keys" in result.stderr
