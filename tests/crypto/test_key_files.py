"""Where it cannot even be told whether a key is there: an error with a code, and no key is made beside another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quipu.crypto import keys
from quipu.crypto.kept import KeptSealer, KeptSigner
from quipu.errors import BackendUnavailableError


@pytest.mark.parametrize(
    "look",
    [
        lambda path: KeptSigner(path).known_keys,
        lambda path: KeptSigner(path).sign(b"x"),
        lambda path: KeptSealer(path).seal(b"x", b"y"),
        keys.opened,
    ],
    ids=["known keys", "sign", "seal", "opened"],
)
def test_a_place_that_cannot_be_looked_at_is_told_by_its_code(
    tmp_path: Path, look: Callable[[Path], object]
) -> None:
    # The system says so of a directory that may not be entered, too; but not to who may enter every one.
    path = tmp_path / ("k" * 300)
    with pytest.raises(BackendUnavailableError) as refused:
        look(path)
    assert refused.value.reason == "bad_key"
    assert list(tmp_path.iterdir()) == []
