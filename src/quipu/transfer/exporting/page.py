"""Taking memories out on the page: a form, and a file that the browser saves."""

from typing import Any

from quipu.memory.page import picked
from quipu.operation import Context, authorised, dispatch_stream
from quipu.page import Done, Fields, may_use
from quipu.transfer.exporting import operations as ops
from quipu.transfer.exporting.model import ExportFileRequest

_FORMATS = {
    "bundle": "Bundle: everything, signed by you",
    "mem0": "mem0",
    "letta": "Letta blocks",
}
_EXTRAS = {
    "embeddings": "vectors, for a memory with the same embedder",
    "grants": "what you share, and with whom",
    "receipts": "receipts of what was shown",
    "logs": "logs of the items that were shown",
    "non_exportable": "what is marked as not exportable",
}


class TickedExport:
    """On the list of memories: those that are ticked, as a bundle."""

    async def load(self, ctx: Context, query: Fields) -> dict[str, Any]:
        return {"can_export": may_use(ctx.principal, ops.EXPORT_FILE)}

    @property
    def actions(self) -> dict[str, Any]:
        return {"export": _export_ticked}


async def _export_ticked(ctx: Context, form: Fields) -> Done:
    ids = [record_id for _, record_id in picked(form)]
    return Done(file=dispatch_stream(ctx, ops.EXPORT_FILE, {"filter": {"id": {"$in": ids}}}))


class ExportPart:
    """The export's part of the page."""

    async def load(self, ctx: Context, query: Fields) -> dict[str, Any]:
        authorised(ctx.principal, ops.EXPORT_FILE, ExportFileRequest())
        return {"formats": _FORMATS, "extras": _EXTRAS}

    @property
    def actions(self) -> dict[str, Any]:
        return {"export": export}


async def export(ctx: Context, form: Fields) -> Done:
    is_bundle = form.get("format", "bundle") == "bundle"
    given: dict[str, Any] = {**form.given("format", "store"), "agents": form.words("agents")}
    given["encrypt_to"] = form.words("encrypt_to")
    if is_bundle:
        given |= {"include": form.texts("include"), **form.given("since")}
    return Done(file=dispatch_stream(ctx, ops.EXPORT_FILE, given))
