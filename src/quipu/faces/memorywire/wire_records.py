"""Lines of an import as requests; what `wire_shown` writes, this reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pydantic import field_validator

from quipu.faces.memorywire.wire_faults import refused
from quipu.faces.memorywire.wire_names import TierName
from quipu.faces.memorywire.wire_parts import Integer, Positive, ProvenanceBody
from quipu.faces.memorywire.wire_reading import read
from quipu.faces.memorywire.wire_remember import RememberBody
from quipu.model.operations import RememberRequest
from quipu.model.record import Provenance, State, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportLine:
    """One line of an import: a request, and what it claims about the past. Only some callers may claim."""

    request: RememberRequest
    #: Kept if it is free; never the id of a record to change.
    id: str | None = None
    created_at: int | None = None
    updated_at: int | None = None
    version: int | None = None
    tier: Tier | None = None
    state: State | None = None
    provenance: Provenance | None = None


class ImportBody(RememberBody):
    """A remember request, or a record as an export wrote it."""

    created_at: Integer | None = None
    updated_at: Integer | None = None
    version: Positive | None = None
    tier: TierName | None = None
    state: Literal["live", "archived", "forgotten"] | None = None
    provenance: ProvenanceBody | None = None

    @field_validator("update_strategy")
    @classmethod
    def _nothing_to_append_to(cls, value: str) -> str:
        if value != "overwrite":
            raise refused("bad_value", "An import adds records; it does not change any.", "overwrite")
        return value

    def to_line(self) -> ImportLine:
        return ImportLine(
            request=replace(self.to_model(), id=None),
            id=self.id,
            created_at=self.created_at,
            updated_at=self.updated_at,
            version=self.version,
            tier=None if self.tier is None else Tier(self.tier),
            state=None if self.state is None else State(self.state),
            provenance=None if self.provenance is None else self.provenance.to_model(),
        )


def import_line(data: object) -> ImportLine:
    """What one line of an import asks for."""
    return read(ImportBody, data)[0].to_line()
