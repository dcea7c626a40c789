"""The operations of secrets, each declared once."""

from quipu.model.principal import Permission
from quipu.operation import WHOLE, Command, Operation, delete, get, post
from quipu.secrets import model as m

ADD_SECRET = Operation(
    name="add_secret",
    request=m.AddSecretRequest,
    response=m.SecretView,
    permission=Permission.MANAGE,
    limits=WHOLE,
    http=post("/v1/secrets"),
    cli=Command(
        says="Kept out of memory from now on: {label}  {id}",
        name="secret add",
        arguments=("label",),
        examples=("quipu secret add database-password < password.txt",),
        creates=True,
        hidden="value",
    ),
)
LIST_SECRETS = Operation(
    name="list_secrets",
    request=m.ListSecretsRequest,
    response=m.ListSecretsResponse,
    permission=Permission.MANAGE,
    limits=WHOLE,
    http=get("/v1/secrets"),
    cli=Command(name="secret list", columns=("id", "label", "run_id", "created_at")),
    repeat="safe",
)
REMOVE_SECRET = Operation(
    name="remove_secret",
    request=m.RemoveSecretRequest,
    response=m.RemoveSecretResponse,
    permission=Permission.MANAGE,
    limits=WHOLE,
    http=delete("/v1/secrets/{id}"),
    cli=Command(
        says="Let in again: {id}",
        name="secret remove",
        arguments=("id",),
        examples=("quipu secret remove sec_01…",),
    ),
)

OPERATIONS = (ADD_SECRET, LIST_SECRETS, REMOVE_SECRET)
