"""What the tests of formats are made of: files in memory, and what comes out of them."""

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

from quipu.errors import QuipuError
from quipu.transfer.formats import registry
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.reading import Reading
from quipu.transfer.formats.registry import FormatName
from quipu.transfer.formats.values import Found, Item


def packed(files: Mapping[str, Any]) -> bytes:
    """A zip archive of these."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data if isinstance(data, str | bytes) else json.dumps(data))
    return buffer.getvalue()


def source(data: Any, name: str = "file") -> Source:
    if not isinstance(data, str | bytes):
        data = json.dumps(data)
    return Source(io.BytesIO(data.encode() if isinstance(data, str) else data), name)


def read(data: Any, format_: FormatName | None = None, name: str = "file") -> Reading:
    return registry.opened(source(data, name), format_)


def good(found: Iterable[Found]) -> list[Item]:
    """The items, none of which may be refused."""
    items: list[Item] = []
    for _, item in found:
        assert not isinstance(item, QuipuError), item
        items.append(item)
    return items


def reasons(found: Iterable[Found]) -> list[str | None]:
    """Why items were refused; None for those that were not."""
    return [item.reason if isinstance(item, QuipuError) else None for _, item in found]


def dropped(reading: Reading) -> dict[str, int]:
    return {one.field: one.count for one in reading.loss.report().dropped}
