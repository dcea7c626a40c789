"""For authors of ledgers: the suite every implementation passes, and what one needs to write tests.

`LedgerContract` needs pytest and pytest-asyncio (`asyncio_mode = "auto"`); `builders`, `model` and `strategies` do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quipu.testing.ledger import LedgerContract

__all__ = ["LedgerContract"]


def __getattr__(name: str) -> Any:
    """pytest is only imported by those who ask for the suite."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest

    pytest.register_assert_rewrite("quipu.testing.ledger")
    from quipu.testing import ledger

    return ledger.LedgerContract
