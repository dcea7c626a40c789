"""A held memory as a reviewer wants it."""

from __future__ import annotations

from dataclasses import replace

from quipu.model.governance import Edit
from quipu.model.operations import RememberRequest


def edited(request: RememberRequest, edit: Edit) -> RememberRequest:
    """The request with what the reviewer changed; what they left alone stays as it was proposed."""
    if edit.content is not None:
        # A vector of the caller's is one of the caller's words.
        request = replace(request, content=edit.content, embedding=None)
    if edit.type is not None:
        request = replace(request, type=edit.type)
    if edit.metadata is not None:
        tags = None if "tags" in edit.metadata else request.tags
        request = replace(request, metadata=edit.metadata, tags=tags)
    if edit.tags is not None:
        metadata = {name: value for name, value in (request.metadata or {}).items() if name != "tags"}
        request = replace(request, tags=edit.tags, metadata=metadata)
    if edit.confidence is not None:
        request = replace(request, confidence=edit.confidence)
    if edit.expires_at is not None:
        request = replace(request, expires_at=edit.expires_at)
    if edit.privacy_intent is not None:
        request = replace(request, privacy_intent=edit.privacy_intent)
    return request
