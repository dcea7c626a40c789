"""Search, word shares and neighbours: from a scope to its partition to an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from quipu.errors import InvalidError
from quipu.ledger.search import naming
from quipu.ledger.search.cache import Loaded, PartitionCache
from quipu.ledger.search.legs import Matrix, Nearness, Reach, found
from quipu.ledger.search.partition import Partition
from quipu.ledger.search.postings import Mask
from quipu.ledger.search.source import Known, Source
from quipu.ledger.search.spaces import moved_on
from quipu.ledger.search.terms import Tokenizer, Words
from quipu.ledger.search.turns import SeenTurns
from quipu.model.search import Found, Neighbours, Restriction, Scope, Search, SharedWord, Snapshot, WordShares
from quipu.model.value import Json
from quipu.rules import filters, hops
from quipu.rules.filters import Missing
from quipu.rules.texts import body_text, named

#: A subject that everything shares must not make a clique of everything.
_SAME_SUBJECT = 64
#: So many records are read sooner than another thread would have begun.
_FEW = 16
#: So many characters hold few enough words to be looked up at once.
_SHORT = 2_000


class Finder:
    """Answers from partitions."""

    def __init__(self, cache: PartitionCache) -> None:
        self._cache = cache
        self._latest: tuple[str, Words] = ("", [])

    def is_at_hand(
        self, scope: Scope, text: str, by: Restriction | None, is_level: Callable[[Known], bool]
    ) -> bool:
        """Whether an answer takes less than a millisecond: little to ask, nothing to load, and no filter that may have to
        read rows."""
        is_plain = len(text) <= _SHORT and (by is None or by.filter is None)
        return is_plain and self._cache.is_at_hand(scope, is_level)

    def were_just_read(self, tenant: str, ids: Sequence[str]) -> bool:
        """Whether a few records are of the small partition that was searched last."""
        return len(ids) <= _FEW and self._cache.were_just_read(tenant, ids)

    def _words(self, tokenizer: Tokenizer, text: str) -> Words:
        """The words of a text. A recall needs them twice: for their shares, and to search for them."""
        known, words = self._latest
        if known != text:
            words = tokenizer.words(text)
            self._latest = (text, words)
        return words

    def search(self, source: Source, tokenizer: Tokenizer, search: Search) -> Found:
        with self._cache.partition(source, search.scope) as loaded:
            if search.vector is not None and search.model not in (None, loaded.known.vectors.model):
                raise moved_on(loaded.known.vectors.model)
            partition = loaded.partition
            seen = loaded.seen(search.scope, search.snapshot)
            visible = partition.narrowed(seen.mask, search.restriction)
            if search.restriction.filter is not None:
                tree = filters.compiled(search.restriction.filter)
                visible = visible & self._filtered(source, search.scope.tenant, loaded, tree)
            near = self._nearness(source, search, loaded)
            return found(search, Reach(seen, visible), self._words(tokenizer, search.text), near)

    @staticmethod
    def _nearness(source: Source, search: Search, loaded: Loaded) -> Nearness | None:
        """What compares with the query's vector, where there is one and the ledger has vectors."""
        partition, vectors = loaded.partition, loaded.known.vectors
        if search.vector is None or not vectors.dimensions:
            return None
        if len(search.vector) != 4 * vectors.dimensions:
            raise InvalidError.at(
                "/embedding", "embedding_mismatch", "The query's vector has the wrong dimensions."
            )
        query = np.frombuffer(search.vector, "<f4")
        if partition.vectors is not None:
            return Matrix(partition, query)
        return source.nearness(search.scope.tenant, partition, vectors, query)

    def _filtered(self, source: Source, tenant: str, loaded: Loaded, tree: filters.Tree) -> Mask:
        names: Mapping[str, str] = {}
        if filters.STORE in filters.paths(tree):
            names = source.store_names(tenant)
            loaded.columns.name_stores(names)

        def values(wanted: Sequence[int], paths: Sequence[filters.Path]) -> Iterator[list[Json | Missing]]:
            """What stands at each path, row by row; the whole version is read only where a path needs it."""
            if all(path.field is None for path in paths):
                for metadata in source.metadata(tenant, wanted):
                    yield [filters.metadata_at(metadata, path) for path in paths]
                return
            for record in source.records(tenant, wanted):
                yield [filters.value_at(record, path, names.get(record.store_id, "")) for path in paths]

        return loaded.columns.mask(tree, loaded.partition["row"], values)

    def word_shares(
        self, source: Source, tokenizer: Tokenizer, scope: Scope, snapshot: Snapshot, text: str
    ) -> WordShares:
        with self._cache.partition(source, scope) as loaded:
            partition = loaded.partition
            seen = loaded.seen(scope, snapshot)
            words = self._words(tokenizer, text)
            # A word of several terms is as common as the rarest of them.
            known = {word: min(map(seen.share, terms), default=0.0) for word, terms in dict(words).items()}
            shares = tuple((word, known[word]) for word, _ in words)
            user = scope.user_id
            people = naming.named(seen, words) if user is None else naming.named_in_one(user, words)
            return WordShares(
                words=shares,
                in_reach=seen.count,
                subjects=_named_subjects(partition, seen.mask, text),
                seq=partition.seq if snapshot.seq is None else snapshot.seq,
                names=people.names,
                mentions=people.mentions,
                users=people.users,
                theirs=people.theirs,
                has_several_users=people.has_several_users,
            )

    def neighbours(self, source: Source, scope: Scope, snapshot: Snapshot, ids: Sequence[str]) -> Neighbours:
        with self._cache.partition(source, scope) as loaded:
            partition, seen = loaded.partition, loaded.seen(scope, snapshot)
            mask, turns = seen.mask, seen.turns
            seq = partition.seq if snapshot.seq is None else snapshot.seq
            edges: dict[str, frozenset[str]] = {}
            linked = source.linked(scope.tenant, ids, seq)
            for record_id in ids:
                row = _seen(partition, record_id, mask)
                if row is None:
                    edges[record_id] = frozenset()
                    continue
                linked_here = linked.get(record_id, ())
                near = {other for other in linked_here if _seen(partition, other, mask) is not None}
                edges[record_id] = frozenset((near | _around(partition, row, mask, turns)) - {record_id})
            return edges

    def shared_words(
        self,
        source: Source,
        tokenizer: Tokenizer,
        scope: Scope,
        snapshot: Snapshot,
        leaders: Sequence[str],
        members: Sequence[str],
        text: str,
    ) -> list[SharedWord]:
        with self._cache.partition(source, scope) as loaded:
            partition = loaded.partition
            mask = partition.in_reach(scope, snapshot)
            in_reach = int(np.count_nonzero(mask))
            leading, compared = (
                {row: id for id in ids if (row := _seen(partition, id, mask)) is not None}
                for ids in (leaders, members)
            )
            asked = {term for _, terms in self._words(tokenizer, text) for term in terms}
            rows = partition["row"][list(leading)].tolist()
            said = (tokenizer.words(body_text(record)) for record in source.records(scope.tenant, rows))
            terms = {term for words in said for _, terms in words for term in terms} - asked
            shared: list[SharedWord] = []
            for term in sorted(terms):
                having = partition.postings.of(term).rows
                there = having[mask[having]].tolist()
                if 1 < len(there) <= hops.RARE * in_reach:
                    who = (frozenset(ids[row] for row in there if row in ids) for ids in (leading, compared))
                    shared.append(SharedWord(len(there) / in_reach, *who))
            return shared


def _seen(partition: Partition, record_id: str, mask: Mask) -> int | None:
    """The row of a record's version in reach, if there is one."""
    return next((row for row in partition.rows_of(record_id) if mask[row]), None)


def _named_subjects(partition: Partition, mask: Mask, text: str) -> frozenset[str]:
    """The subjects of records in reach that a text names."""
    mentioned = named(text, partition.subjects.spelled)
    if not mentioned:
        return mentioned
    subjects = partition["subject"]
    return frozenset(
        name for name in mentioned if bool((mask & (subjects == partition.subjects.find(name))).any())
    )


def _around(partition: Partition, row: int, mask: Mask, turns: SeenTurns) -> set[str]:
    """Turns beside it in its session, and records of its subject."""
    here = np.array([row])
    beside: list[int] = [*turns.before(here).tolist(), *turns.after(here).tolist()]
    near = {partition.ids[other] for other in beside if other >= 0}
    subject = partition["subject"][row]
    if subject >= 0:
        same = np.flatnonzero((partition["subject"] == subject) & mask)
        if len(same) <= _SAME_SUBJECT:
            near |= {partition.ids[other] for other in same.tolist()}
    return near
