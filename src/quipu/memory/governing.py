"""Governing memory: rules that decisions suggest, undoing by cause, and telling other machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quipu.memory import arguments
from quipu.memory.session import Session
from quipu.model.notices import Event, IssuedWebhook, Webhook

if TYPE_CHECKING:
    from quipu.model.governance import Rule
    from quipu.model.learning import Suggestion
    from quipu.model.recovery import RecoverResponse


class Governing(Session):
    """For those who answer for what is remembered."""

    async def suggested_rules(self) -> tuple[Suggestion, ...]:
        """Rules that decisions suggest, with what speaks for them. They do nothing before one is accepted."""
        return await (await self._service()).learning.suggested(self._principal)

    async def accept_rule(self, suggestion_id: str, /) -> tuple[Rule, ...]:
        """Make a suggestion a rule; it ends by itself after 90 days. Returns all that decide now."""
        asked = arguments.text(suggestion_id, "/suggestion_id")
        return await (await self._service()).learning.accept(self._principal, asked)

    async def dismiss_rule(self, suggestion_id: str, /) -> None:
        """Do not suggest it again."""
        asked = arguments.text(suggestion_id, "/suggestion_id")
        await (await self._service()).learning.dismiss(self._principal, asked)

    async def recover(
        self,
        *,
        sources: Sequence[str] = (),
        run_id: str | None = None,
        import_id: str | None = None,
        proposal_id: str | None = None,
        principal: str | None = None,
        since: str | int | None = None,
        until: str | int | None = None,
        trusted: Sequence[str] = (),
        confidence_below: float | None = None,
        detectors: bool = False,
        quarantine: bool = False,
        hard: bool = False,
        apply: bool = False,
        reason: str | None = None,
        limit: int = 1000,
    ) -> RecoverResponse:
        """Find what a cause has done to this agent's memory, and with `apply` undo it.

        Causes are ANDed: sources (globs), a run, an import, a proposal, who wrote it, a stretch of time. Without one,
        live memories are looked through for suspicions: sources that are not `trusted`, low confidence, what detectors
        find. `quarantine` takes it out of sight and lets a person decide; `hard` erases what would be forgotten.
        """
        from quipu.model.recovery import Action, RecoverRequest

        words = {"detectors": detectors, "quarantine": quarantine, "hard": hard, "apply": apply}
        for name, word in words.items():
            arguments.truth(word, f"/{name}")
        request = RecoverRequest(
            agent_id=self.agent_id,
            sources=arguments.texts(sources, "/sources"),
            run_id=arguments.maybe_plain(run_id, "/run_id"),
            import_id=arguments.maybe_plain(import_id, "/import_id"),
            proposal_id=arguments.maybe_plain(proposal_id, "/proposal_id"),
            principal=arguments.maybe_plain(principal, "/principal"),
            since=arguments.moment(since, "/since"),
            until=arguments.moment(until, "/until"),
            trusted=arguments.texts(trusted, "/trusted"),
            confidence_below=None
            if confidence_below is None
            else arguments.number(confidence_below, "/confidence_below"),
            detectors=detectors,
            action=Action.QUARANTINE if quarantine else Action.UNDO,
            hard_delete=hard,
            dry_run=not apply,
            reason=arguments.maybe_plain(reason, "/reason"),
            limit=arguments.whole(limit, "/limit"),
        )
        return await (await self._service()).recovery.recover(self._principal, request)

    async def add_webhook(
        self,
        url: str,
        /,
        *,
        events: Sequence[Event | str] = tuple(Event),
        agents: Sequence[str] = ("*",),
        with_content: bool = False,
    ) -> IssuedWebhook:
        """Tell an address of held writes and decisions. The key that notices are signed with is told this once."""
        service = await self._service()
        return await service.notices.add(
            self._principal,
            url=arguments.text(url, "/url"),
            events=arguments.members(Event, events, "/events"),
            agents=arguments.texts(agents, "/agents"),
            with_content=arguments.truth(with_content, "/with_content"),
        )

    async def list_webhooks(self) -> tuple[Webhook, ...]:
        """Where notices go, and how they are getting on."""
        return await (await self._service()).notices.list(self._principal)

    async def remove_webhook(self, webhook_id: str, /) -> None:
        """Tell it nothing more."""
        asked = arguments.text(webhook_id, "/webhook_id")
        await (await self._service()).notices.remove(self._principal, asked)

    async def ping_webhook(self, webhook_id: str, /) -> None:
        """Send a notice of nothing, to see that it arrives."""
        asked = arguments.text(webhook_id, "/webhook_id")
        await (await self._service()).notices.ping(self._principal, asked)
