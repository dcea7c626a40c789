"""The journal of a server, its proof, and the ledger as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quipu.client.answers import part, understood
from quipu.client.failures import misunderstood, of_type
from quipu.client.patience import Repeat
from quipu.client.transport import Call, Transport
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.faces.rest.paths import PREFIX
from quipu.model.journal import Checkpoint, Entry
from quipu.model.outcomes import Verification
from quipu.model.principal import Principal

#: Progress is told while it is fresh, so it is not compressed.
PLAIN = {"Accept-Encoding": "identity"}
#: So many entries a server gives at once.
_PAGE = 1_000
#: A copy is made whole before its first byte is sent.
_COPYING_S = 3_600.0


async def result_of(
    transport: Transport, call: Call, progress: Callable[[Mapping[str, Any]], None] | None = None
) -> Any:
    """What long work came to; told how far it is meanwhile."""
    async for line in transport.lines(call):
        if "result" in line:
            return line["result"]
        if progress is not None and isinstance(line.get("progress"), dict):
            progress(line["progress"])
    raise misunderstood()


class RemoteAudit:
    """The chain, its signatures, and an export that can be checked anywhere."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def verify(
        self, principal: Principal, progress: Callable[[int, int], None] | None = None
    ) -> Verification:
        def told(line: Mapping[str, Any]) -> None:
            if progress is not None:
                progress(int(line["done"]), int(line["of"]))

        call = Call(method="POST", path=f"{PREFIX}/verify", headers=PLAIN)
        return understood(Verification, await result_of(self._transport, call, told))

    async def checkpoint(self, principal: Principal) -> Checkpoint:
        call = Call(method="POST", path=f"{PREFIX}/checkpoints", repeat=Repeat.UNSENT)
        return understood(Checkpoint, await self._transport.call(call))

    async def entries(self, principal: Principal, after: int = 0, limit: int = 100) -> Sequence[Entry]:
        """A stretch of any length, a page at a time."""
        found: list[Entry] = []
        while not found or len(found) < limit:
            wanted = min(_PAGE, limit - len(found))
            query = {"after": str(after), "limit": str(wanted)}
            body = await self._transport.call(Call(method="GET", path=f"{PREFIX}/journal", query=query))
            page = part(tuple[Entry, ...], body, "entries")
            found += page
            if len(page) < wanted:
                break
            after = page[-1].seq
        return found

    async def keys(self, principal: Principal) -> Mapping[str, str]:
        body = await self._transport.call(Call(method="GET", path=f"{PREFIX}/keys"))
        return understood(dict[str, str], body)

    async def exported(self, principal: Principal) -> AsyncIterator[tuple[str, str]]:
        async for line in self._transport.lines(Call(method="GET", path=f"{PREFIX}/journal/export")):
            yield part(str, line, "file"), part(str, line, "line")


class RemoteUpkeep:
    """What those who run the server do to its ledger."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def backup(
        self, principal: Principal, target: Path, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """The copy, downloaded; the file stands there only when it is whole."""
        call = Call(method="POST", path=f"{PREFIX}/backup", headers=PLAIN, read_s=_COPYING_S)
        draft = target.with_name(f".{target.name}.draft")
        _refuse_taken(target)
        try:
            async with self._transport.stream(call) as response:
                of_type(response, "application/octet-stream")
                total = int(response.headers.get("content-length", 0))
                with draft.open("xb") as file:
                    async for piece in response.aiter_bytes():
                        file.write(piece)
                        if progress is not None:
                            progress(file.tell(), total)
            draft.replace(target)
        except OSError as error:
            raise BackendUnavailableError(
                f"The backup could not be written to {target}.",
                reason="backup",
                hint="Check space and permissions.",
            ) from error
        finally:
            draft.unlink(missing_ok=True)

    async def vacuum(self, principal: Principal, keep_history_days: int | None = None) -> int:
        body = {} if keep_history_days is None else {"keep_history_days": keep_history_days}
        call = Call(method="POST", path=f"{PREFIX}/vacuum", body=body, headers=PLAIN, repeat=Repeat.UNSENT)
        return part(int, await result_of(self._transport, call), "emptied")

    async def statistics(self, principal: Principal) -> Mapping[str, int]:
        body = await self._transport.call(Call(method="GET", path=f"{PREFIX}/statistics"))
        return understood(dict[str, int], body)


def _refuse_taken(target: Path) -> None:
    if target.exists():
        raise InvalidError.at(
            "/target", "bad_value", f"{target} exists already.", hint="Choose a name that is free."
        )
