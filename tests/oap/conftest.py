"""Every envelope that a host sends in these tests is checked against its schema on its way out (contract 13.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from quipu.faces.oap import answering
from tests.oap.schemas import check_envelope


@pytest.fixture(autouse=True, scope="session")
def checked_answers() -> Iterator[None]:
    """A host that would send something else fails, and the test with it."""
    sent = answering._sent

    def checked(body: Any, *given: Any) -> Any:
        check_envelope(body)
        return sent(body, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, "_sent", checked)
        yield
