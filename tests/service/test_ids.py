"""Ids: ULIDs that rise, spelt as everybody spells them."""

import string

from quipu.bootstrap.surroundings import Randomness, RisingIds, now_ms, random_bytes

_SIGNS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # no I, L, O, U
_TO_BASE_32 = str.maketrans(_SIGNS, (string.digits + string.ascii_uppercase)[:32])


class Ones(Randomness):
    """No chance at all."""

    def __call__(self, size: int) -> bytes:
        return b"\xff" * size


def number(minted: str) -> int:
    return int(minted.removeprefix("mem_").translate(_TO_BASE_32), 32)


def test_an_id_tells_when_it_was_minted() -> None:
    before = now_ms()
    minted = RisingIds(random_bytes)("mem")
    assert len(minted) == len("mem_") + 26
    assert before <= number(minted) >> 80 <= now_ms()


def test_every_bit_is_spelt() -> None:
    minted = RisingIds(Ones())("mem")
    assert minted.endswith("Z" * 16)
    assert number(minted) % (1 << 80) == (1 << 80) - 1


def test_ids_of_one_moment_rise() -> None:
    mint = RisingIds(random_bytes)
    minted = [mint("mem") for _ in range(5_000)]
    assert minted == sorted(set(minted))
