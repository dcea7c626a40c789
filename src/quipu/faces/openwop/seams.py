"""Test seams: they make passes of the host visible, exist behind one setting, and always need a credential."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InvalidError, NotFoundError
from quipu.faces.http.authentication import principal_of
from quipu.faces.openwop import asking
from quipu.faces.openwop.runs import answer
from quipu.model.runs import HostOptions
from quipu.ports.surroundings import Clock
from quipu.rules import runs_options
from quipu.rules.runs_options import NewEntry
from quipu.service.memory import MemoryService
from quipu.service.runs_commitments import CONDITIONS, Condition
from quipu.service.runs_upkeep import INDEX

#: Shaped like a key that detectors know.
_CANARY = "sk-ant-api03-" + "CANARYopenwopCONFORMANCENEVERSECRET0123456789abcdefghij"
_INTENTION = "CANARY-openwop-CONFORMANCE-NEVER-SECRET-intention"
_SAMPLE = ("The harbour opens at six. Boats wait outside.", "The lamp is lit at dusk.")


class SeamRoutes:
    """404 while they are off."""

    def __init__(self, service: MemoryService, options: HostOptions, clock: Clock) -> None:
        self._service, self._options, self._clock = service, options, clock

    async def _body(self, request: Request) -> dict[str, Any]:
        if not self._options.has_seams:
            raise NotFoundError("There is nothing at this address.", reason="route")
        body = await asking.body_of(request)
        asking.text(body, "memoryRef", most=256)
        return body

    async def seed(self, request: Request) -> Response:
        body = await self._body(request)
        entries: Any = body.get("entries")
        if not isinstance(entries, list):
            raise InvalidError.at("/entries", "wrong_type", "entries are a list.", accepted=["array"])
        for index, given in enumerate(cast("list[Any]", entries)):
            if not isinstance(given, dict):
                raise InvalidError.at(f"/entries/{index}", "wrong_type", "An entry is an object.")
            entry = cast("dict[str, Any]", given)
            name, content = asking.text(entry, "id", most=1500), entry.get("content")
            if not isinstance(content, str):
                raise InvalidError.at(f"/entries/{index}/content", "wrong_type", "content is a text.")
            tags = runs_options.tags(entry.get("tags"))
            await self._service.runs.deriving.seed(
                principal_of(request), body["memoryRef"], name, content, tags
            )
        return answer({"seeded": len(cast("list[Any]", entries))}, 201)

    async def compact(self, request: Request) -> Response:
        body = await self._body(request)
        made = await self._service.runs.upkeep.compact(principal_of(request), body["memoryRef"])
        if made is None:
            return Response(status_code=204)
        return answer(
            {"type": "memory.compacted", "payload": made.payload, "outputContent": made.record.content}
        )

    async def distill(self, request: Request) -> Response:
        body = await self._body(request)
        sources = _sources(body)
        principal = principal_of(request)
        if sources is None and not await self._service.runs.memory.list(
            principal, body["memoryRef"], runs_options.ListOptions(limit=1)
        ):
            sources = list(_SAMPLE)
        made, checksum, index = await self._service.runs.upkeep.distill(
            principal,
            body["memoryRef"],
            body.get("tokenBudget"),
            sources,
            with_index=body.get("indexEmitted") is True,
        )
        shown: dict[str, Any] = {
            "event": {"type": "memory.compacted", "distillation": made.payload["distillation"]},
            "archiveChecksum": checksum,
            "indexUpdated": index is not None,
        }
        if index is not None:
            shown["indexFile"] = {"path": INDEX, "content": index}
        return answer(shown)

    async def consolidate(self, request: Request) -> Response:
        body = await self._body(request)
        principal, ref = principal_of(request), body["memoryRef"]
        has_canary = body.get("includeSecretCanary") is True
        if has_canary:
            await self._service.runs.memory.put(principal, ref, NewEntry(content=f"The value is {_CANARY}."))
        told = await self._service.runs.upkeep.consolidate(principal, ref)
        shown: dict[str, Any] = {"event": told}
        if has_canary:
            left = await self._service.runs.memory.list(principal, ref, runs_options.ListOptions(limit=500))
            shown["secretLeaked"] = any(_CANARY in record.content for record in left)
        return answer(shown)

    async def fire(self, request: Request) -> Response:
        body = await self._body(request)
        kind = body.get("condition")
        if kind not in CONDITIONS:
            raise InvalidError.at(
                "/condition", "bad_value", "There is no such condition.", accepted=CONDITIONS
            )
        principal, ref = principal_of(request), body["memoryRef"]
        runs = self._service.runs
        tag = "conformance-predicate"
        condition = Condition(due_at=self._clock()) if kind == "time" else Condition(tag=tag)
        name = await runs.commitments.add(principal, ref, f"Remind them: {_INTENTION}", condition)
        if kind == "predicate":
            await runs.memory.put(principal, ref, NewEntry(content="The condition holds.", tags=(tag,)))
        fired = [*await runs.commitments.fire(principal, ref), *await runs.commitments.fire(principal, ref)]
        mine = [event for event in fired if event["commitmentId"] == name]
        shown: dict[str, Any] = {"event": mine[0] if mine else None, "fireCount": len(mine)}
        if body.get("includeIntentionCanary") is True:
            shown["intentionCanary"] = _INTENTION
        return answer(shown)


def _sources(body: dict[str, Any]) -> Sequence[str] | None:
    given: Any = body.get("sources")
    if given is None:
        return None
    if not isinstance(given, list):
        raise InvalidError.at("/sources", "wrong_type", "sources are a list.", accepted=["array"])
    texts: list[str] = []
    for index, source in enumerate(cast("list[Any]", given)):
        content: Any = cast("dict[str, Any]", source).get("content") if isinstance(source, dict) else source
        if not isinstance(content, str):
            raise InvalidError.at(f"/sources/{index}", "wrong_type", "A source is a text.")
        texts.append(content)
    return texts
