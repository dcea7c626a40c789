"""MCP's settings, handed in by bootstrap, which reads the settings. Nothing here loads the SDK."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the help of `quipu mcp` is shown without loading any of them
    from quipu.governance.decision_wait import DecisionWait
    from quipu.governance.review import Reviews
    from quipu.ledger.ledger import Ledger
    from quipu.mcp.tools import ToolSpec
    from quipu.memory.scope import Scopes
    from quipu.schemas import Operations
    from quipu.secrets.sealing import Sealing

#: Which tools a client is shown; the tools of the last two are handed in.
PROFILES = ("readonly", "default", "admin", "chatgpt", "graph", "anthropic")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """How it is shown."""

    profile: str = "default"
    #: Stands before each tool's name.
    prefix: str = ""
    #: Whether nothing can be written, whatever the credential says.
    read_only: bool = False
    #: The only memory store that is there; None: all that the credential reaches.
    store: str | None = None
    #: Whether the experimental methods `memory/…` are offered too.
    has_extension: bool = False
    #: Where people reach this server; left out, the address of the request.
    public_url: str | None = None
    #: Who issues tokens, if not this server.
    issuer: str | None = None
    #: Whether this process is the only one, so that sessions of older clients can live in it.
    keeps_sessions: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class McpParts:
    """What it works with."""

    operations: "Operations"
    ledger: "Ledger"
    scopes: "Scopes"
    #: Seals the state of a question while it is with the client, so that every server of this memory may take the answer.
    sealing: "Sealing"
    #: Decide what a person at the client was asked, and answer what was decided.
    reviews: "Reviews"
    waits: "DecisionWait"
    settings: McpSettings
    #: Told of each request that was answered: method, tool, seconds, what it failed with.
    measured: Callable[[str, str | None, float, str | None], None] | None = None
    #: Tools whose shape is another protocol's; made when the SDK is loaded.
    further_tools: "Callable[[], Sequence[ToolSpec]]" = tuple
