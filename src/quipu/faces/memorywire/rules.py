"""Rules over HTTP: shown, replaced, tried out on what was written."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InvalidError
from quipu.faces.http.authentication import principal_of
from quipu.faces.http.bodies import json_body, json_object
from quipu.faces.memorywire import answering, asking
from quipu.model.governance import Replayed, Rule
from quipu.model.learning import Suggestion
from quipu.model.value import Json
from quipu.rules.policy_parsing import rule_body
from quipu.service.memory import MemoryService

_LAST = 1_000


class Own(StrEnum):
    """Whether only the tenant's own are meant."""

    YES = "true"
    NO = "false"


class Rules:
    """Handlers over a service."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def show(self, request: Request) -> Response:
        asking.known(request, "own")
        principal = principal_of(request)
        if (asking.member(request, "own", Own) or Own.NO) is Own.YES:
            own = await self._service.policies.own(principal)
            return answering.answered({"rules": [rule_body(rule) for rule in own]})
        return answering.answered(self._told(await self._service.policies.list(principal)))

    async def replace(self, request: Request) -> Response:
        principal = principal_of(request)
        return answering.answered(
            self._told(await self._service.policies.set(principal, await json_body(request)))
        )

    async def test(self, request: Request) -> Response:
        """What draft rules would have done to the last writes."""
        body = await json_object(request)
        if unknown := sorted(body.keys() - {"rules", "last"}):
            raise InvalidError.at(
                f"/{unknown[0]}", "unknown_field", "Unknown field.", accepted=["rules", "last"]
            )
        last = body.get("last", _LAST)
        if not isinstance(last, int) or isinstance(last, bool):
            raise InvalidError.at("/last", "bad_value", "A whole number is needed here.")
        draft = {"rules": body["rules"]} if body.get("rules") is not None else None
        tried = await self._service.policies.tried(principal_of(request), draft, last)
        return answering.answered({"writes": [_replayed(one) for one in tried]})

    async def suggested(self, request: Request) -> Response:
        """Rules that decisions suggest."""
        asking.known(request)
        found = await self._service.learning.suggested(principal_of(request))
        return answering.answered({"suggestions": [_suggestion(one) for one in found]})

    async def settle(self, request: Request) -> Response:
        """Accept one, or say that it is not wanted."""
        body, name = await json_object(request), request.path_params["id"]
        accept = body.get("accept")
        if body.keys() != {"accept"} or not isinstance(accept, bool):
            raise InvalidError.at(
                "/accept", "bad_value", "True or false is needed here.", accepted=["true", "false"]
            )
        principal = principal_of(request)
        if accept:
            return answering.answered(self._told(await self._service.learning.accept(principal, name)))
        await self._service.learning.dismiss(principal, name)
        return answering.answered(self._told(await self._service.policies.list(principal)))

    def _told(self, rules: tuple[Rule, ...]) -> Mapping[str, Json]:
        return {
            "rules": [rule_body(rule) for rule in rules],
            "default": self._service.policies.default.value,
        }


def _suggestion(one: Suggestion) -> dict[str, Json]:
    return {
        "id": one.id,
        "rule": rule_body(one.rule),
        "evidence": list(one.evidence),
        "deciders": list(one.deciders),
        "first_at": one.first_at,
        "last_at": one.last_at,
        "met": one.met,
        "missed": one.missed,
        "effect": one.effect,
    }


def _replayed(one: Replayed) -> dict[str, Json]:
    return {
        "seq": one.seq,
        "at": one.at,
        "operation": one.operation,
        "agent_id": one.agent_id,
        "actor": one.actor,
        "effect": one.verdict.effect.value,
        "rule": one.verdict.rule,
        "reason": one.verdict.reason or "",
    }
