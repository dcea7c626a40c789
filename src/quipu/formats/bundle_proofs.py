"""What the proofs in a bundle hold: the logs of its items and the chain of receipts, each line tied to the one before it.

Who signed the receipts is not asked here: it takes the documents of the host, which a bundle does not bring.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from quipu.errors import QuipuError
from quipu.formats.signing import Canonical
from quipu.formats.values import Found
from quipu.model.outcomes import Fault
from quipu.rules import receipts


@dataclass(frozen=True, slots=True)
class Proofs:
    """How many lines there are of each, and what is wrong with them."""

    logged: int = 0
    receipts: int = 0
    faults: tuple[Fault, ...] = ()


def checked(logs: Iterator[Found], chain: Iterator[Found], head: str | None, canonical: Canonical) -> Proofs:
    """The logs of all items, one after the other, and the receipts up to where the manifest says they end."""
    faults: list[Fault] = []
    logged = _Counted(logs, faults)
    for _, lines in groupby(logged, key=lambda line: (line.get("item_id"), line.get("log"))):
        entries = (receipts.without(line, "log") for line in lines)
        faults += receipts.log_faults(entries, canonical)
    chained = _Counted(chain, faults)
    faults += receipts.chain_faults(chained, _whoever, canonical)
    if head is not None and (chained.last is None or receipts.hashed(chained.last, canonical) != head):
        faults.append(Fault(kind="broken_chain", detail="the last receipt is not the one that was named"))
    return Proofs(logged.count, chained.count, tuple(faults))


def _whoever(message: bytes, kid: str, value: str) -> bool:
    """That there is a signature is asked, not whose it is."""
    return True


class _Counted:
    """The lines that can be read; the others are faults."""

    def __init__(self, found: Iterable[Found], faults: list[Fault]) -> None:
        self._found, self._faults = found, faults
        self.count = 0
        self.last: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, line in self._found:
            self.count += 1
            if isinstance(line, QuipuError):
                self._faults.append(Fault(kind="bad_line", detail=f"line {number}: {line}"))
                continue
            self.last = line
            yield line
