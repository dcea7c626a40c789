"""Lines of records come back as they went out."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.memory.views import record_view
from quipu.model.record import Record
from quipu.model.store import Store
from quipu.transfer.formats.reading import Reading
from tests.cli.conftest import Cli, cli, home
from tests.requirement import requirement
from tests.search.drawn import records
from tests.transfer.formats.shelf import items_of, read, reasons, record, writes, written

__all__ = ["cli", "home"]

STORES = {"ms_1": Store(id="ms_1", name="main", scope="agent", created_at=0)}


def lines(*given_: Record) -> bytes:
    views = (record_view(one, STORES, is_masked=False) for one in given_)
    return b"".join(view.model_dump_json().encode("utf-8", "surrogatepass") + b"\n" for view in views)


MACHINE = '{"name": "door", "initial": "shut", "states": ["shut"], "transitions": []}'
_TYPES = st.sampled_from(("semantic", "episodic", "emotional"))


@requirement("formats:formats.records")
@given(st.lists(records(store_id=st.just("ms_1"), type=_TYPES), max_size=4))
def test_what_comes_back_is_what_a_bundle_brings(drawn: list[Record]) -> None:
    drawn = [*drawn, record(1, type="procedural", content=MACHINE)]
    from_lines = read(lines(*drawn))
    assert from_lines.format == "records"
    from_bundle = read(written("bundle", items_of(*drawn)))
    assert _brought(from_lines) == _brought(from_bundle)


def _brought(found: Reading) -> list[Any]:
    """The writes; and why some memories cannot be written, which both files have to say."""
    made: list[Any] = []
    for pair in found.items():
        try:
            made += writes([pair])
        except InvalidError as error:
            made.append(error.message)
    return made


@requirement("formats:formats.records")
def test_what_is_masked_or_gone_does_not_come_in() -> None:
    (line,) = lines(record(1)).splitlines()
    body = json.loads(line)
    found = read(
        "\n".join(json.dumps({**body, **more}) for more in ({"redacted": True}, {"state": "erased"}, {}))
    )
    assert reasons(found.items()) == ["masked", None]
    assert [(one.field, one.count) for one in found.loss.report().dropped] == [("erased memories", 1)]


@requirement("formats:formats.records")
def test_what_was_exported_as_lines_is_imported_elsewhere(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.remember("Ana lives in Lisbon", "--tags", "home", "--key", "city", "--importance", "0.4")
    cli.remember(
        "Ana was glad", "--type", "emotional", "--user-id", "ana", "--metadata", '{"a": {"b": [1, 2.5]}}'
    )
    cli.says("export", "all.ndjson")
    monkeypatch.setenv("QUIPU_STORE", f"sqlite://{tmp_path / 'other.db'}")
    report = cli.json("import", "all.ndjson", "--yes")
    assert (report["format"], report["counts"]["accepted"], report["counts"]["refused"]) == ("records", 2, 0)
    cli.says("export", "again.ndjson")
    first, second = (
        [_kept(json.loads(line)) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("all.ndjson", "again.ndjson")
    )
    assert first == second
    assert cli.json("import", "all.ndjson", "--yes")["counts"]["duplicate"] == 2
    cli.says("undo", "--import", report["import_id"], "--no-dry-run")
    assert cli.json("list")["records"] == []


#: What the ledger or the server says of a memory, and nobody who imports: who wrote it, where it stands, how far it is trusted.
_THEIRS = ("provenance", "born", "digest", "confidence")


def _kept(view: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in view.items() if name not in _THEIRS}
