"""The parts that several bodies share: numbers as JSON has them, and the small objects inside requests."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from quipu.faces.memorywire.wire_faults import EMPTY_POLICY, refused
from quipu.faces.memorywire.wire_json import INTEGER_MAX, INTEGER_MIN
from quipu.faces.memorywire.wire_names import SensitivityName, TrustName, TypeName
from quipu.model.operations import Embedding, ExpirePolicy
from quipu.model.record import Link, MemoryType, PrivacyIntent, Provenance, Sensitivity, Trust


def _whole(value: object) -> object:
    """A number without a fraction is an integer: 5.0 is 5."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not INTEGER_MIN <= value <= INTEGER_MAX:
        raise refused("bad_value", "An integer beyond 64 bits cannot be kept.", "integer of 64 bits")
    return value


Integer: TypeAlias = Annotated[int, BeforeValidator(_whole)]
Natural: TypeAlias = Annotated[Integer, Field(ge=0)]
Positive: TypeAlias = Annotated[Integer, Field(ge=1)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Key: TypeAlias = Annotated[str, Field(max_length=128)]
Strings: TypeAlias = Annotated[list[str], Field(fail_fast=True)]
Tag: TypeAlias = Annotated[str, Field(min_length=1, max_length=128)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
#: Free-form. What is inside was checked when the text was parsed.
Object: TypeAlias = dict[str, Any]


class Body(BaseModel):
    """An object of the wire: closed, and nothing in it is converted."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        defer_build=True,  # at first use, so that importing is fast
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_null(cls, value: object) -> object:
        """`None` below is what an absent member is, not what a given one may be."""
        if value is None:
            raise refused("bad_value", "null is not accepted here.")
        return value


class RequestBody(Body):
    """A request. `null` for an optional field means that it is absent."""

    #: Required here, optional in v0.
    null_means_absent: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        members = cast("dict[str, object]", data)
        if None not in members.values():
            return members
        return {k: v for k, v in members.items() if v is not None or not cls._may_be_null(k)}

    @classmethod
    def _may_be_null(cls, name: str) -> bool:
        field = cls.model_fields.get(name)
        return field is not None and (not field.is_required() or name in cls.null_means_absent)


class PrivacyIntentBody(Body):
    """What the writer wants done with the memory."""

    retain: str | None = None
    share_with: Annotated[list[Name], Field(fail_fast=True)] | None = None
    consent_id: Annotated[str, Field(max_length=256)] | None = None
    user_consent_id: Annotated[str, Field(max_length=256)] | None = None
    sensitivity: SensitivityName | None = None

    @model_validator(mode="after")
    def _one_consent(self) -> PrivacyIntentBody:
        if self.consent_id is not None and self.user_consent_id is not None:
            message = "consent_id and user_consent_id are one thing; give one of them."
            raise refused("bad_value", message, "consent_id", at=("user_consent_id",))
        return self

    def to_model(self) -> PrivacyIntent:
        return PrivacyIntent(
            retain=self.retain,
            share_with=None if self.share_with is None else tuple(self.share_with),
            consent_id=self.user_consent_id if self.consent_id is None else self.consent_id,
            sensitivity=None if self.sensitivity is None else Sensitivity(self.sensitivity),
        )


class EmbeddingBody(Body):
    """A vector computed by the caller."""

    model: str
    vector: Annotated[list[float], Field(min_length=1, fail_fast=True)]

    def to_model(self) -> Embedding:
        return Embedding(self.model, tuple(self.vector))


class LinkBody(Body):
    """A typed edge to another record."""

    to: Name
    rel: Name

    def to_model(self) -> Link:
        return Link(self.to, self.rel)


class PolicyBody(Body):
    """Which records have had their time."""

    older_than_days: Positive | None = None
    type: TypeName | None = None
    confidence_below: Share | None = None
    no_recall_in_days: Positive | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> PolicyBody:
        if not self.model_fields_set:
            raise refused("empty_policy", EMPTY_POLICY, *type(self).model_fields)
        return self

    def to_model(self) -> ExpirePolicy:
        return ExpirePolicy(
            older_than_days=self.older_than_days,
            type=None if self.type is None else MemoryType(self.type),
            confidence_below=self.confidence_below,
            no_recall_in_days=self.no_recall_in_days,
        )


class ProvenanceBody(Body):
    """Where a version came from."""

    written_by: str
    trust: TrustName
    run_id: str | None = None
    node_id: str | None = None
    subject: str | None = None
    import_id: str | None = None
    captured_at: Integer | None = None
    receipt: str | None = None

    def to_model(self) -> Provenance:
        return Provenance(
            written_by=self.written_by,
            trust=Trust(self.trust),
            run_id=self.run_id,
            node_id=self.node_id,
            subject=self.subject,
            import_id=self.import_id,
            captured_at=self.captured_at,
            receipt=self.receipt,
        )
