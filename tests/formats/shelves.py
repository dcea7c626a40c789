"""What the tests of formats are made of: a key, files in memory, items."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from quipu.crypto.canonical import canonical
from quipu.crypto.keys import Ed25519Signer, verify
from quipu.errors import QuipuError
from quipu.formats.archives import Source
from quipu.formats.bundle import ITEMS, RELATIONS, TOMBSTONES, Contents
from quipu.formats.items import item_of
from quipu.formats.signing import Checking, Signing
from quipu.formats.values import Found, Item
from quipu.model.record import MemoryType, Provenance, Record
from quipu.rules.drafting import content_text
from quipu.testing.strategies import machines, records

SIGNER = Ed25519Signer.fresh()
SIGNING = Signing(key_id=SIGNER.key_id, public_key=SIGNER.public_key, sign=SIGNER.sign, canonical=canonical)
CHECKING = Checking(canonical=canonical, verify=verify, keys=SIGNER.known_keys)
STRANGER = Checking(canonical=canonical, verify=verify, keys={})
OWNER = "did:web:user.example"
HEAD = {
    "format": "quipu-bundle",
    "version": 1,
    "export_id": "exp_1",
    "exported_at": "2026-05-06T10:00:00.000Z",
    "exporter": "quipu/0.1.0",
    "owner": OWNER,
    "stores": [],
}
AT = 1_778_000_000_000


def source(data: bytes | str, name: str = "file") -> Source:
    return Source(io.BytesIO(data.encode() if isinstance(data, str) else data), name)


def packed(files: Mapping[str, bytes | str]) -> bytes:
    """An archive of these."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def record(number: int = 1, **given: Any) -> Record:
    known: dict[str, Any] = {
        "tenant": "default",
        "id": f"mem_{number:026}",
        "version": 1,
        "store_id": "ms_1",
        "agent_id": "ana",
        "type": MemoryType.SEMANTIC,
        "content": f"fact {number}",
        "provenance": Provenance(written_by="local"),
        "created_at": AT + number,
        "updated_at": AT + number,
    }
    return Record(**{**known, **given})


def keepable(**fixed: SearchStrategy[Any]) -> SearchStrategy[Record]:
    """Records as a ledger can hold them: of a procedure the content is its machine."""
    machine = machines().map(lambda value: content_text(MemoryType.PROCEDURAL, value))
    others = st.sampled_from([type_ for type_ in MemoryType if type_ is not MemoryType.PROCEDURAL])
    made: SearchStrategy[Record] = others.flatmap(lambda type_: records(type=st.just(type_), **fixed))
    return made | records(type=st.just(MemoryType.PROCEDURAL), content=machine, **fixed)


def items(*given: Record) -> list[Item]:
    return [item_of(one, owner=OWNER, store="main") for one in given]


def contents(given: Sequence[Item], head: Mapping[str, Any] = HEAD) -> Contents:
    lines = [canonical(item) for item in given]
    return Contents(
        head=dict(head), files={ITEMS: lambda: lines, RELATIONS: lambda: [], TOMBSTONES: lambda: []}
    )


def good(found: Iterable[Found]) -> list[Item]:
    """The items, none of which may be refused."""
    result: list[Item] = []
    for _, item in found:
        assert not isinstance(item, QuipuError), item
        result.append(item)
    return result


def reasons(found: Iterable[Found]) -> list[str | None]:
    """Why items were refused; None for those that were not."""
    return [item.reason if isinstance(item, QuipuError) else None for _, item in found]
