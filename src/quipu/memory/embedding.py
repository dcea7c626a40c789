"""Texts to vectors in the tenant's space: vectors of different models are never mixed."""

import logging
from collections.abc import Sequence

from quipu.embed.port import Calibration, Embedder, Role, unit_vector
from quipu.errors import BackendUnavailableError, ConflictError
from quipu.ledger.index import Space
from quipu.ledger.ledger import Ledger
from quipu.memory.model import GivenEmbedding
from quipu.model.record import Record
from quipu.search.text import embedding_texts

_log = logging.getLogger("quipu.embedding")


class Embedding:
    """The embedder, and the space of each tenant."""

    def __init__(self, ledger: Ledger, embedder: Embedder | None) -> None:
        self._ledger, self._embedder = ledger, embedder
        self._spaces: dict[str, Space] = {}
        self._has_warned = False

    async def space(self, tenant: str, given: GivenEmbedding | None = None) -> Space | None:
        """The tenant's space; the first embedder or vector that comes decides it."""
        known = self._spaces.get(tenant) or await self._ledger.space(tenant)
        own = self.own
        if known is None and own is not None:
            known = await self._ledger.settle_space(tenant, own)
        if known is None and given is not None:
            size = len(given.vector)
            unit_vector(given.vector, given.model, model=given.model, dimensions=size)
            known = await self._ledger.settle_space(tenant, Space(given.model, size))
        if known is not None and own is not None and known != own:
            raise ConflictError(
                f"This memory was embedded with {known.model}; the embedder now is {own.model}.",
                reason="embedding_mismatch",
                hint="Run `quipu reindex` to move it over, or configure the former embedder.",
            )
        if known is not None:
            self._spaces[tenant] = known
        return known

    @property
    def own(self) -> Space | None:
        """The space of the embedder; None without one."""
        return None if self._embedder is None else Space(self._embedder.model, self._embedder.dimensions)

    @property
    def calibration(self) -> Calibration | None:
        """What nearness means under the embedder; None without one, or where nobody has measured it."""
        return None if self._embedder is None else self._embedder.calibration

    async def embed(self, records: Sequence[Record]) -> Sequence[bytes]:
        """Vectors of records in the embedder's own space. Raises BackendUnavailableError where it cannot be had."""
        if self._embedder is None:
            raise BackendUnavailableError("There is no embedder.", reason="no_embedder")
        texts = [embedding_texts(record) for record in records]
        made = await self._embedder.embed([text for some in texts for text in some])
        return [vectors or b"" for vectors in _joined(made, texts)]

    def forget_space(self, tenant: str) -> None:
        """The tenant has moved to another space."""
        self._spaces.pop(tenant, None)

    def model(self, tenant: str) -> str | None:
        """The model of the tenant's space, as far as this process knows it."""
        space = self._spaces.get(tenant)
        return None if space is None else space.model

    def forget_texts(self) -> None:
        """After an erasure: the embedder keeps nothing of what it has seen."""
        if self._embedder is not None:
            self._embedder.clear()

    async def of_query(self, tenant: str, text: str, given: GivenEmbedding | None) -> bytes | None:
        """The query's vector; None when there is no way to have one, and recall goes by words."""
        space = await self.space(tenant)
        if space is None:
            return None
        if given is not None:
            return _given(given, space)
        return (await self._embedded([text], "query"))[0]

    async def of_records(
        self, tenant: str, records: Sequence[Record], given: Sequence[GivenEmbedding | None]
    ) -> list[bytes | None]:
        """The vectors of each record, one behind the other: the caller's one, or the embedder's, one for each passage."""
        own = next((one for one in given if one is not None), None)
        space = None if self._embedder is None and own is None else await self.space(tenant, own)
        if space is None:
            return [None] * len(records)
        vectors: list[bytes | None] = [None if one is None else _given(one, space) for one in given]
        missing = [place for place, vector in enumerate(vectors) if vector is None]
        if missing:
            texts = [embedding_texts(records[place]) for place in missing]
            made = await self._embedded([text for some in texts for text in some])
            for place, of_record in zip(missing, _joined(made, texts), strict=True):
                vectors[place] = of_record
        return vectors

    async def check(self, tenant: str, given: GivenEmbedding | None) -> None:
        """Raises where a vector of the caller's does not fit the tenant's space."""
        if given is not None and (space := await self.space(tenant, given)) is not None:
            _given(given, space)

    async def _embedded(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes | None]:
        """Vectors, or Nones when the embedder cannot be had: writing and recalling by words go on."""
        if self._embedder is None or not texts:
            return [None] * len(texts)
        try:
            return await self._embedder.embed(texts, role)
        except BackendUnavailableError as error:
            if not self._has_warned:
                self._has_warned = True
                _log.warning(
                    "No embedder: %s %s Until then memory works by words alone; `quipu reindex` makes the vectors "
                    "of what was written meanwhile.",
                    error.message,
                    error.hint or "",
                )
            return [None] * len(texts)


def _joined(vectors: Sequence[bytes | None], texts: Sequence[Sequence[str]]) -> list[bytes | None]:
    """For each record its vectors, one behind the other; None where there are none."""
    following = iter(vectors)
    parts = [[next(following) for _ in some] for some in texts]
    return [b"".join(filter(None, part)) if all(part) else None for part in parts]


def _given(given: GivenEmbedding, space: Space) -> bytes:
    return unit_vector(given.vector, given.model, model=space.model, dimensions=space.dimensions)
