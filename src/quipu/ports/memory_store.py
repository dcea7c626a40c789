"""memorywire's protocol: anything that answers the five operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from quipu.model.operations import (
        ExpireRequest,
        ForgetRequest,
        MergeRequest,
        RecallRequest,
        RememberRequest,
    )
    from quipu.model.outcomes import (
        ExpireResponse,
        ForgetResponse,
        MergeResponse,
        RecallResponse,
        RememberResponse,
    )
    from quipu.model.value import Json


@runtime_checkable
class MemoryStore(Protocol):
    """Remember, recall, forget, merge, expire; and say how you are and what you promise."""

    async def remember(self, request: RememberRequest, /) -> RememberResponse: ...
    async def recall(self, request: RecallRequest, /) -> RecallResponse: ...
    async def forget(self, request: ForgetRequest, /) -> ForgetResponse: ...
    async def merge(self, request: MergeRequest, /) -> MergeResponse: ...
    async def expire(self, request: ExpireRequest, /) -> ExpireResponse: ...
    async def health(self) -> Mapping[str, Json]: ...
    @property
    def capabilities(self) -> set[str]: ...
