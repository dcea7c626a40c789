"""Facts that a language model finds in promoted memories: each is proposed to a person, never simply written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from quipu.errors import BackendUnavailableError, QuipuError
from quipu.model.change import Commit, Erase
from quipu.model.journal import Draft, Op
from quipu.model.operations import RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import Principal
from quipu.model.record import Link, MemoryType, Record, Sensitivity, State
from quipu.ports.parts import Parts
from quipu.rules import settling
from quipu.rules.derivations import CONSOLIDATION, DERIVED_FROM, EXTRACTION
from quipu.rules.runs_deriving import handling
from quipu.service.resembling import Resembling

#: Sources whose text came out of memory: what is found there was known already.
ECHOES = frozenset({"recall", "memory", EXTRACTION, CONSOLIDATION})
_MOST_FACTS = 10
_LONGEST = 1_000
Remember = Callable[[Principal, RememberRequest], Awaitable[RememberResponse]]


class Extracting:
    """Asks the model, leaves out what is known, proposes the rest."""

    def __init__(self, parts: Parts, resembling: Resembling, remember: Remember) -> None:
        self._parts, self._resembling, self._remember = parts, resembling, remember

    @property
    def is_there(self) -> bool:
        return self._parts.extractor is not None

    async def proposed(self, principal: Principal, source: Record, into: str) -> int:
        """Propose the facts of a source, linked to what it became; returns how many wait now.

        The source comes without registered secrets. What is secret as a whole is masked for everybody who did not ask
        otherwise, and no model is shown it.
        Raises BackendUnavailableError when the model cannot be asked.
        """
        extractor = self._parts.extractor
        if extractor is None or not _is_read(source):
            return 0
        waiting = 0
        for fact in dict.fromkeys(await extractor.facts(source.content)):
            if waiting >= _MOST_FACTS:
                break
            if await self._is_erased(source.tenant, into):  # a model takes its time
                break
            text = " ".join(fact.split())
            if not 0 < len(text) <= _LONGEST or await self._is_known(source, text):
                continue
            request = RememberRequest(
                agent_id=source.agent_id,
                user_id=source.user_id,
                type=MemoryType.SEMANTIC,
                content=text,
                source=EXTRACTION,
                metadata={**handling(source), "extractor": extractor.model},
                expires_at=source.expires_at,
                links=(Link(into, DERIVED_FROM),),
                privacy_intent=source.privacy,
                approval_required=True,
                idempotency_key=settling.key_of("extract", [source], settling.said(text)),
            )
            try:
                answer = await self._remember(replace(principal, trust=settling.trust_of([source])), request)
            except BackendUnavailableError:
                raise
            except QuipuError:
                continue  # a rule forbids it, or it is no memory: the verbatim text is kept anyway
            if await self._is_erased(source.tenant, into):
                # It went just before this was staged: whoever erased it did not find this.
                await self._erase(principal, source, answer.id)
                break
            waiting += answer.pending_approval and not answer.is_replayed
        return waiting

    async def _is_erased(self, tenant: str, record_id: str) -> bool:
        found = (await self._parts.ledger.read(tenant, [record_id])).get(record_id)
        return found is None or found.state is State.ERASED

    async def _erase(self, principal: Principal, source: Record, record_id: str) -> None:
        draft = Draft(op=Op.ERASE, actor=principal.name, at=self._parts.clock(), agent=source.agent_id)
        commit = Commit(tenant=source.tenant, draft=draft, changes=(Erase(id=record_id),))
        await self._parts.ledger.commit(commit)

    async def _is_known(self, source: Record, text: str) -> bool:
        """Whether the source or a live memory says this already: what was recalled is not stored once more."""
        if settling.said(text) == settling.said(source.content):
            return True
        draft = replace(source, id="", type=MemoryType.SEMANTIC, content=text)
        near = await self._resembling.to(draft)
        return any(settling.said(other.content) == settling.said(text) for other, _ in near)


def _is_read(source: Record) -> bool:
    """Whether a model is shown it."""
    is_echo = source.source in ECHOES or source.metadata.get("recalled") is True
    is_secret = source.privacy is not None and source.privacy.sensitivity is Sensitivity.SECRET
    return not is_echo and not is_secret and source.type is not MemoryType.PROCEDURAL
