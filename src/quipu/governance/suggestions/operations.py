"""The operations of suggestions, each declared once."""

from quipu.governance.suggestions import model as m
from quipu.model.principal import Permission
from quipu.operation import FILTERED, WHOLE, Command, Operation, get, post

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

OPERATIONS = (SUGGESTIONS, SUGGESTED_RULES, ANSWER_SUGGESTED_RULE)
