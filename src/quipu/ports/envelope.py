"""Files that only those can read for whom they were sealed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, Protocol


class Envelope(Protocol):
    """Seals files to recipients and passphrases, and opens them, a piece at a time."""

    def seal(self, source: BinaryIO, target: BinaryIO, recipients: Sequence[str]) -> None:
        """For whoever has the key of one of these; InvalidError where one is no recipient."""
        ...

    def seal_with(self, source: BinaryIO, target: BinaryIO, passphrase: str) -> None:
        """For whoever knows the passphrase."""
        ...

    def open(
        self,
        source: BinaryIO,
        target: BinaryIO,
        *,
        identities: Sequence[str] = (),
        passphrase: str | None = None,
    ) -> None:
        """Write what was sealed; InvalidError where no key fits, or the file was altered or cut short."""
        ...
