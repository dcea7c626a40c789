"""Suggested rules, recovery and webhooks of a server."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.client.address import segment
from quipu.client.answers import part, understood
from quipu.client.bodies import sent
from quipu.client.patience import Repeat
from quipu.client.transport import Call, Transport
from quipu.faces.rest.paths import MEMORYWIRE, PREFIX
from quipu.model.governance import Rule
from quipu.model.learning import Suggestion
from quipu.model.notices import Event, IssuedWebhook, Webhook
from quipu.model.principal import Principal
from quipu.model.recovery import RecoverRequest, RecoverResponse


class RemoteLearning:
    """Rules that decisions there suggest."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def suggested(self, principal: Principal) -> tuple[Suggestion, ...]:
        body = await self._transport.call(Call(method="GET", path=f"{MEMORYWIRE}/rules/suggested"))
        return part(tuple[Suggestion, ...], body, "suggestions")

    async def accept(self, principal: Principal, suggestion_id: str) -> tuple[Rule, ...]:
        return part(tuple[Rule, ...], await self._said(suggestion_id, accept=True), "rules")

    async def dismiss(self, principal: Principal, suggestion_id: str) -> None:
        await self._said(suggestion_id, accept=False)

    async def _said(self, suggestion_id: str, *, accept: bool) -> object:
        path = f"{MEMORYWIRE}/rules/suggested/{segment(suggestion_id)}"
        call = Call(method="POST", path=path, body={"accept": accept}, repeat=Repeat.UNSENT)
        return await self._transport.call(call)


class RemoteRecovery:
    """Undoing what a cause has done there."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def recover(self, principal: Principal, request: RecoverRequest) -> RecoverResponse:
        """A dry run may be repeated; what is applied is sent once."""
        repeat = Repeat.HARMLESS if request.dry_run else Repeat.UNSENT
        call = Call(method="POST", path=f"{PREFIX}/recover", body=sent(request), repeat=repeat)
        return understood(RecoverResponse, await self._transport.call(call))


class RemoteNotices:
    """Whom that server tells."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def add(
        self,
        principal: Principal,
        *,
        url: str,
        events: Sequence[Event] = tuple(Event),
        agents: Sequence[str] = ("*",),
        with_content: bool = False,
    ) -> IssuedWebhook:
        body = {
            "url": url,
            "events": list(events),
            "agents": list(agents),
            "with_content": with_content,
        }
        call = Call(method="POST", path=f"{PREFIX}/webhooks", body=sent(body), repeat=Repeat.UNSENT)
        return understood(IssuedWebhook, await self._transport.call(call))

    async def list(self, principal: Principal) -> tuple[Webhook, ...]:
        body = await self._transport.call(Call(method="GET", path=f"{PREFIX}/webhooks"))
        return part(tuple[Webhook, ...], body, "webhooks")

    async def remove(self, principal: Principal, webhook_id: str) -> None:
        await self._transport.call(Call(method="DELETE", path=_path(webhook_id), repeat=Repeat.UNSENT))

    async def ping(self, principal: Principal, webhook_id: str) -> None:
        path = f"{_path(webhook_id)}/ping"
        await self._transport.call(Call(method="POST", path=path, repeat=Repeat.UNSENT))


def _path(webhook_id: str) -> str:
    return f"{PREFIX}/webhooks/{segment(webhook_id)}"
