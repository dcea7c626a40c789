"""Facts that a language model finds in texts: drafts that say what they were found in, and are only ever proposed.

A text is a memory or a stretch of a conversation alike; what is done with a draft is its caller's decision.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from quipu.consolidation.rules import (
    CONSOLIDATION,
    DERIVED_FROM,
    key_of,
    privacy_of,
    trust_of,
    words,
)
from quipu.errors import BackendUnavailableError, QuipuError
from quipu.governance.similar_memories import SimilarMemories
from quipu.memory.model import LinkTo, RememberRequest
from quipu.memory.remember import Remember
from quipu.memory.views import is_secret
from quipu.model.record import Record
from quipu.operation import Context
from quipu.secrets.service import Secrets

EXTRACTION = "extraction"
#: Sources whose text came out of memory: what is found there was known already.
_ECHOES = frozenset({"recall", "memory", EXTRACTION, CONSOLIDATION})
_MOST_FACTS = 10
_LONGEST = 1_000
#: What metadata says of who may have a memory; whatever is made of it says the same.
_HANDLING = ("exportable", "scope_id")


@dataclass(frozen=True, slots=True)
class Passage:
    """A text to read, and the id of what says it."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence that stands by itself, and the places of the texts that state it."""

    text: str
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact, the ids of what it was found in, and the memories that are like it, nearest first."""

    text: str
    derived_from: tuple[str, ...]
    near: tuple[Record, ...] = ()


#: Existing memories that a text is like, nearest first.
Near: TypeAlias = Callable[[str], Awaitable[Sequence[Record]]]


class Extractor(Protocol):
    """A language model that is asked what facts texts hold."""

    @property
    def model(self) -> str:
        """The model's name, kept with what it finds."""
        ...

    async def facts(self, texts: Sequence[str]) -> Sequence[Fact]:
        """What the texts state. Raises BackendUnavailableError."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Asks the model, leaves out what is known, proposes the rest."""

    extractor: Extractor
    remember: Remember
    similar: SimilarMemories
    secrets: Secrets

    async def drafts(self, passages: Sequence[Passage], near: Near) -> list[Draft]:
        """The facts of these texts that memory does not say already, word for word."""
        seen = {words(passage.text) for passage in passages}
        found: list[Draft] = []
        for fact in await self.extractor.facts([passage.text for passage in passages]):
            text = " ".join(fact.text.split())
            if not 0 < len(text) <= _LONGEST or words(text) in seen or len(found) == _MOST_FACTS:
                continue
            seen.add(words(text))
            like = tuple(await near(text))
            if all(words(one.content) != words(text) for one in like):
                found.append(Draft(text, tuple(passages[place].id for place in fact.places), like))
        return found

    async def propose(self, ctx: Context, source: Record, into: str) -> int:
        """Propose the facts of what was promoted, linked to what it became; how many wait now.

        What is secret as a whole is shown to no model, and of what is not, registered secrets are masked as they are
        known now. Raises BackendUnavailableError when the model cannot be asked.
        """
        if not is_read(source):
            return 0
        shown = (await self.secrets.guard(ctx.tenant, None)).clean_record(source)

        async def near(text: str) -> Sequence[Record]:
            like = replace(source, id="", type="semantic", content=text)
            return [record for record, _ in await self.similar.to(ctx.tenant, like)]

        waiting = 0
        for draft in await self.drafts([Passage(into, shown.content)], near):
            try:
                answer = await self.remember.remember(
                    _as_trusted_as(ctx, source), self._request(source, draft)
                )
            except BackendUnavailableError:
                raise
            except QuipuError:
                continue  # a rule forbids it, what it was found in is gone, or it is no text that can be kept
            waiting += answer.pending_approval and not answer.replayed
        return waiting

    def _request(self, source: Record, draft: Draft) -> RememberRequest:
        handling = {name: source.metadata[name] for name in _HANDLING if name in source.metadata}
        return RememberRequest.parse(
            {
                "agent_id": source.agent_id,
                "user_id": source.user_id,
                "content": draft.text,
                "source": EXTRACTION,
                "metadata": {**handling, "extractor": self.extractor.model},
                "expires_at": source.expires_at,
                "links": tuple(LinkTo(to=name, rel=DERIVED_FROM) for name in draft.derived_from),
                "privacy_intent": privacy_of(source.privacy),
                "approval_required": True,
                "idempotency_key": key_of("extract", [source], words(draft.text)),
            }
        )


def is_read(source: Record) -> bool:
    """Whether a model is shown it."""
    is_echo = source.source in _ECHOES or source.metadata.get("recalled") is True
    return not is_echo and not is_secret(source) and source.type != "procedural"


def _as_trusted_as(ctx: Context, source: Record) -> Context:
    return replace(ctx, principal=replace(ctx.principal, trust=trust_of([source])))
