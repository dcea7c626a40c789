"""Sealed bundles, and what an owner takes along beside the items."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from quipu.bootstrap.envelopes import envelope, new_identity
from quipu.errors import InvalidError
from tests.exchange.conftest import Host, Hosted
from tests.requirement import requirement

WORDS = "correct horse"


@requirement("moving:bundle.sealed")
async def test_a_bundle_goes_sealed_from_one_host_to_another(hosted: Hosted, tmp_path: Path) -> None:
    one, other = await hosted(), await hosted()
    await one.memory.remember("Mara likes tea")
    identity, recipient = new_identity()
    file = tmp_path / "all.bundle.zip.age"
    report = await one.memory.export_file(file, encrypt_to=[recipient])
    assert report.file_name.endswith(".zip.age")
    assert (report.size, report.items) == (file.stat().st_size, 1)
    assert b"PK" not in file.read_bytes()[:4]
    keys = await one.keys()
    with pytest.raises(InvalidError) as refused:
        await other.memory.import_file(file, keys=keys)
    assert refused.value.reason == "encrypted_file"
    with pytest.raises(InvalidError) as refused:
        await other.memory.import_file(file, keys=keys, identities=[new_identity()[0]])
    assert refused.value.reason == "wrong_key"
    came = await other.memory.import_file(file, keys=keys, identities=[identity])
    assert (came.accepted, came.signature) == (1, "valid")
    assert os.listdir(tmp_path) == [file.name]


@requirement("moving:bundle.sealed")
@pytest.mark.slow
async def test_a_passphrase_seals_where_it_is_known(hosted: Hosted, tmp_path: Path) -> None:
    one, other = await hosted(), await hosted()
    await one.memory.remember("Mara likes tea")
    file = tmp_path / "all.age"
    report = await one.memory.export_file(file, passphrase=WORDS)
    assert (report.size, report.file_name[-4:]) == (file.stat().st_size, ".age")
    came = await other.memory.import_file(file, keys=await one.keys(), passphrase=WORDS)
    assert came.accepted == 1


@requirement("moving:bundle.sealed")
async def test_what_cannot_be_sealed_leaves_nothing(host: Host, tmp_path: Path) -> None:
    await host.memory.remember("Mara likes tea")
    with pytest.raises(InvalidError) as refused:
        await host.memory.export_file(tmp_path / "x", encrypt_to=["mara"])
    assert refused.value.reason == "bad_recipient"
    with pytest.raises(InvalidError):
        await host.memory.export_file(tmp_path / "x", encrypt_to=[new_identity()[1]], passphrase=WORDS)
    assert os.listdir(tmp_path) == []


@requirement("moving:bundle.sealed")
async def test_the_sealed_bytes_are_the_signed_bundle(host: Host) -> None:
    await host.memory.remember("Mara likes tea")
    identity, recipient = new_identity()
    data, _ = await host.out(encrypt_to=(recipient,))
    plain = io.BytesIO()
    envelope().open(io.BytesIO(data), plain, identities=[identity])
    with zipfile.ZipFile(plain) as archive:
        assert "signature.json" in archive.namelist()
        item = json.loads(archive.read("items.jsonl"))
    assert item["content"]["text"] == "Mara likes tea"
