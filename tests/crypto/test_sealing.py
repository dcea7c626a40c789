"""Sealed values: opened with their key, in their place, unaltered, and in no other case."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.crypto.kept import KeptSealer
from quipu.crypto.sealing import KeySealer
from quipu.errors import BackendUnavailableError, UnverifiableError

SEALER = KeySealer(bytes(32))


@given(st.binary(max_size=200), st.binary(max_size=40))
def test_what_is_sealed_can_be_opened_in_its_place(value: bytes, place: bytes) -> None:
    sealed = SEALER.seal(value, place)
    assert SEALER.unseal(sealed, place) == value
    assert SEALER.seal(value, place) != sealed
    if len(value) > 3:
        assert value not in sealed
    with pytest.raises(UnverifiableError):
        SEALER.unseal(sealed, place + b"x")
    with pytest.raises(UnverifiableError):
        KeySealer.fresh().unseal(sealed, place)


@given(st.integers(0, 200))
def test_every_altered_byte_is_noticed(at: int) -> None:
    sealed = bytearray(SEALER.seal(b"a value of some length", b"here"))
    sealed[at % len(sealed)] ^= 1
    with pytest.raises(UnverifiableError):
        SEALER.unseal(bytes(sealed), b"here")


@pytest.mark.parametrize("sealed", [b"", b"x", bytes(12), bytes(28)])
def test_nonsense_is_no_sealed_value(sealed: bytes) -> None:
    with pytest.raises(UnverifiableError):
        SEALER.unseal(sealed, b"here")


def test_the_key_is_made_when_first_needed_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "k"
    sealer = KeptSealer(path)
    with pytest.raises(UnverifiableError) as missing:
        sealer.unseal(bytes(40), b"x")
    assert missing.value.reason == "missing_key"
    assert not path.exists()
    sealed = sealer.seal(b"v", b"x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KeptSealer(path).unseal(sealed, b"x") == b"v"
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_key_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text("zz")
    with pytest.raises(BackendUnavailableError) as refused:
        KeptSealer(path).seal(b"v", b"x")
    assert refused.value.reason == "bad_key"


def test_a_key_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailableError) as refused:
        KeptSealer(tmp_path / "no" / "k").seal(b"v", b"x")
    assert refused.value.reason == "bad_key"
