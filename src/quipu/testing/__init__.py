"""For authors of ledgers, backends and stores: the suites every implementation passes, and what one needs to write tests.

`LedgerContract` and `BackendContract` need pytest and pytest-asyncio (`asyncio_mode = "auto"`); `builders`, `model`,
`strategies` and `scenarios` do not.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quipu.testing.backend import BackendContract
    from quipu.testing.ledger import LedgerContract

__all__ = ["BackendContract", "LedgerContract"]

if "pytest" in sys.modules:  # whoever plays a suite is shown both sides of what does not hold
    import pytest

    pytest.register_assert_rewrite("quipu.testing.backend", "quipu.testing.ledger")


def __getattr__(name: str) -> Any:
    """pytest is only imported by those who ask for a suite."""
    if name == "BackendContract":
        from quipu.testing.backend import BackendContract

        return BackendContract
    if name == "LedgerContract":
        from quipu.testing.ledger import LedgerContract

        return LedgerContract
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
