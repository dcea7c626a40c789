"""Values sealed with AES-256-GCM under a key in a file that only its owner can read.

The file is made when something is first sealed. Where something was sealed already, a second key would be the wrong
one: whichever of the two is there, what was sealed with the other could not be opened.
"""

import base64
import binascii
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from quipu.errors import BackendUnavailableError, UnverifiableError
from quipu.ledger.ledger import Ledger
from quipu.ledger.table import Table
from quipu.secrets.model import SECRETS

#: Of each table, so many rows are tried; one that opens is enough.
_TRIED = 100
_NONCE = 12
_HINT = "Put back the key file that belongs to this ledger (`sealing_key` says where it is looked for)."


class Sealer(Protocol):
    """Seals values, each to the place where it is kept."""

    def seal(self, value: bytes, place: bytes) -> bytes: ...
    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """UnverifiableError when it was altered or the key is another one."""
        ...


class KeySealer:
    """Seals with a key in memory."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, value: bytes, place: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, value, place)

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], place)
        except (InvalidTag, ValueError) as error:
            raise UnverifiableError(
                "A sealed value cannot be opened: it was altered, or the key is another one.",
                reason="missing_key",
                hint=_HINT,
            ) from error

    @classmethod
    def fresh(cls) -> "KeySealer":
        """A key that lives no longer than the process: for a memory that is not kept either."""
        return cls(AESGCM.generate_key(256))


class FileSealer:
    """Seals with a key in a file, which is made when something is first sealed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sealer: KeySealer | None = None

    def seal(self, value: bytes, place: bytes) -> bytes:
        if self._sealer is None and not self._path.exists():
            self._make()
        return self._opened().seal(value, place)

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        return self._opened().unseal(sealed, place)

    def _make(self) -> None:
        """Of two who come at once one makes it."""
        draft = self._path.with_name(f"{self._path.name}.{os.urandom(8).hex()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(base64.b64encode(AESGCM.generate_key(256)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, self._path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        except OSError as error:
            raise BackendUnavailableError(
                f"The key {self._path.name} cannot be made.",
                reason="bad_key",
                hint="Let the server write beside the ledger, or name another place in `sealing_key`.",
            ) from error

    def _opened(self) -> KeySealer:
        if self._sealer is None:
            try:
                self._sealer = KeySealer(base64.b64decode(self._path.read_bytes(), validate=False))
            except FileNotFoundError as error:
                raise UnverifiableError(
                    f"The key {self._path.name} is missing.", reason="missing_key", hint=_HINT
                ) from error
            except (OSError, ValueError, binascii.Error) as error:
                raise BackendUnavailableError(
                    f"The key {self._path.name} cannot be read.",
                    reason="bad_key",
                    hint="Restore the key file from a backup.",
                ) from error
        return self._sealer


class Sealing:
    """Seals what rows keep, with the key that everything which was sealed in this ledger before opens with."""

    def __init__(self, ledger: Ledger, sealer: Sealer, tables: Sequence[Table[Any]]) -> None:
        """`tables`: those whose rows, like those of secrets, have an `id` and something `sealed`."""
        self._ledger, self._tables = ledger, tables
        #: For what no row keeps; `ready` comes first.
        self.sealer = sealer
        #: A sealer goes on with the key that it began with.
        self._is_right = False

    async def ready(self, tenant: str) -> None:
        """UnverifiableError without the key of this ledger."""
        if not self._is_right:
            await self._check_key(tenant)

    async def seal(self, value: bytes, tenant: str, row_id: str) -> bytes:
        """The value, sealed to the row that keeps it. UnverifiableError without the key of this ledger."""
        await self.ready(tenant)
        sealed = self.sealer.seal(value, _place(tenant, row_id))
        self._is_right = True
        return sealed

    def unseal(self, sealed: bytes, tenant: str, row_id: str) -> bytes:
        return self.sealer.unseal(sealed, _place(tenant, row_id))

    async def _check_key(self, tenant: str) -> None:
        """Raise unless nothing is sealed yet, or something opens."""
        refused: UnverifiableError | None = None
        async for name, row in self._sealed(tenant):
            try:
                self.unseal(row.sealed, name, row.id)
            except UnverifiableError as error:
                refused = error
            else:
                return
        if refused is not None:
            raise UnverifiableError(
                "The key that secrets and webhooks of this ledger were sealed with is not there.",
                reason="missing_key",
                hint="Put its file back (`sealing_key` says where it is looked for). Where it is lost for good, remove "
                "the secrets and webhooks and add them again.",
            ) from refused

    async def _sealed(self, first: str) -> AsyncIterator[tuple[str, Any]]:
        """What is sealed in each tenant, beginning with one: they share the key."""
        names, after = [first], ""
        while page := await self._ledger.tenants(after):
            names.extend(one.tenant for one in page if one.tenant != first)
            after = page[-1].tenant
        for name in names:
            for table in (SECRETS, *self._tables):
                for row in await self._ledger.page(table, name, limit=_TRIED):
                    yield name, row


def _place(tenant: str, row_id: str) -> bytes:
    """What binds a sealed value to where it is kept."""
    return f"{tenant}/{row_id}".encode()
