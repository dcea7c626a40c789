"""The operations of access, each declared once."""

from quipu.access import model as m
from quipu.model.principal import Permission
from quipu.operation import SERVER, WHOLE, Command, Operation, delete, get, post


def _tokens_permission(
    request: m.CreateTokenRequest | m.ListTokensRequest | m.RevokeTokenRequest | m.RotateTokenRequest,
) -> Permission:
    return Permission.MANAGE if request.tenant is None else Permission.OPERATE


WHOAMI = Operation(
    name="whoami",
    request=m.WhoamiRequest,
    response=m.WhoamiResponse,
    permission=None,
    limits=SERVER,
    http=get("/v1/me"),
    cli=Command(examples=("quipu whoami",)),
    repeat="safe",
)
CREATE_TOKEN = Operation(
    name="create_token",
    request=m.CreateTokenRequest,
    response=m.IssuedTokenResponse,
    permission=_tokens_permission,
    limits=WHOLE,
    http=post("/v1/tokens"),
    cli=Command(
        name="token create",
        arguments=("name",),
        examples=(
            "quipu token create shop-bot --roles agent --agents shop",
            "quipu token create carla --roles reviewer --expires-at 90d",
        ),
        creates=True,
    ),
)
LIST_TOKENS = Operation(
    name="list_tokens",
    request=m.ListTokensRequest,
    response=m.ListTokensResponse,
    permission=_tokens_permission,
    limits=WHOLE,
    http=get("/v1/tokens"),
    cli=Command(
        name="token list", columns=("id", "name", "prefix", "permissions", "agents", "expires_at", "is_good")
    ),
    repeat="safe",
)
REVOKE_TOKEN = Operation(
    name="revoke_token",
    request=m.RevokeTokenRequest,
    response=m.TokenView,
    permission=_tokens_permission,
    limits=WHOLE,
    http=delete("/v1/tokens/{id}"),
    cli=Command(
        says="Ended  {name}  {id}",
        name="token revoke",
        arguments=("id",),
        examples=("quipu token revoke tok_01…",),
    ),
    repeat="safe",
)
ROTATE_TOKEN = Operation(
    name="rotate_token",
    request=m.RotateTokenRequest,
    response=m.IssuedTokenResponse,
    permission=_tokens_permission,
    limits=WHOLE,
    http=post("/v1/tokens/{id}/rotate"),
    cli=Command(
        name="token rotate", arguments=("id",), examples=("quipu token rotate tok_01… --grace-ms 3600000",)
    ),
)
CREATE_SIGNIN_LINK = Operation(
    name="create_signin_link",
    request=m.CreateSigninLinkRequest,
    response=m.SigninLinkResponse,
    permission=Permission.MANAGE,
    limits=WHOLE,
    http=post("/v1/signin-links"),
)
CREATE_TENANT = Operation(
    name="create_tenant",
    request=m.CreateTenantRequest,
    response=m.TenantView,
    permission=Permission.OPERATE,
    limits=SERVER,
    http=post("/v1/tenants"),
    cli=Command(
        says="Created the tenant {tenant}",
        name="tenant create",
        arguments=("tenant",),
        examples=("quipu tenant create acme",),
        creates=True,
    ),
)
LIST_TENANTS = Operation(
    name="list_tenants",
    request=m.ListTenantsRequest,
    response=m.ListTenantsResponse,
    permission=Permission.OPERATE,
    limits=SERVER,
    http=get("/v1/tenants"),
    cli=Command(name="tenant list", columns=("tenant", "created_at", "suspended_at")),
    repeat="safe",
)
SUSPEND_TENANT = Operation(
    name="suspend_tenant",
    request=m.SuspendTenantRequest,
    response=m.TenantView,
    permission=Permission.OPERATE,
    limits=SERVER,
    http=post("/v1/tenants/{tenant}/suspend"),
    cli=Command(says="Suspended {tenant}", name="tenant suspend", arguments=("tenant",)),
    repeat="safe",
)
RESUME_TENANT = Operation(
    name="resume_tenant",
    request=m.ResumeTenantRequest,
    response=m.TenantView,
    permission=Permission.OPERATE,
    limits=SERVER,
    http=post("/v1/tenants/{tenant}/resume"),
    cli=Command(says="Resumed {tenant}", name="tenant resume", arguments=("tenant",)),
    repeat="safe",
)

OPERATIONS = (
    WHOAMI,
    *(CREATE_TOKEN, LIST_TOKENS, REVOKE_TOKEN, ROTATE_TOKEN, CREATE_SIGNIN_LINK),
    *(CREATE_TENANT, LIST_TENANTS, SUSPEND_TENANT, RESUME_TENANT),
)
