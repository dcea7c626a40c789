"""The keys that this host and its owners are known by, in files; and the DID documents of others, fetched with care.

1. `who` is None for the host itself, or an owner's tenant. Keys stand outside the ledger, so a ledger that is put back
   from a backup takes nothing of them back.
2. With a public address everybody has a `did:web`: the host at its root, an owner below `owners/`, under a random name
   that says nothing about the tenant. Without one they are `did:key`, which cannot be rotated.
3. A key that is retired still proves what it signed; one that is compromised proves nothing.
"""

import hashlib
import json
import os
import re
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from quipu.errors import BackendUnavailableError, InvalidError, UnverifiableError
from quipu.jose import Signatory, b64
from quipu.operation import Clock
from quipu.outbound import Outbound
from quipu.sharing import dids
from quipu.sharing.dids import PublicKey

_HOST = "host"
_REVOKED, _ERASED = "revoked", "erased"
_OWNER = "owner.json"
_PATH = re.compile(r"[0-9a-f]{32}")
#: Another host's document is kept for so long, and so many of them.
_LIFE_MS = 300_000
_MOST_KEPT = 1000
_LARGEST = 256 << 10


@dataclass(slots=True)
class _Key:
    """One key of somebody: its number, and what became of it."""

    number: int
    private: Any
    expires: int | None = None
    revoked: int | None = None
    raw: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.raw = self.private.public_key().public_bytes_raw()

    @property
    def is_retired(self) -> bool:
        return self.expires is not None or self.revoked is not None

    @property
    def jwk(self) -> dict[str, str]:
        return {"kty": "OKP", "crv": "Ed25519", "x": b64(self.raw)}


class Keyring:
    """Keys in a folder beside the ledger; without a folder they live no longer than the process."""

    def __init__(
        self, folder: Path | None, public_url: str | None = None, owners: Mapping[str, str] | None = None
    ) -> None:
        """`public_url`: https://memory.example. `owners`: DIDs that owners bring along, DID → tenant."""
        self._folder = folder
        self.public_url = (public_url or "").rstrip("/")
        self.brought = dict(owners or {})
        self._known: dict[str, list[_Key]] = {}
        #: When the folder of somebody's keys last changed: another process may rotate them.
        self._seen: dict[str, int] = {}
        #: Tenant → name in addresses, and the other way round.
        self._owners: dict[str, str] = {}
        self._paths: dict[str, str] = {}
        #: When the folder of folders was last gone through.
        self._looked = -1
        self._noted: set[tuple[str, str]] = set()

    # -- who ----------------------------------------------------------------------------------------------------------

    @property
    def is_public(self) -> bool:
        """Whether others can reach this host, so that it can share."""
        return bool(self.public_url)

    def did(self, who: str | None) -> str:
        if not self.public_url:
            return dids.key_did(self._keys(who)[-1].raw)
        root = dids.web_of(self.public_url)
        return root if who is None else f"{root}:owners:{self.path_of(who)}"

    def path_of(self, tenant: str) -> str:
        """The random name of an owner in addresses; made when it is first asked for."""
        if tenant not in self._owners:
            path = secrets.token_hex(16)
            if self._folder is not None:
                self._write(tenant, _OWNER, json.dumps({"tenant": tenant, "path": path}).encode())
                # Of two that start at once, the first one's.
                path = str(_json(self._folder / _name(tenant) / _OWNER)["path"])
            self._owners[tenant], self._paths[path] = path, tenant
        return self._owners[tenant]

    def tenant_of(self, did: str) -> str | None:
        """Whose DID this is, if it is one of our owners'. Nothing is made for a name that is not known."""
        if did in self.brought:
            return self.brought[did]
        if self.public_url:
            stem = f"{dids.web_of(self.public_url)}:owners:"
            return self.tenant_at(did.removeprefix(stem)) if did.startswith(stem) else None
        return next((tenant for tenant in self._tenants() if self.did(tenant) == did), None)

    def tenant_at(self, path: str) -> str | None:
        """Whose name in addresses this is. Strangers ask for any name: folders are read when there is a new one."""
        changed = self._changed("")
        if path not in self._paths and _PATH.fullmatch(path) and changed != self._looked:
            for tenant in self._tenants():
                self.path_of(tenant)
            # A folder that is being made just now has no name yet: it is looked at again.
            is_whole = all((one / _OWNER).exists() for one in self._owner_folders())
            self._looked = changed if is_whole else -1
        return self._paths.get(path)

    # -- signing ------------------------------------------------------------------------------------------------------

    def signatory(self, who: str | None) -> Signatory:
        """Who signs now; the first time makes the key."""
        key = self._keys(who)[-1]
        return Signatory(self._kid(who, key), key.jwk, lambda message: b64(key.private.sign(message)))

    def key(self, who: str | None, kid: str) -> PublicKey | None:
        """A key of ours by its name, with what became of it."""
        return next((key for key in self._public(who) if key.kid == kid), None)

    def document(self, who: str | None) -> dict[str, Any]:
        """The DID document, with retired keys."""
        if not self.public_url:
            return dids.key_document(self.did(who))
        url = self.public_url
        place = ".well-known" if who is None else f"owners/{self.path_of(who)}"
        services = {
            "OAPInvocationEndpoint": ("oap-invoke", f"{url}/oap/invoke"),
            "OAPRevocationStatus": ("oap-revocation", f"{url}/.well-known/oap-revocation"),
            "OAPMemory": ("oap-memory", f"{url}/{place}/oap-memory.json"),
        }
        return dids.document(self.did(who), self._public(who), services)

    def rotate(self, who: str | None, at: int, *, is_compromised: bool) -> str:
        """Sign with a new key from now on; its name. What a compromised key has signed counts no more."""
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
        told = json.dumps({"expires": expires, "revoked": revoked})
        self._write(who, f"key-{last.number}.retired", told.encode())
        last.expires, last.revoked = expires, revoked
        keys.append(self._made(who, last.number + 1))
        return self._kid(who, keys[-1])

    # -- grants that were taken back ------------------------------------------------------------------------------

    def note_revoked(self, tenant: str, grant_id: str) -> None:
        """Keep in mind, outside the ledger, that a grant was taken back: an older ledger may be put in its place."""
        self._noted.add((tenant, grant_id))
        self._write(tenant, f"{_REVOKED}/{_digest(grant_id)}", b"")

    def is_revoked(self, tenant: str, grant_id: str) -> bool:
        if self._folder is None or (tenant, grant_id) in self._noted:
            return (tenant, grant_id) in self._noted
        return os.path.exists(f"{self._folder}/{_name(tenant)}/{_REVOKED}/{_digest(grant_id)}")

    # -- what was erased ----------------------------------------------------------------------------------------------

    def note_erased(self, tenant: str, erasure_id: str, record_ids: Sequence[str]) -> None:
        """The same for an erasure: an older ledger has what was erased since."""
        noted = {"id": erasure_id, "ids": [*record_ids]}
        self._write(tenant, f"{_ERASED}/{_digest(erasure_id)}", json.dumps(noted).encode())

    def erased(self, tenant: str) -> dict[str, list[str]]:
        """The ids of the records of each erasure that was noted."""
        if self._folder is None or not (folder := self._folder / _name(tenant) / _ERASED).is_dir():
            return {}
        found = [_json(file) for file in sorted(folder.iterdir()) if not file.suffix]
        return {str(one["id"]): [str(name) for name in one["ids"]] for one in found}

    # -- files ----------------------------------------------------------------------------------------------------

    def _public(self, who: str | None) -> list[PublicKey]:
        """Newest first."""
        keys = reversed(self._keys(who))
        return [PublicKey(self._kid(who, key), key.jwk, key.expires, key.revoked) for key in keys]

    def _kid(self, who: str | None, key: _Key) -> str:
        if not self.public_url:
            return dids.key_kid(dids.key_did(key.raw))
        return f"{self.did(who)}#key-{key.number}"

    def _tenants(self) -> list[str]:
        if self._folder is None:
            return list(self._owners)
        files = (folder / _OWNER for folder in self._owner_folders())
        return [str(_json(file)["tenant"]) for file in files if file.exists()]

    def _owner_folders(self) -> list[Path]:
        if self._folder is None or not self._folder.is_dir():
            return []
        return [entry for entry in self._folder.iterdir() if entry.name != _HOST]

    def _keys(self, who: str | None) -> list[_Key]:
        name = _name(who)
        if name not in self._known or self._seen.get(name) != self._changed(name):
            if who is not None:
                self.path_of(who)
            keys = self._read(name) or [self._made(who, 1)]
            if keys[-1].is_retired:  # whoever rotated it was stopped before there was another
                keys.append(self._made(who, keys[-1].number + 1))
            self._known[name] = keys
            self._seen[name] = self._changed(name)
        return self._known[name]

    def _changed(self, name: str) -> int:
        if self._folder is None:
            return 0
        try:
            return os.stat(f"{self._folder}/{name}").st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _made(self, who: str | None, number: int) -> _Key:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        private = Ed25519PrivateKey.generate()
        if self._folder is not None:
            pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            self._write(who, f"key-{number}.pem", pem)
            private = _loaded(self._folder / _name(who) / f"key-{number}.pem")
        return _Key(number, private)

    def _read(self, name: str) -> list[_Key]:
        if self._folder is None:
            return self._known.get(name, [])
        found: list[_Key] = []
        for path in (self._folder / name).glob("key-*.pem"):
            key = _Key(int(path.stem.removeprefix("key-")), _loaded(path))
            fate = path.with_suffix(".retired")
            if fate.exists():
                told = _json(fate)
                key.expires, key.revoked = told.get("expires"), told.get("revoked")
            found.append(key)
        return sorted(found, key=lambda key: key.number)

    def _write(self, who: str | None, name: str, content: bytes) -> None:
        """Make a file if it is not there, whole, for its owner alone. Of two that come at once the first one's stays."""
        if self._folder is None:
            return
        path = self._folder / _name(who) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, draft = tempfile.mkstemp(".draft", f"{path.name}.", path.parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(draft, path)
            except FileExistsError:
                pass  # somebody else was first
            finally:
                Path(draft).unlink()
        except OSError as error:
            raise BackendUnavailableError(
                f"The key {path.name} cannot be written.",
                reason="bad_key",
                hint="Check that its folder exists and is writable, and that the disk has room.",
            ) from error


def _name(who: str | None) -> str:
    """The folder of somebody's keys: a digest, so that any name of a tenant has one."""
    return _HOST if who is None else f"owner-{_digest(who)[:32]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _json(path: Path) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise _unreadable(path) from error


def _loaded(path: Path) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise _unreadable(path) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _unreadable(path)
    return key


def _unreadable(path: Path) -> BackendUnavailableError:
    return BackendUnavailableError(
        f"The key {path.name} cannot be read.",
        reason="bad_key",
        hint="Restore the key file from a backup.",
    )


# -- documents of others ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Documents:
    """DID documents: our own from the keyring, `did:key` from itself, `did:web` from its host, kept for a while."""

    keyring: Keyring
    outbound: Outbound
    clock: Clock
    #: Origins that are asked without TLS, such as http://127.0.0.1:8321.
    plain_origins: frozenset[str] = frozenset()
    _kept: dict[str, tuple[int, Mapping[str, Any]]] = field(
        default_factory=dict[str, tuple[int, Mapping[str, Any]]]
    )

    async def document(self, did: str, *, is_fresh: bool = False) -> Mapping[str, Any]:
        """The document, or UnverifiableError. `is_fresh`: none that was kept; a key may have been given up since."""
        dids.checked(did)
        if did == self.keyring.did(None):
            return self.keyring.document(None)
        tenant = None if did in self.keyring.brought else self.keyring.tenant_of(did)
        if tenant is not None:
            return self.keyring.document(tenant)
        if dids.is_key(did):
            return dids.key_document(did)
        now = self.clock()
        at, kept = self._kept.get(did, (0, None))
        if kept is not None and not is_fresh and 0 <= now - at < _LIFE_MS:  # below 0 a clock was wrong
            return kept
        found = await self._fetched(did)
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[did] = (now, found)
        return found

    async def key(self, kid: str, purpose: str = "assertionMethod") -> PublicKey | None:
        """The key of that name, looked up in the document of the DID that it belongs to."""
        did, _ = dids.split(kid)
        return dids.key_of(await self.document(did), did, kid, purpose)

    def url(self, host: str, path: str) -> str:
        """The address of something on a host."""
        plain = f"http://{host}"
        return f"{plain}{path}" if plain in self.plain_origins else f"https://{host}{path}"

    async def _fetched(self, did: str) -> Mapping[str, Any]:
        try:
            answer = await self.outbound.send(
                "GET",
                self.url(*dids.place_of(did)),
                headers={"Accept": "application/did+json, application/json"},
                most_bytes=_LARGEST,
            )
            found: object = json.loads(answer.body) if answer.status == 200 else None
        except (BackendUnavailableError, ValueError, RecursionError) as error:
            raise _unresolved() from error
        if not isinstance(found, dict) or cast("dict[str, Any]", found).get("id") != did:
            raise _unresolved()
        return cast("dict[str, Any]", found)


def _unresolved() -> UnverifiableError:
    return UnverifiableError("The DID document cannot be had.", reason="did_unresolved")
