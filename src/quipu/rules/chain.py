"""The hash chain and the record digests: how they are made, and how they are checked.

1. An entry's hash covers every field of the entry but the hash itself, and so the previous entry's hash.
2. The first entry is `genesis`; its `prev` is 64 zeros. Positions are dense from 1.
3. A record's digest covers a random salt and every field a reader could see. The journal keeps the digest;
   erasing salt and content leaves the chain whole and the digest unguessable.
4. A checkpoint is a signature over {tenant, seq, hash, at}.

Nothing here touches a file or a key: canonical bytes (RFC 8785) and signature checks are handed in, so that
the live audit and the check of exported files are one path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace

from quipu.errors import UnverifiableError
from quipu.model.journal import GENESIS, Checkpoint, Entry, Op
from quipu.model.outcomes import Fault
from quipu.model.record import Ending, PrivacyIntent, Record, Trust
from quipu.model.value import Json
from quipu.rules.spelling import exact, spelt_entry, spelt_record

Canonical = Callable[[object], bytes]
#: message, key id, signature → is it right? Raises UnverifiableError without the key.
Check = Callable[[bytes, str, str], bool]


def entry_body(entry: Entry) -> dict[str, Json]:
    """What an entry's hash covers."""
    return {
        "tenant": entry.tenant,
        "seq": entry.seq,
        "at": entry.at,
        "actor": entry.actor,
        "op": entry.op.value,
        "store": entry.store,
        "agent": entry.agent,
        "run": entry.run,
        "node": entry.node,
        "records": [{"id": m.id, "version": m.version, "digest": m.digest} for m in entry.records],
        "detail": entry.detail,
        "prev": entry.prev,
    }


def entry_hash(entry: Entry, canonical: Canonical) -> str:
    return hashlib.sha256(spelt_entry(entry, canonical) or canonical(entry_body(entry))).hexdigest()


def digest_body(record: Record) -> dict[str, Json]:
    """What a record's digest covers: all a reader could see of this version."""
    provenance = record.provenance
    return {
        "tenant": record.tenant,
        "id": record.id,
        "version": record.version,
        "store_id": record.store_id,
        "agent_id": record.agent_id,
        "user_id": record.user_id,
        "session_id": record.session_id,
        "type": record.type.value,
        "tier": record.tier.value,
        "state": record.state.value,
        "content": record.content,
        "metadata": exact(record.metadata),
        "tags": list(record.tags),
        "links": [[link.to, link.rel] for link in record.links],
        "confidence": exact(record.confidence),
        "importance": exact(record.importance),
        "source": record.source,
        "provenance": {
            "written_by": provenance.written_by,
            "trust": provenance.trust.value,
            "run_id": provenance.run_id,
            "node_id": provenance.node_id,
            "subject": provenance.subject,
            "import_id": provenance.import_id,
            "captured_at": provenance.captured_at,
            "receipt": provenance.receipt,
        },
        "details": exact(record.details),
        "privacy": privacy_body(record.privacy),
        "created_at": exact(record.created_at),
        "updated_at": exact(record.updated_at),
        "expires_at": exact(record.expires_at),
    }


def digest(record: Record, salt: bytes, canonical: Canonical) -> str:
    covered = spelt_record(record, privacy_body(record.privacy), canonical)
    return hashlib.sha256(salt + (covered or canonical(digest_body(record)))).hexdigest()


def privacy_body(privacy: PrivacyIntent | None) -> Json:
    if privacy is None:
        return None
    body = asdict(privacy)
    body["share_with"] = None if privacy.share_with is None else list(privacy.share_with)
    body["sensitivity"] = None if privacy.sensitivity is None else privacy.sensitivity.value
    return body


def checkpoint_body(checkpoint: Checkpoint) -> dict[str, Json]:
    """What a checkpoint's signature covers."""
    return {
        "tenant": checkpoint.tenant,
        "seq": checkpoint.seq,
        "hash": checkpoint.hash,
        "at": checkpoint.at,
    }


#: Operations whose mention of a version that already stood closes it, and how. What is remembered may be made of
#: others, which then end in it.
_CLOSING: Mapping[Op, Ending] = {
    Op.REMEMBER: Ending.MERGED,
    Op.FORGET: Ending.FORGOTTEN,
    Op.MERGE: Ending.MERGED,
    Op.EXPIRE: Ending.EXPIRED,
    Op.SWEEP: Ending.EXPIRED,
    Op.DELETE_STORE: Ending.FORGOTTEN,
}


@dataclass(slots=True)
class Life:
    """What the journal says of one version."""

    digest: str
    born: int
    died: int | None = None
    ending: Ending | None = None
    merged_into: str | None = None


@dataclass(slots=True)
class Walk:
    """A check that walks the chain once, in order, and remembers what the entries claim."""

    canonical: Canonical
    seq: int = 0
    hash: str = GENESIS
    at: int = 0
    faults: list[Fault] = field(default_factory=list[Fault])
    lives: dict[tuple[str, int], Life] = field(default_factory=dict[tuple[str, int], Life])
    erased: set[str] = field(default_factory=set[str])
    #: Versions that died at or before this position may have been emptied by retention.
    pruned_to: int = 0
    #: Hash at each position that a checkpoint names.
    wanted: dict[int, str | None] = field(default_factory=dict[int, str | None])
    #: Which records each entry is about, where a walk goes on behind another.
    mentioned: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    is_onward: bool = False

    def onward(self) -> Walk:
        """A walk that goes on where this one ended, and knows only what it meets itself."""
        return Walk(self.canonical, seq=self.seq, hash=self.hash, at=self.at, is_onward=True)

    def follow(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.faults.extend(self._faults_of(entry))
            self.seq, self.hash, self.at = entry.seq, entry.hash, max(self.at, entry.at)
            if entry.seq in self.wanted:
                self.wanted[entry.seq] = entry.hash
            if self.is_onward:
                self.mentioned.update((entry.seq, mention.id) for mention in entry.records)
            self._note(entry)

    def _note(self, entry: Entry) -> None:
        horizon = entry.detail.get("horizon")
        if entry.op is Op.PRUNE and isinstance(horizon, int):
            self.pruned_to = max(self.pruned_to, horizon)
        for mention in entry.records:
            life = self.lives.get((mention.id, mention.version))
            ending: Ending | None = None
            if life is None:
                self.lives[mention.id, mention.version] = Life(mention.digest, entry.seq)
                life = self.lives.get((mention.id, mention.version - 1))
                closes, ending = life is not None, Ending.REPLACED
            else:
                ending = _CLOSING.get(entry.op)
                closes = entry.op is Op.ERASE or ending is not None
            if closes and life is not None and life.died is None:
                life.died, life.ending = entry.seq, ending
                life.merged_into = _merged_into(entry) if ending is Ending.MERGED else None
            if entry.op is Op.ERASE:
                self.erased.add(mention.id)

    def _hash_of(self, entry: Entry) -> str | None:
        try:
            return entry_hash(entry, self.canonical)
        except (ValueError, RecursionError):  # no canonical bytes: nobody could have hashed such a thing
            return None

    def _faults_of(self, entry: Entry) -> Iterator[Fault]:
        if entry.seq != self.seq + 1:
            is_back = entry.seq <= self.seq
            wrong = "stands behind later ones" if is_back else f"follows, {self.seq + 1} is missing"
            yield Fault(kind="gap", seq=entry.seq, detail=f"position {entry.seq} {wrong}")
        if entry.prev != self.hash:
            yield Fault(kind="broken_link", seq=entry.seq, detail="prev is not the hash of the entry before")
        if self._hash_of(entry) != entry.hash:
            yield Fault(
                kind="altered_entry", seq=entry.seq, detail="the entry does not have the hash it states"
            )
        if entry.seq == 1 and entry.op is not Op.GENESIS:
            yield Fault(kind="no_genesis", seq=1, detail="the chain does not begin with its genesis entry")
        if entry.at < self.at:
            yield Fault(kind="time_runs_back", seq=entry.seq, detail="the entry is older than the one before")


def _merged_into(entry: Entry) -> str | None:
    """What took in the versions that an entry closes: the record it names, or the one that it writes."""
    named = entry.detail.get("canonical")
    if entry.op is Op.REMEMBER:
        return entry.records[0].id
    return named if isinstance(named, str) else None


#: What an exported version carries beside what its digest covers.
_BESIDE = frozenset({"born", "died", "salt", "digest"})


def version_body(record: Record) -> dict[str, Json]:
    """A version with everything that is needed to check it: what its digest covers, salt, digest and life."""
    beside: dict[str, Json] = {"born": record.born, "died": record.died, "salt": record.salt.hex()}
    return {**digest_body(record), **beside, "digest": record.digest}


def body_as_of(record: Record, seq: int) -> dict[str, Json]:
    """The same as of a position: whatever ended the version behind it had not happened yet."""
    is_later = record.died is not None and record.died > seq
    return version_body(replace(record, died=None) if is_later else record)


def ledger_faults(record: Record, walk: Walk, seq: int | None = None) -> Iterator[Fault]:
    """Is a version that stands in a ledger what the journal says, and did it end as it says? As of a position, or now."""
    is_later = seq is not None and record.died is not None and record.died > seq
    standing = replace(record, died=None, ending=None, merged_into=None) if is_later else record
    yield from version_faults(version_body(standing), walk, (standing.ending, standing.merged_into))


def late_faults(records: Iterable[Record], later: Walk, end: int) -> Iterator[Fault]:
    """Were versions that were born or ended behind a position really so, by the entries that came there?"""
    for record in records:
        for position in (record.born, record.died or 0):
            if position > end and (position, record.id) not in later.mentioned:
                yield Fault(
                    kind="unjournaled_record" if position == record.born else "life_differs",
                    seq=position,
                    id=record.id,
                    detail=f"version {record.version} has a life that stands in no journal entry",
                )
                break
        else:
            if record.born > end:
                life = later.lives.get((record.id, record.version))
                died = None if life is None else life.died
                yield from version_faults(version_body(replace(record, died=died)), later)


def version_faults(
    body: Mapping[str, Json], walk: Walk, ended: tuple[Ending | None, str | None] | None = None
) -> Iterator[Fault]:
    """Is a version what the journal says it is, born and ended where the journal says? Takes it off `lives`.

    `ended` is how, and in what, which is known of one that stands in a ledger.
    """
    name, version, born, died = str(body.get("id")), body.get("version"), body.get("born"), body.get("died")
    if not isinstance(body.get("id"), str) or not isinstance(version, int):
        detail = "what stands for a version names no record, or not which version of it"
        yield Fault(kind="unjournaled_record", seq=born if isinstance(born, int) else None, detail=detail)
        return
    life = walk.lives.pop((name, version), None)
    if life is None:
        yield Fault(
            kind="unjournaled_record",
            seq=born if isinstance(born, int) else None,
            id=name,
            detail=f"version {version} stands in the ledger but in no journal entry",
        )
        return
    if body.get("digest") != life.digest:
        yield Fault(kind="digest_differs", seq=life.born, id=name, detail="its digest is not the journal's")
    elif not body.get("salt"):
        yield from _emptied_faults(body, name, life, walk)
    elif _body_digest(body, walk.canonical) != life.digest:
        yield Fault(kind="altered_record", seq=life.born, id=name, detail="it does not match its digest")
    if (born, died) != (life.born, life.died):
        yield Fault(
            kind="life_differs",
            seq=life.died or life.born,
            id=name,
            detail=f"version {version} was born at {life.born} and ended at {life.died} by the journal",
        )
    elif ended is not None and not _ended_so(*ended, life, is_erased=name in walk.erased):
        yield Fault(
            kind="life_differs",
            seq=life.died or life.born,
            id=name,
            detail=f"version {version} is said to have ended otherwise than by the journal",
        )


def _ended_so(ending: Ending | None, into: str | None, life: Life, *, is_erased: bool) -> bool:
    """Whether a version ended the way the journal tells. An erasure takes away what it was merged into."""
    if ending is not life.ending:
        return False
    if ending is not Ending.MERGED or is_erased:
        return into is None
    return life.merged_into in (None, into)


def _body_digest(body: Mapping[str, Json], canonical: Canonical) -> str:
    try:
        salt = bytes.fromhex(str(body["salt"]))
        covered = canonical({key: value for key, value in body.items() if key not in _BESIDE})
    except (ValueError, RecursionError):
        return ""
    return hashlib.sha256(salt + covered).hexdigest()


def _emptied_faults(body: Mapping[str, Json], name: str, life: Life, walk: Walk) -> Iterator[Fault]:
    pruned = life.died is not None and life.died <= walk.pruned_to
    if name not in walk.erased and not pruned:
        yield Fault(kind="emptied_record", seq=life.born, id=name, detail="it was emptied but never erased")
    elif _says_something(body):
        yield Fault(kind="altered_record", seq=life.born, id=name, detail="an erased record has content")


#: What is left of an emptied version in these says nothing.
_SAYING = ("content", "metadata", "tags", "links", "source", "details", "privacy")
_SILENT = ("", None, Trust.UNKNOWN.value)
#: The members that a version has in an export; in an emptied one no digest covers them.
_KNOWN = _BESIDE | {
    "tenant", "id", "version", "store_id", "agent_id", "user_id", "session_id", "type", "tier", "state", "content",
    "metadata", "tags", "links", "confidence", "importance", "source", "provenance", "details", "privacy", "created_at",
    "updated_at", "expires_at",
}  # fmt: skip


def _says_something(body: Mapping[str, Json]) -> bool:
    provenance = body.get("provenance")
    written = provenance.values() if isinstance(provenance, Mapping) else (provenance,)
    if any(body.get(name) for name in _SAYING) or any(value not in _SILENT for value in written):
        return True
    return not body.keys() <= _KNOWN


def in_order(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """The first one first: by position. What differs from records comes behind what is wrong with them, and last what
    stands beside, which may only follow from that."""

    def place(fault: Fault) -> tuple[bool, int, bool]:
        is_of_index = fault.kind == "index_differs"
        is_last = fault.kind == "beside_differs" or (is_of_index and fault.seq is None)
        return is_last, fault.seq or 0, is_of_index

    return tuple(sorted(faults, key=place))


def missing_faults(walk: Walk) -> Iterator[Fault]:
    """What the journal tells of and the ledger no longer has. Call when every version has been checked."""
    for (record_id, version), life in walk.lives.items():
        yield Fault(
            kind="missing_record",
            seq=life.born,
            id=record_id,
            detail=f"version {version} is gone from the ledger",
        )


def checkpoint_faults(
    checkpoint: Checkpoint, walk: Walk, canonical: Canonical, check: Check
) -> Iterator[Fault | UnverifiableError]:
    """Does the chain still run through the point that was signed? Call after the walk, with `wanted` filled."""
    at = walk.wanted.get(checkpoint.seq)
    if at is None:
        yield Fault(
            kind="truncated",
            seq=checkpoint.seq,
            detail=f"a checkpoint vouches for position {checkpoint.seq}, which is no longer there",
        )
    elif at != checkpoint.hash:
        yield Fault(
            kind="rewritten", seq=checkpoint.seq, detail="the chain does not pass through its checkpoint"
        )
    try:
        is_right = check(canonical(checkpoint_body(checkpoint)), checkpoint.key_id, checkpoint.signature)
    except UnverifiableError as error:
        yield error
        return
    except ValueError:  # no canonical bytes: nobody could have signed such a thing
        is_right = False
    if not is_right:
        yield Fault(kind="bad_signature", seq=checkpoint.seq, detail="the checkpoint's signature is wrong")
