"""Descriptions of files of memories, in and out."""

from __future__ import annotations

from quipu.faces.rest.importing import ImportDecisionBody, RollbackBody
from quipu.faces.rest.openapi_parts import NDJSON, NUMBER, Operation, many, query, work
from quipu.faces.rest.schemas import ref
from quipu.model.moving import (
    ExportReport,
    FileExport,
    Format,
    ImportDecided,
    ImportReport,
    ImportState,
    RolledBack,
)

_BINARY = "application/octet-stream"
#: Which one it is depends on what was asked for.
_ANY = "*/*"
#: What the descriptions below speak of.
KINDS = (
    FileExport,
    ExportReport,
    ImportReport,
    ImportState,
    ImportDecided,
    RolledBack,
    ImportDecisionBody,
    RollbackBody,
)
OPERATIONS = (
    Operation(
        line="GET /imports",
        id="listImports",
        tag="moving",
        says="The last imports, newest first, and what waits of each",
        needs="memory:review",
        answer=many("imports", ImportState),
        refuses=(),
    ),
    Operation(
        line="POST /imports",
        id="tryImport",
        tag="moving",
        says='Send a file of memories, or {"url": ...} as JSON, and learn what would come in; it waits for an hour',
        needs="memory:write",
        query=(
            query("agent_id", "Whose memories they become where the file does not say.", required=True),
            query("format", "What the file is.", {"type": "string", "enum": ["auto", *Format]}),
            query("store", "Into this store, whatever the file says."),
            query("file_name", "What the file is called."),
            query(
                "key",
                "A public key of the sender, base64url; may be repeated.",
                {"type": "array", "items": {"type": "string"}},
            ),
            query("foreign_owner", "Also take what somebody unknown has signed.", {"type": "boolean"}),
        ),
        body={},
        body_type=_BINARY,
        answer=work(NUMBER, ref(ImportReport)),
        media_type=NDJSON,
    ),
    Operation(
        line="POST /imports/{id}/commit",
        id="commitImport",
        tag="moving",
        says="Carry out an import that was tried; what a rule holds waits for a person",
        needs="memory:write",
        answer=work(NUMBER, ref(ImportReport)),
        media_type=NDJSON,
        refuses=(400, 404),
    ),
    Operation(
        line="POST /imports/{id}/decision",
        id="decideImport",
        tag="moving",
        says="Say yes or no to everything of an import that waits",
        needs="memory:review",
        body=ref(ImportDecisionBody),
        answer=ref(ImportDecided),
        refuses=(400, 404, 409),
    ),
    Operation(
        line="POST /imports/{id}/rollback",
        id="rollBackImport",
        tag="moving",
        says="Undo an import as a whole",
        needs="memory:admin",
        body=ref(RollbackBody),
        is_body_needed=False,
        answer=ref(RolledBack),
        refuses=(400, 404),
    ),
    Operation(
        line="POST /exports",
        id="exportFile",
        tag="moving",
        says="Memories as a signed file, of its format's media type; the header Quipu-Export-Report tells what is in it",
        needs="memory:admin",
        body=ref(FileExport),
        is_body_needed=False,
        answer={},
        media_type=_ANY,
    ),
)
