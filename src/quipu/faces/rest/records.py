"""Stores, records as they are kept, held writes; many records in and out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InvalidError, QuipuError
from quipu.faces.http.authentication import principal_of
from quipu.faces.http.bodies import NDJSON, lines, media_type
from quipu.faces.rest.answering import Tell, answered, streamed, worked
from quipu.faces.rest.asking import DecisionBody, asked, flag, line, listing, needed
from quipu.model.operations import CreateStoreRequest, Line, ListRequest
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    ImportSummary,
    MergeResponse,
    RememberResponse,
)
from quipu.service.memory import MemoryService

_STATUSES = ("pending", "approved", "rejected")
_OPERATIONS: Mapping[type, str] = {
    RememberResponse: "remember",
    ForgetResponse: "forget",
    MergeResponse: "merge",
    ExpireResponse: "expire",
    list: "batch",
}


class Records:
    """One handler for each route."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def stores(self, request: Request) -> Response:
        return answered({"stores": await self._service.stores.list(principal_of(request))})

    async def create_store(self, request: Request) -> Response:
        body = await asked(request, CreateStoreRequest)
        return answered(await self._service.stores.create(principal_of(request), body), 201)

    async def delete_store(self, request: Request) -> Response:
        removed = await self._service.stores.delete(
            principal_of(request),
            request.path_params["name"],
            needed(request, "confirm"),
            hard_delete=flag(request, "hard_delete"),
        )
        return answered({"removed": removed})

    async def list(self, request: Request) -> Response:
        return answered(await self._service.reading.list(principal_of(request), listing(request)))

    async def query(self, request: Request) -> Response:
        """The same with a body, for filters that had better not stand in an address."""
        body = await asked(request, ListRequest, may_be_empty=True)
        return answered(await self._service.reading.list(principal_of(request), body))

    async def get(self, request: Request) -> Response:
        query = request.query_params
        record = await self._service.reading.get(
            principal_of(request), query.get("agent_id"), request.path_params["id"], query.get("as_of")
        )
        return answered(record)

    async def history(self, request: Request) -> Response:
        versions = await self._service.reading.history(
            principal_of(request), request.query_params.get("agent_id"), request.path_params["id"]
        )
        return answered({"versions": versions})

    async def proposals(self, request: Request) -> Response:
        status = request.query_params.get("status", "pending")
        if status not in (*_STATUSES, "all"):
            raise InvalidError.at(
                "/status", "bad_value", "There is no such status.", accepted=[*_STATUSES, "all"]
            )
        found = await self._service.governance.proposals(
            principal_of(request), None if status == "all" else status
        )
        return answered({"proposals": found})

    async def review(self, request: Request) -> Response:
        return answered(
            await self._service.reviewing.review(principal_of(request), request.path_params["id"])
        )

    async def decide(self, request: Request) -> Response:
        """What the write that was let through answered; nothing when it was rejected."""
        body = await asked(request, DecisionBody)
        outcome: object = await self._service.decide(
            principal_of(request),
            request.path_params["id"],
            approved=body.approved,
            reason=body.reason,
            etag=body.etag,
            edit=body.edit,
            merge_into=body.merge_into,
            strategy=body.strategy,
            supersedes=body.supersedes,
        )
        operation = _OPERATIONS.get(type(outcome))
        return answered({"operation": operation, "response": outcome if operation is not None else None})

    async def export(self, request: Request) -> Response:
        body = await asked(request, ListRequest, may_be_empty=True)
        return await streamed(request, self._service.exchange.export(principal_of(request), body))

    async def import_lines(self, request: Request) -> Response:
        """Lines as they come; the answer is short, so that nobody has to read it while they write."""
        principal = principal_of(request)
        media_type(request, NDJSON)
        dry_run, stop = flag(request, "dry_run"), flag(request, "stop_on_error")
        import_id = request.query_params.get("import_id")

        async def work(tell: Tell) -> ImportSummary:
            body = lines(request)
            try:
                summary = await self._service.exchange.import_lines(
                    principal,
                    _parsed(body),
                    dry_run=dry_run,
                    stop_on_error=stop,
                    progress=tell,
                    import_id=import_id,
                )
            except QuipuError:
                await _read_out(body)
                raise
            await _read_out(body)
            return summary

        return await worked(request, work)


async def _read_out(body: AsyncIterator[bytes]) -> None:
    """A sender that is cut off in the middle would never see the answer."""
    async for _ in body:
        pass


async def _parsed(body: AsyncIterator[bytes]) -> AsyncGenerator[Line | QuipuError]:
    async for text in body:
        try:
            parsed = line(text, Line)
            if parsed.request.run_id is not None or parsed.request.node_id is not None:
                raise InvalidError.at("/request/run_id", "bad_value", "Runs are known to the server alone.")
        except QuipuError as error:
            yield error
        else:
            yield parsed
