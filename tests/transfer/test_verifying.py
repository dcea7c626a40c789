"""`quipu verify FILE`: what a bundle proves by itself, without a memory and without the network."""

import json
from pathlib import Path
from typing import Any

import pytest

from quipu.sharing import dids
from tests.cli.conftest import Cli, cli, home
from tests.requirement import requirement
from tests.transfer.formats.shelf import (
    OWNER,
    PUBLIC_KEY,
    SIGNATORY,
    items_of,
    packed,
    record,
    unpacked,
    written,
)

__all__ = ["cli", "home"]

ITEMS = items_of(*(record(number) for number in range(1, 4)))


@pytest.fixture
def exported(cli: Cli, tmp_path: Path) -> Path:
    """A bundle whose memory is gone."""
    cli.remember("Ana lives in Lisbon")
    cli.says("export", "all.bundle.zip")
    for path in tmp_path.glob("memory.db*"):
        path.rename(tmp_path / f"away-{path.name}")
    return tmp_path / "all.bundle.zip"


@requirement("formats:export.verified")
def test_a_bundle_is_proven_without_its_memory(cli: Cli, exported: Path, tmp_path: Path) -> None:
    said = cli.says("verify", str(exported))
    assert "holds (1 memory)" in said
    assert "Signed by did:key:" in said
    found = cli.json("verify", str(exported))
    assert found["verified"] is True
    assert (found["files"][0]["outcome"], found["files"][0]["items"]) == ("proven", 1)
    assert not (tmp_path / "memory.db").exists(), "no memory is opened"


@requirement("formats:export.verified")
def test_what_was_altered_is_found(cli: Cli, exported: Path) -> None:
    files = unpacked(exported.read_bytes())
    files["items.jsonl"] = files["items.jsonl"].replace(b"Lisbon", b"London")
    exported.write_bytes(packed(files))
    found = cli.json("verify", str(exported), code=2)
    assert (found["verified"], found["files"][0]["outcome"]) == (False, "altered")
    assert "NOT as it was written" in cli("verify", str(exported)).out


@requirement("formats:export.verified")
def test_a_key_of_a_server_is_given_as_its_document(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "all.zip").write_bytes(written("bundle", ITEMS, by=SIGNATORY))
    shown = cli("verify", "all.zip")
    assert shown.code == 2
    assert "whose key is not here" in shown.out
    assert "curl https://user.example/.well-known/did.json -o did.json" in shown.out
    document = dids.document(OWNER, [PUBLIC_KEY], {})
    (tmp_path / "did.json").write_text(json.dumps(document))
    assert "holds (3 memories)" in cli.says("verify", "all.zip", "--keys", "did.json")
    (tmp_path / "did.json").write_text("[1]")
    assert cli.problem("verify", "all.zip", "--keys", "did.json")["reason"] == "no_file"


@requirement("formats:export.verified")
def test_what_nobody_signed_proves_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "all.zip").write_bytes(written("bundle", ITEMS))
    shown = cli("verify", "all.zip")
    assert (shown.code, "Nobody has signed it" in shown.out) == (2, True)


def test_what_is_no_bundle_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("- Ana lives in Lisbon\n")
    problem: dict[str, Any] = cli.problem("verify", "notes.txt")
    assert problem["reason"] in ("bad_file", "bad_json")
    assert cli.problem("verify", "nowhere.zip")["reason"] == "no_file"
