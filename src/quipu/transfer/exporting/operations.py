"""The operations that take memories out, each declared once."""

from quipu.memory.model import RecordView
from quipu.model.principal import Permission
from quipu.operation import SERVER, WHOLE, FilePart, Operation, post
from quipu.schemas import Operations
from quipu.transfer.exporting import model as m

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

OPERATIONS: Operations = (EXPORT_FILE, EXPORT_RECORDS, EXPORT_GRANT)
