"""Files that only the holder of a key or a passphrase can read, in the format of age (age-encryption.org/v1).

Whoever has another age program can open what is sealed here, and the other way round. A file that is sealed to keys is
sealed and opened in pieces, so its size does not matter; one with a passphrase is held in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

import pyrage  # pyright: ignore[reportMissingTypeStubs]  # the package has none of its own

from quipu.errors import InvalidError

MAGIC = b"age-encryption.org/v1\n"
#: What may be sealed with a passphrase: the library takes it whole.
MOST_BYTES = 256 << 20
_age: Any = pyrage


def new_identity() -> tuple[str, str]:
    """A key to open with, and the recipient that others seal to."""
    identity = _age.x25519.Identity.generate()
    return str(identity), str(identity.to_public())


def is_sealed(head: bytes) -> bool:
    """Whether a file that begins so is one of these."""
    return head.startswith(MAGIC)


class Age:
    """Seals files and opens them."""

    def seal(self, source: BinaryIO, target: BinaryIO, recipients: Sequence[str]) -> None:
        """For whoever has the key of one of these recipients."""
        _age.encrypt_io(source, target, [_recipient(text) for text in recipients])

    def seal_with(self, source: BinaryIO, target: BinaryIO, passphrase: str) -> None:
        """For whoever knows the passphrase."""
        if not passphrase:
            raise InvalidError("The passphrase is empty.", reason="bad_passphrase")
        target.write(_age.passphrase.encrypt(_whole(source), passphrase))

    def open(
        self,
        source: BinaryIO,
        target: BinaryIO,
        *,
        identities: Sequence[str] = (),
        passphrase: str | None = None,
    ) -> None:
        """Write what was sealed; InvalidError where no key fits, or the file was altered or cut short."""
        keys = [_identity(text) for text in identities]
        try:
            if passphrase is None:
                _age.decrypt_io(source, target, keys)
            else:
                target.write(_age.passphrase.decrypt(_whole(source), passphrase))
        except OSError as error:
            if error.errno is not None:
                raise  # the disk's, not the file's
            raise _damaged() from None
        except _age.DecryptError as error:
            raise _refused(str(error)) from None


def _whole(source: BinaryIO) -> bytes:
    data = source.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InvalidError(
            "The file is too large for a passphrase.",
            reason="too_large",
            hint=f"Seal what has more than {MOST_BYTES >> 20} MiB to a key: quipu bundle key makes one.",
        )
    return data


def _recipient(text: str) -> Any:
    try:
        return _age.x25519.Recipient.from_str(text.strip())
    except _age.RecipientError:
        raise InvalidError.at(
            "/encrypt_to", "bad_recipient", "A recipient is no age key.", accepted=["age1..."]
        ) from None


def _identity(text: str) -> Any:
    try:
        return _age.x25519.Identity.from_str(text.strip())
    except _age.IdentityError:
        raise InvalidError(
            "An identity is no age key.", reason="bad_identity", hint="It begins with AGE-SECRET-KEY-1."
        ) from None


def _refused(told: str) -> InvalidError:
    """What the library says in words, as one of our reasons."""
    if told in ("No matching keys found", "Decryption failed"):
        return InvalidError(
            "No key or passphrase that was given opens the file.",
            reason="wrong_key",
            hint="Give the identity of one of its recipients, or the passphrase.",
        )
    if told.startswith("Excessive work"):
        return InvalidError("The passphrase of this file takes too long to try.", reason="too_large")
    return _damaged()


def _damaged() -> InvalidError:
    return InvalidError("The file was altered or cut short.", reason="bad_file")
