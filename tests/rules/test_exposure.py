"""Where a server may listen."""

from __future__ import annotations

import pytest

from quipu.errors import InvalidError
from quipu.rules.exposure import checked_exposure, is_loopback

HERE = ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "LOCALHOST"]
BEYOND = [
    "0.0.0.0",  # noqa: S104  told, not bound
    "::",
    "10.0.0.1",
    "example.org",
    "localhost.example.org",
    "",
    "127.0.0.1.example.org",
    "fe80::1",
]


@pytest.mark.parametrize("host", HERE)
def test_this_machine_needs_neither_tls_nor_a_proxy(host: str) -> None:
    assert is_loopback(host)
    for is_open in (False, True):
        checked_exposure(host, is_open=is_open, has_tls=False, is_behind_proxy=False)


@pytest.mark.parametrize("host", BEYOND)
def test_beyond_it_words_are_encrypted(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(InvalidError) as refusal:
        checked_exposure(host, is_open=False, has_tls=False, is_behind_proxy=False)
    assert refusal.value.reason == "no_tls"
    checked_exposure(host, is_open=False, has_tls=True, is_behind_proxy=False)
    checked_exposure(host, is_open=False, has_tls=False, is_behind_proxy=True)


@pytest.mark.parametrize("host", BEYOND)
def test_beyond_it_everybody_says_who_they_are(host: str) -> None:
    for has_tls in (False, True):
        with pytest.raises(InvalidError) as refusal:
            checked_exposure(host, is_open=True, has_tls=has_tls, is_behind_proxy=False)
        assert refusal.value.reason == "open_to_all"


@pytest.mark.parametrize("host", HERE)
def test_a_proxy_makes_this_machine_everybodys(host: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        checked_exposure(host, is_open=True, has_tls=True, is_behind_proxy=True)
    assert refusal.value.reason == "open_to_all"
