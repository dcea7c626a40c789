"""The operations of mirrors, each declared once. They are the server's, and speak of one tenant's copies."""

from quipu.mirrors import model as m
from quipu.model.principal import Permission
from quipu.operation import SERVER, Command, Operation, get, post

LIST_MIRRORS = Operation(
    name="list_mirrors",
    request=m.ListMirrorsRequest,
    response=m.ListMirrorsResponse,
    permission=Permission.OPERATE,
    limits=SERVER,
    http=get("/v1/mirrors"),
    cli=Command(
        name="mirror list",
        columns=("name", "place", "waiting", "given_up", "error"),
        examples=("quipu mirror list",),
    ),
    repeat="safe",
)
VERIFY_MIRROR = Operation(
    name="verify_mirror",
    request=m.VerifyMirrorRequest,
    response=m.MirrorReport,
    permission=Permission.OPERATE,
    limits=SERVER,
    http=get("/v1/mirrors/{name}/verify"),
    cli=Command(name="mirror verify", arguments=("name",), examples=("quipu mirror verify mem0",)),
    repeat="safe",
)
RESYNC_MIRROR = Operation(
    name="resync_mirror",
    request=m.ResyncMirrorRequest,
    response=m.MirrorReport,
    permission=Permission.OPERATE,
    limits=SERVER,
    http=post("/v1/mirrors/{name}/resync"),
    cli=Command(
        name="mirror resync",
        arguments=("name",),
        examples=("quipu mirror resync mem0", "quipu mirror resync mem0 --dry-run"),
    ),
)
DROP_MIRROR = Operation(
    name="drop_mirror",
    request=m.DropMirrorRequest,
    response=m.DropMirrorResponse,
    permission=Permission.OPERATE,
    limits=SERVER,
    http=post("/v1/mirrors/{name}/drop"),
)

OPERATIONS = (LIST_MIRRORS, VERIFY_MIRROR, RESYNC_MIRROR, DROP_MIRROR)
