"""What a plan comes to, as data: memories that come, go and change, and their texts word by word. Pure."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from quipu.governance.model import Diff, Modified, Piece, Related
from quipu.governance.similarity import relation
from quipu.ledger.canonical import canonical
from quipu.ledger.commit import Close, Demote, Erase, Put
from quipu.memory.pipeline import Plan
from quipu.memory.views import MASK, content_of, is_secret
from quipu.model.record import Record
from quipu.model.value import Json

#: Lists of a diff are cut here.
MOST = 100
#: Texts of more words than this are not compared: a page must not think long.
_MOST_WORDS = 2_000
#: So many equal words are shown around a change.
_AROUND = 24
#: Letters of scripts that put no space between words: Thai, Lao, Burmese, Khmer, kana and ideographs.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
#: A word, a letter of such a script or a sign, with the space behind it.
_TOKEN = re.compile(rf"[{_UNSPACED}]\s*|[^\W{_UNSPACED}]+\s*|[^\w\s]\s*|\s+")
#: What follows from the moment of the decision, not from what others have changed.
_MOVING = frozenset({"expires_at", "valid_from", "valid_until"})


#: A plan that does nothing.
NOTHING: Plan[Any] = Plan(commits=(), answer=lambda _: None)


def needed(plan: Plan[Any]) -> list[str]:
    """Ids of records that a plan changes or takes away without showing them as they are."""
    known = {record.id for record in plan.before}
    wanted: dict[str, None] = {}
    for change in _changes(plan):
        match change:
            case Put() if change.expects:
                wanted[change.record.id] = None
            case Close():
                wanted |= dict.fromkeys(name for name in (change.id, change.merged_into) if name is not None)
            case Erase() | Demote():
                wanted[change.id] = None
            case _:
                pass
    return [name for name in wanted if name not in known]


def diff(
    plan: Plan[Any],
    more: Mapping[str, Record] | None = None,
    related: Sequence[tuple[Record, float]] = (),
    *,
    masks: bool = False,
) -> Diff:
    """What a plan would change.

    more: Records that `needed` names. related: memories like the new one, with how near they are. masks: hide the text
    of what goes and is labelled secret.
    """
    current = {**(more or {}), **{record.id: record for record in plan.before}}
    changes = _changes(plan)
    puts = [change for change in changes if isinstance(change, Put)]
    added = [put.record for put in puts if not put.expects]
    changed = [
        (current[put.record.id], put.record) for put in puts if put.expects and put.record.id in current
    ]
    gone = [change.id for change in changes if isinstance(change, Close | Erase)]
    demoted = [change.id for change in changes if isinstance(change, Demote)]
    into = {change.merged_into for change in changes if isinstance(change, Close) and change.merged_into}
    stays = into - {put.record.id for put in puts}
    lists: dict[str, Sequence[Any]] = {
        "added": added,
        "removed": gone,
        "modified": [*changed, *demoted],
    }
    fresh = next(iter(added), None) or next((after for _, after in changed), None)
    modified = [_modified(*both) for both in changed]
    modified += [Modified(id=name, before={"demoted": False}, after={"demoted": True}) for name in demoted]
    return Diff(
        added=tuple(_coming(record) for record in added[:MOST]),
        removed=tuple(_known(current[name], masks=masks) for name in gone[:MOST] if name in current),
        modified=tuple(modified[:MOST]),
        related=tuple(
            Related(
                id=record.id,
                content=record.content,
                similarity=round(near, 4),
                kind=relation(fresh.content, record.content, near),
            )
            for record, near in related
            if fresh is not None
        ),
        stays=tuple(_known(current[name], masks=masks) for name in sorted(stays) if name in current),
        counts={name: len(rows) for name, rows in lists.items() if len(rows) > MOST},
    )


def fresh_record(plan: Plan[Any]) -> Record | None:
    """The one new version of a plan, where it is one."""
    puts = [change.record for change in _changes(plan) if isinstance(change, Put)]
    new = [record for record in puts if record.version == 1] or puts
    return new[0] if len(new) == 1 else None


def etag(nonce: str, plan: Plan[Any], problem: str | None = None) -> str:
    """Names what a plan does, or why it cannot be done. Ids and versions of new memories are none of it, so that a
    preview and the proposal that follows it agree; it is salted, for it may outlive what it names."""
    done: list[Json] = []
    for change in _changes(plan):
        match change:
            case Put():
                fields = {
                    name: value for name, value in _fields(change.record).items() if name not in _MOVING
                }
                place: Json = [change.record.id, change.expects] if change.expects else None
                done.append(["put", place, fields])
            case Close():
                done.append(["close", change.id, change.expects, change.ending, change.merged_into])
            case Erase():
                done.append(["erase", change.id])
            case Demote():
                done.append(["demote", change.id, change.expects])
            case _:
                pass
    digest = hashlib.sha256(nonce.encode() + canonical([done, problem])).hexdigest()
    return f"{nonce}-{digest[:32]}"


def is_etag_of(given: str, plan: Plan[Any], problem: str | None = None) -> bool:
    """Whether it was given for what the plan does now."""
    nonce = given.rpartition("-")[0]
    return given == etag(nonce, plan, problem)


def _changes(plan: Plan[Any]) -> list[Any]:
    return [change for commit in plan.commits for change in commit.changes]


def _modified(before: Record, after: Record) -> Modified:
    one, other = _fields(before), _fields(after)
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return Modified(
        id=before.id,
        before={name: one.get(name) for name in names},
        after={name: other.get(name) for name in names},
        words=words(before.content, after.content) if "content" in names else None,
    )


def _coming(record: Record) -> dict[str, Any]:
    """A record that is not there yet has no times yet."""
    given = {name: value for name, value in _fields(record).items() if value not in (None, [], {})}
    return {"id": record.id, **given}


def _known(record: Record, *, masks: bool) -> dict[str, Any]:
    """Enough of a record that is there to know it by."""
    content = MASK if masks and is_secret(record) else content_of(record)
    return {"id": record.id, "type": record.type, "content": content, "created_at": record.created_at}


def _fields(record: Record) -> dict[str, Any]:
    privacy = record.privacy
    shown: dict[str, Any] = {
        "type": record.type,
        "content": content_of(record),
        "agent_id": record.agent_id,
        "user_id": record.user_id,
        "session_id": record.session_id,
        "store_id": record.store_id,
        "state": record.standing,
        "metadata": dict(record.metadata),
        "tags": list(record.tags),
        "links": [{"to": link.to, "rel": link.rel} for link in record.links],
        "confidence": record.confidence,
        "importance": record.importance,
        "source": record.source,
        "expires_at": record.expires_at,
        "key": record.key,
        "valid_from": record.valid_from,
        "valid_until": record.valid_until,
        "sensitivity": None if privacy is None else privacy.sensitivity,
        "share_with": None if privacy is None or privacy.share_with is None else list(privacy.share_with),
        "consent_id": None if privacy is None else privacy.consent_id,
        "retain": None if privacy is None else privacy.retain,
    }
    return {**shown, **record.details}


# -- word by word -------------------------------------------------------------------------------------------------


def words(before: str, after: str) -> tuple[Piece, ...] | None:
    """The pieces of both texts in reading order; None where they are too long to compare."""
    old: list[str] = _TOKEN.findall(before)
    new: list[str] = _TOKEN.findall(after)
    if max(len(old), len(new)) > _MOST_WORDS:
        return None
    matcher = SequenceMatcher(
        None,
        [token.rstrip() or token for token in old],
        [token.rstrip() or token for token in new],
        autojunk=False,
    )
    return tuple(_pieces(matcher, old, new))


def _pieces(matcher: "SequenceMatcher[str]", old: Sequence[str], new: Sequence[str]) -> Iterator[Piece]:
    """Of what went and came in one place, what went stands first."""
    for what, start, end, from_, to in matcher.get_opcodes():
        if what == "equal":
            yield from _same(new[from_:to], is_first=not from_, is_last=to == len(new) and end == len(old))
            continue
        for kind, tokens in (("gone", old[start:end]), ("new", new[from_:to])):
            if tokens:
                yield Piece(kind="gone" if kind == "gone" else "new", text="".join(tokens))


def _same(tokens: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[Piece]:
    """A long stretch that stayed is cut to what stands next to a change."""
    if len(tokens) <= 3 * _AROUND:
        yield Piece(kind="same", text="".join(tokens))
        return
    if not is_first:
        yield Piece(kind="same", text="".join(tokens[:_AROUND]))
    yield Piece(kind="skipped", text=" … ")
    if not is_last:
        yield Piece(kind="same", text="".join(tokens[-_AROUND:]))
