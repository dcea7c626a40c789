"""Descriptions of what is told about mirrors."""

from __future__ import annotations

from quipu.faces.rest.openapi_parts import NDJSON, Operation, failed, held, many
from quipu.faces.rest.schemas import ref
from quipu.model.mirrors import MirrorReport, MirrorStatus

KINDS = (MirrorStatus, MirrorReport)
TAGS = {"mirrors": "Copies of the memory in other stores, and how they stand."}
_NEEDS = "server:operate"
_REPORT = {"oneOf": [held(result=ref(MirrorReport)), failed()]}

OPERATIONS = (
    Operation(
        line="GET /mirrors",
        id="mirrors",
        tag="mirrors",
        says="How far each mirror is behind, and why",
        needs=_NEEDS,
        answer=many("mirrors", MirrorStatus),
        refuses=(),
    ),
    Operation(
        line="POST /mirrors/{name}/verify",
        id="verifyMirror",
        tag="mirrors",
        says="Hold a mirror against the ledger, record by record",
        needs=_NEEDS,
        answer=_REPORT,
        media_type=NDJSON,
        refuses=(400, 404),
    ),
    Operation(
        line="POST /mirrors/{name}/resync",
        id="resyncMirror",
        tag="mirrors",
        says="Bring a mirror level: send what waits, mend what differs",
        needs=_NEEDS,
        answer=_REPORT,
        media_type=NDJSON,
        refuses=(400, 404, 409),
    ),
)
