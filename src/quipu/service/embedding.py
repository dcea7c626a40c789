"""Texts to vectors in the tenant's space."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence

from quipu.errors import BackendUnavailableError, ConflictError, UnsupportedError
from quipu.model.change import Commit
from quipu.model.journal import Draft, Op
from quipu.model.operations import Embedding
from quipu.model.record import Record
from quipu.model.value import Json
from quipu.ports.embedder import Embedder, Remembering
from quipu.ports.ledger import Space
from quipu.ports.parts import Parts
from quipu.rules.texts import embedding_text
from quipu.rules.vectors import unit_vector

_log = logging.getLogger("quipu.embedding")
_BATCH = 256


class Vectors:
    """The embedder and the space of each tenant, kept together: vectors of different spaces are never mixed."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._spaces: dict[str, Space] = {}
        self._has_warned = False

    async def space(self, tenant: str, given: Embedding | None = None) -> Space | None:
        """The tenant's space; the first embedder or vector that comes settles it."""
        known = self._spaces.get(tenant) or await self._parts.ledger.space(tenant)
        embedder = self._parts.embedder
        if known is None and embedder is not None:
            own = Space(embedder.model, embedder.dimensions)
            known = await self._parts.ledger.settle_space(tenant, own)
        if known is None and given is not None:
            size = len(given.vector) // 4 if isinstance(given.vector, bytes) else len(given.vector)
            unit_vector(given, given.model, size)  # a vector that is none settles nothing
            known = await self._parts.ledger.settle_space(tenant, Space(given.model, size))
        if known is None:
            return None
        if embedder is not None and not self._fits(known):
            raise ConflictError(
                f"This memory was embedded with {known.model}; the embedder now is {embedder.model}.",
                reason="embedding_mismatch",
                hint="Run `quipu reembed` to move it over, or configure the former embedder.",
            )
        self._spaces[tenant] = known
        return known

    def last_seen(self, tenant: str) -> Space | None:
        """The space that the last vector was made for."""
        return self._spaces.get(tenant)

    def forget_texts(self) -> None:
        """After an erasure: let the embedder keep nothing of what it has seen."""
        if isinstance(self._parts.embedder, Remembering):
            self._parts.embedder.clear()

    def model(self, tenant: str) -> str | None:
        """The model of the tenant's space, as far as this process knows it."""
        space = self._spaces.get(tenant)
        return None if space is None else space.model

    async def of_query(self, tenant: str, text: str, given: Embedding | None) -> bytes | None:
        """The query's vector; None when there is no way to have one, and recall goes by words."""
        space = await self.space(tenant)
        if space is None:
            return None
        if given is not None:
            return unit_vector(given, space.model, space.dimensions)
        vectors = await self._embedded([text])
        return vectors[0]

    def given(self, tenant: str, embedding: Embedding | None) -> bytes | None:
        """The vector that comes with a record, where the space is settled: then that is all there is to do."""
        known = self._spaces.get(tenant)
        if embedding is None or known is None or not self._fits(known):
            return None
        return unit_vector(embedding, known.model, known.dimensions)

    async def of_record(self, tenant: str, record: Record, given: Embedding | None) -> bytes | None:
        """The same for one record."""
        (vector,) = await self.of_records(tenant, [record], [given])
        return vector

    def _fits(self, space: Space) -> bool:
        """Whether the embedder, if there is one, makes vectors of this space."""
        embedder = self._parts.embedder
        return embedder is None or (embedder.model == space.model and embedder.dimensions == space.dimensions)

    async def of_records(
        self, tenant: str, records: Sequence[Record], given: Sequence[Embedding | None]
    ) -> Sequence[bytes | None]:
        """A vector for each record: the caller's, or the embedder's."""
        first = next((embedding for embedding in given if embedding is not None), None)
        space = await self.space(tenant, first)
        if space is None:
            return [None] * len(records)
        vectors: list[bytes | None] = [
            None if embedding is None else unit_vector(embedding, space.model, space.dimensions)
            for embedding in given
        ]
        missing = [place for place, vector in enumerate(vectors) if vector is None]
        if not missing:
            return vectors
        made = await self._embedded([embedding_text(records[place]) for place in missing])
        for place, vector in zip(missing, made, strict=True):
            vectors[place] = vector
        return vectors

    async def _embedded(self, texts: Sequence[str]) -> Sequence[bytes | None]:
        """Vectors, or Nones when the embedder cannot be had: writing and recalling by words go on."""
        embedder = self._parts.embedder
        if embedder is None or not texts:
            return [None] * len(texts)
        try:
            return await embedder.embed(texts)
        except BackendUnavailableError as error:
            if not self._has_warned:
                self._has_warned = True
                _log.warning(
                    "No embedder: %s %s Until then memory works by words alone; `quipu reembed` makes the vectors "
                    "of what was written meanwhile.",
                    error.message,
                    error.hint or "",
                )
            return [None] * len(texts)

    async def reembed(self, tenant: str, actor: str) -> AsyncIterator[int]:
        """Renew terms that are not those of their texts, then bring every version into the configured embedder's space.

        Yields how many terms or vectors were made each time. Stops and resumes anywhere: what is right is not done
        again. Recall stays in the former space until the last vector is there.
        """
        ledger, embedder = self._parts.ledger, self._parts.embedder
        had_other_terms, terms = await ledger.has_other_terms(tenant), 0
        from quipu.service.renewing import renewed  # hardly ever

        async for count in renewed(ledger, tenant):
            terms += count
            yield count
        if embedder is None:
            if terms:
                await self._note_reembed(tenant, actor, {"terms": terms})
            elif not had_other_terms:
                raise UnsupportedError("There is no embedder to embed with.", reason="no_embedder")
            return
        target = Space(embedder.model, embedder.dimensions)
        done = 0
        async for count in self._filled(tenant, target, embedder):
            done += count
            yield count
        await ledger.adopt_space(tenant, target)
        self._spaces[tenant] = target
        # What was written in the former space while the last vectors were made.
        async for count in self._filled(tenant, target, embedder):
            done += count
            yield count
        made: dict[str, Json] = {"model": target.model, "dimensions": target.dimensions, "versions": done}
        await self._note_reembed(tenant, actor, {**made, "terms": terms} if terms else made)

    async def _note_reembed(self, tenant: str, actor: str, detail: dict[str, Json]) -> None:
        draft = Draft(op=Op.REEMBED, actor=actor, at=self._parts.clock(), detail=detail)
        await self._parts.ledger.commit(Commit(tenant=tenant, draft=draft))

    async def _filled(self, tenant: str, target: Space, embedder: Embedder) -> AsyncIterator[int]:
        """Vectors for what has none in the space yet, batch by batch."""
        ledger = self._parts.ledger
        last: set[tuple[str, int]] = set()
        while records := await ledger.without_vector(tenant, target, _BATCH):
            named = {(record.id, record.version) for record in records}
            if named & last:  # only two spaces have room, so that both would begin again for ever
                raise ConflictError(
                    "Somebody else is moving this memory to another embedder.",
                    reason="embedding_mismatch",
                    hint="Let one of the two finish, then run `quipu reembed` again.",
                )
            last = named
            vectors = await embedder.embed([embedding_text(record) for record in records])
            await ledger.add_vectors(tenant, target, list(zip(records, vectors, strict=True)))
            yield len(records)
