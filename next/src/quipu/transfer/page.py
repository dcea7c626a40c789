"""The page on which whole memories move: out as files."""

from quipu.page import Page
from quipu.transfer.exporting import operations as ops
from quipu.transfer.exporting.page import ExportPart

_EXPORT = ExportPart()

PAGES = (
    Page(
        path="/transfer",
        group="system",
        title="Export",
        template="transfer.html",
        load=_EXPORT.load,
        actions=_EXPORT.actions,
        needs=ops.EXPORT_FILE,
    ),
)
