"""The operations of upkeep, each declared once."""

from quipu.model.principal import Permission
from quipu.operation import SERVER, WHOLE, Command, Operation, get, post
from quipu.upkeep import model as m


def _vacuum_permission(request: m.VacuumRequest) -> Permission:
    return Permission.OPERATE if request.keep_history_days is None else Permission.ADMIN


def _backup_permission(request: m.BackupRequest) -> Permission:
    return Permission.ADMIN if request.tenant is None else Permission.OPERATE


REINDEX = Operation(
    name="reindex",
    request=m.ReindexRequest,
    response=m.ReindexStep,
    permission=Permission.OPERATE,
    limits=SERVER,
    http=post("/v1/reindex", answers="lines"),
    cli=Command(columns=("tenant", "terms", "vectors", "done"), examples=("quipu reindex",)),
    is_stream=True,
)
STATISTICS = Operation(
    name="statistics",
    request=m.StatisticsRequest,
    response=m.StatisticsResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=get("/v1/statistics"),
    repeat="safe",
)
VACUUM = Operation(
    name="vacuum",
    request=m.VacuumRequest,
    response=m.VacuumResponse,
    permission=_vacuum_permission,
    limits=WHOLE,
    http=post("/v1/vacuum"),
    cli=Command(examples=("quipu vacuum", "quipu vacuum --keep-history-days 365")),
)
BACKUP = Operation(
    name="backup",
    request=m.BackupRequest,
    response=m.BackupResponse,
    permission=_backup_permission,
    limits=WHOLE,
    http=post("/v1/backup"),
    cli=Command(
        arguments=("target",),
        examples=("quipu backup memory-2026-01-31.db", "quipu backup all.db --tenant '*'"),
    ),
)

OPERATIONS = (REINDEX, STATISTICS, VACUUM, BACKUP)
