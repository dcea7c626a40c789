"""What a transaction knows of its tenant: read once under the tenant's lock, then kept up in memory.

Commits that share a transaction are decided one after the other against this, so that nothing has to be asked of the
database between them; what a commit that fails has changed here is dropped with its branch.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from quipu.ledger import rows
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.runs import RunHead
from quipu.model.change import (
    Approve,
    Close,
    Commit,
    Demote,
    DropSecret,
    DropStore,
    Erase,
    OpenStore,
    Put,
    Settle,
    Touch,
)
from quipu.model.runs import ExpireRun, RunStep
from quipu.model.value import Json

K = TypeVar("K")
V = TypeVar("V")
#: Principal, operation, key.
AnswerKey: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the tenant's chain, and what else its row says."""

    seq: int
    hash: bytes
    at: int
    changed: int
    space: int | None
    guarded: int
    last_row: int


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest version of a record, whatever became of it."""

    row: int
    version: int
    died: int | None
    emptied: int | None
    state: str
    merged_into: str | None
    store_id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered under an idempotency key."""

    fingerprint: str
    text: str
    at: int
    seq: int
    record_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Held:
    """A proposal: what became of it, the record it speaks of, and who has said yes."""

    status: str
    record_id: str | None
    #: As it is kept; only known where it is asked for.
    given: Json = None


@dataclass(slots=True)
class Working:
    """One tenant, as its next commit finds it. None in a map says that something is gone."""

    tenant: str
    head: Head
    latest: MutableMapping[str, Latest] = field(default_factory=dict[str, Latest])
    #: Version and digest of every version, for records that are to be erased.
    versions: MutableMapping[str, tuple[tuple[int, str], ...]] = field(
        default_factory=dict[str, tuple[tuple[int, str], ...]]
    )
    #: Names by id.
    stores: MutableMapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    #: How many records are current, in stores that are to be dropped.
    current: MutableMapping[str, int] = field(default_factory=dict[str, int])
    answers: MutableMapping[AnswerKey, Answer | None] = field(
        default_factory=dict[AnswerKey, "Answer | None"]
    )
    proposals: MutableMapping[str, Held] = field(default_factory=dict[str, Held])
    secrets: MutableMapping[str, bool] = field(default_factory=dict[str, bool])
    runs: MutableMapping[str, RunHead] = field(default_factory=dict[str, RunHead])
    #: Where something was last made out of records that are to be erased, or they were merged away.
    went_on: MutableMapping[str, int] = field(default_factory=dict[str, int])
    #: Where writes were held since such an erasure was decided, and what they say.
    held_since: MutableMapping[str, tuple[int, Json]] = field(default_factory=dict[str, tuple[int, Json]])
    #: Model and dimensions of the space in use.
    model: str | None = None
    dimensions: int | None = None

    def survivor(self, record_id: str) -> str:
        """The record itself, or the one it was merged into, or that one was, and so on."""
        passed = {record_id}
        while (known := self.latest.get(record_id)) is not None and known.merged_into is not None:
            if known.merged_into in passed:
                break
            record_id = known.merged_into
            passed.add(record_id)
        return record_id

    def branch(self) -> Working:
        """The same, to be changed without changing this one."""
        return replace(
            self,
            latest=_over(self.latest),
            versions=_over(self.versions),
            stores=_over(self.stores),
            current=_over(self.current),
            answers=_over(self.answers),
            proposals=_over(self.proposals),
            secrets=_over(self.secrets),
            runs=_over(self.runs),
            went_on=_over(self.went_on),
            held_since=_over(self.held_since),
        )

    def adopt(self, branch: Working) -> None:
        """What a branch has become is what is."""
        self.head = branch.head
        _take_over(self.latest, branch.latest)
        _take_over(self.versions, branch.versions)
        _take_over(self.stores, branch.stores)
        _take_over(self.current, branch.current)
        _take_over(self.answers, branch.answers)
        _take_over(self.proposals, branch.proposals)
        _take_over(self.secrets, branch.secrets)
        _take_over(self.runs, branch.runs)
        _take_over(self.went_on, branch.went_on)
        _take_over(self.held_since, branch.held_since)


def _over(lower: MutableMapping[K, V]) -> MutableMapping[K, V]:
    return ChainMap({}, lower)


def _take_over(mine: MutableMapping[K, V], theirs: MutableMapping[K, V]) -> None:
    if isinstance(theirs, ChainMap):
        mine.update(theirs.maps[0])


@dataclass(slots=True)
class Wanted:
    """What has to be known before some commits can be decided."""

    ids: set[str] = field(default_factory=set[str])
    #: Records that something leads to, and with them those that they were merged into.
    followed: set[str] = field(default_factory=set[str])
    erased: set[str] = field(default_factory=set[str])
    dropped_stores: set[str] = field(default_factory=set[str])
    proposals: set[str] = field(default_factory=set[str])
    approved: set[str] = field(default_factory=set[str])
    keys: set[AnswerKey] = field(default_factory=set[AnswerKey])
    runs: set[str] = field(default_factory=set[str])
    #: The earliest position that an erasure was decided at.
    erases_as_of: int | None = None
    needs_stores: bool = False
    needs_space: bool = False
    needs_secrets: bool = False

    @classmethod
    def by(cls, commits: Iterable[Commit]) -> Wanted:
        wanted = cls()
        for commit in commits:
            if commit.once:
                wanted.keys.add((commit.once.principal, commit.once.operation, commit.once.key))
            if commit.erases_as_of is not None:
                known = wanted.erases_as_of
                wanted.erases_as_of = min(
                    commit.erases_as_of, commit.erases_as_of if known is None else known
                )
            for change in commit.changes:
                wanted.note(change)
        return wanted

    def note(self, change: object) -> None:
        match change:
            case Put(record=record):
                self.ids.add(record.id)
                self.followed.update(link.to for link in record.links)
                self.needs_stores = True
                self.needs_space = self.needs_space or change.vector is not None
            case Close(record=record, merged_into=survivor):
                self.ids.add(record.id)
                self.followed.update(() if survivor is None else (survivor,))
            case Demote(record=record):
                self.ids.add(record.id)
            case Erase(id=record_id):
                self.ids.add(record_id)
                self.erased.add(record_id)
            case Touch(ids=ids):
                self.ids.update(ids)
            case OpenStore():
                self.needs_stores = True
            case DropStore(store_id=store_id):
                self.dropped_stores.add(store_id)
            case Settle(proposal_id=proposal_id):
                self.proposals.add(proposal_id)
            case Approve(proposal_id=proposal_id):
                self.proposals.add(proposal_id)
                self.approved.add(proposal_id)
            case DropSecret():
                self.needs_secrets = True
            case RunStep(run_id=run_id) | ExpireRun(run_id=run_id):
                self.runs.add(run_id)
            case _:
                pass


async def read_into(connection: Connection, working: Working, wanted: Wanted) -> None:
    """Read what is wanted. The caller holds the tenant's lock, so that it stays true."""
    tenant = working.tenant
    await _read_latest(connection, working, wanted)
    if wanted.erased:
        versions: dict[str, tuple[tuple[int, str], ...]] = dict.fromkeys(wanted.erased, ())
        for record_id, version, digest in await statements.select(
            connection, "rows_of", tenant=tenant, ids=list(wanted.erased)
        ):
            versions[record_id] = (*versions[record_id], (version, digest.hex()))
        working.versions.update(versions)
    if wanted.erases_as_of is not None:
        since = {"tenant": tenant, "after": wanted.erases_as_of}
        for record_id, seq in await statements.select(
            connection, "went_on_since", **since, ids=list(wanted.erased)
        ):
            working.went_on[record_id] = max(seq, working.went_on.get(record_id, 0))
        for proposal_id, seq, request in await statements.select(connection, "held_since", **since):
            working.held_since[proposal_id] = (seq, rows.decoded(request))
    if wanted.needs_stores:
        working.stores.update(
            (row[0], row[1]) for row in await statements.select(connection, "stores", tenant=tenant)
        )
    for store_id in wanted.dropped_stores:
        working.current[store_id] = await statements.scalar(
            connection, "current_in_store", tenant=tenant, id=store_id
        )
    if wanted.keys:
        working.answers.update(await answers(connection, tenant, wanted.keys))
    if wanted.proposals:
        for proposal_id, status, record_id in await statements.select(
            connection, "proposal_status", tenant=tenant
        ):
            working.proposals[proposal_id] = Held(status, record_id)
    if wanted.approved:
        for proposal_id, given in await statements.select(
            connection, "given", tenant=tenant, ids=list(wanted.approved)
        ):
            held = working.proposals[proposal_id]
            working.proposals[proposal_id] = replace(held, given=rows.decoded(given))
    if wanted.needs_space and working.head.space is not None:
        for number, model, dimensions in await statements.select(connection, "spaces", tenant=tenant):
            if number == working.head.space:
                working.model, working.dimensions = model, dimensions
    if wanted.runs:
        for run_id, *rest in await statements.select(
            connection, "run_head", tenant=tenant, ids=list(wanted.runs)
        ):
            working.runs[run_id] = RunHead.of(rest)
    if wanted.needs_secrets:
        working.secrets.update(
            (row[1], True) for row in await statements.select(connection, "guard", tenant=tenant)
        )


async def _read_latest(connection: Connection, working: Working, wanted: Wanted) -> None:
    """The newest versions: where merges lead from one to the next, as far as they lead."""
    fresh, asked = wanted.ids | wanted.followed, set[str]()
    while fresh:
        for record_id, *rest in await statements.select(
            connection, "latest", tenant=working.tenant, ids=list(fresh)
        ):
            working.latest[record_id] = Latest(*rest)
        asked |= fresh
        fresh = {working.survivor(name) for name in wanted.followed} - asked


async def answers(
    connection: Connection, tenant: str, keys: Iterable[AnswerKey]
) -> Mapping[AnswerKey, Answer]:
    """What was answered under these keys."""
    principals, operations, names = zip(*keys, strict=True)
    found = await statements.select(
        connection,
        "answer",
        tenant=tenant,
        principals=list(principals),
        operations=list(operations),
        keys=list(names),
    )
    return {
        (principal, operation, key): Answer(fingerprint, text, at, seq, frozenset(record_ids))
        for principal, operation, key, fingerprint, text, at, seq, record_ids in found
    }
