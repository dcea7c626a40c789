"""What governance suggests: rules that decisions speak for, and writes that would mend memory."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from quipu.fields import WHOLE, Cursor, Name
from quipu.governance.model import Rule
from quipu.ledger.table import Table
from quipu.memory.model import RecordView
from quipu.operation import Request, Response, ScopedRequest

# -- what is kept -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismissal:
    """A suggested rule that nobody wants."""

    id: str
    at: int
    reviewer: str


DISMISSALS = Table("dismissal", Dismissal, key=("id",))
TABLES: tuple[Table[Any], ...] = (DISMISSALS,)


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
