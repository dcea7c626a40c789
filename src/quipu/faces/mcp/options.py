"""How MCP is shown: what holds for every transport, and what for /mcp. Apart from the SDK, which is loaded later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quipu.faces.mcp.tracing import Operated


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How it is shown."""

    version: str
    #: Stands before each tool's name.
    prefix: str = ""
    #: Seal the state of questions that are open; the first seals, all open. At least 32 bytes each.
    state_keys: Sequence[bytes] = ()
    #: Whether the experimental methods are offered too.
    extension: bool = False
    #: Is told how long each request took.
    operated: Operated | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """What the operator says about /mcp."""

    options: Options
    profile: str = "default"
    #: The agent of credentials that are for several.
    agent: str = "default"
    public_url: str = ""
    #: Where tokens come from, if not from this server.
    issuer: str = ""
    #: Names the server answers to; empty leaves that to the plumbing.
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    #: How long a request may be.
    body_bytes: int = 4 << 20
    #: The only memory store that is there; None: all that the caller may see.
    store: str | None = None
    #: Whether nothing can be written, whatever the caller's credential says.
    read_only: bool = False
