"""Files of memories in: sent and tried, carried out, decided on, undone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InvalidError, QuipuError
from quipu.faces.http.authentication import principal_of
from quipu.faces.http.links import linked
from quipu.faces.rest.answering import Tell, answered, worked
from quipu.faces.rest.asking import asked, flag, needed
from quipu.formats.signing import key_name
from quipu.model.moving import FileImport, Format, ImportReport
from quipu.service.memory import MemoryService


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportDecisionBody:
    """Yes or no to everything of an import that waits."""

    approved: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackBody:
    """Undo an import; with `force` also what was changed since."""

    force: bool = False
    dry_run: bool = False


class Importing:
    """One handler for each route."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def list(self, request: Request) -> Response:
        return answered({"imports": await self._service.imports.list(principal_of(request))})

    async def tried(self, request: Request) -> Response:
        """The body is the file, or says where it is. What would come in is told; nothing is written."""
        principal, wanted = principal_of(request), _wanted(request)
        link = await linked(request, frozenset())

        async def work(tell: Tell) -> ImportReport:
            if link is not None:
                return await self._service.importing.fetched(principal, link["url"], wanted, tell)
            pieces = request.stream()
            try:
                return await self._service.importing.tried(principal, pieces, wanted, tell)
            except QuipuError:
                await _read_out(pieces)
                raise

        return await worked(request, work)

    async def commit(self, request: Request) -> Response:
        principal, name = principal_of(request), request.path_params["id"]

        async def work(tell: Tell) -> ImportReport:
            return await self._service.importing.committed(principal, name, tell)

        return await worked(request, work)

    async def decide(self, request: Request) -> Response:
        body = await asked(request, ImportDecisionBody)
        decided = await self._service.imports.decide(
            principal_of(request), request.path_params["id"], approved=body.approved, reason=body.reason
        )
        return answered(decided)

    async def roll_back(self, request: Request) -> Response:
        body = await asked(request, RollbackBody, may_be_empty=True)
        undone = await self._service.imports.roll_back(
            principal_of(request), request.path_params["id"], force=body.force, dry_run=body.dry_run
        )
        return answered(undone)


def _wanted(request: Request) -> FileImport:
    query = request.query_params
    return FileImport(
        agent_id=needed(request, "agent_id"),
        format=_format(query.get("format")),
        store=query.get("store"),
        file_name=(query.get("file_name") or "")[:256] or None,
        keys=dict(_key(public) for public in query.getlist("key")),
        foreign_owner=flag(request, "foreign_owner"),
    )


def _format(name: str | None) -> Format | None:
    if name in (None, "auto"):
        return None
    if name not in tuple(Format):
        raise InvalidError.at(
            "/format", "unknown_format", "Files of this format are not read here.", accepted=[*Format]
        )
    return Format(name)


def _key(public: str) -> tuple[str, str]:
    try:
        return key_name(public), public
    except ValueError:
        message = "A public key is 32 bytes in base64url."
        raise InvalidError.at("/key", "bad_value", message) from None


async def _read_out(pieces: AsyncIterator[bytes]) -> None:
    """A sender that is cut off in the middle would never see the answer."""
    async for _ in pieces:
        pass
