"""Descriptions of recovery and webhooks."""

from __future__ import annotations

from quipu.faces.rest.governing import WebhookBody
from quipu.faces.rest.openapi_parts import Operation, many
from quipu.faces.rest.schemas import ref
from quipu.model.notices import IssuedWebhook, Webhook
from quipu.model.recovery import RecoverRequest, RecoverResponse

KINDS = (RecoverRequest, RecoverResponse, Webhook, IssuedWebhook, WebhookBody)
TAGS = {
    "recovery": "Finding and undoing what a cause has done.",
    "webhooks": "Other machines that are told of held writes and decisions.",
}

OPERATIONS = (
    Operation(
        line="POST /recover",
        id="recover",
        tag="recovery",
        says="What a source, a run, an import, a token or a stretch of time did; a dry run unless it is said otherwise",
        needs="Needs `memory:review` for a dry run, `memory:admin` to apply it.",
        body=ref(RecoverRequest),
        answer=ref(RecoverResponse),
        refuses=(400, 404),
    ),
    Operation(
        line="GET /webhooks",
        id="listWebhooks",
        tag="webhooks",
        says="Where notices go, and how they are getting on",
        needs="memory:admin",
        answer=many("webhooks", Webhook),
        refuses=(),
    ),
    Operation(
        line="POST /webhooks",
        id="addWebhook",
        tag="webhooks",
        says="Tell an address from now on; the key that notices are signed with is told this once",
        needs="memory:admin",
        body=ref(WebhookBody),
        answer=ref(IssuedWebhook),
        status=201,
        refuses=(400,),
    ),
    Operation(
        line="DELETE /webhooks/{id}",
        id="removeWebhook",
        tag="webhooks",
        says="Tell it nothing more",
        needs="memory:admin",
        answer=None,
        status=204,
        refuses=(404,),
    ),
    Operation(
        line="POST /webhooks/{id}/ping",
        id="pingWebhook",
        tag="webhooks",
        says="Send a notice of nothing, to see that it arrives",
        needs="memory:admin",
        answer=None,
        status=204,
        refuses=(404, 503),
    ),
)
