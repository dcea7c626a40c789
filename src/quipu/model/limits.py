"""How large things may be. Settings, with the contract's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes in bytes of UTF-8 unless said otherwise."""

    content_bytes: int = 1 << 20
    metadata_bytes: int = 256 << 10
    metadata_depth: int = 32
    query_bytes: int = 32 << 10
    ids_per_call: int = 1_000
    tags: int = 64
    #: Characters.
    tag_length: int = 128
    links: int = 64
    #: Characters.
    name_length: int = 256
    #: Characters kept of a reason; the rest is cut.
    reason_length: int = 1_024
    #: Characters.
    key_length: int = 128
    batch: int = 1_000
    k: int = 1_000
    page: int = 1_000
