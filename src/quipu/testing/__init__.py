"""Fakes and scenarios for testing what is built on Quipu, and Quipu itself."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quipu.testing.backend import BackendContract

__all__ = ["BackendContract"]


def __getattr__(name: str) -> Any:
    """The contract needs pytest, which nothing else here does."""
    if name != "BackendContract":
        raise AttributeError(name)
    from quipu.testing.backend import BackendContract

    return BackendContract
