"""What a change comes to, as data: records that come, go and change, and their texts word by word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from quipu.model.governance import Diff, Modified, Piece, Related
from quipu.model.record import Record
from quipu.model.value import Json
from quipu.rules.policy_relations import relation

Step: TypeAlias = tuple[str, str]

#: Lists of a diff are cut here.
MOST = 100
#: Longer texts are not compared, and of texts with more changes only the whole is shown: a page must not think long.
_LONGEST, _STEPS = 100_000, 400
#: So many equal words are shown around a change.
_AROUND = 24
#: Letters of scripts that put no space between words: Thai, Lao, Burmese, Khmer, kana and ideographs.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
#: A word, a letter of such a script or a sign, with the space behind it.
_TOKEN = re.compile(rf"[{_UNSPACED}]\s*|[^\W{_UNSPACED}]+\s*|[^\w\s]\s*|\s+")
#: Joins two pictures into one.
_JOINER = "\u200d"


def diff(
    added: Sequence[Record] = (),
    removed: Sequence[Record] = (),
    changed: Sequence[tuple[Record, Record]] = (),
    related: Sequence[tuple[Record, float]] = (),
    stays: Sequence[Record] = (),
) -> Diff:
    """What comes, goes and changes; `related` are live records with their nearness to what comes.

    `stays` is what others are merged into.
    """
    fresh = [*added, *(after for _, after in changed)]
    counts: dict[str, Json] = {
        name: len(rows)
        for name, rows in (("added", added), ("removed", removed), ("modified", changed))
        if len(rows) > MOST
    }
    return Diff(
        added=tuple(_coming(record) for record in added[:MOST]),
        removed=tuple(_known(record) for record in removed[:MOST]),
        modified=tuple(modified(*both) for both in changed[:MOST]),
        related=tuple(
            Related(
                id=record.id,
                content=record.content,
                similarity=round(near, 4),
                kind=relation(fresh[0].content, record.content, near),
            )
            for record, near in related[:MOST]
            if fresh
        ),
        stays=tuple(_known(record) for record in stays),
        counts=counts,
    )


def modified(before: Record, after: Record) -> Modified:
    """One record, as it is and as it would be: only what differs."""
    one, other = _fields(before), _fields(after)
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return Modified(
        id=before.id,
        before={name: one.get(name) for name in names},
        after={name: other.get(name) for name in names},
        words=words(before.content, after.content) if "content" in names else None,
    )


def _coming(record: Record) -> dict[str, Json]:
    """A record that is not there yet has no times yet."""
    given = {name: value for name, value in _fields(record).items() if value not in (None, [], {})}
    return {"id": record.id, **given}


def _known(record: Record) -> dict[str, Json]:
    """Enough of a record that is there to know it by."""
    return {
        "id": record.id,
        "type": record.type.value,
        "content": record.content,
        "created_at": record.created_at,
    }


def _fields(record: Record) -> dict[str, Json]:
    privacy = record.privacy
    told: dict[str, Any] = {
        "type": record.type.value,
        "content": record.content,
        "agent_id": record.agent_id,
        "user_id": record.user_id,
        "session_id": record.session_id,
        "state": record.state.value,
        "metadata": record.metadata,
        "tags": list(record.tags),
        "links": [{"to": link.to, "rel": link.rel} for link in record.links],
        "confidence": record.confidence,
        "importance": record.importance,
        "source": record.source,
        "expires_at": record.expires_at,
        "sensitivity": None if privacy is None or privacy.sensitivity is None else privacy.sensitivity.value,
    }
    return {**told, **record.details}


def essence(shown: Diff) -> Json:
    """What an etag is made of: everything that a yes would do, without what merely stands beside it."""
    told: dict[str, Json] = {
        "added": list(shown.added),
        "removed": list(shown.removed),
        "modified": [{"id": one.id, "before": one.before, "after": one.after} for one in shown.modified],
        "counts": shown.counts,
    }
    return {**told, "stays": list(shown.stays)} if shown.stays else told


# -- word by word -----------------------------------------------------------------------------------------------


def words(before: str, after: str) -> tuple[Piece, ...] | None:
    """The pieces of both texts in reading order; None where they are too long or too different to say."""
    if before == after:
        return (Piece("same", after),)
    if max(len(before), len(after)) > _LONGEST:
        return None
    old, new = _tokens(before), _tokens(after)
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    middle = _changes(old[start : len(old) - end], new[start : len(new) - end])
    if middle is None:
        middle = [("gone", token) for token in old[start : len(old) - end]]
        middle += [("new", token) for token in new[start : len(new) - end]]
    ahead = [("same", _wider(*both)) for both in zip(old[:start], new[:start], strict=True)]
    behind = [("same", token) for token in new[len(new) - end :]]
    steps = [*ahead, *middle, *behind]
    return tuple(_shortened(_gathered(steps)))


def _tokens(text: str) -> list[str]:
    """What is compared: words and signs, none of them cut off from its accents, vowel signs or joined pictures."""
    found: list[str] = _TOKEN.findall(text)
    if text.isascii():
        return found
    whole: list[str] = []
    for token in found:
        if whole and _belongs(whole[-1], token):
            whole[-1] += token
        else:
            whole.append(token)
    return whole


def _belongs(before: str, token: str) -> bool:
    """Whether a token only goes on with the one before it."""
    if before[-1].isspace():
        return False
    return before[-1] == _JOINER or token[0] == _JOINER or unicodedata.category(token[0])[0] == "M"


def _is_same(one: str, other: str) -> bool:
    """Space behind a word is no change of the word."""
    return one == other or (bool(one.strip()) and one.rstrip() == other.rstrip())


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many tokens are the same from the beginning on."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if not _is_same(mine, theirs):
            break
        count += 1
    return count


def _changes(old: Sequence[str], new: Sequence[str]) -> list[Step] | None:
    """The fewest steps from one to the other, by Myers' greedy search; None when there are too many."""
    furthest = {1: 0}
    trail: list[dict[int, int]] = []
    for steps in range(min(len(old) + len(new), _STEPS) + 1):
        trail.append(dict(furthest))
        for line in range(-steps, steps + 1, 2):
            is_new = line == -steps or (line != steps and furthest[line - 1] < furthest[line + 1])
            x = furthest[line + 1] if is_new else furthest[line - 1] + 1
            while x < len(old) and x - line < len(new) and _is_same(old[x], new[x - line]):
                x += 1
            furthest[line] = x
            if x >= len(old) and x - line >= len(new):
                return _walked_back(trail, old, new)
    return None


def _walked_back(trail: Sequence[dict[int, int]], old: Sequence[str], new: Sequence[str]) -> list[Step]:
    x, y = len(old), len(new)
    path: list[Step] = []
    for steps in range(len(trail) - 1, 0, -1):
        furthest, line = trail[steps], x - y
        is_new = line == -steps or (line != steps and furthest[line - 1] < furthest[line + 1])
        before_x = furthest[line + 1 if is_new else line - 1]
        after_x = before_x if is_new else before_x + 1
        while x > after_x:
            x, y = x - 1, y - 1
            path.append(("same", _wider(old[x], new[y])))
        if is_new:
            y -= 1
            path.append(("new", new[y]))
        else:
            x -= 1
            path.append(("gone", old[x]))
    path += [("same", _wider(old[place], new[place])) for place in range(x - 1, -1, -1)]
    return path[::-1]


def _wider(one: str, other: str) -> str:
    """The same word with the space that either has, so that it does not run into its neighbour."""
    return max(one, other, key=len)


def _gathered(steps: Sequence[Step]) -> Iterator[Piece]:
    """Equal steps in a row as one piece; of what went and came in one place, what went stands first."""
    place = 0
    while place < len(steps):
        is_same = steps[place][0] == "same"
        run = place
        while run < len(steps) and (steps[run][0] == "same") is is_same:
            run += 1
        for kind in ("same",) if is_same else ("gone", "new"):
            if text := "".join(token for what, token in steps[place:run] if what == kind):
                yield Piece(kind, text)
        place = run


def _shortened(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Long stretches that stayed are cut to what stands next to a change."""
    everything = list(pieces)
    for place, piece in enumerate(everything):
        tokens = _tokens(piece.text) if piece.kind == "same" else ()
        if len(tokens) <= 3 * _AROUND:
            yield piece
            continue
        head = "".join(tokens[:_AROUND]) if place else ""
        tail = "".join(tokens[-_AROUND:]) if place < len(everything) - 1 else ""
        yield Piece("same", head)
        yield Piece("skipped", " … ")
        yield Piece("same", tail)
