"""Puts one installation together. The only package that names implementations."""

from quipu.bootstrap.capabilities import other_memories
from quipu.bootstrap.container import Container, Untraced, open_container
from quipu.bootstrap.declared import OPERATIONS, TABLES
from quipu.bootstrap.places import is_memory, open_ledger, sealing_key_file, signing_key_file, sqlite_path
from quipu.bootstrap.serving import background_jobs, http_app, mcp_parts, speak_mcp

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
