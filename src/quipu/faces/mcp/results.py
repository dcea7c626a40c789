"""Results and errors as a model gets them: structured, the same once more as text, and a word on what to do next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp.types import CallToolResult, TextContent

from quipu.errors import QuipuError
from quipu.faces.http.problems import on_the_wire

ERROR = "dev.quipu/error"
NOT_FOUND = "dev.quipu/not_found"
BACKENDS_FAILED = "dev.quipu/backends_failed"

#: So many faults are told at most; a model repairs one or two at a time.
_MOST = 5
_LONGEST_NAME = 128


def text_of(body: Mapping[str, Any]) -> str:
    """JSON, compact."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def answered(body: Mapping[str, Any], *notes: str, meta: Mapping[str, Any] | None = None) -> CallToolResult:
    """A result with its text, and notes for the model."""
    texts = [text_of(body), *notes]
    return CallToolResult(
        content=[TextContent(text=text) for text in texts],
        structured_content=dict(body),
        _meta=dict(meta) if meta else None,
    )


def told(text: str) -> CallToolResult:
    """A result that is a text and nothing more."""
    return CallToolResult(content=[TextContent(text=text)])


def refused(error: QuipuError) -> CallToolResult:
    """An error that the model can act on. Its code is the one of every other face."""
    known = on_the_wire(error)
    return failed(explained(known), known.code, retryable=known.retryable)


def failed(text: str, code: str, *, retryable: bool = False) -> CallToolResult:
    """An error in these very words."""
    return CallToolResult(
        content=[TextContent(text=text)],
        is_error=True,
        _meta={ERROR: {"code": code, "retryable": retryable}},
    )


def no_tool(name: str) -> CallToolResult:
    """There is none, or none that the caller sees: the same words for both."""
    return failed(f"not_found: There is no tool {name[:_LONGEST_NAME]}.", "not_found")


def explained(error: QuipuError) -> str:
    """The code, what is wrong, where, and what would be accepted."""
    parts = [f"{error.code}: {error.message}"]
    for fault in error.faults[:_MOST]:
        where = fault.pointer.lstrip("/").replace("/", ".")
        accepted = f" accepts {', '.join(fault.accepted[:20])}" if fault.accepted else f" ({fault.reason})"
        if where:
            parts.append(f"{where}{accepted}.")
    if error.retry_after is not None:
        parts.append(f"Try again in {error.retry_after} s.")
    return " ".join(parts)
