"""The operations of audit, each declared once."""

from quipu.audit import model as m
from quipu.model.principal import Permission
from quipu.operation import FILTERED, WHOLE, Command, Operation, get, post


def _verify_permission(request: m.VerifyRequest) -> Permission:
    return Permission.READ if request.tenant is None else Permission.OPERATE


def _undo_permission(request: m.UndoRequest) -> Permission:
    return Permission.REVIEW if request.dry_run else Permission.ADMIN


VERIFY = Operation(
    name="verify",
    request=m.VerifyRequest,
    response=m.VerifyResponse,
    permission=_verify_permission,
    limits=WHOLE,
    http=post("/v1/verify"),
    repeat="safe",
)
JOURNAL = Operation(
    name="journal",
    request=m.JournalRequest,
    response=m.JournalResponse,
    permission=Permission.REVIEW,
    limits=FILTERED,
    http=get("/v1/journal"),
    cli=Command(
        name="audit log",
        columns=("seq", "at", "actor", "op", "agent_id", "records"),
        examples=("quipu audit log --newest-first", "quipu audit log --record mem_01…"),
    ),
    repeat="safe",
)
JOURNAL_HEAD = Operation(
    name="journal_head",
    request=m.JournalHeadRequest,
    response=m.HeadView,
    permission=Permission.READ,
    limits=WHOLE,
    http=get("/v1/journal/head"),
    repeat="safe",
)
LIST_CHECKPOINTS = Operation(
    name="list_checkpoints",
    request=m.ListCheckpointsRequest,
    response=m.ListCheckpointsResponse,
    permission=Permission.READ,
    limits=WHOLE,
    http=get("/v1/checkpoints"),
    repeat="safe",
)
SIGN_CHECKPOINT = Operation(
    name="sign_checkpoint",
    request=m.SignCheckpointRequest,
    response=m.CheckpointView,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/checkpoints"),
)
ANCHOR = Operation(
    name="anchor",
    request=m.AnchorRequest,
    response=m.AnchorResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/anchors"),
    cli=Command(name="audit anchor", columns=("target", "seq", "hash", "proof")),
)
EXPORT_JOURNAL = Operation(
    name="export_journal",
    request=m.ExportJournalRequest,
    response=m.ExportLine,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=get("/v1/journal/export", answers="lines"),
    is_stream=True,
)
UNDO = Operation(
    name="undo",
    request=m.UndoRequest,
    response=m.UndoResponse,
    permission=_undo_permission,
    limits=FILTERED,
    http=post("/v1/undo"),
    cli=Command(
        columns=("id", "step", "outcome", "why", "content"),
        examples=("quipu undo --run-id run_1", "quipu undo --source 'web_*' --no-dry-run"),
    ),
)

OPERATIONS = (
    *(VERIFY, JOURNAL, JOURNAL_HEAD, LIST_CHECKPOINTS, SIGN_CHECKPOINT, ANCHOR),
    *(EXPORT_JOURNAL, UNDO),
)
