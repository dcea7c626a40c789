"""Sealed files: whoever has the key reads them, and nobody else; what was altered or cut is refused."""

import io
from typing import Any

import pyrage  # pyright: ignore[reportMissingTypeStubs]  the package has none of its own
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.transfer import age
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.registry import opened
from tests.requirement import requirement
from tests.transfer.formats.shelf import new_identity

KEY, RECIPIENT = new_identity()
OTHER, ALSO = new_identity()
TEXT = b"- Mara likes tea\n"
library: Any = pyrage


def sealed(*recipients: str, text: bytes = TEXT) -> bytes:
    target = io.BytesIO()
    age.seal(io.BytesIO(text), target, recipients)
    return target.getvalue()


def unsealed(data: bytes, **given_: Any) -> bytes:
    target = io.BytesIO()
    age.unseal(io.BytesIO(data), target, **given_)
    return target.getvalue()


LARGE = sealed(RECIPIENT, text=bytes(100_000))


@requirement("formats:bundle.sealed")
def test_each_recipient_opens_it_and_so_does_any_age_program() -> None:
    data = sealed(RECIPIENT, ALSO)
    assert age.is_sealed(data)
    assert TEXT not in data
    for key in (KEY, OTHER):
        assert unsealed(data, identities=[key]) == unsealed(data, identities=[OTHER, f" {key}\n"]) == TEXT
        assert library.decrypt(data, [library.x25519.Identity.from_str(key)]) == TEXT
    letters = library.encrypt(TEXT, [library.x25519.Recipient.from_str(RECIPIENT)], armored=True)
    assert age.is_sealed(letters)
    assert unsealed(letters, identities=[KEY]) == TEXT


@requirement("formats:bundle.sealed")
def test_a_passphrase_opens_it() -> None:
    target = io.BytesIO()
    age.seal_with_passphrase(io.BytesIO(TEXT), target, "correct horse")
    assert unsealed(target.getvalue(), passphrase="correct horse") == TEXT
    for wrong in ({"passphrase": "battery"}, {"identities": [KEY]}, {}):
        with pytest.raises(InvalidError) as refused:
            unsealed(target.getvalue(), **wrong)
        assert refused.value.reason == "wrong_key"
    with pytest.raises(InvalidError) as empty:
        age.seal_with_passphrase(io.BytesIO(TEXT), target, "")
    assert empty.value.reason == "bad_passphrase"


@requirement("formats:bundle.sealed")
def test_who_has_no_key_is_told_so() -> None:
    with pytest.raises(InvalidError) as refused:
        unsealed(sealed(RECIPIENT), identities=[OTHER])
    assert refused.value.reason == "wrong_key"
    for bad in ("", "age1", RECIPIENT, "AGE-SECRET-KEY-1"):
        with pytest.raises(InvalidError) as unreadable:
            unsealed(sealed(RECIPIENT), identities=[bad])
        assert unreadable.value.reason == "bad_identity"
        assert bad == "" or bad not in str(unreadable.value), "a key is not echoed"


def test_who_names_no_recipient_is_told_which_is_wrong() -> None:
    for recipients, pointer, reason in (
        ([], "/encrypt_to", "missing_field"),
        ([RECIPIENT, "age1no"], "/encrypt_to/1", "bad_recipient"),
        ([KEY], "/encrypt_to/0", "bad_recipient"),
    ):
        with pytest.raises(InvalidError) as refused:
            sealed(*recipients)
        assert [(fault.pointer, fault.reason) for fault in refused.value.faults] == [(pointer, reason)]
        assert KEY not in str(refused.value)


@requirement("formats:bundle.sealed")
@given(st.data())
def test_what_was_altered_or_cut_is_refused(data: st.DataObject) -> None:
    whole = LARGE
    at = data.draw(st.integers(0, len(whole) - 1))
    altered = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    for bad in (altered, whole[:at]):
        with pytest.raises(InvalidError) as refused:
            unsealed(bad, identities=[KEY])
        assert refused.value.reason in ("bad_file", "wrong_key")


def test_a_full_disk_is_not_the_file_s_fault() -> None:
    class Full(io.BytesIO):
        def write(self, _data: Any, /) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="space"):
        age.unseal(io.BytesIO(sealed(RECIPIENT)), Full(), identities=[KEY])


def test_a_sealed_file_is_not_taken_for_a_text() -> None:
    with pytest.raises(InvalidError) as refused:
        opened(Source(io.BytesIO(sealed(RECIPIENT))), "text")
    assert refused.value.reason == "encrypted_file"
