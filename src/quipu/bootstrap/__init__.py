"""Puts one installation together. The only package that names implementations.

Names are imported when they are first used: a command needs the container, and nothing that serves.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quipu.bootstrap.container import Container, Untraced, open_container
    from quipu.bootstrap.declared import OPERATIONS, TABLES
    from quipu.bootstrap.mirrors import other_memories
    from quipu.bootstrap.places import (
        is_memory,
        open_ledger,
        sealing_key_file,
        signing_key_file,
        sqlite_path,
    )
    from quipu.bootstrap.serving import background_jobs, http_app, mcp_parts, speak_mcp

#: Where the names above are at home.
_HOMES = {
    "container": ("Container", "Untraced", "open_container"),
    "declared": ("OPERATIONS", "TABLES"),
    "mirrors": ("other_memories",),
    "places": ("is_memory", "open_ledger", "sealing_key_file", "signing_key_file", "sqlite_path"),
    "serving": ("background_jobs", "http_app", "mcp_parts", "speak_mcp"),
}
__all__ = [
    "OPERATIONS",
    "TABLES",
    "Container",
    "Untraced",
    "background_jobs",
    "http_app",
    "is_memory",
    "mcp_parts",
    "open_container",
    "open_ledger",
    "other_memories",
    "sealing_key_file",
    "signing_key_file",
    "speak_mcp",
    "sqlite_path",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"quipu.bootstrap.{module}"), name)
    raise AttributeError(name)
