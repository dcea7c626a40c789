"""What a backend sends as its signature is anybody's text: it is right, or it is none."""

from __future__ import annotations

import base64

import pytest

from quipu.rules import signed_hits


@pytest.mark.parametrize("body", [b"[" * 100_000, b"7", b"\xff", b"{}", b'{"iat": 1e400}'])
def test_a_statement_that_cannot_be_read_is_none(body: bytes) -> None:
    token = f"e30.{base64.urlsafe_b64encode(body).decode()}.x"
    asked = signed_hits.Asked(audience="a", query="q", nonce="n")
    assert not signed_hits.is_signed(
        token, asked, rank=0, id="m", text="t", now=0, verify=lambda message, signature: True
    )
