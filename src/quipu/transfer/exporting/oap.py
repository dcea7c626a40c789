"""OAP's request for an export, and what it is in our words."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict

from quipu.errors import Fault
from quipu.fields import Name, Redact
from quipu.operation import Message, Request, invalid
from quipu.sharing.grants.filters import ItemFilter

#: What OAP calls the formats that are written.
FORMATS: Mapping[str, Literal["bundle", "mem0", "letta"]] = {
    "quipu-bundle-v1": "bundle",
    "mem0": "mem0",
    "letta-blocks": "letta",
}


def _or_none(value: object) -> object:
    return value or None


class Included(Message):
    """What a bundle holds beside the items, in OAP's words."""

    receipts: bool = False
    logs: bool = False
    grants: bool = False
    embeddings: bool = False
    non_exportable: bool = False

    @property
    def names(self) -> list[str]:
        return [name for name in Included.model_fields if getattr(self, name)]


class OapExport(Request):
    """OAP's request for an export."""

    format: Annotated[str, Field(max_length=64), Redact.NONE] = "quipu-bundle-v1"
    filter: Annotated[ItemFilter | None, BeforeValidator(_or_none)] = None
    include: Included = Field(default_factory=Included)
    since: Annotated[str, Field(min_length=1, max_length=64), Redact.NONE] | None = None
    encrypt_to: Annotated[tuple[Name, ...], Strict(False), Field(max_length=20)] = ()

    def as_operation(self) -> dict[str, Any]:
        """The same as `export_file` takes it."""
        if self.format not in FORMATS:
            raise invalid([Fault("/format", "unknown_format", ", ".join(FORMATS))])
        given: dict[str, Any] = {
            "format": FORMATS[self.format],
            "include": self.include.names,
            "encrypt_to": list(self.encrypt_to),
        }
        if self.filter is not None:
            given["item_filter"] = self.filter.model_dump(exclude_none=True)
        if self.since is not None:
            given["since"] = self.since
        return given
