"""Registered values as they are kept, and what the operations take and give."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from quipu.fields import Name, Redact
from quipu.ledger.table import Table
from quipu.operation import Request, Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A value that must never be remembered. The value itself is sealed and never shown again."""

    id: str
    #: What stands in its place.
    label: str
    #: Only kept out of what this run writes; None: out of everything.
    run_id: str | None = None
    created_at: int
    created_by: str
    sealed: bytes


SECRETS = Table("secret", Secret, key=("id",), guards=True)


class AddSecretRequest(Request):
    """Keep a value out of memory from now on. What was remembered before is not searched for it."""

    label: Name = Field(description="What stands in its place wherever it occurs.")
    value: Annotated[str, Field(min_length=1, max_length=65_536), Redact.NONE] = Field(
        description="The value; it is sealed and never shown again."
    )
    run_id: Name | None = Field(default=None, description="Only keep it out of what this run writes.")


class SecretView(Response):
    """A registered value, without the value."""

    id: str = Field(description="Its id.")
    label: str = Field(description="What stands in its place.")
    run_id: str | None = Field(default=None, description="The run it is kept out of; none: everything.")
    created_at: int = Field(description="Milliseconds since 1970.")
    created_by: str = Field(description="Who registered it.")


class ListSecretsRequest(Request):
    """List the registered values by label; never the values."""


class ListSecretsResponse(Response):
    """What is registered."""

    secrets: tuple[SecretView, ...] = Field(description="Oldest first.")


class RemoveSecretRequest(Request):
    """Let a value be remembered again."""

    id: Name = Field(description="Which one.")


class RemoveSecretResponse(Response):
    """What was removed."""

    id: str = Field(description="Its id.")
