"""Every document of a bundle is what its published schema says."""

from __future__ import annotations

import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.exchange.conftest import Host
from tests.exchange.test_round_trip import OWNER, filled
from tests.requirement import requirement

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas" / "bundle"


@cache
def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def faults(name: str, body: Any) -> list[str]:
    return [fault.message for fault in validator(name).iter_errors(body)]


def check_archive(data: bytes) -> dict[str, int]:
    """Every document of an archive, by the schema that the manifest names for it; how many there are."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(files.pop("manifest.json"))
    assert faults("manifest", manifest) == []
    assert {"counts", "files"} <= manifest.keys()
    assert faults("signature", json.loads(files.pop("signature.json"))) == []
    assert files.keys() == manifest["files"].keys()
    files = {name: body for name, body in files.items() if name.endswith(".jsonl")}
    assert manifest["schemas"].keys() == files.keys()
    for name, body in files.items():
        kind = manifest["schemas"][name].rpartition(":")[2]
        for line in body.splitlines():
            assert faults(kind, json.loads(line)) == []
    return dict(manifest["counts"])


@requirement("moving:bundle.schemas")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"since": "4"},
        {"non_exportable": True, "receipts": True, "logs": True, "grants": True, "embeddings": True},
    ],
)
async def test_every_document_of_an_archive_follows_its_schema(host: Host, given: dict[str, Any]) -> None:
    await filled(host)
    await host.memory.remember("Stays at home", metadata={"exportable": False, "subject_entity_id": "mara"})
    old = await host.memory.remember("Once true", user_id="mara", importance=0.5, tags=["ü", "kind:summary"])
    await host.memory.expire({"confidence_below": 0.5}, action="archive")
    await host.memory.forget(ids=[old.id], hard_delete=True)
    counts = check_archive((await host.out(owner=OWNER, **given))[0])
    assert counts["items"]
    assert counts["tombstones"]


@requirement("moving:bundle.schemas")
async def test_every_line_of_a_stream_follows_its_schema(host: Host) -> None:
    await filled(host)
    data, _ = await host.out(owner=OWNER, as_lines=True)
    head, *lines, last = [json.loads(line) for line in data.splitlines()]
    assert faults("manifest", head) == []
    assert faults("signature", last["signature"]) == []
    kinds = set()
    for line in lines:
        ((kind, body),) = line.items()
        kinds.add(kind)
        assert faults(kind, body) == []
    assert kinds == {"item", "relation", "tombstone"}


def test_the_schemas_tell_right_from_wrong() -> None:
    assert (
        faults("tombstone", {"item_id": "m", "hash": "0" * 64, "deleted_at": "2026-01-01T00:00:00.000Z"})
        == []
    )
    assert faults("tombstone", {"item_id": "m", "hash": "0" * 64, "deleted_at": "today"})
    assert faults(
        "tombstone", {"item_id": "m", "hash": "0", "deleted_at": "2026-01-01T00:00:00Z", "text": "x"}
    )
    assert faults("item", {"kind": "fact"})
    assert faults("manifest", {"format": "quipu-bundle", "version": 2})
