"""The operations of transfer, each declared once."""

from quipu.memory.model import RecordView
from quipu.model.principal import Permission
from quipu.operation import FILTERED, NAMED, SERVER, WHOLE, FilePart, Operation, get, post
from quipu.schemas import Operations
from quipu.transfer import model as m

IMPORT_FILE = Operation(
    name="import_file",
    request=m.ImportFileRequest,
    response=m.ImportReport,
    permission=Permission.WRITE,
    limits=NAMED,
    http=post("/v1/imports", body="bytes"),
)
COMMIT_IMPORT = Operation(
    name="commit_import",
    request=m.CommitImportRequest,
    response=m.ImportReport,
    permission=Permission.WRITE,
    limits=NAMED,
    http=post("/v1/imports/{id}/commit"),
    repeat="safe",
)
DECIDE_IMPORT = Operation(
    name="decide_import",
    request=m.DecideImportRequest,
    response=m.DecideImportResponse,
    permission=Permission.REVIEW,
    limits=FILTERED,
    http=post("/v1/imports/{id}/decision"),
)
GET_IMPORT = Operation(
    name="get_import",
    request=m.GetImportRequest,
    response=m.ImportReport,
    permission=Permission.READ,
    limits=FILTERED,
    http=get("/v1/imports/{id}"),
    repeat="safe",
)
LIST_IMPORTS = Operation(
    name="list_imports",
    request=m.ListImportsRequest,
    response=m.ListImportsResponse,
    permission=Permission.READ,
    limits=FILTERED,
    http=get("/v1/imports"),
    repeat="safe",
)


EXPORT_FILE = Operation(
    name="export_file",
    request=m.ExportFileRequest,
    response=FilePart,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/exports", answers="file"),
    is_stream=True,
)
EXPORT_RECORDS = Operation(
    name="export_records",
    request=m.ExportRecordsRequest,
    response=RecordView,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=post("/v1/export", answers="lines"),
    is_stream=True,
)
EXPORT_GRANT = Operation(
    name="export_grant",
    request=m.ExportGrantRequest,
    response=FilePart,
    permission=None,
    limits=SERVER,
    is_stream=True,
)

OPERATIONS: Operations = (
    *(IMPORT_FILE, COMMIT_IMPORT, DECIDE_IMPORT, GET_IMPORT, LIST_IMPORTS),
    *(EXPORT_FILE, EXPORT_RECORDS, EXPORT_GRANT),
)
