"""The conformance command's way to a server that need not be a Quipu: memorywire v0 over HTTP, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from quipu.client.failures import misunderstood
from quipu.client.patience import Repeat
from quipu.client.transport import Call, Transport
from quipu.errors import InvalidError, NotFoundError
from quipu.faces.rest.paths import MEMORYWIRE


class Wire:
    """One server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def described(self) -> Mapping[str, Any]:
        """What it says it can do (memorywire 2.9)."""
        try:
            told = await self.asked("GET", "capabilities")
        except NotFoundError:
            raise InvalidError(
                "No memorywire is spoken at this address.",
                reason="usage",
                hint=f"A server answers GET {MEMORYWIRE}/capabilities, beside the operations.",
            ) from None
        if not isinstance(told, dict):
            raise misunderstood()
        return cast("dict[str, Any]", told)

    @staticmethod
    def is_quipu(told: Mapping[str, Any]) -> bool:
        """Whether it has what Quipu adds to v0."""
        extensions = told.get("extensions")
        return isinstance(extensions, dict) and "quipu" in extensions

    @staticmethod
    def promises(told: Mapping[str, Any]) -> set[str]:
        """The capabilities by name."""
        named = told.get("capabilities")
        if not isinstance(named, list):
            raise misunderstood()
        return {str(name) for name in cast("list[object]", named)}

    async def asked(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Any:
        call = Call(
            method=method,
            path=f"{MEMORYWIRE}/{path}",
            body=body,
            headers=headers or {},
            repeat=Repeat.HARMLESS if method == "GET" else Repeat.UNSENT,
        )
        return await self._transport.call(call)

    async def imported(self, line: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        call = Call(
            method="POST",
            path=f"{MEMORYWIRE}/import",
            body=line,
            headers={"Content-Type": "application/x-ndjson"},
            repeat=Repeat.UNSENT,
        )
        return [told async for told in self._transport.lines(call)]
