"""Rules, proposals and reviews: what is kept, and what the operations take and give."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeAlias, cast

import re2  # pyright: ignore[reportMissingTypeStubs]  it has none
from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    model_serializer,
    model_validator,
)

from quipu.errors import InvalidError
from quipu.fields import (
    WHOLE,
    Content,
    Count,
    Cursor,
    Expiry,
    JsonObject,
    Moment,
    Name,
    Names,
    Redact,
    Share,
    Tags,
    Text,
    WriteFilter,
    bad_value,
    fault,
)
from quipu.ledger.table import Table
from quipu.memory.model import MergeStrategy, Privacy, RecordView
from quipu.model.record import MemoryType, Sensitivity, Trust
from quipu.operation import Message, Request, Response, ScopedRequest
from quipu.search.filters import canonical

Effect: TypeAlias = Literal["allow", "hold", "deny"]
Origin: TypeAlias = Literal["operator", "learned", "shipped"]
#: Classes of text that rules can ask for.
TextClass: TypeAlias = Literal["pii", "secret", "instruction"]
#: What rules are about. `remember` is also about updates, batches and imports.
RuleOperation: TypeAlias = Literal["remember", "forget", "merge", "expire", "restore", "recall"]
Status: TypeAlias = Literal["pending", "approved", "rejected"]
#: Writes that can be previewed.
WriteOperation: TypeAlias = Literal["remember", "update", "forget", "merge", "expire"]

MOST_RULES = 500
#: Ids that say that no rule decided.
CALLER, DEFAULT = "caller", "default"
SHIPPED_PREFIX = "shipped-"


# -- rules --------------------------------------------------------------------------------------------------------


def _pattern(text: str) -> str:
    try:
        re2.compile(text)  # pyright: ignore[reportUnknownMemberType]  it has no stubs
    except re2.error:  # pyright: ignore[reportUnknownMemberType]  it has no stubs
        raise bad_value(
            "a regular expression that RE2 can read: no look-around, no back references"
        ) from None
    return text


def _filter(given: dict[str, Any]) -> dict[str, Any]:
    if not given:
        raise bad_value("a filter that asks for something; leave it out otherwise")
    try:
        canonical(given, plain_names="fields")
    except InvalidError as error:
        raise bad_value(error.message) from None
    return given


_Some = Annotated[tuple[Name, ...], Strict(False), Field(min_length=1, max_length=200)]
_Classes = Annotated[tuple[TextClass, ...], Strict(False), Field(min_length=1, max_length=3)]
_Operations = Annotated[tuple[RuleOperation, ...], Strict(False), Field(min_length=1, max_length=6)]
_Types = Annotated[tuple[MemoryType, ...], Strict(False), Field(min_length=1, max_length=4)]
_Whole = Annotated[int, Field(ge=0, lt=2**53), WHOLE]


class When(Message):
    """Which writes a rule is about. All conditions must hold, and of a list one is enough; without any, every write."""

    operations: _Operations | None = Field(
        default=None, description="What is asked; `remember` takes in updates, batches, imports and restores."
    )
    stores: _Some | None = Field(default=None, description="Names of memory stores.")
    shared: bool | None = Field(default=None, description="Whether the store is shared by all agents.")
    types: _Types | None = Field(default=None, description="Kinds of memory.")
    tags: _Some | None = Field(default=None, description="Labels.")
    agents: _Some | None = Field(default=None, description="Agents, as patterns such as `shop-*`.")
    users: _Some | None = Field(default=None, description="Users, as patterns.")
    sources: _Some | None = Field(default=None, description="Sources, as patterns such as `web*`.")
    principals: _Some | None = Field(default=None, description="Who writes, as patterns.")
    trust_at_most: Trust | None = Field(default=None, description="Of writers trusted no more than this.")
    sensitivity_at_least: Sensitivity | None = Field(default=None, description="At least so sensitive.")
    confidence_below: Share | None = Field(default=None, description="With less confidence.")
    content_any: _Some | None = Field(
        default=None, description="Phrases in the text, whatever their case and however they are written."
    )
    content_regex: (
        Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_pattern), Redact.REFUSE] | None
    ) = Field(default=None, description="A regular expression (RE2) that is found in the text.")
    filter: Annotated[WriteFilter, AfterValidator(_filter)] | None = Field(
        default=None, description="A filter that the memory fits."
    )
    hard_delete: bool | None = Field(default=None, description="Whether it erases for good.")
    count_above: _Whole | None = Field(default=None, description="More memories than this at once.")
    size_above: _Whole | None = Field(default=None, description="Texts of more bytes than this.")
    imported: bool | None = Field(default=None, description="Whether an import brings it.")
    new_source: bool | None = Field(
        default=None, description="Whether nothing of the agent's came from this source before."
    )
    admin: bool | None = Field(default=None, description="Whether the writer is an admin.")
    found: _Classes | None = Field(
        default=None,
        description="What the text holds: pii, secret (masked by now), instruction (to the model).",
    )
    conflicts: bool | None = Field(
        default=None, description="Whether a memory says the same already, or the opposite."
    )

    @model_serializer(mode="wrap")
    def _only_what_is_asked(self, serialized: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        """A condition that is not set asks for nothing, and is not shown."""
        return {name: value for name, value in serialized(self).items() if value is not None}


class Rule(Message):
    """One line of the policy. The first rule that matches decides."""

    id: Annotated[Name, Field(max_length=100)] = Field(description="Its name; unique among the rules.")
    when: When = Field(default=When(), description="Which writes it is about.")
    effect: Effect = Field(description="allow, hold (for a person) or deny.")
    reason: Annotated[Text, Field(min_length=1, max_length=1024)] | None = Field(
        default=None, description="Why; shown to the writer and to the reviewer."
    )
    approvals: Annotated[int, Field(ge=1, le=10), WHOLE] = Field(
        default=1, description="How many different people must approve what it holds."
    )
    expires_at: Moment | None = Field(default=None, description="It decides nothing from then on.")
    origin: Origin = Field(default="operator", description="operator, learned, or shipped with Quipu.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.approvals > 1 and self.effect != "hold":
            raise fault("bad_value", "/approvals", "1: only what is held is approved")
        return self

    def is_over(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now


#: All that is known of a recall before anything is found.
_OF_RECALLS = frozenset({"operations", "agents", "principals", "admin"})


def _own_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Rules that somebody wrote: none that ships, no id twice, and none about recalls that could never hold."""
    seen: set[str] = set()
    for place, rule in enumerate(rules):
        if rule.id in (CALLER, DEFAULT) or rule.id.startswith(SHIPPED_PREFIX):
            raise fault(
                "bad_value", f"/{place}/id", f"a name other than {CALLER}, {DEFAULT} and {SHIPPED_PREFIX}…"
            )
        if rule.id in seen:
            raise fault("bad_value", f"/{place}/id", "a name of its own: two rules have this one")
        if rule.origin == "shipped":
            raise fault(
                "bad_value", f"/{place}/origin", "operator or learned: what ships is not written down"
            )
        seen.add(rule.id)
        if "recall" in (rule.when.operations or ()):
            never = sorted(rule.when.model_fields_set - _OF_RECALLS)
            if never:
                raise fault(
                    "bad_value",
                    f"/{place}/when/{never[0]}",
                    "only agents, principals and admin: a recall is judged before anything is found; give recalls a"
                    " rule of their own",
                )
    return rules


OwnRules = Annotated[
    tuple[Rule, ...], Strict(False), Field(max_length=MOST_RULES), AfterValidator(_own_rules)
]


class RuleDocument(Request):
    """Rules as a file holds them."""

    rules: OwnRules = Field(description="In order; the first that matches decides.")


# -- what is kept -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleList:
    """A tenant's own rules, as JSON."""

    id: str = "own"
    rules: tuple[Any, ...]
    set_at: int
    set_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A write that waits for a person, or that was decided."""

    id: str
    operation: str
    agent_id: str
    user_id: str | None = None
    #: The store that it concerns, where it is one.
    store_id: str | None = None
    #: The memory that it would make or change, where it is one.
    record_id: str | None = None
    #: What was asked, without secrets; gone once it is decided, or what it speaks of is erased.
    request: Mapping[str, Any] | None
    writer: str
    writer_token: str | None = None
    held_by: tuple[str, ...]
    status: str = "pending"
    created_at: int
    lapses_at: int | None = None
    #: Who decided; `withdrawn`, `lapsed` and `erased` where nobody did.
    reviewer: str | None = None
    reviewed_at: int | None = None
    reason: str | None = None
    #: How many different people must approve, and who has: reviewer, at, etag.
    approvals: int = 1
    given: tuple[Any, ...] = ()
    because: str | None = None
    #: What entity tags of its diff are salted with.
    nonce: str | None = None
    #: What it is like, without its text: kind and source, whose and where, how far its author reached.
    traits: Mapping[str, Any]
    #: The entry that held it.
    held_seq: int = 0

    def __post_init__(self) -> None:
        if self.traits is None:  # pyright: ignore[reportUnnecessaryComparison]  an erasure empties the column
            object.__setattr__(self, "traits", {})

    @property
    def is_pending(self) -> bool:
        return self.status == "pending"

    @property
    def reasoning(self) -> str | None:
        """Why the writer asks."""
        return None if self.request is None else self.request.get("reasoning")

    @property
    def reviewed_by_somebody(self) -> bool:
        """Whether a person decided; else it was taken back, given up, or its memory was erased."""
        return self.reviewer not in (None, "withdrawn", "lapsed", "erased")

    def listed(self, trait: str) -> Sequence[Any]:
        """A trait that is a list."""
        value = self.traits.get(trait)
        return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()

    def has_lapsed(self, now: int) -> bool:
        return self.lapses_at is not None and self.lapses_at <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalSubject:
    """A memory that a proposal would make, change or take away, or would make something out of."""

    record_id: str
    proposal_id: str
    #: Its version when the proposal was made; 0: it is to be made.
    version: int


RULE_LISTS = Table("rule_list", RuleList, key=("id",), guards=True)
PROPOSALS = Table(
    "proposal",
    Proposal,
    key=("id",),
    names=("record_id",),
    erasable=("request", "because", "reason", "nonce", "traits"),
    stamps="held_seq",
)
PROPOSAL_SUBJECTS = Table(
    "proposal_subject", ProposalSubject, key=("record_id", "proposal_id"), names=("record_id",)
)


# -- proposals as they are shown ----------------------------------------------------------------------------------


class Approval(Response):
    """A yes that waits for others."""

    reviewer: str = Field(description="Who gave it.")
    at: int = Field(description="Milliseconds since 1970.")


class ProposalView(Response):
    """A held write."""

    id: str = Field(description="Its id.")
    operation: str = Field(description="What was asked: remember, forget, merge and so on.")
    agent_id: str = Field(description="Whose memory.")
    user_id: str | None = Field(default=None, description="The person it is about.")
    record_id: str | None = Field(default=None, description="The memory that it would make or change.")
    request: dict[str, Any] | None = Field(
        default=None, description="What was asked, without secrets; gone once it is decided."
    )
    reasoning: str | None = Field(default=None, description="Why the writer asks.")
    status: Status = Field(description="pending, approved or rejected.")
    held_by: tuple[str, ...] = Field(description="The rules that held it; `caller`: the writer asked for it.")
    because: str | None = Field(default=None, description="Why they hold it.")
    writer: str = Field(description="Who wrote it.")
    created_at: int = Field(description="When it was held; milliseconds since 1970.")
    lapses_at: int | None = Field(default=None, description="When it is given up; milliseconds since 1970.")
    approvals: int = Field(description="How many different people must approve.")
    given: tuple[Approval, ...] = Field(default=(), description="Who has approved so far.")
    reviewer: str | None = Field(
        default=None, description="Who decided; withdrawn, lapsed or erased where nobody did."
    )
    reviewed_at: int | None = Field(default=None, description="When; milliseconds since 1970.")
    reason: str | None = Field(default=None, description="Why it was decided so.")


class Piece(Response):
    """A stretch of text that stayed, came or went."""

    kind: Literal["same", "new", "gone", "skipped"] = Field(
        description="What became of it; `skipped` stands for a long stretch that stayed."
    )
    text: str = Field(description="The text.")


class Modified(Response):
    """A memory that would change: the fields that differ."""

    id: str = Field(description="The memory.")
    before: dict[str, Any] = Field(description="As they are.")
    after: dict[str, Any] = Field(description="As they would be.")
    words: tuple[Piece, ...] | None = Field(
        default=None, description="The text word by word, where it changes and is not too long."
    )


class Related(Response):
    """A memory that the new text resembles."""

    id: str = Field(description="The memory.")
    content: str = Field(description="Its text.")
    similarity: float = Field(description="How near it is, 0 to 1.")
    kind: Literal["duplicate", "conflict", "similar"] = Field(
        description="A guess: it says the same, the opposite, or something like it."
    )


class Diff(Response):
    """What an approval would change. Lists of more than a hundred are cut, and `counts` says how many there are."""

    added: tuple[dict[str, Any], ...] = Field(default=(), description="Memories that would come.")
    removed: tuple[dict[str, Any], ...] = Field(default=(), description="Memories that would go.")
    modified: tuple[Modified, ...] = Field(default=(), description="Memories that would change.")
    related: tuple[Related, ...] = Field(default=(), description="Memories that the new text resembles.")
    stays: tuple[dict[str, Any], ...] = Field(
        default=(), description="What others are merged into, where it stays as it is."
    )
    counts: dict[str, int] = Field(default={}, description="How many there are of a list that was cut.")


class Review(ProposalView):
    """A held write as a reviewer sees it."""

    diff: Diff | None = Field(default=None, description="What an approval would change now.")
    etag: str | None = Field(
        default=None, description="Names this diff: a decision that brings it is refused when it has changed."
    )
    problem: str | None = Field(default=None, description="Why it cannot be carried out as things stand.")


# -- requests and answers -----------------------------------------------------------------------------------------


class ListReviewsRequest(Request):
    """List what waits for a person, and what was decided."""

    status: Literal["pending", "approved", "rejected", "all"] = Field(
        default="pending", description="pending, approved, rejected, or all."
    )
    agent_id: Name | None = Field(default=None, description="Only of this agent.")
    operation: Name | None = Field(default=None, description="Only such writes.")
    writer: Name | None = Field(default=None, description="Only what this credential wrote.")
    rule: Name | None = Field(default=None, description="Only what this rule held.")
    import_id: Name | None = Field(default=None, description="Only what this import brought.")
    cursor: Cursor | None = Field(default=None, description="next_cursor of the page before.")
    limit: Count = Field(default=50, description="At most so many.")
    newest_first: bool = Field(default=False, description="The newest first instead of the oldest.")


class ListReviewsResponse(Response):
    """One page of held writes."""

    reviews: tuple[ProposalView, ...] = Field(description="Oldest first, unless asked otherwise.")
    next_cursor: str | None = Field(default=None, description="Give it as cursor to go on; none at the end.")


class ReviewRequest(Request):
    """Show a held write, and what an approval would change now."""

    id: Name = Field(description="Which one.")
    related: bool = Field(default=True, description="Also memories that the new text resembles.")


class Edit(Message):
    """What a reviewer changes before approving; what is left out stays as it was proposed."""

    content: Content | JsonObject | None = Field(default=None, description="The text.")
    type: MemoryType | None = Field(default=None, description="What kind of memory.")
    metadata: JsonObject | None = Field(default=None, description="Anything else, as JSON.")
    tags: Tags | None = Field(default=None, description="Labels.")
    confidence: Share | None = Field(default=None, description="How sure, 0 to 1.")
    expires_at: Expiry | None = Field(default=None, description="Unseen from then on.")
    privacy_intent: Privacy | None = Field(default=None, description="How long, for whom, how carefully.")


class MergeInto(Message):
    """A memory that the new one goes into, instead of standing beside it."""

    canonical: Name = Field(description="The memory that stays: its id, or its metadata.entity_name.")
    strategy: MergeStrategy = Field(
        default="keep_canonical",
        description="What the text becomes: keep_canonical, merge_content (joined), or keep_highest_confidence.",
    )


class DecideRequest(Request):
    """Approve or reject a held write.

    Approved, it is carried out at once, under who wrote it. Nobody approves what they wrote themselves.
    """

    id: Name = Field(description="Which one.")
    approved: bool = Field(description="True: carry it out; false: drop it.")
    reason: Text | None = Field(default=None, description="Why; the writer sees it.")
    etag: Annotated[str, Field(min_length=1, max_length=128), Redact.NONE] | None = Field(
        default=None, description="The etag of the review that was looked at."
    )
    edit: Edit | None = Field(default=None, description="Approve it with these changes.")
    merge_into: MergeInto | None = Field(default=None, description="Approve it as part of another memory.")
    supersedes: Names = Field(default=(), description="Approve it, and forget these memories with it.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.approved and self.does_more:
            raise fault("bad_value", "/approved", "true with edit, merge_into or supersedes")
        return self

    @property
    def does_more(self) -> bool:
        """Whether more happens than was proposed."""
        return self.edit is not None or self.merge_into is not None or bool(self.supersedes)


class DecideResponse(Response):
    """What was decided."""

    approved: bool = Field(description="Whether it was approved.")
    reviewer: str = Field(description="Who decided: the credential that was shown.")
    reviewed_at: int = Field(description="When; milliseconds since 1970.")
    reason: str | None = Field(default=None, description="Why.")
    approvals_left: int = Field(
        default=0, description="How many more people must approve before it is carried out."
    )

    @property
    def is_held(self) -> bool:
        return self.approvals_left > 0


class PreviewWriteRequest(Request):
    """Say whether a write would be held, and what it would change; nothing is written and nothing waits."""

    operation: WriteOperation = Field(description="Which write.")
    request: JsonObject = Field(description="The request of that write.")


class PreviewWriteResponse(Response):
    """What would become of a write."""

    would_hold: bool = Field(description="Whether a person would have to approve it.")
    held_by: tuple[str, ...] = Field(default=(), description="The rules that would hold it.")
    because: str | None = Field(default=None, description="Why they would.")
    approvals: int = Field(default=1, description="How many different people would have to approve.")
    diff: Diff = Field(description="What it would change.")
    etag: str = Field(description="Names this diff; a decision on the held write may bring it.")


class WithdrawProposalRequest(Request):
    """Take back a write that waits, which you wrote."""

    id: Name = Field(description="Which one.")


class WithdrawProposalResponse(Response):
    """What was taken back."""

    id: str = Field(description="Its id.")


class GetRulesRequest(Request):
    """Show the rules that decide on writes."""


class RulesResponse(Response):
    """The rules in force, in their order: those of the file, the tenant's own, those that ship."""

    rules: tuple[Rule, ...] = Field(description="The tenant's own, which `set_rules` replaces.")
    of_file: tuple[Rule, ...] = Field(default=(), description="Those of the server's file; they come first.")
    shipped: tuple[Rule, ...] = Field(default=(), description="Those that ship; they come last.")
    default: Effect = Field(description="What becomes of a write that no rule is about.")
    etag: str = Field(description="Names the tenant's own rules; give it as if_match.")
    file_broken_since: int | None = Field(
        default=None, description="Since when the file cannot be read, and its last good rules stay in force."
    )


class SetRulesRequest(RuleDocument):
    """Replace the tenant's own rules. They hold for every write that is committed from then on."""

    if_match: Annotated[str, Field(min_length=1, max_length=64), Redact.NONE] | None = Field(
        default=None, description="Only if these are the rules that are replaced."
    )


class TestRulesRequest(Request):
    """Say what rules would do with the last writes and with what waits; nothing changes."""

    rules: OwnRules | None = Field(
        default=None, description="In place of the tenant's own; left out, those in force."
    )
    last: Annotated[int, Field(ge=1, le=10_000), WHOLE] = Field(default=1000, description="So many writes.")


class TestedWrite(Response):
    """What rules say of a write."""

    seq: int | None = Field(default=None, description="The journal position of a past write.")
    proposal_id: str | None = Field(default=None, description="The id of one that waits.")
    at: int = Field(description="When it was written or held; milliseconds since 1970.")
    operation: str = Field(description="What was asked.")
    agent_id: str | None = Field(default=None, description="Whose memory.")
    writer: str = Field(description="Who wrote it.")
    effect: Effect = Field(description="What would become of it.")
    rule: str = Field(description="The rule that decides; `default` where none is about it.")


class TestRulesResponse(Response):
    """What the rules would do."""

    replayed: tuple[TestedWrite, ...] = Field(description="The last writes, newest first.")
    pending: tuple[TestedWrite, ...] = Field(description="What waits, oldest first.")


# -- what is kept -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismissal:
    """A suggested rule that nobody wants."""

    id: str
    at: int
    reviewer: str


DISMISSALS = Table("dismissal", Dismissal, key=("id",))


# -- learned rules ------------------------------------------------------------------------------------------------


class SuggestedRule(Response):
    """A rule that decisions speak for. It does nothing before somebody accepts it."""

    id: str = Field(description="Its id.")
    rule: Rule = Field(description="The rule as it would be added; it ends by itself after 90 days.")
    decisions: int = Field(
        description="How many held writes of this kind were decided this way; none the other way."
    )
    deciders: tuple[str, ...] = Field(description="Who decided them.")
    evidence: tuple[str, ...] = Field(description="Their proposals, newest first, at most twenty.")
    first_at: int = Field(description="When the first of them was decided; milliseconds since 1970.")
    last_at: int = Field(description="When the last of them was decided; milliseconds since 1970.")


class SuggestedRulesRequest(Request):
    """List rules that decisions of the last 90 days speak for: five alike, decided alike, and none the other way.

    Nothing is learned from what is secret, erases, or was held for its words; nor from who decided on their own write.
    """


class SuggestedRulesResponse(Response):
    """Suggested rules."""

    suggestions: tuple[SuggestedRule, ...] = Field(description="The best supported first.")


class AnswerSuggestedRuleRequest(Request):
    """Add a suggested rule to the tenant's own, or never see it again.

    It is put just before the first rule that held the writes it was learned from.
    """

    id: Name = Field(description="The suggestion's id.")
    accept: bool = Field(description="True: add the rule; false: do not suggest it again.")


# -- memories -----------------------------------------------------------------------------------------------------

SuggestionKind: TypeAlias = Literal["duplicate", "contradiction", "stale"]


class Suggestion(Response):
    """Memories that belong together or may go, and the write that would mend it."""

    kind: SuggestionKind = Field(
        description="duplicate: two say the same; contradiction: two say the opposite; stale: one is not used."
    )
    memories: tuple[RecordView, ...] = Field(description="The memories; of two, the first stays.")
    similarity: float | None = Field(default=None, description="How near two are, 0 to 1.")
    because: str = Field(description="Why it is suggested.")
    operation: Literal["merge", "forget"] = Field(description="The write that would mend it.")
    request: dict[str, Any] = Field(
        description="Its request. It asks for approval, and what goes can be brought back."
    )


class SuggestionsRequest(ScopedRequest):
    """Look for duplicates, contradictions and memories that nobody uses, a stretch of the memories at a time.

    Nothing happens by itself: each comes with the write that would mend it.
    """

    kind: SuggestionKind | None = Field(default=None, description="Only of this kind.")
    cursor: Cursor | None = Field(default=None, description="next_cursor of the page before.")
    limit: Annotated[int, Field(ge=1, le=100), WHOLE] = Field(default=20, description="At most so many.")


class SuggestionsResponse(Response):
    """What was found in one stretch. A page may be empty and yet have another behind it."""

    suggestions: tuple[Suggestion, ...] = Field(description="Those of the newest memories first.")
    looked_at: int = Field(description="How many memories were looked at.")
    next_cursor: str | None = Field(default=None, description="Give it as cursor to go on; none at the end.")


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
TABLES: tuple[Table[Any], ...] = (
    *(RULE_LISTS, PROPOSALS, PROPOSAL_SUBJECTS, DISMISSALS),
    *(WEBHOOKS, WEBHOOK_POSITIONS),
)


# -- requests and answers -----------------------------------------------------------------------------------------


class CreateWebhookRequest(Request):
    """Tell an address of held writes and decisions from now on. The key that deliveries are signed with is shown once.

    The header Quipu-Signature of a delivery is `t=<seconds>,v1=<hex>`: a moment, and the HMAC-SHA256, under the key, of the
    moment, a full stop and the body.
    """

    url: Annotated[str, Field(min_length=1, max_length=2_000), Redact.REFUSE] = Field(
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
