"""Where Quipu's own API begins, and which of its addresses are special. Nothing here needs an HTTP library."""

from __future__ import annotations

PREFIX = "/quipu/v1"
#: Where memorywire's binding begins (contract 3); a client speaks both.
MEMORYWIRE = "/memorywire/v0"
#: Take as long as they take.
STREAMING = frozenset(
    PREFIX + path
    for path in ("/export", "/import", "/verify", "/vacuum", "/reembed", "/backup", "/journal/export")
)
#: Take a body of any length, line by line.
UNBOUNDED = frozenset({f"{PREFIX}/import"})
