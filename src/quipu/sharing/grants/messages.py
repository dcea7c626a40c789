"""What the operations of grants take and give."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from quipu.fields import WHOLE, Cursor, DaysFromOne, Filter, Moment, Name, Redact, WriteFilter, fault
from quipu.operation import Request, Response
from quipu.sharing.grants.filters import Kinds, Words
from quipu.sharing.grants.profiles import ITEM_PROFILE
from quipu.sharing.grants.terms import Did, LawfulBasis, Level, MostItems, Profile, Purpose
from quipu.sharing.model import GrantStatus, ReceiptType

#: Signed text that is read and never kept as it is.
_SIGNED = Annotated[str, Field(min_length=1, max_length=32_768), Redact.NONE]


# -- sharing ------------------------------------------------------------------------------------------------------


class ShareRequest(Request):
    """Let another agent read a part of your memory, from now until you take it back.

    Choose by label, kind, subject, or all. What is shared is shown as far as the level says: below 4, addresses, numbers
    and the names of your contacts are masked; other names and postal addresses are not recognised. `dry_run` shows what
    the other side would see, and shares nothing.
    """

    grantee: Did = Field(
        description="Who may read: their DID, as `quipu did` prints it for them. A did:key has no address: who is known by "
        "one learns of an erasure with the answer to their next query."
    )
    purpose: Purpose = Field(description="What for. They are told, and it stands in every receipt.")
    label: Words | None = Field(default=None, description="Only memories with one of these tags.")
    kind: Kinds | None = Field(
        default=None,
        description="Only these kinds: fact, preference, conversation_turn, summary, observation, document_reference.",
    )
    subject: Words | None = Field(
        default=None, description="Only memories about one of these entities, by id."
    )
    all: bool = Field(default=False, description="Everything of the scope.")
    filter: WriteFilter | None = Field(
        default=None,
        description="Further conditions as OAP has them: captured_after, captured_before, labels_all, labels_none, "
        "min_confidence.",
    )
    scope_id: Name = Field(default="personal", description="Which part of the memory.")
    level: Level = Field(
        default=1, description="How much of each item, from 0 (that it is there) to 4 (all of it, as it is)."
    )
    profile: Profile = Field(default=ITEM_PROFILE, description="What each level shows of entities.")
    days: Annotated[DaysFromOne, Field(le=180)] = Field(default=30, description="How long, at most 180 days.")
    expires_at: Moment | None = Field(default=None, description="When it ends, instead of days.")
    max_items: MostItems = Field(default=500, description="How many different items may ever be shown.")
    embeddings: bool = Field(default=False, description="Whether vectors may be read too.")
    export: bool = Field(default=False, description="Whether all of it may be exported as a file.")
    bearer: bool = Field(
        default=False,
        description="Whether whoever holds a token may use it. Otherwise each request is proven with the grantee's key.",
    )
    lawful_basis: LawfulBasis = Field(default="consent", description="On what ground (GDPR article 6).")
    purpose_code: Name | None = Field(default=None, description="A code for the purpose, for programs.")
    dry_run: bool = Field(default=False, description="Only show what they would see.")

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        if not (self.label or self.kind or self.subject or self.all or self.filter):
            raise fault("missing_field", "/label", "label, kind, subject or filter; or all for everything")
        return self


class SharedView(Response):
    """An item as the grantee sees it."""

    item_id: str = Field(description="Its id on the wire.")
    kind: str = Field(description="What kind of memory it is.")
    text: str | None = Field(default=None, description="What is shown of its text.")
    item: dict[str, Any] = Field(description="All that is shown of it.")


class ShareResponse(Response):
    """A grant, and what it shows now."""

    grant_id: str = Field(description="Its id.")
    status: GrantStatus | None = Field(default=None, description="None: it was only tried.")
    link: str | None = Field(
        default=None, description="What to send to the grantee. It is worth nothing to anybody else."
    )
    expires_at: int = Field(description="When it ends.")
    covered: int = Field(description="How many memories it covers now.")
    items: tuple[SharedView, ...] = Field(description="The newest of them, as the grantee sees them.")
    grant: dict[str, Any] = Field(description="The grant as it is signed.")
    endpoints: dict[str, str] = Field(
        default_factory=dict[str, str], description="Where it is used, ended and asked about."
    )
    warnings: tuple[str, ...] = Field(default=(), description="What else to know.")


class RegisterGrantRequest(Request):
    """Register a grant that its owner has signed elsewhere. The signature is the proof; nothing else is asked for."""

    grant: WriteFilter = Field(description="The grant as it was signed.")


class RegisterGrantResponse(Response):
    """A registered grant."""

    grant_id: str = Field(description="Its id.")
    status: GrantStatus = Field(description="What it is worth now.")
    grant: dict[str, Any] = Field(description="As it was signed.")
    endpoints: dict[str, str] = Field(description="Where it is used, ended and asked about.")


# -- looking and taking back --------------------------------------------------------------------------------------


class ListGrantsRequest(Request):
    """List what you share, with whom, and what it is worth now. Newest first."""

    status: GrantStatus | None = Field(default=None, description="Only those that are worth this now.")
    limit: Annotated[int, Field(ge=1, le=1000), WHOLE] = Field(default=100, description="Grants at most.")
    cursor: Cursor | None = Field(default=None, description="Where the last page ended.")


class GrantView(Response):
    """A grant, and what became of it."""

    id: str = Field(description="Its id.")
    grantee: str = Field(description="The DID of who may read.")
    purpose: str = Field(description="What for.")
    status: GrantStatus = Field(
        description="active, expired, revoked; suspended: the key that signed it is compromised."
    )
    registered_at: int = Field(description="Since when.")
    expires_at: int = Field(description="When it ends by itself.")
    revoked_at: int | None = Field(default=None, description="When it was taken back.")
    level: int = Field(description="How much of each item it shows.")
    uses: int = Field(description="How many answers were given under it.")
    items_disclosed: int = Field(description="How many different items it has shown.")
    items_remaining: int = Field(description="How many more it may show.")
    grant: dict[str, Any] = Field(description="As it was signed.")


class ListGrantsResponse(Response):
    """What is shared."""

    grants: tuple[GrantView, ...] = Field(description="Newest first.")
    owner: str = Field(description="Your DID, in whose name they are given.")
    host: str = Field(description="The DID of this server.")
    next_cursor: str | None = Field(default=None, description="Where the next page begins; none: the last.")


class GetGrantRequest(Request):
    """Show a grant: what it says, what it is worth, and what it has shown."""

    id: Name = Field(description="The grant's id.")


class ShownView(Response):
    """An item that a grant has shown."""

    item_id: str = Field(description="Its id on the wire.")
    record_id: str = Field(description="The memory.")
    at: int = Field(description="When first.")


class GetGrantResponse(Response):
    """A grant with what it has shown."""

    grant: GrantView = Field(description="The grant.")
    link: str | None = Field(default=None, description="What the grantee uses.")
    shown: tuple[ShownView, ...] = Field(description="The items that it has shown, at most 1000.")


class RevokeGrantRequest(Request):
    """Take a grant back. From the next request on it shows nothing. Once more changes nothing."""

    id: Name = Field(description="The grant's id.")


class RevokeGrantResponse(Response):
    """A grant that was taken back."""

    grant_id: str = Field(description="Its id.")
    status: GrantStatus = Field(description="What it is worth now.")
    revoked_at: int = Field(description="Since when.")


class RevokeAllGrantsRequest(Request):
    """Take back every grant at once."""


class RevokeAllGrantsResponse(Response):
    """Grants that were taken back."""

    revoked: int = Field(description="How many counted until now.")


class WhoSawRequest(Request):
    """Show who outside has seen a memory, or what a grant has shown, answer by answer. Newest first."""

    id: Name = Field(description="The id of a memory.")
    grant_id: Name | None = Field(default=None, description="Only under this grant.")
    limit: Annotated[int, Field(ge=1, le=1000), WHOLE] = Field(default=100, description="Answers at most.")


class Disclosure(Response):
    """An answer that showed it."""

    at: int = Field(description="When.")
    grantee: str = Field(description="The DID of who saw it.")
    grant_id: str = Field(description="Under which grant.")
    receipt_id: str = Field(description="The receipt of the answer.")
    version: int = Field(description="The version of the memory.")


class WhoSawResponse(Response):
    """Who has seen it."""

    entries: tuple[Disclosure, ...] = Field(description="Newest first.")


class ListReceiptsRequest(Request):
    """List the receipts of everything that was shared, in their chain; with verify, check the chain from its beginning."""

    after: Annotated[int, Field(ge=0, lt=2**53), WHOLE] = Field(
        default=0, description="Behind this number of the chain."
    )
    limit: Annotated[int, Field(ge=1, le=1000), WHOLE] = Field(default=100, description="Receipts at most.")
    verify: bool = Field(default=False, description="Whether to check hashes and signatures.")


class ReceiptView(Response):
    """A receipt in its place."""

    number: int = Field(description="Its place in the chain.")
    id: str = Field(description="Its id.")
    type: ReceiptType = Field(description="What it is about.")
    agent: str = Field(description="The DID of who acted.")
    grant_id: str | None = Field(default=None, description="Under which grant.")
    at: int = Field(description="When.")
    body: dict[str, Any] = Field(description="What was signed.")


class ReceiptFault(Response):
    """Something wrong with the chain."""

    number: int = Field(description="The receipt.")
    kind: str = Field(description="broken_chain or bad_signature.")


class ListReceiptsResponse(Response):
    """A stretch of the chain."""

    receipts: tuple[ReceiptView, ...] = Field(description="In their order.")
    next: int | None = Field(default=None, description="Where the next page begins; none: the last.")
    faults: tuple[ReceiptFault, ...] = Field(
        default=(), description="What is wrong with the chain, if it was checked; nothing: all is well."
    )


# -- under a grant ------------------------------------------------------------------------------------------------


class MintGrantTokenRequest(Request):
    """Make a token of a grant that whoever holds a token may use. It is good for ten minutes, and shown this once."""

    id: Name = Field(description="The grant's id.")


class ExchangeGrantRequest(Request):
    """Trade a grant for a token, by proving a key of the grantee."""

    id: Name = Field(description="The grant's id.")
    proof: _SIGNED | None = Field(
        default=None, description="A proof of a key of the grantee's (DPoP, RFC 9449)."
    )
    url: _SIGNED = Field(description="The address that was asked.")


class GrantTokenResponse(Response):
    """A token, as RFC 6749 has it."""

    access_token: str = Field(description="The token.", repr=False)
    token_type: str = Field(description="Bearer or DPoP.")
    expires_in: int = Field(description="Seconds.")
    scope: str = Field(description="What it allows.")


class QueryGrantRequest(Request):
    """Ask for what a grant shows. It is for who has a token of the grant."""

    body: Filter = Field(description="OAP's query.")


class QueryGrantResponse(Response):
    """An answer under a grant."""

    output: dict[str, Any] = Field(description="OAP's answer.")
    receipt: dict[str, Any] = Field(description="What it is on receipt by.")
    warnings: tuple[str, ...] = Field(default=(), description="What else to know.")


# -- of an item that was shown ------------------------------------------------------------------------------------


class ReadItemLogRequest(Request):
    """Show the log of an item that was shared: what it was by then, version by version, as hashes. It outlives the item."""

    id: Name = Field(description="The id of the memory, or the one that others know.")


class ReadSharedLogRequest(Request):
    """Show the log of an item that a grant has shown. It is for who has a token of the grant."""

    id: Name = Field(description="The item's id.")


class ReadItemLogResponse(Response):
    """A log."""

    entries: tuple[dict[str, Any], ...] = Field(description="Its entries, as OAP has them, from the first.")


class ReadSharedVectorRequest(Request):
    """Read the vector of an item that a grant has shown, of the text as it is shown. The grant must allow embeddings."""

    id: Name = Field(description="The item's id.")


class ReadSharedVectorResponse(Response):
    """A vector."""

    vector: str = Field(description="Little-endian 32-bit floats, in base64url.", repr=False)
    digest: str = Field(description="The SHA-256 of its bytes.")


# -- what went wrong ------------------------------------------------------------------------------------------------


class ReportIncidentRequest(Request):
    """Report that something went wrong. Only a hash of the report is kept, in a signed receipt."""

    body: Filter = Field(description="What happened.")


class ReportGrantIncidentRequest(Request):
    """Report to whoever shares that something went wrong. It is for who has a token of a grant."""

    body: Filter = Field(description="What happened.")


class ReportIncidentResponse(Response):
    """A report on receipt."""

    receipt_id: str = Field(description="The receipt.")
    input_salt: str = Field(description="What the receipt's hash of the report is salted with.")


class ListSharedReceiptsRequest(Request):
    """List the receipts of what was shown to a grantee, under whichever grant. It is for who has a token of one."""

    after: Name | None = Field(default=None, description="Behind this receipt.")


class ListSharedReceiptsResponse(Response):
    """Receipts that name a grantee."""

    receipts: tuple[dict[str, Any], ...] = Field(description="In their order.")
    next: str | None = Field(default=None, description="Where the next page begins; none: the last.")
