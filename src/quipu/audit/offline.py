"""Verifying an exported journal by its files alone: no ledger, no network.

An export that is not signed to its end proves nothing about that end, and one without signatures proves nothing at all:
whoever has the files can make up what no signature covers.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from quipu.audit.anchors import checkpoint_of
from quipu.audit.chain import Lives, Walk
from quipu.audit.checkpoints import SignedPositions, signature_fault
from quipu.audit.model import (
    CHECKPOINTS,
    JOURNAL,
    KEYS,
    RECORDS,
    AuditFault,
    Faults,
    TenantReport,
    Unverifiable,
)
from quipu.audit.versions import may_be_empty, missing_fault
from quipu.errors import UnverifiableError
from quipu.ledger.canonical import canonical
from quipu.model.journal import GENESIS, Checkpoint, Entry, Mention
from quipu.model.value import strict_json

#: Name of a file → its lines.
Files: TypeAlias = Mapping[str, Iterable[str]]
#: Nobody has more versions in one export than fit.
_EVERY = 2**62
_ENTRY = frozenset(
    {
        *("tenant", "seq", "at", "actor", "op", "store", "agent", "run", "node", "records", "detail"),
        *("prev", "hash"),
    }
)
_VERSION = frozenset(
    {"id", "version", "born", "died", "ending", "merged_into", "emptied", "digest", "salt", "body"}
)


def verified(files: Files, keys: Mapping[str, str] | None = None) -> TenantReport:
    """What an export proves. `keys`: public keys from elsewhere; without them the export vouches for itself only."""
    faults, unverifiable = Faults(), Unverifiable()
    own = {
        name: key
        for _, body in _bodies(KEYS, files, faults)
        for name, key in body.items()
        if isinstance(key, str)
    }
    points = _checkpoints(files, faults)
    walk = Walk("", Lives(most=_EVERY), faults=faults)
    signed = _follow(files, walk, points, own if keys is None else keys, unverifiable)
    records = _check_versions(files, walk, unverifiable)
    if not points:
        unverifiable.setdefault("unsigned", "Nothing is signed, so nothing proves who wrote this.")
    elif signed.last < walk.seq:
        said = f"The entries behind position {signed.last} are not signed: nothing proves who wrote them."
        unverifiable.setdefault("unsigned_end", said)
    return TenantReport(
        tenant=walk.tenant,
        entries=walk.count,
        records=records,
        side_rows=0,
        checkpoints=len(points),
        anchors=0,
        head_seq=walk.seq,
        head_hash=walk.hash.hex(),
        faults=faults.named,
        fault_count=faults.count,
        unverifiable=tuple(unverifiable.values()),
        reasons=tuple(unverifiable),
    )


def _checkpoints(files: Files, faults: Faults) -> dict[int, tuple[str, Checkpoint]]:
    found: dict[int, tuple[str, Checkpoint]] = {}
    for number, body in _bodies(CHECKPOINTS, files, faults):
        point = checkpoint_of(body)
        if point is None or point[1].seq in found:
            faults.add("bad_signature", f"line {number} of {CHECKPOINTS} is no signed position")
        else:
            found[point[1].seq] = point
    return found


def _follow(
    files: Files,
    walk: Walk,
    points: dict[int, tuple[str, Checkpoint]],
    keys: Mapping[str, str],
    unverifiable: Unverifiable,
) -> SignedPositions:
    """Walk along the journal; each signed position lies on the way, and the last one is its end."""
    faults = walk.faults
    signed = SignedPositions("", keys, faults, unverifiable)
    left = dict(points)
    for number, body in _bodies(JOURNAL, files, faults):
        entry = _entry(body)
        if entry is None or walk.tenant not in ("", body["tenant"]):
            faults.add("altered_entry", f"line {number} of {JOURNAL} is no entry of this journal")
            continue
        walk.tenant = signed.tenant = body["tenant"]
        named = left.pop(entry.seq - 1, None) if entry.op == "checkpoint" else None
        signed.follow([entry], [] if named is None else [named[1]])
        walk.follow([entry])
    for tenant, point in points.values():
        if tenant != walk.tenant:
            faults.add("bad_signature", f"position {point.seq} was signed for another tenant", seq=point.seq)
    for seq, (_, point) in left.items():
        if seq != walk.seq:
            signed.beyond([point]) if seq > walk.seq else signed.follow([], [point])
            continue
        try:  # the export's own end, which no entry can name any more
            wrong = signature_fault(walk.tenant, point, keys)
        except UnverifiableError as error:
            unverifiable.setdefault(error.reason or error.code, error.message)
            continue
        if wrong is not None or point.hash != walk.hash:
            faults.add("bad_signature", wrong or f"position {seq} has another hash than was signed", seq=seq)
        else:
            signed.last = seq
    return signed


# -- versions ---------------------------------------------------------------------------------------------------------


def _check_versions(files: Files, walk: Walk, unverifiable: Unverifiable) -> int:
    """Every exported version against the journal."""
    faults, count = walk.faults, 0
    if RECORDS not in files:
        if next(walk.lives.unseen(), None) is not None:
            said = "The memories are not in the export: only the journal and its signatures were checked."
            unverifiable.setdefault("missing_records", said)
        return 0
    for number, body in _bodies(RECORDS, files, faults):
        count += 1
        if body.keys() != _VERSION or not isinstance(body["id"], str) or not _is_whole(body["version"]):
            faults.add("altered_record", f"line {number} of {RECORDS} is no version")
            continue
        faults.extend(_version_faults(body, walk))
    faults.extend(missing_fault(*one) for one in walk.lives.unseen())
    return count


def _version_faults(body: Mapping[str, Any], walk: Walk) -> Iterator[AuditFault]:
    record_id, version = body["id"], body["version"]

    def fault(kind: str, said: str, seq: int | None = None) -> AuditFault:
        return AuditFault(kind=kind, seq=seq, id=record_id, detail=f"version {version} {said}")

    life = walk.lives.life(record_id, version)
    if life is None or life.is_seen:
        yield fault("unjournaled_record", "stands in no entry of the journal, or twice in the export")
        return
    life.is_seen = True
    if body["digest"] != life.digest:
        yield fault("digest_differs", "has another digest than the journal says", life.born)
    elif body["body"] is None:
        if body["salt"] != "" or not may_be_empty(record_id, body["emptied"], life, walk):
            yield fault("emptied_record", "was emptied, and no entry says so", life.born)
    elif body["emptied"] is not None or _digest(body) != life.digest:
        yield fault("altered_record", "is not what was written", life.born)
    written = tuple(body[name] for name in ("born", "died", "ending", "merged_into"))
    if written != (life.born, life.died, life.ending, life.merged_into):
        yield fault("life_differs", "began or ended otherwise by the journal", life.born)


def _digest(body: Mapping[str, Any]) -> str:
    said = body["body"]
    try:
        if (said["id"], said["version"]) != (body["id"], body["version"]):
            return ""
        salt = bytes.fromhex(body["salt"])
        if salt.hex() != body["salt"]:  # it is written in one way only
            return ""
        return hashlib.sha256(salt + canonical(said)).hexdigest()
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


# -- lines ------------------------------------------------------------------------------------------------------------


def _entry(body: dict[str, Any]) -> Entry | None:
    """An entry as an export writes it; None for anything else."""
    texts = ("tenant", "actor", "op", "prev", "hash")
    maybe = ("store", "agent", "run", "node")
    is_entry = (
        body.keys() == _ENTRY
        and all(isinstance(body[name], str) for name in texts)
        and all(isinstance(body[name], str | None) for name in maybe)
        and all(_is_whole(body[name]) for name in ("seq", "at"))
        and isinstance(body["detail"], dict)
        and isinstance(body["records"], list)
    )
    if not is_entry:
        return None
    try:
        mentions = tuple(Mention(*_mention(item)) for item in cast("list[object]", body["records"]))
        prev, hashed = bytes.fromhex(body["prev"]), bytes.fromhex(body["hash"])
    except (ValueError, TypeError):
        return None
    if len(prev) != len(GENESIS) or (prev.hex(), hashed.hex()) != (body["prev"], body["hash"]):
        return None
    fields = {name: body[name] for name in _ENTRY - {"tenant", "records", "prev", "hash"}}
    return Entry(**fields, records=mentions, prev=prev, hash=hashed)


def _mention(item: object) -> tuple[str, int, str]:
    match item:
        case [str(record_id), int(version), str(digest)] if not isinstance(version, bool):
            return record_id, version, digest
        case _:
            raise TypeError


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _bodies(name: str, files: Files, faults: Faults) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, with the numbers of their lines."""
    for number, line in enumerate(files.get(name, ()), 1):
        try:
            body = strict_json(line)
        except ValueError:
            body = None
        if isinstance(body, dict):
            yield number, cast("dict[str, Any]", body)
        elif line.strip():
            faults.add("altered_line", f"line {number} of {name} is damaged")
