"""Webhooks as they are kept, and what their operations take and give."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, Strict

from quipu.fields import Name, Names, Redact, bad_value
from quipu.ledger.table import Table
from quipu.operation import Request, Response
from quipu.outbound import address_of

#: Events that a webhook can get.
EventType: TypeAlias = Literal["proposal.held", "proposal.approved", "proposal.rejected"]
#: Operations of journal entries, and the event that each is.
EVENTS: Mapping[str, EventType] = {
    "hold": "proposal.held",
    "approve": "proposal.approved",
    "reject": "proposal.rejected",
}


# -- what is kept -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An address that gets the events of some agents."""

    id: str
    url: str
    events: tuple[EventType, ...]
    #: Patterns of agents.
    agents: tuple[str, ...]
    #: Whether it gets the held write itself, not only its name.
    with_content: bool
    created_at: int
    created_by: str
    #: The key that deliveries are signed with.
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPosition:
    """How far along the journal a webhook has got, and which server delivers to it now."""

    id: str
    position: int
    #: How often the next event was tried, when it is due again, and what went wrong last.
    attempts: int = 0
    next_at: int = 0
    error: str | None = None
    #: Events that were given up.
    dropped: int = 0
    holder: str | None = None
    held_until: int = 0


WEBHOOKS = Table("webhook", Webhook, key=("id",))
WEBHOOK_POSITIONS = Table("webhook_position", WebhookPosition, key=("id",), is_journaled=False)
TABLES: tuple[Table[Any], ...] = (WEBHOOKS, WEBHOOK_POSITIONS)


# -- requests and answers -----------------------------------------------------------------------------------------


def _address(url: str) -> str:
    if address_of(url) is None:
        raise bad_value("https://host/path, without credentials and without a fragment")
    return url


Address = Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_address), Redact.REFUSE]


class CreateWebhookRequest(Request):
    """Tell an address of held writes and decisions from now on. The key that deliveries are signed with is shown once.

    The header Quipu-Signature of a delivery is `t=<seconds>,v1=<hex>`: a moment, and the HMAC-SHA256, under the key, of the
    moment, a full stop and the body.
    """

    url: Address = Field(
        description="Where to: https://host/path. Private networks are refused unless the server's settings name the host."
    )
    events: Annotated[tuple[EventType, ...], Strict(False), Field(min_length=1, max_length=3)] = Field(
        default=("proposal.held", "proposal.approved", "proposal.rejected"), description="What to tell it of."
    )
    agents: Annotated[Names, Field(min_length=1, max_length=64)] = Field(
        default=("*",), description="Patterns of the agents whose events it gets, such as shop-*; * is all."
    )
    with_content: bool = Field(
        default=False,
        description="Whether it gets the held write itself. Otherwise it gets its id and no word of it.",
    )


class WebhookView(Response):
    """A webhook without its key."""

    id: str = Field(description="Its id.")
    url: str = Field(description="Where deliveries go.")
    events: tuple[EventType, ...] = Field(description="Which events are sent to it.")
    agents: tuple[str, ...] = Field(description="Patterns of the agents whose events it gets.")
    with_content: bool = Field(description="Whether it gets held writes themselves.")
    created_at: int = Field(description="Milliseconds since 1970.")
    created_by: str = Field(description="Who created it.")
    position: int = Field(description="The journal position up to which events were delivered.")
    attempts: int = Field(description="How often the next event was tried.")
    next_at: int | None = Field(
        default=None, description="When the next event is tried again; none: as soon as there is one."
    )
    error: str | None = Field(default=None, description="What went wrong last; none: it arrived.")
    dropped: int = Field(description="Events that were given up after too many tries.")


class CreateWebhookResponse(Response):
    """A new webhook with its key, which is shown this once."""

    webhook: WebhookView = Field(description="The webhook.")
    key: str = Field(description="What deliveries are signed with. It cannot be shown again.", repr=False)


class ListWebhooksRequest(Request):
    """List the webhooks of the tenant, and how they are getting on."""


class ListWebhooksResponse(Response):
    """The webhooks."""

    webhooks: tuple[WebhookView, ...] = Field(description="Oldest first.")


class DeleteWebhookRequest(Request):
    """Tell an address nothing more."""

    id: Name = Field(description="The webhook's id.")


class DeleteWebhookResponse(Response):
    """What was deleted."""

    id: str = Field(description="Its id.")


class TestWebhookRequest(Request):
    """Send a webhook an event of nothing, to see that it arrives. What is wrong is said."""

    __test__ = False  # not for pytest to collect

    id: Name = Field(description="The webhook's id.")


class TestWebhookResponse(Response):
    """It arrived."""

    __test__ = False

    id: str = Field(description="The webhook's id.")
    status: int = Field(description="The HTTP status that it was answered with.")
