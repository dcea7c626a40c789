"""What the operations of upkeep take and give."""

from typing import Annotated

from pydantic import Field

from quipu.fields import DaysFromOne, Name, Redact
from quipu.operation import Request, Response

#: Where a tenant is named: every one of them.
EVERYBODY = "*"


class ReindexRequest(Request):
    """Make the search index of every tenant anew: words by today's rules, vectors by today's embedder.

    Memory can be read and written meanwhile. It may be stopped and run again: what is done is not done twice.
    """


class ReindexStep(Response):
    """How far the index of one tenant is."""

    tenant: str = Field(description="Whose index.")
    terms: int = Field(description="Versions whose words were renewed so far.")
    vectors: int = Field(description="Versions that got a vector so far.")
    done: bool = Field(description="True: this tenant is finished.")


class StatisticsRequest(Request):
    """Say how much the own tenant holds."""


class StatisticsResponse(Response):
    """What the tenant holds."""

    records: int = Field(description="Memories that stand now.")
    versions: int = Field(description="All versions of all memories, also of those that are gone.")
    vectors: int = Field(description="Vectors, one for each version that is found by meaning.")
    entries: int = Field(description="Entries of the journal.")
    bytes: int = Field(description="What they take, without what the database needs around them.")


class VacuumRequest(Request):
    """Give back the room of what is gone; with keep_history_days also empty old versions for good.

    Emptying keeps the newest version of every memory, and that there were others. Reading as of an earlier moment ends.
    """

    keep_history_days: DaysFromOne | None = Field(
        default=None,
        description="Empty versions that were replaced longer ago than this; left out, none. Needs an admin.",
    )


class VacuumResponse(Response):
    """What was given back."""

    emptied: int = Field(description="Memories of which old versions were emptied.")
    compacted: bool = Field(description="True: the room was given back to the disk as well.")


class BackupRequest(Request):
    """Copy a whole tenant into a new file, as of one moment: memories, history, journal, tokens, secrets still sealed.

    The file is a memory of its own. The key that seals secrets is not in it; keep that apart.
    """

    target: Annotated[str, Field(min_length=1, max_length=1024), Redact.REFUSE] = Field(
        description="The file to make, on the machine that has the memory; it must not be there yet."
    )
    tenant: Name | None = Field(
        default=None,
        description="Whose; none: your own, `*`: everybody's. Another than your own needs the permission server:operate.",
    )


class BackupResponse(Response):
    """The copy that was made."""

    path: str = Field(description="The file.")
    tenants: tuple[str, ...] = Field(description="Whose memory is in it.")
    bytes: int = Field(description="How large it is.")
