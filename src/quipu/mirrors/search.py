"""Mirrors asked during a recall, and what they say resolved in the ledger.

What a mirror finds counts only as a place in a ranking; text, visibility and filters come from the ledger. A hit with the
mark of this tenant is a record's; one that is another tenant's, or was ours and is gone, is dropped; what never was ours
is *foreign*, and only shown of a mirror that is declared to have contents of its own.
"""

import asyncio
import logging
import math
import re
from array import array
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from quipu.embed.port import Embedder
from quipu.errors import BackendUnavailableError, QuipuError
from quipu.ledger.commit import Keep
from quipu.ledger.reader import Reader
from quipu.memory.recall.mirror_search import ForeignHit, MirrorAnswers
from quipu.memory.scope import in_scope
from quipu.mirrors.backend import Container, Kept, Query, ScoreKind
from quipu.mirrors.copies import Mirror
from quipu.mirrors.model import CONTAINERS, COPIES, MIRRORS, CopyRow
from quipu.mirrors.service import Mirrors
from quipu.model.record import Record
from quipu.model.search import Candidate, Restriction, Scope, Search
from quipu.search.filters import matches
from quipu.search.people import without_names
from quipu.search.text import is_stop_word

_log = logging.getLogger("quipu.mirrors")
#: How many more a mirror that cannot filter is asked for in the end, as a multiple of what is wanted.
_MOST_TIMES: Final = 16
_MOST_CONTAINERS: Final = 1_000


@dataclass(slots=True)
class _Said:
    """One mirror's ranking: a record's id for each hit that is ours, a foreign hit for each that is not."""

    ranking: list[str | ForeignHit] = field(default_factory=list[str | ForeignHit])
    #: How many of them may be returned, as far as that can be told, and how many texts are not the ledger's.
    passing: int = 0
    drift: int = 0
    failure: str | None = None


class _Question:
    """The mirrors at work on one search."""

    def __init__(
        self, search: "MirrorSearches", tenant: str, tasks: Mapping[str, "asyncio.Task[_Said]"]
    ) -> None:
        self._search, self._tenant, self._tasks = search, tenant, tasks

    async def answers(self, seconds: float) -> MirrorAnswers:
        await asyncio.wait(self._tasks.values(), timeout=max(0.0, seconds))
        said = {name: _said(task) for name, task in self._tasks.items()}
        self._search.note_drift(self._tenant, said)
        answered = {name: one.ranking for name, one in said.items() if one.failure is None}
        foreign = [hit for ranking in answered.values() for hit in ranking if isinstance(hit, ForeignHit)]
        return MirrorAnswers(
            rankings={
                name: [hit if isinstance(hit, str) else hit.id for hit in ranking]
                for name, ranking in answered.items()
            },
            foreign={hit.id: hit for hit in foreign},
            failed={name: one.failure for name, one in said.items() if one.failure is not None},
        )


@dataclass(slots=True, kw_only=True)
class MirrorSearches:
    """All mirrors at once, each within its own deadline."""

    mirrors: Mirrors
    embedder: Embedder | None
    deadline_ms: int = 2_000
    votes: Literal["tiebreak", "count"] = "tiebreak"
    ledger_ranks: bool = True
    _noting: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]], init=False)

    @property
    def weights(self) -> Mapping[str, float]:
        return {mirror.name: mirror.weight for mirror in self.mirrors.mirrors}

    @property
    def counts_votes(self) -> bool:
        return self.votes == "count"

    @asynccontextmanager
    async def asked(self, search: Search, wanted: int) -> AsyncGenerator[_Question]:
        tasks = {
            mirror.name: asyncio.create_task(self._said(mirror, search, wanted))
            for mirror in self.mirrors.mirrors
        }
        try:
            yield _Question(self, search.scope.tenant, tasks)
        finally:
            for task in tasks.values():
                task.cancel()

    async def candidates(self, foreign: Sequence[ForeignHit], search: Search) -> Sequence[Candidate]:
        cosines: Sequence[float | None] = [None] * len(foreign)
        if search.vector is not None and self.embedder is not None:
            asked = array("f", search.vector)
            vectors: Sequence[bytes] = ()
            try:
                vectors = await self.embedder.embed([without_names(hit.text).text for hit in foreign])
            except BackendUnavailableError as error:
                _log.warning("Foreign hits are judged by words alone: %s", error.message)
            if vectors and len(vectors[0]) == len(search.vector):
                cosines = [sum(a * b for a, b in zip(asked, array("f", one), strict=True)) for one in vectors]
        return [_candidate(hit, search.text, cosine) for hit, cosine in zip(foreign, cosines, strict=True)]

    # -- one mirror ---------------------------------------------------------------------------------------------------

    async def _said(self, mirror: Mirror, search: Search, wanted: int) -> _Said:
        """Ask for more as long as too little of it may be returned, and there is more to be had."""
        limit = wanted
        try:
            query = await self._query(mirror, search)
            while True:
                answer = await mirror.backend.search(query, limit)
                said = await self._resolved(mirror, search, answer.hits, has_foreign=answer.is_filtered)
                is_enough = answer.is_filtered or not answer.has_more or said.passing >= wanted
                if is_enough or limit >= wanted * _MOST_TIMES:
                    return said
                limit *= 2
        except QuipuError as error:
            return _Said(failure=error.reason or error.code)
        except Exception as error:  # noqa: BLE001  whatever a mirror does, the others answer
            _log.warning("The mirror %s could not be asked: %s", mirror.name, type(error).__name__)
            return _Said(failure="mirror_failed")

    async def _query(self, mirror: Mirror, search: Search) -> Query:
        scope, by = search.scope, search.restriction
        return Query(
            tenant=scope.tenant,
            agent_id=scope.agent_id,
            user_id=scope.user_id,
            store_id=scope.store_id,
            text=search.text,
            types=by.types,
            session_id=by.session_id,
            created_from=by.created_from,
            filter=by.filter,
            containers=tuple(await self._containers(mirror.name, scope)),
        )

    async def _containers(self, name: str, scope: Scope) -> list[Container]:
        """Those in reach that something of ours is in."""
        equal = {"mirror": name}
        if scope.agent_id is not None:
            equal["agent_id"] = scope.agent_id
        if scope.store_id is not None:
            equal["store_id"] = scope.store_id
        rows = await self.mirrors.ledger.page(CONTAINERS, scope.tenant, equal, limit=_MOST_CONTAINERS)
        found = [row.container(scope.tenant) for row in rows]
        return [
            one
            for one in found
            if scope.user_id in (None, one.user_id) and (scope.stores is None or one.store_id in scope.stores)
        ]

    async def _resolved(
        self, mirror: Mirror, search: Search, hits: Sequence[Kept], *, has_foreign: bool
    ) -> _Said:
        """The ranking in the ledger's terms. A foreign hit counts where the mirror has applied every restriction."""
        scope = search.scope
        marked = {
            hit.native_id: hit.mark.record_id for hit in hits if hit.mark and hit.mark.tenant == scope.tenant
        }
        unmarked = [hit.native_id for hit in hits if hit.mark is None]

        def work(reader: Reader) -> tuple[dict[str, CopyRow], dict[str, str], dict[str, Record]]:
            by_native = reader.matching(COPIES, "native_id", unmarked) if unmarked else []
            named = {
                row.value.native_id or "": row.value.record_id
                for row in by_native
                if row.value.mirror == mirror.name
            }
            names = marked | named
            ids = list(dict.fromkeys(names.values()))
            rows = reader.matching(COPIES, "record_id", ids) if ids else []
            copies = {row.value.record_id: row.value for row in rows if row.value.mirror == mirror.name}
            return copies, names, reader.records(ids)

        copies, names, records = await self.mirrors.ledger.read(scope.tenant, work)
        may_be_foreign = has_foreign and mirror.has_own_contents and _shows_foreign(scope)
        said = _Said()
        for hit in hits:
            record_id = names.get(hit.native_id)
            if record_id is None:
                # Another tenant's mark is no record of ours and no foreign hit either.
                if hit.mark is None and may_be_foreign and hit.text:
                    said.ranking.append(_foreign(mirror, hit))
                    said.passing += 1
                continue
            copy, record = copies.get(record_id), records.get(record_id)
            if copy is None or not copy.is_current or record is None:
                continue
            if record_id not in said.ranking:
                said.ranking.append(record_id)
            said.drift += _differs(mirror, hit, copy, record)
            said.passing += _passes(record, scope, search.restriction, search.snapshot.now)
        return said

    # -- drift --------------------------------------------------------------------------------------------------------

    def note_drift(self, tenant: str, said: Mapping[str, _Said]) -> None:
        """Off the hot path: nobody waits for it."""
        for name, one in said.items():
            if one.drift:
                _log.warning("The mirror %s showed %d texts that are not the ledger's.", name, one.drift)
                task = asyncio.create_task(self._noted(tenant, name, one.drift))
                self._noting.add(task)
                task.add_done_callback(self._noting.discard)

    async def _noted(self, tenant: str, name: str, count: int) -> None:
        def work(reader: Reader) -> tuple[None, list[Keep]]:
            row = reader.get(MIRRORS, name)
            return None, [] if row is None else [Keep(MIRRORS, replace(row, drift=row.drift + count))]

        try:
            await self.mirrors.ledger.settle(tenant, work)
        except QuipuError as error:
            _log.warning("What the mirror %s altered could not be noted: %s", name, error.code)

    async def close(self) -> None:
        """Let what is being noted be noted."""
        await asyncio.gather(*self._noting, return_exceptions=True)


def _said(task: "asyncio.Task[_Said]") -> _Said:
    return task.result() if task.done() and not task.cancelled() else _Said(failure="mirror_late")


def _shows_foreign(scope: Scope) -> bool:
    """Nobody knows in which of our stores a foreign hit would be: a reader who is limited to some sees none."""
    return scope.agent_id is not None and scope.store_id is None and scope.stores is None


def _foreign(mirror: Mirror, hit: Kept) -> ForeignHit:
    return ForeignHit(
        id=f"{mirror.name}:{hit.native_id}",
        mirror=mirror.name,
        text=hit.text,
        score=reported(hit.score, mirror.backend.capabilities.score_kind),
    )


def _passes(record: Record, scope: Scope, by: Restriction, now: int) -> bool:
    """Whether a record that a mirror found may be returned, as far as that can be told from the record."""
    return (
        record.standing == "live"
        and record.ending is None
        and not record.is_expired(now)
        and in_scope(record, scope)
        and by.session_id in (None, record.session_id)
        and (not by.types or record.type in by.types)
        and (by.created_from is None or record.created_at >= by.created_from)
        and (by.filter is None or matches(by.filter, record, by.store_names.get(record.store_id, "")))
    )


def _differs(mirror: Mirror, hit: Kept, copy: CopyRow, record: Record) -> bool:
    """Whether the mirror shows another text than it was given."""
    is_comparable = "verbatim" in mirror.backend.capabilities and copy.state == "kept"
    return is_comparable and bool(hit.text) and copy.version == record.version and hit.text != record.content


def _candidate(hit: ForeignHit, query: str, cosine: float | None) -> Candidate:
    share = covered(query, hit.text)
    return Candidate(
        id=hit.id,
        version=0,
        cosine=cosine,
        near=cosine,
        keyword=0.0,
        words=share,
        coverage=share,
        session_id=None,
        subject=None,
        confidence=1.0,
        is_demoted=False,
        created_at=0,
        length=len(hit.text.split()),
        asks=False,
        by_assistant=False,
    )


def reported(score: float | None, kind: ScoreKind) -> float:
    """A mirror's score as a similarity from 0 to 1, the right way round; what says nothing is 0."""
    if score is None or math.isnan(score) or kind in ("rrf", "rank_only"):
        return 0.0
    if kind == "distance":
        return 1 / (1 + max(0.0, score))
    return min(1.0, max(0.0, score))


def covered(query: str, text: str) -> float:
    """The share of a query's words that a text has; of those that mean something, where there are any."""
    words = re.findall(r"\w+", query.lower())
    wanted = {word for word in words if not is_stop_word(word)} or set(words)
    has = set(re.findall(r"\w+", text.lower()))
    return len(wanted & has) / len(wanted) if wanted else 0.0
