"""What the tests of formats are made of: files in memory, and what comes out of them."""

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyrage  # pyright: ignore[reportMissingTypeStubs]  the package has none of its own
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from quipu.errors import QuipuError
from quipu.jose import Signatory, b64
from quipu.model.record import Provenance, Record
from quipu.sharing.dids import PublicKey
from quipu.sharing.items import ItemWrite, Landing, owners_item, write_of
from quipu.transfer.formats import registry
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.names import FormatName
from quipu.transfer.formats.proofs import Keys, no_keys
from quipu.transfer.formats.reading import Reading
from quipu.transfer.formats.spool import Contents, Spool, line
from quipu.transfer.formats.values import Found, Item

OWNER = "did:web:user.example"
AT = 1_778_000_000_000
HEAD = {
    "export_id": "exp_1",
    "exported_at": "2026-05-06T10:00:00.000Z",
    "exporter": "quipu/0.1.0",
    "owner": OWNER,
    "stores": [],
}


def signatory(did: str = OWNER, seed: int = 1) -> tuple[Signatory, PublicKey]:
    """Somebody who signs, and the key that shows it."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64(key.public_key().public_bytes_raw())}
    kid = f"{did}#key-1"
    return Signatory(kid, jwk, lambda message: b64(key.sign(message))), PublicKey(kid, jwk)


SIGNATORY, PUBLIC_KEY = signatory()


def keys(kid: str) -> PublicKey | None:
    """The owner's document lists one key."""
    return PUBLIC_KEY if kid == PUBLIC_KEY.kid else None


def record(number: int = 1, **given: Any) -> Record:
    known: dict[str, Any] = {
        "id": f"mem_{number:026}",
        "version": 1,
        "store_id": "ms_1",
        "agent_id": "ana",
        "type": "semantic",
        "content": f"fact {number}",
        "provenance": Provenance(written_by="local"),
        "created_at": AT + number,
        "updated_at": AT + number,
    }
    return Record(**{**known, **given})


def items_of(*given: Record) -> list[Item]:
    return [owners_item(one, OWNER, "main") for one in given]


@contextmanager
def spooled(items: Iterable[Item], loss: Loss | None = None) -> Iterator[Spool]:
    """Items as they wait to be written."""
    with Spool(is_rising=True) as spool:
        for item in items:
            spool.add(line(item, loss or Loss()))
        yield spool


def written(format_: FormatName, items: Iterable[Item], loss: Loss | None = None, **more: Any) -> bytes:
    """A file of these."""
    loss = loss or Loss()
    target = io.BytesIO()
    write = registry.named(format_).write
    assert write is not None
    with spooled(items, loss) as spool:
        write(target, Contents(items=spool, **{"head": HEAD, **more}), loss)
    return target.getvalue()


def packed(files: Mapping[str, Any]) -> bytes:
    """A zip archive of these."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data if isinstance(data, str | bytes) else json.dumps(data))
    return buffer.getvalue()


def source(data: Any, name: str = "file") -> Source:
    if not isinstance(data, str | bytes):
        data = json.dumps(data)
    return Source(io.BytesIO(data.encode() if isinstance(data, str) else data), name)


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def read(data: Any, format_: FormatName | None = None, name: str = "file", known: Keys = no_keys) -> Reading:
    return registry.opened(source(data, name), format_, keys=known, now=AT)


def good(found: Iterable[Found]) -> list[Item]:
    """The items, none of which may be refused."""
    items: list[Item] = []
    for _, item in found:
        assert not isinstance(item, QuipuError), item
        items.append(item)
    return items


def reasons(found: Iterable[Found]) -> list[str | None]:
    """Why items were refused; None for those that were not."""
    return [item.reason if isinstance(item, QuipuError) else None for _, item in found]


def writes(found: Iterable[Found], **landing: Any) -> list[ItemWrite]:
    """The writes that items become; none of them may be refused."""
    options: dict[str, Any] = {"agent_id": "here", "source": None, "now": AT + 10**12, **landing}
    return [write_of(item, Landing(**options)) for item in good(found)]


def dropped(reading: Reading) -> dict[str, int]:
    return {one.field: one.count for one in reading.loss.report().dropped}


def new_identity() -> tuple[str, str]:
    """An age key that opens, and the recipient that others seal to."""
    library: Any = pyrage
    identity = library.x25519.Identity.generate()
    return str(identity), str(identity.to_public())
