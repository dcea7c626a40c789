"""The pages on which whole memories move: in and out as files."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from quipu.errors import Fault, ForbiddenError
from quipu.governance.operations import LIST_REVIEWS
from quipu.memory.page import picked
from quipu.operation import Context, authorised, dispatch, dispatch_stream, invalid
from quipu.page import Done, Fields, Page, may_use
from quipu.transfer import operations as ops
from quipu.transfer.model import ExportFileRequest, ImportReport
from quipu.transfer.sentences import sentences

_WRITTEN = {
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
#: So long a page waits for the end of what was begun; then it shows how far that is.
_SOON_S, _SHOWN = 2, 20


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


async def _load(ctx: Context, query: Fields) -> dict[str, Any]:
    may_export, may_import = may_use(ctx.principal, ops.EXPORT_FILE), may_use(ctx.principal, ops.IMPORT_FILE)
    if not may_export and not may_import:
        raise ForbiddenError(hint=f"It needs the permission {ops.IMPORT_FILE.permission}.")
    if may_export:
        authorised(ctx.principal, ops.EXPORT_FILE, ExportFileRequest())
    from quipu.transfer.formats import registry  # readers take a while to load

    imports: tuple[ImportReport, ...] = ()
    if may_use(ctx.principal, ops.LIST_IMPORTS):
        imports = (await dispatch(ctx, ops.LIST_IMPORTS, {})).imports
    return {
        "formats": _WRITTEN,
        "extras": _EXTRAS,
        "may_export": may_export,
        "may_import": may_import,
        "read_formats": {one.name: f"{one.name}: {one.about.replace('`', '')}" for one in registry.FORMATS},
        "imports": imports[:_SHOWN],
    }


async def _try(ctx: Context, form: Fields) -> Done:
    text = form.get("text", "").strip()
    if text and ctx.upload is None:
        ctx = replace(ctx, upload=_pasted(text))
    if ctx.upload is None:
        raise invalid([Fault("/file", "missing_field", "a file, or text")])
    given: dict[str, Any] = form.given("file_name", "agent_id", "user_id")
    given |= {"format": form["import_format"]} if form.text("import_format") else {}
    given |= {"store": form["import_store"]} if form.text("import_store") else {}
    report = await dispatch(
        ctx,
        ops.IMPORT_FILE,
        {**given, "foreign_owner": form.is_ticked("foreign_owner"), "wait_s": _SOON_S},
    )
    return Done(path=f"/imports/{report.import_id}", said="Tried. Nothing is written yet.")


async def _export(ctx: Context, form: Fields) -> Done:
    is_bundle = form.get("format", "bundle") == "bundle"
    given: dict[str, Any] = {**form.given("format", "store"), "agents": form.words("agents")}
    given["encrypt_to"] = form.words("encrypt_to")
    if is_bundle:
        given |= {"include": form.texts("include"), **form.given("since")}
    return Done(file=dispatch_stream(ctx, ops.EXPORT_FILE, given))


async def _pasted(text: str) -> AsyncIterator[bytes]:
    yield text.encode("utf-8", "replace")


async def _import(ctx: Context, query: Fields) -> dict[str, Any]:
    report: ImportReport = await dispatch(ctx, ops.GET_IMPORT, {"id": query["id"], "wait_s": _SOON_S})
    return {
        "report": report,
        "lines": [*sentences(report)],
        "may_transfer": may_use(ctx.principal, ops.IMPORT_FILE),
        "may_commit": report.status == "checked" and may_use(ctx.principal, ops.COMMIT_IMPORT),
        "may_decide": report.waiting > 0 and may_use(ctx.principal, ops.DECIDE_IMPORT),
        "may_review": may_use(ctx.principal, LIST_REVIEWS),
    }


async def _commit(ctx: Context, form: Fields) -> Done:
    report = await dispatch(ctx, ops.COMMIT_IMPORT, {"id": form["id"], "wait_s": _SOON_S})
    return Done(said="It is in." if report.status == "done" else "It is under way.")


async def _decide(ctx: Context, form: Fields, *, approved: bool) -> Done:
    request = {"id": form["id"], "approved": approved, **form.given("reason")}
    done = await dispatch(ctx, ops.DECIDE_IMPORT, request)
    said = f"{'Approved' if approved else 'Rejected'}: {done.decided:,}."
    if done.failed:
        said += f" {done.failed:,} could not be decided and go on waiting: {done.reason}."
    return Done(said=said)


async def _approve(ctx: Context, form: Fields) -> Done:
    return await _decide(ctx, form, approved=True)


async def _reject(ctx: Context, form: Fields) -> Done:
    return await _decide(ctx, form, approved=False)


PAGES = (
    Page(
        path="/transfer",
        group="sharing",
        title="Import and export",
        template="transfer.html",
        load=_load,
        actions={"export": _export, "import": _try},
        needs=ops.IMPORT_FILE,
    ),
    Page(
        path="/imports/{id}",
        group="sharing",
        title="Import",
        template="import.html",
        load=_import,
        actions={"commit": _commit, "approve": _approve, "reject": _reject},
        parent="/transfer",
    ),
)
