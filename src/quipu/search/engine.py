"""The search engine: from a scope to its partition to an answer."""

from collections.abc import Callable, Sequence

import numpy as np

from quipu.errors import ConflictError, Fault, InvalidError
from quipu.model.search import (
    Candidate,
    Found,
    Neighbours,
    Restriction,
    Scope,
    Search,
    SharedWord,
    Snapshot,
    WordShares,
)
from quipu.search import hops, names
from quipu.search.arrays import Mask, Rows, best
from quipu.search.bm25 import KeywordScores, keyword_scores, query_terms
from quipu.search.cache import Loaded, PartitionCache
from quipu.search.filters import compiled
from quipu.search.hops import LinkDistance
from quipu.search.neighbours import VectorScores, alike
from quipu.search.people import bare_name
from quipu.search.source import Source
from quipu.search.terms import Words, words
from quipu.search.text import body_text
from quipu.search.visibility import Visible, narrowed

#: A subject that more records have than this makes none of them neighbours.
_MOST_OF_A_SUBJECT = 64


#: A partition of so many versions is searched in less than a millisecond.
_SMALL = 4_000


class SearchEngine:
    """Answers from partitions in memory. One for the process; it may be called on any thread."""

    def __init__(self, cache_bytes: int) -> None:
        """`cache_bytes`: how much memory the partitions may take; the one that is searched is kept in any case."""
        self._cache = PartitionCache(cache_bytes)

    @property
    def nbytes(self) -> int:
        """How much memory the partitions take, about."""
        return self._cache.nbytes

    def clear(self) -> None:
        """Forget everything that is kept in memory."""
        self._cache.clear()

    def is_brief(self, scope: Scope) -> bool:
        """Whether a search is done in the time in which a thread is woken: its partition is here, small, and free."""
        return self._cache.is_free(scope, _SMALL)

    def word_shares(self, source: Source, scope: Scope, snapshot: Snapshot, text: str) -> WordShares:
        """How common each word of a text is in reach, and whom it names."""
        found = words(text)
        with self._cache.partition(source, scope) as (loaded, current):
            seq = current if snapshot.seq is None else snapshot.seq
            visible = loaded.visible_rows.of(loaded.partition, scope, seq, snapshot.now)
            # A word of several terms is as common as the rarest of them.
            shares = {
                word: min(map(visible.share, terms), default=0.0) for word, terms in dict(found).items()
            }
            user = scope.user_id
            named = names.named(visible, found) if user is None else names.named_in_one(user, found)
            return WordShares(
                words=tuple((word, shares[word]) for word, _ in found),
                in_reach=visible.count,
                subjects=_named_subjects(visible, text),
                seq=seq,
                names=named.names,
                mentions=named.mentions,
                users=named.users,
                theirs=named.theirs,
                has_several_users=named.has_several_users,
            )

    def find(self, source: Source, search: Search) -> Found:
        """The best by keywords and by vectors, each restriction applied before they are chosen."""
        scope, snapshot, restriction = search.scope, search.snapshot, search.restriction
        found = words(search.text)
        with self._cache.partition(source, scope) as (loaded, current):
            _check_vector(search, loaded)
            partition = loaded.partition
            seq = current if snapshot.seq is None else snapshot.seq
            visible = loaded.visible_rows.of(partition, scope, seq, snapshot.now)
            mask = narrowed(partition, visible.mask, restriction, snapshot.now)
            if restriction.filter is not None:
                tree = compiled(restriction.filter, plain_names="fields")
                mask = mask & loaded.columns.mask(tree, partition, seq, source, restriction.store_names)
            return _found(search, visible, mask, found)

    def alike(
        self,
        source: Source,
        scope: Scope,
        snapshot: Snapshot,
        restriction: Restriction,
        ids: Sequence[str],
        *,
        nearness: float,
        most: int,
    ) -> list[tuple[str, str, float]]:
        """Pairs of records that say much the same, with their cosine: for each of these ids the nearest others."""
        with self._cache.partition(source, scope) as (loaded, current):
            partition = loaded.partition
            seq = current if snapshot.seq is None else snapshot.seq
            visible = loaded.visible_rows.of(partition, scope, seq, snapshot.now)
            mask = narrowed(partition, visible.mask, restriction, snapshot.now)
            found = (visible.row_of(record_id) for record_id in ids)
            rows = np.array([row for row in found if row is not None], np.int64)
            pairs = alike(partition, mask, rows, nearness, most)
            firsts, seconds = (
                [name for name, _ in partition.keys(np.array([pair[side] for pair in pairs], np.int64))]
                for side in (0, 1)
            )
            return [
                (*both, pair[2]) for both, pair in zip(zip(firsts, seconds, strict=True), pairs, strict=True)
            ]

    def near_each_other(
        self, source: Source, scope: Scope, snapshot: Snapshot, ids: Sequence[str], nearness: float
    ) -> list[tuple[str, str]]:
        """Those pairs of these few records in reach whose vectors are at least so near."""
        with self._cache.partition(source, scope) as (loaded, current):
            partition = loaded.partition
            seq = current if snapshot.seq is None else snapshot.seq
            visible = loaded.visible_rows.of(partition, scope, seq, snapshot.now)
            found = [(name, row) for name in ids if (row := visible.row_of(name)) is not None]
            rows = np.array([row for _, row in found], np.int64)
            vectors = partition.vectors[rows]
            pairs = np.argwhere(np.triu(vectors @ vectors.T >= nearness, 1)).tolist()
            return [(found[one][0], found[other][0]) for one, other in pairs]

    def neighbours(self, source: Source, scope: Scope, snapshot: Snapshot, ids: Sequence[str]) -> Neighbours:
        """What is one step away from each record, in reach: what it is linked with, the turns next to it in its session,
        and the records of its subject."""
        with self._cache.partition(source, scope) as (loaded, current):
            seq = current if snapshot.seq is None else snapshot.seq
            visible = loaded.visible_rows.of(loaded.partition, scope, seq, snapshot.now)
            links = source.links(ids, seq)
            found: dict[str, frozenset[str]] = {}
            for record_id in ids:
                row = visible.row_of(record_id)
                near: set[str] = set()
                if row is not None:
                    near.update(
                        other for other in links.get(record_id, ()) if visible.row_of(other) is not None
                    )
                    near |= _around(visible, row)
                found[record_id] = frozenset(near - {record_id})
            return found

    def turns_around(
        self, source: Source, scope: Scope, snapshot: Snapshot, ids: Sequence[str], count: int
    ) -> dict[str, tuple[str, ...]]:
        """For each record, so many turns before it and after it in its session, in reach; in their order."""
        with self._cache.partition(source, scope) as (loaded, current):
            seq = current if snapshot.seq is None else snapshot.seq
            visible = loaded.visible_rows.of(loaded.partition, scope, seq, snapshot.now)
            found: dict[str, tuple[str, ...]] = {}
            for record_id in ids:
                row = visible.row_of(record_id)
                if row is None or not visible.has_turns:
                    continue
                before = _following(visible.turns.before, row, count)
                rows = np.array([*reversed(before), *_following(visible.turns.after, row, count)], np.int64)
                found[record_id] = tuple(name for name, _ in loaded.partition.keys(rows))
            return found

    def link_distances(
        self, source: Source, scope: Scope, snapshot: Snapshot, ids: Sequence[str], most_hops: int
    ) -> dict[str, LinkDistance]:
        """For each of these records that has another one of them within so many steps: how near, and which."""
        if not most_hops or not ids:
            return {}
        edges: dict[str, frozenset[str]] = {}
        frontier = list(ids)
        for _ in range(most_hops):
            edges.update(self.neighbours(source, scope, snapshot, frontier))
            frontier = sorted({other for name in frontier for other in edges[name]} - edges.keys())
        return hops.distances(edges, ids, most_hops)

    def shared_words(
        self,
        source: Source,
        scope: Scope,
        snapshot: Snapshot,
        leaders: Sequence[str],
        members: Sequence[str],
        text: str,
    ) -> list[SharedWord]:
        """The rare words of the leaders that other records in reach have too, but for those of the text itself."""
        with self._cache.partition(source, scope) as (loaded, current):
            seq = current if snapshot.seq is None else snapshot.seq
            partition = loaded.partition
            visible = loaded.visible_rows.of(partition, scope, seq, snapshot.now)
            leading, compared = (
                {row: record_id for record_id in ids if (row := visible.row_of(record_id)) is not None}
                for ids in (leaders, members)
            )
            of_leaders: set[int] = set()
            for record in source.versions_of(partition.keys(np.array(list(leading), np.int64))):
                of_leaders |= _terms(words(body_text(record)))
            shared: list[SharedWord] = []
            for term in sorted(of_leaders - _terms(words(text))):
                having = visible.having(term)[0].tolist()
                if 1 < len(having) <= hops.RARE * visible.count:
                    who = (frozenset(ids[row] for row in having if row in ids) for ids in (leading, compared))
                    shared.append(SharedWord(len(having) / visible.count, *who))
            return shared


def _check_vector(search: Search, loaded: Loaded) -> None:
    """The query's vector must be of the space that the tenant's vectors are in, if there are any yet."""
    space = loaded.known.space
    if search.vector is None or space is None:
        return
    if search.model not in (None, space.model):
        raise ConflictError(
            f"This memory uses the embedder {space.model} by now.",
            reason="embedding_mismatch",
            hint="Open it again with that embedder.",
        )
    if len(search.vector) != 4 * space.dimensions:
        raise InvalidError(
            "The query's vector has the wrong number of dimensions.",
            faults=[Fault("/embedding", "embedding_mismatch", f"{space.dimensions} numbers")],
        )


def _found(search: Search, visible: Visible, mask: Mask, found: Words) -> Found:
    """The best by keywords and by vectors among the rows of the mask, with what each says of every one of them."""
    if not visible.count:
        return Found(candidates=(), in_reach=0)
    partition, limit = visible.partition, search.limit
    people = frozenset(term for word, terms in found if bare_name(word) in search.people for term in terms)
    named, shared = (
        frozenset(term for word, terms in found if word in some for term in terms)
        for some in (search.names, search.shared_names)
    )
    keywords = keyword_scores(visible, search.context, query_terms(found), people, named, shared)
    scores = np.where(mask, keywords.scores, 0)
    searched = int(np.count_nonzero(mask))
    vectors: VectorScores | None = None
    if search.vector is not None and partition.dimensions:
        query = np.frombuffer(search.vector, "<f4")
        vectors = VectorScores(visible, query, search.context)
    if search.restriction.ids is not None:
        rows = np.flatnonzero(mask)
    elif vectors is None:
        rows = best(scores, limit, above=0)
    elif searched <= limit:  # there is nothing to choose
        rows = np.flatnonzero((scores > 0) | (mask & partition["has_vector"]))
    else:
        chosen = np.zeros(len(mask), np.bool_)
        chosen[best(scores, limit, above=0)] = True
        chosen[vectors.nearest(mask, limit)] = True
        if search.users:
            chosen[vectors.nearest(names.rows_of_users(partition, mask, search.users), limit)] = True
        rows = np.flatnonzero(chosen)
    candidates = _candidates(visible, rows, keywords, vectors)
    return Found(candidates=candidates, in_reach=visible.count, searched=searched)


def _candidates(
    visible: Visible, rows: Rows, keywords: KeywordScores, vectors: VectorScores | None
) -> tuple[Candidate, ...]:
    """What is known of each row, taken out of the arrays in one go per array."""
    absent: list[float | None] = [None] * len(rows)
    cosines, near, passages = (absent, absent, [0] * len(rows)) if vectors is None else vectors.judged(rows)
    keyword, words_covered, coverage, named = keywords.table[:, rows].tolist()
    ids, versions, sessions, subjects, *others, users = visible.partition.described(rows)
    brevity: list[float] = visible.brevity[rows].tolist() if visible.has_turns else [0.0] * len(rows)
    return tuple(
        map(
            Candidate,
            ids,
            versions,
            cosines,
            near,
            keyword,
            words_covered,
            coverage,
            sessions,
            subjects,
            *others,
            users,
            named,
            passages,
            brevity,
        )
    )


def _named_subjects(visible: Visible, text: str) -> frozenset[str]:
    """The subjects of records in reach that a text names."""
    partition = visible.partition
    subjects = partition["subject"]
    return frozenset(
        partition.subjects.names[number]
        for number in partition.subjects.named_in(text)
        if bool((visible.mask & (subjects == number)).any())
    )


def _around(visible: Visible, row: int) -> set[str]:
    """The turns next to it in its session, and the records of its subject."""
    partition = visible.partition
    here = np.array([row])
    turns: list[int] = [*visible.turns.before(here).tolist(), *visible.turns.after(here).tolist()]
    rows = [other for other in turns if other >= 0]
    subject = partition["subject"][row]
    if subject >= 0:
        same = np.flatnonzero((partition["subject"] == subject) & visible.mask)
        if len(same) <= _MOST_OF_A_SUBJECT:
            rows.extend(same.tolist())
    return {record_id for record_id, _ in partition.keys(np.array(rows, np.int64))}


def _following(step: Callable[[Rows], Rows], row: int, count: int) -> list[int]:
    """The rows that one comes to in so many steps, nearest first."""
    rows: list[int] = []
    for _ in range(count):
        row = int(step(np.array([row]))[0])
        if row < 0:
            break
        rows.append(row)
    return rows


def _terms(found: Words) -> set[int]:
    return {term for _, terms in found for term in terms}
