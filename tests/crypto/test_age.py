"""Sealed files: what another age program made is opened, and nothing that was altered."""

from __future__ import annotations

import base64
import errno
import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quipu.crypto import age
from quipu.crypto.age import Age, is_sealed, new_identity
from quipu.errors import InvalidError
from tests.requirement import requirement

#: The worked pair of the age specification: thirty-two bytes 0x42.
IDENTITY = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"
RECIPIENT = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
#: Made by the program age 1.1.1 for that recipient.
FOREIGN = base64.b64decode(
    "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSA2RnNSckVpZWU4SVNnVnNZa0d6UVNuRElVWVJmUFhxVHJJMGtxR0FoQmlNCmNXNHlh"
    "OU8waEFUbm5vbUNJZ0tVM1J3NjlCVG5oK1lsU3o4WG5UNVRqc1EKLS0tIDhSeXZCYytqbW5jWjNPbERjUHBoRHNqT2xjbGFkV2pCeHR0Y1JZ"
    "QlZSSUEKMp/vg0P5b1Rj21C7vxqFvOwJKUGzastHAP51M53iZhkZpJOEap/eOlHtWKaVT9E="
)
AGE = Age()
WORDS = "correct horse"


def sealed(data: bytes, *recipients: str) -> bytes:
    target = io.BytesIO()
    AGE.seal(io.BytesIO(data), target, recipients or (RECIPIENT,))
    return target.getvalue()


def opened(data: bytes, *identities: str, passphrase: str | None = None) -> bytes:
    target = io.BytesIO()
    AGE.open(io.BytesIO(data), target, identities=identities, passphrase=passphrase)
    return target.getvalue()


@requirement("moving:bundle.sealed")
def test_what_another_program_sealed_is_opened() -> None:
    assert is_sealed(FOREIGN)
    assert opened(FOREIGN, IDENTITY) == b"Mara likes tea\n"


@requirement("moving:bundle.sealed")
@pytest.mark.parametrize("size", [0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 3 * (64 << 10)])
def test_every_size_comes_back(size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    other, recipient = new_identity()
    assert opened(sealed(data, recipient, RECIPIENT), IDENTITY) == data
    assert opened(sealed(data, RECIPIENT, recipient), other) == data


@requirement("moving:bundle.sealed")
def test_a_passphrase_opens_what_it_sealed_and_another_does_not() -> None:
    target = io.BytesIO()
    AGE.seal_with(io.BytesIO(b"tea"), target, WORDS)
    assert opened(target.getvalue(), passphrase=WORDS) == b"tea"
    for wrong in ({"passphrase": "battery staple"}, {}):
        with pytest.raises(InvalidError) as refused:
            opened(target.getvalue(), IDENTITY, **wrong)
        assert refused.value.reason == "wrong_key"
    hard = re.sub(rb"(-> scrypt \S+) \d+\n", rb"\1 30\n", target.getvalue())
    with pytest.raises(InvalidError) as refused:
        opened(hard, passphrase=WORDS)
    assert refused.value.reason == "too_large"
    with pytest.raises(InvalidError):
        AGE.seal_with(io.BytesIO(b"tea"), target, "")


@requirement("moving:bundle.sealed")
def test_a_stranger_s_key_does_not_open_it() -> None:
    with pytest.raises(InvalidError) as refused:
        opened(FOREIGN, new_identity()[0])
    assert refused.value.reason == "wrong_key"


@requirement("moving:bundle.sealed")
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_other_byte_or_a_cut_is_found(data: st.DataObject) -> None:
    raw = bytearray(FOREIGN)
    place = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        raw = raw[:place]
    else:
        raw[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(InvalidError):
        opened(bytes(raw), IDENTITY)


@requirement("moving:bundle.sealed")
def test_a_file_of_many_pieces_cannot_be_cut_or_shuffled() -> None:
    piece = (64 << 10) + 16
    raw = sealed(b"a" * (64 << 10) + b"b" * (64 << 10) + b"c")
    start = len(raw) - 2 * piece - 17
    for wrong in (
        raw[: start + piece],
        raw[: start + 2 * piece],
        raw[:start] + raw[start + piece :],
        raw + b"x",
    ):
        with pytest.raises(InvalidError) as refused:
            opened(wrong, IDENTITY)
        assert refused.value.reason == "bad_file"


@pytest.mark.parametrize("wrong", ["", "age1", "mara", IDENTITY, RECIPIENT[:-1] + "q", "age1" + "q" * 58])
def test_what_is_no_recipient_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidError) as refused:
        sealed(b"tea", wrong)
    assert refused.value.reason == "bad_recipient"


@requirement("moving:bundle.sealed")
def test_what_does_not_fit_into_memory_is_not_sealed_with_a_passphrase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(age, "MOST_BYTES", 10)
    with pytest.raises(InvalidError) as refused:
        AGE.seal_with(io.BytesIO(b"x" * 11), io.BytesIO(), WORDS)
    assert refused.value.reason == "too_large"


def test_a_full_disk_is_not_taken_for_a_damaged_file() -> None:
    class Full(io.BytesIO):
        def write(self, data: object, /) -> int:
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        AGE.open(io.BytesIO(FOREIGN), Full(), identities=[IDENTITY])
