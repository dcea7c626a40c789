"""The operations of webhooks, each declared once."""

from quipu.governance.webhooks import model as m
from quipu.model.principal import Permission
from quipu.operation import WHOLE, Command, Operation, delete, get, post

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

OPERATIONS = (CREATE_WEBHOOK, LIST_WEBHOOKS, DELETE_WEBHOOK, TEST_WEBHOOK)
