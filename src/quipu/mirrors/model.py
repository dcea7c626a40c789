"""Mirrors as the ledger keeps them, and what their operations take and give.

All rows are operational: they say what is owed to other products and what may be there, and nothing of them is believed
by a reader. `outbox` is written in the transaction of the commit that it speaks of.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from pydantic import Field

from quipu.fields import Name
from quipu.ledger.table import Table
from quipu.mirrors.backend import Container
from quipu.operation import Request, Response

#: What is known of a copy. sending: on its way, perhaps there. deleted: found no more, but bytes may be left. gone:
#: nothing is left, and who shows it again is not believed.
CopyState: TypeAlias = Literal["sending", "kept", "deleted", "gone"]


# -- what is kept -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorRow:
    """A mirror of a tenant that is written to. From the moment it was added, every commit owes it something."""

    name: str
    #: Whether everything that is older than the mirror was sent; until then, down to which record.
    is_filled: bool = False
    fill_below: str | None = None
    succeeded_at: int | None = None
    #: Why the last effect failed; None: it did not.
    error: str | None = None
    #: How often it showed a text that is not the ledger's.
    drift: int = 0
    #: Who delivers to it now.
    holder: str | None = None
    held_until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """A record whose copy is to be brought to how the record stands; one row, however often it changed."""

    mirror: str
    record_id: str
    #: The last entry that changed it, and when that was.
    position: int
    at: int
    status: Literal["waiting", "given_up"] = "waiting"
    attempts: int = 0
    next_at: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow:
    """Where a record's copy is, or may be."""

    mirror: str
    record_id: str
    native_id: str | None = None
    version: int
    store_id: str
    agent_id: str
    whose: str = ""
    state: CopyState

    def container(self, tenant: str) -> Container:
        return _container(tenant, self)

    @property
    def is_current(self) -> bool:
        """Whether the mirror may still speak of it; whether it is shown is the ledger's to say."""
        return self.state in ("kept", "sending")

    def gone(self) -> "CopyRow":
        """Nothing is left; that it was somebody's goes too."""
        return replace(self, state="gone", store_id="", agent_id="", whose="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRow:
    """A container that something of ours is in, or was."""

    mirror: str
    agent_id: str
    store_id: str
    whose: str

    @classmethod
    def of(cls, mirror: str, container: Container) -> "ContainerRow":
        return cls(
            mirror=mirror,
            agent_id=container.agent_id,
            store_id=container.store_id,
            whose=whose(container.user_id),
        )

    def container(self, tenant: str) -> Container:
        return _container(tenant, self)


def whose(user_id: str | None) -> str:
    """A user as a part of a key: empty for nobody, else `=` and the name, since nobody and the empty user are two."""
    return "" if user_id is None else f"={user_id}"


def _container(tenant: str, row: CopyRow | ContainerRow) -> Container:
    user_id = row.whose[1:] if row.whose else None
    return Container(tenant=tenant, store_id=row.store_id, agent_id=row.agent_id, user_id=user_id)


MIRRORS = Table("mirror", MirrorRow, key=("name",), is_journaled=False)
OUTBOX = Table("outbox", Owed, key=("mirror", "record_id"), is_journaled=False)
COPIES = Table("mirror_copy", CopyRow, key=("mirror", "record_id"), is_journaled=False)
CONTAINERS = Table(
    "mirror_container",
    ContainerRow,
    key=("mirror", "agent_id", "store_id", "whose"),
    is_journaled=False,
)
TABLES: tuple[Table[Any], ...] = (MIRRORS, OUTBOX, COPIES, CONTAINERS)


# -- requests and answers -----------------------------------------------------------------------------------------


class ListMirrorsRequest(Request):
    """List the mirrors, and how far each is behind. No address with a credential is shown."""


class MirrorStatus(Response):
    """How a mirror stands."""

    name: str = Field(description="What answers call it.")
    place: str | None = Field(
        default=None, description="Where it is, without user, password and parameters; none: not set up here."
    )
    writes: bool = Field(description="False: it is searched, and nothing is written to it.")
    filled: bool = Field(description="Whether everything that is older than the mirror was sent to it.")
    waiting: int = Field(description="Memories that it has still to get, or to lose.")
    given_up: int = Field(
        description="Memories that were tried for a day in vain; a resync tries them again."
    )
    oldest_ms: int | None = Field(
        default=None,
        description="How long the oldest change has waited, in milliseconds; none: nothing waits.",
    )
    succeeded_at: int | None = Field(
        default=None, description="When something last arrived; milliseconds since 1970."
    )
    error: str | None = Field(default=None, description="Why the last try failed; none: it did not.")
    drift: int = Field(description="How often it showed a text that is not the ledger's.")
    breaker: Literal["closed", "open", "half_open"] | None = Field(
        default=None,
        description="open: it failed too often and is left alone for a while; none: not set up here.",
    )


class ListMirrorsResponse(Response):
    """The mirrors."""

    mirrors: tuple[MirrorStatus, ...] = Field(description="By name.")


class VerifyMirrorRequest(Request):
    """Hold a mirror against the ledger: what is missing, altered, or there though it should not be. Nothing is changed."""

    name: Name = Field(description="The mirror.")


class ResyncMirrorRequest(Request):
    """Bring a mirror to how the ledger stands: send what waits and what is missing, take away what should not be there."""

    name: Name = Field(description="The mirror.")
    dry_run: bool = Field(default=False, description="Only say what differs.")


class MirrorFault(Response):
    """One difference."""

    kind: Literal["missing", "altered", "extra"] = Field(
        description="missing; altered: another text or version; extra: forgotten, or a second copy."
    )
    record_id: str = Field(description="The memory.")
    native_id: str | None = Field(default=None, description="What the mirror calls its copy.")


class MirrorReport(Response):
    """A mirror held against the ledger."""

    name: str = Field(description="The mirror.")
    checked: int = Field(description="Memories that were compared.")
    foreign: int = Field(description="What is in its containers and is none of ours.")
    faults: tuple[MirrorFault, ...] = Field(description="The first thousand differences.")
    differing: int = Field(description="How many differences there were.")
    mended: int = Field(default=0, description="How many of them are no more.")


class DropMirrorRequest(Request):
    """Forget a mirror that is no longer set up: what it is owed, and where its copies were. What it holds stays there."""

    name: Name = Field(description="The mirror.")


class DropMirrorResponse(Response):
    """What was forgotten."""

    name: str = Field(description="The mirror.")
    copies: int = Field(description="Copies that it may still hold.")
