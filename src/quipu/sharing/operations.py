"""The operations of sharing, each declared once. OAP's addresses call the same ones."""

from quipu.model.principal import Permission
from quipu.operation import SERVER, WHOLE, Command, Operation, Tool, delete, get, post
from quipu.schemas import Operations
from quipu.sharing import messages as m
from quipu.sharing import readable

# -- who we are -------------------------------------------------------------------------------------------------------

GET_IDENTITY = Operation(
    name="get_identity",
    request=m.GetIdentityRequest,
    response=m.Identity,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=get("/v1/identity"),
    cli=Command(name="did", examples=("quipu did",), creates=True),
    repeat="safe",
)
ROTATE_KEY = Operation(
    name="rotate_key",
    request=m.RotateKeyRequest,
    response=m.RotatedKey,
    permission=lambda request: Permission.OPERATE if request.host else Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/identity/keys"),
    cli=Command(
        name="did rotate",
        says="Signs with {kid} from now on.",
        examples=("quipu did rotate", "quipu did rotate --compromised"),
    ),
)
DESCRIBE_SERVICE = Operation(
    name="describe_service",
    request=m.DescribeServiceRequest,
    response=m.ServiceDescription,
    permission=None,
    limits=SERVER,
    repeat="safe",
)

IDENTITY_OPERATIONS = (GET_IDENTITY, ROTATE_KEY, DESCRIBE_SERVICE)

# -- borrowing --------------------------------------------------------------------------------------------------------

BORROW = Operation(
    name="borrow",
    request=m.BorrowRequest,
    response=m.BorrowResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/borrowed/query"),
    mcp=Tool(profile="admin"),
)
LIST_BORROWED = Operation(
    name="list_borrowed",
    request=m.ListBorrowedRequest,
    response=m.ListBorrowedResponse,
    permission=Permission.READ,
    limits=WHOLE,
    http=get("/v1/borrowed"),
    mcp=Tool(profile="admin", is_read_only=True, is_idempotent=True),
    cli=Command(
        name="borrowed",
        columns=("item_id", "text", "source", "grant_id", "expires_at"),
        examples=("quipu borrowed",),
    ),
    repeat="safe",
)
GIVE_UP_BORROWED = Operation(
    name="give_up_borrowed",
    request=m.GiveUpBorrowedRequest,
    response=m.GiveUpBorrowedResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=delete("/v1/borrowed"),
    cli=Command(
        name="borrowed drop",
        arguments=("which",),
        says=readable.dropped,
        examples=(
            "quipu borrowed drop mgr_01HX2QFXR0Q4S8U9V3W7X2Y0Z1",
            "quipu borrowed drop https://memory.example/oap/memory/grant/mgr_01HX2QFXR0Q4S8U9V3W7X2Y0Z1",
        ),
    ),
)
RETURN_BORROWED = Operation(
    name="return_borrowed",
    request=m.ReturnBorrowedRequest,
    response=m.ReturnBorrowedResponse,
    permission=None,
    limits=SERVER,
)

BORROWING_OPERATIONS = (BORROW, LIST_BORROWED, GIVE_UP_BORROWED, RETURN_BORROWED)

# -- erasure ----------------------------------------------------------------------------------------------------------

ERASE = Operation(
    name="erase",
    request=m.EraseRequest,
    response=m.EraseResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/erasures"),
    cli=Command(
        name="erase",
        says=readable.erased,
        examples=(
            "quipu erase --ids mem_01HX2QFXR0Q4S8U9V3W7X2Y0Z1",
            "quipu erase --scope-id work --dry-run",
            'quipu erase --filter \'{"labels_any": ["website"]}\'',
        ),
    ),
)
LIST_ERASURES = Operation(
    name="list_erasures",
    request=m.ListErasuresRequest,
    response=m.ListErasuresResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=get("/v1/erasures"),
    cli=Command(name="erasures", says=readable.erasures),
    repeat="safe",
)

ERASURE_OPERATIONS = (ERASE, LIST_ERASURES)

OPERATIONS: Operations = (*IDENTITY_OPERATIONS, *BORROWING_OPERATIONS, *ERASURE_OPERATIONS)
