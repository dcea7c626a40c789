"""What a writer of files is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from quipu.jose import Signatory
from quipu.ledger.canonical import canonical
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.spool import Spool
from quipu.transfer.formats.vectors import WrittenVectors

_SAFE = 2**53 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """All that a writer needs. Whoever made the spools closes them."""

    #: Lines (`line`) of items as the owner's copy has them (`sharing.items.owners_item`), in the order of their ids.
    items: Spool
    #: What a bundle's manifest says beside counts and digests: export_id, exported_at, exporter, owner, stores …
    head: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: What else a bundle holds, by the name of its file: relations, tombstones, logs, receipts, grants.
    others: Mapping[str, Spool] = field(default_factory=dict[str, Spool])
    #: Of a bundle that is an archive.
    vectors: WrittenVectors | None = None
    #: Who signs a bundle: the owner. None: nobody does.
    by: Signatory | None = None
    #: A bundle as one stream of lines instead of an archive.
    as_lines: bool = False


def line(value: Mapping[str, Any], loss: Loss) -> bytes:
    """A value in the one way it is written. Whole numbers that other readers of JSON would round become text."""
    return canonical(_safe(value, loss))


def _safe(value: Any, loss: Loss) -> Any:
    if isinstance(value, Mapping):
        return {name: _safe(inner, loss) for name, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_safe(inner, loss) for inner in cast("Sequence[Any]", value)]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE:
        loss.mapped("a number beyond 2^53", "text")
        return str(value)
    return value
