"""Checking an exported journal by its files alone, without any ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from quipu.errors import UnverifiableError
from quipu.model.journal import Checkpoint, Entry, Mention, Op
from quipu.model.outcomes import Fault, Verification
from quipu.rules import chain


def verified_export(
    files: Mapping[str, Iterable[str]],
    parts_canonical: chain.Canonical,
    verify: Callable[..., bool],
    kept: Sequence[Checkpoint] = (),
) -> Verification:
    """Check an export by its files alone: no ledger, no network. `keys.json` should come from a place of its own.

    `kept` are signed positions from elsewhere that the journal must pass through too.
    """
    keys: dict[str, str] = {}
    faults: list[Fault] = []
    for _, body in _parsed("keys.json", files, faults):
        keys.update((name, key) for name, key in body.items() if isinstance(key, str))
    points: list[Checkpoint] = []
    for number, body in _parsed("checkpoints.ndjson", files, faults):
        if (point := checkpoint_of(body)) is not None:
            points.append(point)
        else:
            faults.append(Fault(kind="bad_signature", seq=number, detail="the line is no checkpoint"))
    own, points = points, list(dict.fromkeys((*points, *kept)))
    walk = chain.Walk(parts_canonical, wanted={point.seq: None for point in points})
    for number, body in _parsed("journal.ndjson", files, faults):
        entry = _entry(body)
        if entry is None:
            faults.append(Fault(kind="altered_entry", seq=number, detail="the line is no journal entry"))
        else:
            walk.follow([entry])
    faults.extend(walk.faults)

    def check(message: bytes, key: str, signature: str) -> bool:
        return verify(message, key, signature, keys)

    unchecked = check_points(points, walk, parts_canonical, check, faults)
    signed = max((point.seq for point in points), default=0)
    if signed < walk.seq:  # an export signs its end: who takes signatures away can make up what they covered
        unchecked.append(
            UnverifiableError(
                f"The entries behind position {signed} are not signed: nothing proves who wrote them.",
                reason="unsigned_end",
            )
        )
    if "records.ndjson" not in files and walk.lives:
        unchecked.append(
            UnverifiableError(
                f"The records are not in the export: the chain and its signatures were checked, and none of the "
                f"{len(walk.lives)} versions that the journal tells of.",
                reason="missing_records",
            )
        )
    records = _check_exported_records(files, walk, faults)
    return Verification(
        entries=walk.seq,
        records=records,
        checkpoints=len(points),
        head_seq=walk.seq,
        head_hash=walk.hash,
        faults=chain.in_order(faults),
        last_checkpoint=own[-1] if own else None,
        **in_words(unchecked),
    )


def _check_exported_records(files: Mapping[str, Iterable[str]], walk: chain.Walk, faults: list[Fault]) -> int:
    if "records.ndjson" not in files:
        return 0
    count = 0
    for _, body in _parsed("records.ndjson", files, faults):
        count += 1
        faults.extend(chain.version_faults(body, walk))
    faults.extend(chain.missing_faults(walk))
    return count


def _parsed(
    name: str, files: Mapping[str, Iterable[str]], faults: list[Fault]
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(files.get(name, ()), start=1):
        try:
            body = json.loads(line, object_pairs_hook=_named_once)
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict):
            yield number, body
        elif line.strip():
            faults.append(
                Fault(kind="altered_entry", seq=number, detail=f"line {number} of {name} is damaged")
            )


def _named_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. A name that stands in it twice means one thing to us and another to the next reader."""
    body = dict(members)
    if len(body) < len(members):
        raise ValueError
    return body


_TEXT_OR_NONE = (str, type(None))
#: What the lines of an export hold.
_MENTION = {"id": str, "version": int, "digest": str}
_ENTRY = {
    "tenant": str,
    "seq": int,
    "at": int,
    "actor": str,
    "op": str,
    "store": _TEXT_OR_NONE,
    "agent": _TEXT_OR_NONE,
    "run": _TEXT_OR_NONE,
    "node": _TEXT_OR_NONE,
    "records": list,
    "detail": dict,
    "prev": str,
    "hash": str,
}
_POINT = {"tenant": str, "seq": int, "hash": str, "at": int, "key_id": str, "signature": str}


def _fits(body: object, shape: Mapping[str, Any]) -> bool:
    """An object with these members of these types, and no others."""
    if not isinstance(body, dict):
        return False
    members = cast("dict[str, object]", body)
    return members.keys() == shape.keys() and all(
        isinstance(members[name], kind) and not isinstance(members[name], bool)
        for name, kind in shape.items()
    )


def checkpoint_of(body: object) -> Checkpoint | None:
    """A signed position as an export writes it."""
    return Checkpoint(**cast("dict[str, Any]", body)) if _fits(body, _POINT) else None


def _entry(body: dict[str, Any]) -> Entry | None:
    if not _fits(body, _ENTRY) or not all(_fits(item, _MENTION) for item in body["records"]):
        return None
    if body["op"] not in tuple(Op):
        return None
    mentions = tuple(Mention(item["id"], item["version"], item["digest"]) for item in body["records"])
    fields: dict[str, Any] = {**body, "op": Op(body["op"]), "records": mentions}
    return Entry(**fields)


def check_points(
    points: Iterable[Checkpoint],
    walk: chain.Walk,
    canonical: chain.Canonical,
    check: chain.Check,
    faults: list[Fault],
) -> list[UnverifiableError]:
    """Adds what is wrong to the faults; returns what could not be checked."""
    unchecked: list[UnverifiableError] = []
    for point in points:
        for found in chain.checkpoint_faults(point, walk, canonical, check):
            if isinstance(found, UnverifiableError):
                unchecked.append(found)
            else:
                faults.append(found)
    return unchecked


def in_words(unchecked: Iterable[UnverifiableError]) -> dict[str, tuple[str, ...]]:
    """What could not be checked, in words and as stable ones, each once."""
    return {
        "unverifiable": tuple(dict.fromkeys(one.message for one in unchecked)),
        "reasons": tuple(dict.fromkeys(one.reason or one.code for one in unchecked)),
    }
