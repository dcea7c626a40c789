"""The operations of governance, of its suggestions and of webhooks, each declared once."""

from collections.abc import Mapping

from quipu.governance import model as m
from quipu.memory import operations as memory
from quipu.model.principal import Permission
from quipu.operation import (
    FILTERED,
    NAMED,
    WHOLE,
    AnyOperation,
    Command,
    Operation,
    Tool,
    delete,
    get,
    post,
    put,
)

#: Writes that can be previewed.
PREVIEWED: Mapping[str, AnyOperation] = {
    operation.name: operation
    for operation in (memory.REMEMBER, memory.UPDATE, memory.FORGET, memory.MERGE, memory.EXPIRE)
}


def _preview_permission(request: m.PreviewWriteRequest) -> Permission | None:
    """That of the write."""
    operation = PREVIEWED[request.operation]
    needed = operation.permission
    return needed(operation.request.parse(request.request)) if callable(needed) else needed


LIST_REVIEWS = Operation(
    name="list_reviews",
    request=m.ListReviewsRequest,
    response=m.ListReviewsResponse,
    permission=Permission.REVIEW,
    limits=FILTERED,
    http=get("/v1/proposals"),
    mcp=Tool(profile="admin", is_read_only=True, is_idempotent=True),
    cli=Command(
        name="review list",
        columns=("id", "operation", "agent_id", "writer", "held_by", "status", "created_at"),
        examples=("quipu review list", "quipu review list --status rejected --newest-first"),
    ),
    repeat="safe",
)
REVIEW = Operation(
    name="review",
    request=m.ReviewRequest,
    response=m.Review,
    permission=None,  # also of who wrote it, whatever else they may
    limits=FILTERED,
    http=get("/v1/proposals/{id}"),
    mcp=Tool(profile="admin", is_read_only=True, is_idempotent=True),
    repeat="safe",
)
DECIDE = Operation(
    name="decide",
    request=m.DecideRequest,
    response=m.DecideResponse,
    permission=Permission.REVIEW,
    limits=FILTERED,
    http=post("/v1/proposals/{id}/decision"),
    span="quipu.memory.review",
)
PREVIEW_WRITE = Operation(
    name="preview_write",
    request=m.PreviewWriteRequest,
    response=m.PreviewWriteResponse,
    permission=_preview_permission,
    limits=NAMED,
    repeat="safe",
)
WITHDRAW_PROPOSAL = Operation(
    name="withdraw_proposal",
    request=m.WithdrawProposalRequest,
    response=m.WithdrawProposalResponse,
    permission=None,  # only who wrote it does
    limits=FILTERED,
    http=delete("/v1/proposals/{id}"),
)
GET_RULES = Operation(
    name="get_rules",
    request=m.GetRulesRequest,
    response=m.RulesResponse,
    permission=Permission.REVIEW,
    limits=WHOLE,
    http=get("/v1/rules"),
    mcp=Tool(profile="admin", is_read_only=True, is_idempotent=True),
    repeat="safe",
)
SET_RULES = Operation(
    name="set_rules",
    request=m.SetRulesRequest,
    response=m.RulesResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=put("/v1/rules", headers={"If-Match": "if_match"}),
    mcp=Tool(profile="admin", is_destructive=True, is_idempotent=True),
)
TEST_RULES = Operation(
    name="test_rules",
    request=m.TestRulesRequest,
    response=m.TestRulesResponse,
    permission=Permission.REVIEW,
    limits=FILTERED,
    http=post("/v1/rules/test"),
    repeat="safe",
)


SUGGESTIONS = Operation(
    name="suggestions",
    request=m.SuggestionsRequest,
    response=m.SuggestionsResponse,
    permission=Permission.REVIEW,
    limits=FILTERED,
    http=get("/v1/suggestions"),
    cli=Command(columns=("kind", "because", "operation", "request")),
    repeat="safe",
)
SUGGESTED_RULES = Operation(
    name="suggested_rules",
    request=m.SuggestedRulesRequest,
    response=m.SuggestedRulesResponse,
    permission=Permission.REVIEW,
    limits=WHOLE,
    http=get("/v1/rules/suggested"),
    cli=Command(name="rules suggested", columns=("id", "decisions", "rule")),
    repeat="safe",
)
ANSWER_SUGGESTED_RULE = Operation(
    name="answer_suggested_rule",
    request=m.AnswerSuggestedRuleRequest,
    response=m.SuggestedRulesResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/rules/suggested/{id}"),
    cli=Command(name="rules answer", arguments=("id",)),
)


CREATE_WEBHOOK = Operation(
    name="create_webhook",
    request=m.CreateWebhookRequest,
    response=m.CreateWebhookResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/webhooks"),
    cli=Command(
        name="webhook create",
        arguments=("url",),
        examples=("quipu webhook create https://hooks.example.org/quipu --events proposal.held",),
    ),
)
LIST_WEBHOOKS = Operation(
    name="list_webhooks",
    request=m.ListWebhooksRequest,
    response=m.ListWebhooksResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=get("/v1/webhooks"),
    cli=Command(name="webhook list", columns=("id", "url", "events", "agents", "error", "dropped")),
    repeat="safe",
)
DELETE_WEBHOOK = Operation(
    name="delete_webhook",
    request=m.DeleteWebhookRequest,
    response=m.DeleteWebhookResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=delete("/v1/webhooks/{id}"),
    cli=Command(says="Deleted {id}", name="webhook delete", arguments=("id",)),
)
TEST_WEBHOOK = Operation(
    name="test_webhook",
    request=m.TestWebhookRequest,
    response=m.TestWebhookResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/webhooks/{id}/test"),
    cli=Command(name="webhook test", arguments=("id",)),
)

OPERATIONS = (
    *(LIST_REVIEWS, REVIEW, DECIDE, PREVIEW_WRITE, WITHDRAW_PROPOSAL),
    *(GET_RULES, SET_RULES, TEST_RULES),
    *(SUGGESTIONS, SUGGESTED_RULES, ANSWER_SUGGESTED_RULE),
    *(CREATE_WEBHOOK, LIST_WEBHOOKS, DELETE_WEBHOOK, TEST_WEBHOOK),
)
