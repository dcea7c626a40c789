"""The operations of grants, each declared once. OAP's addresses call the same ones."""

from typing import TypeVar

from quipu.model.principal import Permission
from quipu.operation import (
    SERVER,
    WHOLE,
    Command,
    Operation,
    Repeat,
    Request,
    Response,
    delete,
    get,
    post,
)
from quipu.schemas import Operations
from quipu.sharing import readable
from quipu.sharing.grants import messages as m

RequestT = TypeVar("RequestT", bound=Request)
ResponseT = TypeVar("ResponseT", bound=Response)


def _for_others(
    name: str, request: type[RequestT], response: type[ResponseT], repeat: Repeat = "never"
) -> Operation[RequestT, ResponseT]:
    """Asked at OAP's addresses alone, by whoever shows a grant or a signature instead of a credential of ours."""
    return Operation(
        name=name, request=request, response=response, permission=None, limits=SERVER, repeat=repeat
    )


SHARE = Operation(
    name="share",
    request=m.ShareRequest,
    response=m.ShareResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/grants"),
    cli=Command(
        arguments=("grantee",),
        columns=("kind", "text"),
        says=readable.shared,
        examples=(
            'quipu share did:web:contractor.example --label website --purpose "Brief the contractor"',
            'quipu share did:web:contractor.example --all --purpose "Hand over" --dry-run',
        ),
    ),
)
LIST_GRANTS = Operation(
    name="list_grants",
    request=m.ListGrantsRequest,
    response=m.ListGrantsResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=get("/v1/grants"),
    cli=Command(
        name="grant list",
        columns=("id", "grantee", "purpose", "status", "expires_at", "items_disclosed", "items_remaining"),
    ),
    repeat="safe",
)
GET_GRANT = Operation(
    name="get_grant",
    request=m.GetGrantRequest,
    response=m.GetGrantResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=get("/v1/grants/{id}"),
    cli=Command(name="grant show", arguments=("id",), says=readable.grant),
    repeat="safe",
)
REVOKE_GRANT = Operation(
    name="revoke_grant",
    request=m.RevokeGrantRequest,
    response=m.RevokeGrantResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=delete("/v1/grants/{id}"),
    cli=Command(name="grant revoke", arguments=("id",), says="{grant_id} is {status}."),
    repeat="safe",
)
REVOKE_ALL_GRANTS = Operation(
    name="revoke_all_grants",
    request=m.RevokeAllGrantsRequest,
    response=m.RevokeAllGrantsResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=delete("/v1/grants"),
    cli=Command(name="grant revoke-all", says="Took back {revoked}. Nothing is shared any more."),
)
REGISTER_GRANT = _for_others("register_grant", m.RegisterGrantRequest, m.RegisterGrantResponse)
WHO_SAW = Operation(
    name="who_saw",
    request=m.WhoSawRequest,
    response=m.WhoSawResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=get("/v1/memories/{id}/disclosures"),
    cli=Command(
        name="grant seen", arguments=("id",), columns=("at", "grantee", "grant_id", "receipt_id", "version")
    ),
    repeat="safe",
)
LIST_RECEIPTS = Operation(
    name="list_receipts",
    request=m.ListReceiptsRequest,
    response=m.ListReceiptsResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=get("/v1/receipts"),
    repeat="safe",
)
MINT_GRANT_TOKEN = Operation(
    name="mint_grant_token",
    request=m.MintGrantTokenRequest,
    response=m.GrantTokenResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/grants/{id}/token"),
    cli=Command(name="grant token", arguments=("id",)),
)
EXCHANGE_GRANT = _for_others("exchange_grant", m.ExchangeGrantRequest, m.GrantTokenResponse)
QUERY_GRANT = _for_others("query_grant", m.QueryGrantRequest, m.QueryGrantResponse)
READ_ITEM_LOG = Operation(
    name="read_item_log",
    request=m.ReadItemLogRequest,
    response=m.ReadItemLogResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=get("/v1/memories/{id}/log"),
    repeat="safe",
)
READ_SHARED_LOG = _for_others("read_shared_log", m.ReadSharedLogRequest, m.ReadItemLogResponse, repeat="safe")
READ_SHARED_VECTOR = _for_others("read_shared_vector", m.ReadSharedVectorRequest, m.ReadSharedVectorResponse)
REPORT_INCIDENT = Operation(
    name="report_incident",
    request=m.ReportIncidentRequest,
    response=m.ReportIncidentResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
)
REPORT_GRANT_INCIDENT = _for_others(
    "report_grant_incident", m.ReportGrantIncidentRequest, m.ReportIncidentResponse
)
LIST_SHARED_RECEIPTS = _for_others(
    "list_shared_receipts", m.ListSharedReceiptsRequest, m.ListSharedReceiptsResponse, repeat="safe"
)

OPERATIONS: Operations = (
    *(SHARE, LIST_GRANTS, GET_GRANT, REVOKE_GRANT, REVOKE_ALL_GRANTS, REGISTER_GRANT, WHO_SAW),
    *(LIST_RECEIPTS, MINT_GRANT_TOKEN, EXCHANGE_GRANT, QUERY_GRANT),
    *(READ_ITEM_LOG, READ_SHARED_LOG, READ_SHARED_VECTOR),
    *(REPORT_INCIDENT, REPORT_GRANT_INCIDENT, LIST_SHARED_RECEIPTS),
)
