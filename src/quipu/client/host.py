"""Everything memory does, asked of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from quipu.client import answers, bodies
from quipu.client.access import RemoteSecrets, RemoteTenancy, RemoteTokens
from quipu.client.address import segment
from quipu.client.answers import part, understood
from quipu.client.audit import PLAIN, RemoteAudit, RemoteUpkeep
from quipu.client.bodies import sent
from quipu.client.changes import RemoteChanges
from quipu.client.exchange import RemoteExchange
from quipu.client.failures import misunderstood
from quipu.client.governing import RemoteLearning, RemoteNotices, RemoteRecovery
from quipu.client.mirroring import RemoteMirrorChecks
from quipu.client.moving import RemoteExporting, RemoteImporting, RemoteImports
from quipu.client.patience import Repeat
from quipu.client.reading import (
    RemoteGovernance,
    RemotePolicies,
    RemoteReading,
    RemoteReviewing,
    RemoteStores,
)
from quipu.client.settling import RemoteConsolidating, RemoteGraphs, RemoteProcedures
from quipu.client.transport import Answer, Call, Transport, encoded
from quipu.errors import QuipuError
from quipu.faces.rest.paths import MEMORYWIRE, PREFIX
from quipu.model.governance import Decision, Edit
from quipu.model.operations import (
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    MergeStrategy,
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
from quipu.model.principal import Principal
from quipu.model.value import Json
from quipu.ports.surroundings import MintId

W = TypeVar("W", RememberResponse, ForgetResponse, MergeResponse, ExpireResponse)

#: What a decision lets through answers with, by operation.
_OUTCOMES: Mapping[str, type[Any]] = {
    "remember": RememberResponse,
    "forget": ForgetResponse,
    "merge": MergeResponse,
    "expire": ExpireResponse,
}
#: Answers shall hold all that an answer here would hold.
_EXTENSIONS = {"Quipu-Extensions": "true"}
#: A batch is sent in parts of at most so many items and bytes: a server bounds both.
_ITEMS, _BYTES = 500, 1 << 20


class RemoteHost:
    """The host of a `Memory` whose ledger is elsewhere. Who asks is told by the token, so `principal` is left aside."""

    def __init__(self, transport: Transport, mint_id: MintId) -> None:
        self._transport, self._mint_id = transport, mint_id
        self.reading = RemoteReading(transport)
        self.stores = RemoteStores(transport)
        self.governance = RemoteGovernance(transport)
        self.reviewing = RemoteReviewing(transport)
        self.policies = RemotePolicies(transport)
        self.learning = RemoteLearning(transport)
        self.recovery = RemoteRecovery(transport)
        self.notices = RemoteNotices(transport)
        self.exchange = RemoteExchange(transport)
        self.importing = RemoteImporting(transport)
        self.imports = RemoteImports(transport)
        self.exporting = RemoteExporting(transport)
        self.audit = RemoteAudit(transport)
        self.upkeep = RemoteUpkeep(transport)
        self.tenancy = RemoteTenancy(transport)
        self.tokens = RemoteTokens(transport)
        self.secrets = RemoteSecrets(transport)
        self.changes = RemoteChanges(transport)
        self.procedures = RemoteProcedures(transport, mint_id)
        self.consolidating = RemoteConsolidating(transport)
        self.graphs = RemoteGraphs(transport)
        self.mirror_checks = RemoteMirrorChecks(transport)

    def __repr__(self) -> str:
        return f"RemoteHost({self._transport.base!r})"

    # -- the five operations ------------------------------------------------------------------------------------

    async def remember(self, principal: Principal, request: RememberRequest) -> RememberResponse:
        headers = {} if request.if_version is None else {"If-Match": f'"{request.if_version}"'}
        return await self._written("remember", bodies.remember_body(request), answers.remembered, headers)

    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        return answers.recalled((await self._asked("recall", bodies.recall_body(request))).body)

    async def forget(self, principal: Principal, request: ForgetRequest) -> ForgetResponse:
        return await self._written("forget", bodies.forget_body(request), answers.forgotten)

    async def merge(self, principal: Principal, request: MergeRequest) -> MergeResponse:
        return await self._written("merge", bodies.merge_body(request), answers.merged)

    async def expire(self, principal: Principal, request: ExpireRequest) -> ExpireResponse:
        return await self._written("expire", bodies.expire_body(request), answers.expired)

    async def _written(
        self,
        operation: str,
        body: dict[str, Any],
        understood: Callable[[Any], W],
        headers: Mapping[str, str] | None = None,
    ) -> W:
        """A write always has a key: when an answer is lost, the same request is made again and happens once."""
        answer = await self._asked(operation, self._keyed(body), headers)
        is_replayed = answer.headers.get("idempotency-replayed") == "true"
        return replace(understood(answer.body), is_replayed=is_replayed)

    def _keyed(self, body: dict[str, Any]) -> dict[str, Any]:
        return body if "idempotency_key" in body else body | {"idempotency_key": self._mint_id("idem")}

    async def _asked(
        self, operation: str, body: dict[str, Any], headers: Mapping[str, str] | None = None
    ) -> Answer:
        call = Call(
            method="POST",
            path=f"{MEMORYWIRE}/{operation}",
            body=body,
            headers={**_EXTENSIONS, **(headers or {})},
        )
        return await self._transport.answer(call)

    # -- more than one, and bringing back -----------------------------------------------------------------------

    async def remember_many(
        self, principal: Principal, requests: Sequence[RememberRequest], *, atomic: bool = False
    ) -> list[RememberResponse | QuipuError]:
        """In parts, one after the other; an atomic batch is one part, whatever its size."""
        items = [self._keyed(bodies.remember_body(request)) for request in requests]
        found: list[RememberResponse | QuipuError] = []
        for some in [items] if atomic and items else _parts(items):
            try:
                answer = await self._asked("remember/batch", {"items": some, "atomic": atomic})
            except QuipuError as error:
                if not found:
                    raise
                # What was written is told; the rest shares the error that kept it out.
                return [*found, *[error] * (len(items) - len(found))]
            found += answers.batch(answer.body)
        return found

    async def restore(
        self, principal: Principal, agent_id: str, record_id: str, reason: str | None = None
    ) -> RememberResponse:
        call = Call(
            method="POST",
            path=f"{MEMORYWIRE}/records/{segment(record_id)}/restore",
            query={"agent_id": agent_id},
            body={} if reason is None else {"reason": reason},
            headers=_EXTENSIONS,
            repeat=Repeat.UNSENT,
        )
        return answers.remembered(await self._transport.call(call))

    async def decide(
        self,
        principal: Principal,
        proposal_id: str,
        *,
        approved: bool,
        reason: str | None = None,
        etag: str | None = None,
        edit: Edit | None = None,
        merge_into: str | None = None,
        strategy: MergeStrategy = MergeStrategy.KEEP_CANONICAL,
        supersedes: Sequence[str] = (),
    ) -> Any:
        said = Decision(
            approved=approved,
            reason=reason,
            etag=etag,
            edit=edit,
            merge_into=merge_into,
            strategy=strategy,
            supersedes=tuple(supersedes),
        )
        # Taking a decision back is the page's own.
        body = {name: part for name, part in sent(said).items() if name != "undoable"}
        path = f"{PREFIX}/proposals/{segment(proposal_id)}/decision"
        told = await self._transport.call(Call(method="POST", path=path, body=body, repeat=Repeat.UNSENT))
        operation = answers.part(object, told, "operation")
        if operation is None:
            return None
        if operation == "batch":
            return list(answers.part(tuple[RememberResponse, ...], told, "response"))
        if operation not in _OUTCOMES:
            raise misunderstood()
        return answers.part(_OUTCOMES[str(operation)], told, "response")

    # -- upkeep -------------------------------------------------------------------------------------------------

    async def whoami(self, principal: Principal) -> Principal:
        return understood(Principal, await self._transport.call(Call(method="GET", path=f"{PREFIX}/me")))

    async def described(self, principal: Principal) -> Mapping[str, Json]:
        told = await self._transport.call(Call(method="GET", path=f"{MEMORYWIRE}/capabilities"))
        part(tuple[str, ...], told, "capabilities")
        return understood(dict[str, Any], told)

    async def sweep(self, principal: Principal) -> int:
        call = Call(method="POST", path=f"{PREFIX}/sweep", repeat=Repeat.UNSENT)
        return part(int, await self._transport.call(call), "closed")

    async def reembed(self, principal: Principal) -> AsyncIterator[int]:
        """How many versions got terms or a vector each time. A broken stream stops nothing that was done."""
        call = Call(method="POST", path=f"{PREFIX}/reembed", headers=PLAIN)
        done = 0
        async with aclosing(self._transport.lines(call)) as lines:
            async for line in lines:
                if "progress" in line:
                    count = int(line["progress"]["done"])
                    yield count - done
                    done = count

    async def flush(self) -> None:
        await self._transport.call(Call(method="POST", path=f"{PREFIX}/flush"))

    async def health(self, principal: Principal) -> Mapping[str, Json]:
        """How the server is. One whose ledger does not answer says so with 503, which is an answer."""
        call = Call(method="GET", path=f"{MEMORYWIRE}/health", answers=frozenset({503}), repeat=Repeat.UNSENT)
        told = await self._transport.call(call)
        part(str, told, "status")
        return understood(dict[str, Any], told)


def _parts(items: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    size = 0
    for item in items:
        length = len(encoded(item) or b"")
        if part and (len(part) >= _ITEMS or size + length > _BYTES):
            yield part
            part, size = [], 0
        part.append(item)
        size += length
    if part:
        yield part
