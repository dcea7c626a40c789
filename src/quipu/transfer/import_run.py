"""Going through a file once: to try what would come in, or to bring it in chunk by chunk; and the report as it grows."""

import asyncio
import hashlib
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from quipu.embed.port import unit_vector
from quipu.errors import InvalidError, QuipuError
from quipu.governance.text_classes import has_instruction
from quipu.ledger.index import Space
from quipu.memory import operations as memory_ops
from quipu.memory.model import GivenEmbedding
from quipu.operation import Context, authorised, bound, dispatch
from quipu.sharing.items import Landing, write_of
from quipu.transfer.model import (
    ADDED,
    ImportCounts,
    ImportedMemory,
    ImportFileRequest,
    ImportRow,
    RefusedItem,
    SampleItem,
)
from quipu.transfer.placement import ImportsOfOwner
from quipu.transfer.tombstones import Tombstones
from quipu.transfer.writes import ImportWrites, Outcome, Row

if TYPE_CHECKING:  # readers of files take a while to load, and most calls need none
    from quipu.transfer.formats.reading import Reading
    from quipu.transfer.formats.values import Found, Item
    from quipu.transfer.formats.vectors import Vectors

#: An item's place, what stands there or why it cannot be read, and its vector.
_Read: TypeAlias = "tuple[int, Item | QuipuError, GivenEmbedding | None]"
#: Items that are one transaction, and bytes of text that end one earlier.
_CHUNK, _CHUNK_BYTES = 500, 4 << 20
_MOST_REJECTED, _MOST_SHOWN, _LONGEST_SHOWN = 1_000, 20, 200


@dataclass(slots=True, kw_only=True)
class ImportRun:
    """One turn through a file."""

    writes: ImportWrites
    ctx: Context
    request: ImportFileRequest
    reading: "Reading"
    import_id: str
    #: Whether the file is by its importer.
    is_own: bool
    #: Called before each chunk; raises where this process is not the one who works on it any more.
    hold: Callable[[], Awaitable[None]]
    #: Given what changes of the report after each chunk.
    show: Callable[[Mapping[str, Any]], None]
    #: What is kept of the import; None in a trial, which writes nothing.
    row: ImportRow | None = None
    #: What runs before this one brought in, where the import was cut off.
    before: Mapping[str, int] = field(default_factory=dict[str, int])
    counts: Counter[str] = field(default_factory=Counter[str])
    _rejected: list[RefusedItem] = field(default_factory=list[RefusedItem])
    _sample: list[SampleItem] = field(default_factory=list[SampleItem])

    async def through(self) -> None:
        """Everything that is in the file. A trial writes nothing, so it has to know by itself what comes twice."""
        if self.row is not None:
            await self._open_stores()
        reading, owner, landing = self.reading, self._owner(), await self._landing()
        seen: set[bytes] = set()
        found = reading.items()
        space = await self.writes.memory.remember.embedding.space(self.ctx.tenant)
        vectors = await asyncio.to_thread(_vectors, reading, space)
        while stretch := await asyncio.to_thread(_stretch, found, vectors):
            await self.hold()
            chunk: list[tuple[int, ImportedMemory]] = []
            for place, item, vector in stretch:
                self.counts["read"] += 1
                try:
                    memory = self._memory(item, vector, landing)
                except QuipuError as error:
                    self._refuse(place, error)
                    continue
                mark = _mark(memory)
                if mark in seen:
                    self.counts["duplicate"] += 1
                    continue
                if self.row is None:
                    seen.add(mark)
                chunk.append((place, memory))
            if chunk:
                await self._chunk(chunk, owner if reading.is_incremental else None)
            self.tell()
        if owner is not None:
            await Tombstones(
                writes=self.writes,
                ctx=self.ctx,
                reading=reading,
                owner=owner,
                agent_id=self.request.agent,
                counts=self.counts,
                row=self.kept,
            ).follow()
        else:
            reading.loss.dropped("tombstones", sum(1 for _ in reading.tombstones()))
        self.tell()

    def tell(self) -> None:
        self.show(
            {
                "counts": ImportCounts(**self._with_vectors(self.counts)),
                "rejected": tuple(self._rejected),
                "sample": tuple(self._sample),
                "loss": self.reading.loss.report(),
            }
        )

    @property
    def kept(self) -> Row | None:
        """Makes the row that is kept with a chunk; None in a trial."""
        row = self.row
        return None if row is None else lambda outcome: replace(row, counts=self.so_far(outcome))

    def so_far(self, outcome: Outcome | None = None) -> dict[str, int]:
        """What the row of the import says, with a chunk that is just being written."""
        total = Counter(self.counts)
        total.update({name: self.before.get(name, 0) for name in ADDED})
        if outcome is not None:
            total.update({name: outcome.counts[name] for name in ADDED})
        return {name: count for name, count in self._with_vectors(total).items() if count}

    def _with_vectors(self, counts: Mapping[str, int]) -> dict[str, int]:
        anew = counts.get("accepted", 0) - counts.get("vectors_used", 0) if self.reading.has_vectors else 0
        return {**counts, "embedded_anew": anew}

    # -- items --------------------------------------------------------------------------------------------------------

    def _refuse(self, place: int, error: QuipuError) -> None:
        self.counts["refused"] += 1
        if len(self._rejected) < _MOST_REJECTED:
            reason = error.reason or error.code
            self._rejected.append(RefusedItem(place=place, reason=reason, message=error.message))

    def _memory(
        self, item: "Item | QuipuError", vector: GivenEmbedding | None, landing: Landing
    ) -> ImportedMemory:
        """An item as a write that its sender may make. What could steer a model has to wait for a person."""
        if isinstance(item, QuipuError):
            raise item
        made = write_of(item, landing)
        asked = made.request
        if asked.user_id is None and self.request.user_id is not None:
            asked = asked.model_copy(update={"user_id": self.request.user_id})
        asked = bound(self.ctx.principal, asked)
        is_steering = isinstance(asked.content, str) and has_instruction(asked.content)
        self.counts["instruction_like"] += is_steering
        return ImportedMemory.parse(
            {
                **{name: getattr(asked, name) for name in asked.model_fields_set},
                "import_id": self.import_id,
                "record_id": made.record_id,
                "captured_at": made.captured_at,
                "created_at": made.created_at,
                "updated_at": made.updated_at,
                "state": made.state,
                "approval_required": (is_steering or asked.type == "procedural")
                and not self.reading.is_proven,
                "embedding": vector,
            }
        )

    async def _chunk(self, chunk: Sequence[tuple[int, ImportedMemory]], owner: ImportsOfOwner | None) -> None:
        """One transaction; where one item spoils it, each by itself."""
        try:
            outcome = await self.writes.chunk(self.ctx, [one for _, one in chunk], owner, row=self.kept)
        except InvalidError as error:
            if len(chunk) == 1:
                self._refuse(chunk[0][0], error)
                return
            for one in chunk:
                await self._chunk([one], owner)
            return
        self.counts.update(outcome.counts)
        self.reading.loss.dropped("links to memories out of reach", outcome.lost_links)
        for index in sorted(outcome.refused):
            self._refuse(chunk[index][0], outcome.refused[index])
        for memory in outcome.written[: _MOST_SHOWN - len(self._sample)]:
            content = memory.content if isinstance(memory.content, str) else "(a procedure)"
            self._sample.append(
                SampleItem(type=memory.type, content=content[:_LONGEST_SHOWN], tags=memory.tags or ())
            )

    # -- where they land ----------------------------------------------------------------------------------------------

    def _owner(self) -> ImportsOfOwner | None:
        reading = self.reading
        if reading.owner is None or not reading.is_proven:
            return None
        return ImportsOfOwner(
            ledger=self.writes.ledger, tenant=self.ctx.tenant, owner=reading.owner, import_id=self.import_id
        )

    async def _landing(self) -> Landing:
        there = {store.name for store in (await self._stores_here()).values()}
        brought = {one["name"] for one in _stores(self.reading)} if self._may_create() else set[str]()
        return Landing(
            agent_id=self.request.agent,
            source=self.reading.source,
            most_confidence=self.reading.confidence(is_own=self.is_own),
            store=self.request.store,
            stores=frozenset(there | brought),
            now=self.ctx.clock(),
        )

    async def _open_stores(self) -> None:
        """The stores that the file brings, by the ordinary way; those of a name that is taken are the same."""
        there = await self._stores_here()
        for store in _stores(self.reading) if self._may_create() else ():
            if store["name"] not in there:
                await dispatch(self.ctx, memory_ops.CREATE_STORE, store)

    async def _stores_here(self) -> Mapping[str, Any]:
        return await self.writes.memory.remember.scopes.stores(self.ctx.tenant)

    def _may_create(self) -> bool:
        operation = memory_ops.CREATE_STORE
        try:
            authorised(self.ctx.principal, operation, operation.request.parse({"name": "any"}))
        except QuipuError:
            return False
        return self.request.store is None


def _stores(reading: "Reading") -> Iterator[dict[str, Any]]:
    """Stores as a bundle's manifest describes them, as requests."""
    known: dict[Literal["scope", "tier"], tuple[str, ...]] = {
        "scope": ("user", "session", "agent", "team", "global"),
        "tier": ("short_term", "long_term"),
    }
    for store in reading.stores:
        name = store.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= 256 or "\0" in name:
            continue
        found: dict[str, Any] = {"name": name}
        found |= {word: store[word] for word, words in known.items() if store.get(word) in words}
        for word in ("namespace", "description"):
            text = store.get(word)
            if isinstance(text, str) and 0 < len(text) <= 256 and "\0" not in text:
                found[word] = text
        yield found


def _stretch(found: "Iterator[Found]", vectors: "Vectors | None") -> list[_Read]:
    """As many items as one transaction takes, each with the vector that the file has of it."""
    stretch: list[_Read] = []
    size = 0
    for place, item in islice(found, _CHUNK):
        vector = None
        if isinstance(item, dict):
            vector = None if vectors is None else _vector(vectors, item.get("item_id"))
            content = item.get("content")
            text = cast("dict[str, Any]", content).get("text") if isinstance(content, dict) else None
            size += len(text) if isinstance(text, str) else 0
        stretch.append((place, item, vector))
        if size > _CHUNK_BYTES:
            break
    return stretch


def _vectors(reading: "Reading", space: Space | None) -> "Vectors | None":
    """The vectors of a file whose owner has signed, if they are of the same model as those that are here."""
    if space is None or not reading.has_vectors or not reading.is_proven:
        return None
    vectors = reading.vectors()
    return (
        vectors
        if vectors and (vectors.model, vectors.dimensions) == (space.model, space.dimensions)
        else None
    )


def _vector(vectors: "Vectors", item_id: Any) -> GivenEmbedding | None:
    """The vector of an item; none where there is none with a direction."""
    data = vectors.of(item_id) if isinstance(item_id, str) else None
    try:
        numbers = (
            None
            if data is None
            else unit_vector(data, vectors.model, model=vectors.model, dimensions=vectors.dimensions)
        )
    except InvalidError:
        return None
    if numbers is None:
        return None
    return GivenEmbedding(model=vectors.model, vector=struct.unpack(f"<{vectors.dimensions}f", numbers))


def _mark(memory: ImportedMemory) -> bytes:
    said = f"{memory.record_id}\n{memory.type}\n{memory.content}"
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8).digest()
