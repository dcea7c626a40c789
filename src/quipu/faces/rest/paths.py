"""Where Quipu's own API begins, and which of its addresses are special. Nothing here needs an HTTP library."""

from __future__ import annotations

PREFIX = "/quipu/v1"
#: Where memorywire's binding begins (contract 3); a client speaks both.
MEMORYWIRE = "/memorywire/v0"
#: Take as long as they take.
STREAMING = frozenset(
    PREFIX + path
    for path in (
        "/export",
        "/import",
        "/verify",
        "/vacuum",
        "/consolidate",
        "/reembed",
        "/backup",
        "/journal/export",
        "/imports",
        "/imports/{id:path}/commit",
        "/exports",
        "/mirrors/{name:path}/verify",
        "/mirrors/{name:path}/resync",
    )
)
#: Take a body of any length, a piece at a time.
UNBOUNDED = frozenset({f"{PREFIX}/import", f"{PREFIX}/imports"})
