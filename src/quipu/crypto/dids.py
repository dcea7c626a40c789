"""The keys that this host and its owners are known by, in files; and the DID documents of others, fetched with care."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from quipu.crypto.files import write_once
from quipu.errors import BackendUnavailableError, InvalidError, UnverifiableError
from quipu.model.value import JsonObject
from quipu.ports.keys import Peers
from quipu.ports.surroundings import Clock
from quipu.rules import dids
from quipu.rules.dids import PublicKey
from quipu.rules.receipts import Hand, b64

_HOST = "host"
#: Below an owner's keys: one empty file for each grant that was taken back.
_REVOKED = "revoked"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


@dataclass(slots=True)
class _Key:
    """One key of somebody: its number, and what became of it."""

    number: int
    private: Ed25519PrivateKey
    expires: int | None = None
    revoked: int | None = None
    #: The public key, and the one that others encrypt to: made from the signing key, so that there is one file to keep.
    raw: bytes = field(init=False)
    agreement: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.raw = self.private.public_key().public_bytes_raw()
        derived = HKDF(SHA256(), 32, salt=None, info=b"quipu did key agreement")
        made = X25519PrivateKey.from_private_bytes(derived.derive(self.private.private_bytes_raw()))
        self.agreement = made.public_key().public_bytes_raw()

    @property
    def is_retired(self) -> bool:
        return self.expires is not None or self.revoked is not None

    @property
    def jwk(self) -> dict[str, Any]:
        return {"kty": "OKP", "crv": "Ed25519", "x": b64(self.raw)}


@dataclass(slots=True)
class FileKeyring:
    """Keys in a folder beside the ledger; without a folder they live no longer than the process.

    With a public address everybody has a `did:web`: the host at its root, an owner below `owners/`. Without one they
    are `did:key`, which never changes: such a key cannot be rotated.
    """

    folder: Path | None
    #: https://memory.example, without a slash at its end; empty: nobody is reached from outside.
    public_url: str = ""
    #: DIDs that owners bring along: DID → tenant.
    owners: Mapping[str, str] = field(default_factory=dict[str, str])
    _known: dict[str, list[_Key]] = field(default_factory=dict[str, list[_Key]])
    #: When the folder of somebody's keys last changed: another process may rotate them.
    _seen: dict[str, int] = field(default_factory=dict[str, int])
    #: Documents, with the keys that they were made of.
    _documents: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = field(
        default_factory=dict[str, tuple[tuple[Any, ...], dict[str, Any]]]
    )

    def did(self, who: str | None) -> str:
        if not self.public_url:
            return dids.key_did(self._keys(who)[-1].raw)
        root = dids.web_of(self.public_url)
        return root if who is None else f"{root}:owners:{who}"

    def tenant_of(self, did: str) -> str | None:
        if did in self.owners:
            return self.owners[did]
        if self.public_url:
            stem = f"{dids.web_of(self.public_url)}:owners:"
            tenant = did.removeprefix(stem)
            return tenant if did.startswith(stem) and _NAME.fullmatch(tenant) else None
        return next((who for who in self._owned() if self.did(who) == did), None)

    def hand(self, who: str | None) -> Hand:
        key = self._keys(who)[-1]
        return Hand(self._kid(who, key), lambda message: b64(key.private.sign(message)))

    def jwk(self, who: str | None) -> Mapping[str, Any]:
        return self._keys(who)[-1].jwk

    def document(self, who: str | None) -> dict[str, Any]:
        if not self.public_url:
            return dids.key_document(self.did(who), b64)
        name, keys = self._name(who), self._keys(who)
        # It follows from the keys, which are looked at each time: one that was rotated or revoked makes another.
        made_of = tuple((key.number, key.raw, key.expires, key.revoked) for key in keys)
        known = self._documents.get(name)
        if known is None or known[0] != made_of:
            known = self._documents[name] = (made_of, self._document(who, keys))
        return known[1]

    def _document(self, who: str | None, known: Sequence[_Key]) -> dict[str, Any]:
        did = self.did(who)
        keys = [PublicKey(self._kid(who, key), key.jwk, key.expires, key.revoked) for key in reversed(known)]
        url = self.public_url
        services = {
            "OAPInvocationEndpoint": ("oap-invoke", f"{url}/oap/invoke"),
            "OAPRevocationStatus": ("oap-revocation", f"{url}/.well-known/oap-revocation"),
            "OAPMemory": ("oap-memory", _manifest(url, who)),
        }
        return dids.document(did, keys, self._agreement(who), services)

    def rotate(self, who: str | None, at: int, *, is_compromised: bool) -> str:
        if not self.public_url:
            raise InvalidError(
                "A did:key is its key and cannot have another.",
                reason="bad_did",
                hint="Set QUIPU_PUBLIC_URL, so that people are known by their address.",
            )
        keys = self._keys(who)
        last = keys[-1]
        # Once this is written the next key is made, if not here then by whoever reads the keys.
        expires, revoked = (None, at) if is_compromised else (at, None)
        self._write_fate(who, last.number, expires, revoked)
        last.expires, last.revoked = expires, revoked
        keys.append(self._made(who, last.number + 1))
        return self._kid(who, keys[-1])

    def note_revoked(self, who: str, grant_id: str) -> None:
        if self.folder is not None:
            place = self.folder / self._name(who) / _REVOKED
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_once(place / _file_name(grant_id), b"")

    def is_revoked(self, who: str, grant_id: str) -> bool:
        # A plain string: this is asked for every request.
        return self.folder is not None and os.path.exists(
            f"{self.folder}/{self._name(who)}/{_REVOKED}/{_file_name(grant_id)}"
        )

    # -- files --------------------------------------------------------------------------------------------------

    def _kid(self, who: str | None, key: _Key) -> str:
        if not self.public_url:
            did = dids.key_did(key.raw)
            return f"{did}#{did.removeprefix('did:key:')}"
        return f"{self.did(who)}#key-{key.number}"

    def _name(self, who: str | None) -> str:
        if who is not None and not _NAME.fullmatch(who):
            raise InvalidError("This tenant cannot have a key.", reason="bad_did")
        return _HOST if who is None else f"owner-{who}"

    def _owned(self) -> list[str]:
        if self.folder is None or not self.folder.is_dir():
            named = list(self._known)
        else:
            named = [entry.name for entry in self.folder.iterdir()]
        return sorted(name.removeprefix("owner-") for name in named if name.startswith("owner-"))

    def _keys(self, who: str | None) -> list[_Key]:
        name = self._name(who)
        changed = self._changed(name)
        if name not in self._known or self._seen.get(name) != changed:
            keys = self._read(name) or [self._made(who, 1)]
            if keys[-1].is_retired:  # whoever rotated it was stopped before there was another
                keys.append(self._made(who, keys[-1].number + 1))
            self._known[name] = keys
            self._seen[name] = self._changed(name)
        return self._known[name]

    def _changed(self, name: str) -> int:
        if self.folder is None:
            return 0
        try:
            return os.stat(f"{self.folder}/{name}").st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _made(self, who: str | None, number: int) -> _Key:
        private = Ed25519PrivateKey.generate()
        if self.folder is not None:
            place = self.folder / self._name(who)
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            write_once(place / f"key-{number}.pem", pem)
            private = _loaded(place / f"key-{number}.pem")  # of two that start at once, the first one's stays
        return _Key(number, private)

    def _read(self, name: str) -> list[_Key]:
        if self.folder is None:
            return []
        place = self.folder / name
        found: list[_Key] = []
        for path in sorted(place.glob("key-*.pem"), key=lambda path: int(path.stem[4:])):
            key = _Key(int(path.stem[4:]), _loaded(path))
            fate = path.with_suffix(".retired")
            if fate.exists():
                told = cast("dict[str, Any]", json.loads(fate.read_text("utf-8")))
                key.expires, key.revoked = told.get("expires"), told.get("revoked")
            found.append(key)
        return found

    def _write_fate(self, who: str | None, number: int, expires: int | None, revoked: int | None) -> None:
        if self.folder is not None:
            told = json.dumps({"expires": expires, "revoked": revoked})
            write_once(self.folder / self._name(who) / f"key-{number}.retired", told.encode("utf-8"))

    def _agreement(self, who: str | None) -> PublicKey:
        key = self._keys(who)[-1]
        jwk = {"kty": "OKP", "crv": "X25519", "x": b64(key.agreement), "use": "enc"}
        return PublicKey(f"{self.did(who)}#agreement-{key.number}", jwk)


def _file_name(grant_id: str) -> str:
    """Ids differ also where files of upper and lower case do not."""
    return hashlib.sha256(grant_id.encode("utf-8", "surrogatepass")).hexdigest()


def _manifest(url: str, who: str | None) -> str:
    return f"{url}/.well-known/oap-memory.json" if who is None else f"{url}/owners/{who}/oap-memory.json"


def _loaded(path: Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise BackendUnavailableError(
            f"The key {path.name} cannot be read.",
            reason="bad_key",
            hint="Restore the key file from a backup.",
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BackendUnavailableError(f"The key {path.name} is not an Ed25519 key.", reason="bad_key")
    return key


@dataclass(slots=True)
class FetchedDocuments:
    """DID documents: our own from the keyring, `did:key` from itself, `did:web` from its host, kept for a while."""

    keyring: FileKeyring
    peers: Peers
    clock: Clock
    #: The address of a document; the guard decides whether it may be asked.
    url: Callable[[str, str], str]
    life_ms: int = 300_000
    most: int = 1000
    _kept: dict[str, tuple[int, JsonObject]] = field(default_factory=dict[str, tuple[int, JsonObject]])

    async def document(self, did: str) -> JsonObject:
        dids.checked(did)
        if did == self.keyring.did(None):
            return self.keyring.document(None)
        tenant = self.keyring.tenant_of(did) if did not in self.keyring.owners else None
        if tenant is not None:
            return self.keyring.document(tenant)
        if did.startswith("did:key:"):
            return dids.key_document(did, b64)
        now = self.clock()
        at, kept = self._kept.get(did, (0, None))
        if kept is not None and 0 <= now - at < self.life_ms:
            return kept
        found = await self._fetched(did)
        if len(self._kept) >= self.most:
            self._kept.clear()
        self._kept[did] = (now, found)
        return found

    async def _fetched(self, did: str) -> JsonObject:
        answer = await self.peers.get(self.url(*dids.place(did)))
        if answer.status != 200 or answer.members.get("id") != did:
            raise UnverifiableError("The DID document cannot be had.", reason="did_unresolved")
        return answer.members

    async def close(self) -> None:
        await self.peers.close()
