"""What search needs of the ledger."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from quipu.ledger.index import Known, News, Owner, VersionKey
from quipu.model.record import Record
from quipu.model.value import JsonObject


class Source(Protocol):
    """One tenant of a ledger at one moment. It is asked, and answers, on a worker thread."""

    def news(self, owner: Owner, known: Known) -> News | None:
        """What is new since then; None when `known` is exactly this moment.

        Two readers may have different moments. One that is behind `known` says so by an earlier position in
        `News.known`; what it must not do is answer None, or it would be asked for versions that it does not have.
        """
        ...

    def metadata(self, keys: Sequence[VersionKey]) -> Iterator[JsonObject]:
        """The metadata of these versions, in this order."""
        ...

    def versions_of(self, keys: Sequence[VersionKey]) -> Iterator[Record]:
        """These versions whole, in this order."""
        ...

    def links(self, ids: Sequence[str], seq: int) -> dict[str, set[str]]:
        """What each record was linked with at a position, both ways."""
        ...
