"""Sealed files: only the holder of a key or a passphrase can read them (age-encryption.org/v1).

Any other age program opens what is sealed here, and the other way round. A file that is sealed to keys is taken in
pieces, so its size does not matter; one with a passphrase is held in memory.
"""

import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

import click
import pyrage  # pyright: ignore[reportMissingTypeStubs]  the package has none of its own

from quipu.errors import Fault, InvalidError
from quipu.operation import invalid

#: How a sealed file begins, as bytes and as letters.
MARKS = (b"age-encryption.org/v1\n", b"-----BEGIN AGE ENCRYPTED FILE-----")
#: What may be sealed with a passphrase: the library takes it whole.
MOST_BYTES = 256 << 20
#: How the library refuses a passphrase that takes too long to try, and how often it is asked again.
_TOO_SLOW, _MEASURED = "Excessive work", 5
_age: Any = pyrage


def is_sealed(head: bytes) -> bool:
    """Whether a file that begins so is sealed."""
    return head.startswith(MARKS)


def asks_for_a_passphrase(head: bytes) -> bool:
    """Whether a file that begins so may be opened with a passphrase. Letters do not show what is in them."""
    return head.startswith(MARKS[0] + b"-> scrypt ") or head.startswith(MARKS[1])


def asked_passphrase(*, is_new: bool = False) -> str:
    """What a person types at a terminal, unseen; twice for a new one."""
    if not sys.stdin.isatty():
        raise InvalidError(
            "A passphrase is typed at a terminal, and there is none.",
            reason="usage",
            hint="Run it at a terminal, or use a key: --encrypt-to seals to one, --identity opens with one.",
        )
    return click.prompt("Passphrase", hide_input=True, err=True, confirmation_prompt=is_new)


def seal(source: BinaryIO, target: BinaryIO, recipients: Sequence[str]) -> None:
    """For whoever has the key of one of these recipients (age1…)."""
    if not recipients:
        raise invalid([Fault("/encrypt_to", "missing_field", "at least one recipient (age1…)")])
    _age.encrypt_io(source, target, [_recipient(text, place) for place, text in enumerate(recipients)])


def check_recipients(recipients: Sequence[str]) -> None:
    """InvalidError that names the first that is none."""
    for place, text in enumerate(recipients):
        _recipient(text, place)


def seal_with_passphrase(source: BinaryIO, target: BinaryIO, passphrase: str) -> None:
    """For whoever knows the passphrase."""
    if not passphrase:
        raise InvalidError("The passphrase is empty.", reason="bad_passphrase")
    target.write(_age.passphrase.encrypt(_whole(source), passphrase))


def unseal(
    source: BinaryIO, target: BinaryIO, *, identities: Sequence[str] = (), passphrase: str | None = None
) -> None:
    """Write what was sealed. InvalidError where no key fits, or the file was altered or cut short; what was written to
    `target` until then is to be thrown away."""
    keys = [_identity(text) for text in identities]
    try:
        if passphrase is None:
            _age.decrypt_io(source, target, keys)
        else:
            target.write(_opened(_whole(source), passphrase))
    except OSError as error:
        if error.errno is not None:
            raise  # the disk's, not the file's
        raise _damaged() from None
    except _age.DecryptError as error:
        raise _refused(str(error)) from None


def _opened(sealed: bytes, passphrase: str) -> bytes:
    """The library measures what this machine can do in a second, and a busy one seems slow for a moment."""
    for attempt in range(_MEASURED):
        try:
            return _age.passphrase.decrypt(sealed, passphrase)
        except _age.DecryptError as error:
            if not str(error).startswith(_TOO_SLOW) or attempt + 1 == _MEASURED:
                raise
    raise AssertionError  # the last turn returns or raises


def _whole(source: BinaryIO) -> bytes:
    data = source.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InvalidError(
            "The file is too large for a passphrase.",
            reason="too_large",
            hint=f"Seal what has more than {MOST_BYTES >> 20} MiB to a key (age1…).",
        )
    return data


def _recipient(text: str, place: int) -> Any:
    try:
        return _age.x25519.Recipient.from_str(text.strip())
    except _age.RecipientError:
        raise invalid([Fault(f"/encrypt_to/{place}", "bad_recipient", "an age recipient (age1…)")]) from None


def _identity(text: str) -> Any:
    try:
        return _age.x25519.Identity.from_str(text.strip())
    except _age.IdentityError:
        raise InvalidError(
            "A key is no age key.", reason="bad_identity", hint="It begins with AGE-SECRET-KEY-1."
        ) from None


def _refused(message: str) -> InvalidError:
    """What the library says in words, as one of our reasons."""
    if message in ("No matching keys found", "Decryption failed"):
        return InvalidError(
            "No key or passphrase that was given opens the file.",
            reason="wrong_key",
            hint="Give the key of one of its recipients, or the passphrase.",
        )
    if message.startswith(_TOO_SLOW):
        return InvalidError("The passphrase of this file takes too long to try.", reason="too_large")
    return _damaged()


def _damaged() -> InvalidError:
    return InvalidError(
        "The sealed file was altered or cut short.", reason="bad_file", hint="Check that it came over whole."
    )
