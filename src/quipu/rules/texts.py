"""What a memory is found by: the words for keyword search, the text for the embedder, and what a query means.

The date in words and the subject stand beside the text, so that "in May" and "what did Ana say" find their turns.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from quipu.errors import InvalidError
from quipu.model.record import MemoryType, Record
from quipu.model.search import WordShares
from quipu.model.value import Json, JsonObject
from quipu.rules.names import SOMEONE, once, persons

_STOP_WORDS = frozenset(
    """a about after again all also am an and any are aren't as at be because been before being between both but by
    can can't cannot could couldn't did didn't do does doesn't doing don't down during each ever few for from further
    get gets getting give go goes going got had hadn't has hasn't have haven't having he he'd he'll he's her here here's
    hers herself him himself his how how's i i'd i'll i'm i've if in into is isn't it it's its itself just let's like
    many may me might more most much must my myself no nor not of off on once one only or other ought our ours ourselves
    out over own please really same shall she she'd she'll she's should shouldn't so some such tell than that that's the
    their theirs them themselves then there there's these they they'd they'll they're they've this those through to too
    under until up upon us very was wasn't we we'd we'll we're we've were weren't what what's when when's where where's
    which while who who's whom whose why why's will with won't would wouldn't yes yet you you'd you'll you're you've
    your yours yourself yourselves""".split()  # noqa: SIM905  words read better as a text than as two hundred literals
)
_UNKEEPABLE = re.compile(r"[\x00\ud800-\udfff]")
_PLAIN_WORD = re.compile(r"[^\W_]+")
_POSSESSIVE = re.compile("['\u2019]s\\b")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Metadata keys that name whom or what a memory is about, in the order they are asked.
_SUBJECT_KEYS = ("subject", "speaker", "entity_name", "entity", "author")
_SUBJECTS = frozenset(_SUBJECT_KEYS)


def is_keepable(text: str) -> bool:
    """Whether a ledger can hold this text: valid Unicode without U+0000."""
    return _UNKEEPABLE.search(text) is None


def checked_keepable(text: object, pointer: str) -> str:
    """The text, or InvalidError where it is none, or one that no ledger can hold."""
    if not isinstance(text, str) or not is_keepable(text):
        raise InvalidError.at(pointer, "bad_value", "A text holds no U+0000 and no unpaired surrogate.")
    return text


def composed(text: str) -> str:
    """A letter and its accent as one character: a word may be written either way, and is the same word."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def is_stop_word(word: str) -> bool:
    return word.replace("\u2019", "'").lower() in _STOP_WORDS


def subject_of(metadata: JsonObject, details: JsonObject) -> str | None:
    """Whom or what a memory is about, where the writer said so."""
    if not details and _SUBJECTS.isdisjoint(metadata):
        return None
    named: list[Json] = [metadata.get(key) for key in _SUBJECT_KEYS]
    named.append(details.get("target"))
    return next((name for name in named if isinstance(name, str) and name.strip()), None)


def procedure_text(machine: Mapping[str, Json]) -> str:
    """A machine in words: name, description, states, triggers."""
    metadata = machine.get("metadata")
    described = metadata.get("description") if isinstance(metadata, Mapping) else None
    parts: list[Json] = [machine.get("name"), described, *_items(machine.get("states"))]
    for transition in _items(machine.get("transitions")):
        if isinstance(transition, Mapping):
            parts.append(transition.get("trigger"))
    words = [part for part in parts if isinstance(part, str)]
    return " ".join(dict.fromkeys(word.replace("_", " ").replace("-", " ") for word in words))


def _items(value: Json) -> Sequence[Json]:
    return cast("Sequence[Json]", value) if isinstance(value, list | tuple) else ()


def body_text(record: Record) -> str:
    """What the record says, in words."""
    if record.type is MemoryType.PROCEDURAL:
        try:
            machine = json.loads(record.content)
        except (ValueError, RecursionError):
            # Altered behind the journal's back: who looks for that must get as far as naming it.
            return record.content
        if isinstance(machine, dict):
            return procedure_text(cast("dict[str, Json]", machine))
    return record.content


def search_text(record: Record) -> str:
    """What keyword search finds the record by: its words, its subject, place and people, tags, and its date."""
    details = record.details
    if (
        not details
        and not record.tags
        and record.provenance.subject is None
        and record.type is not MemoryType.EPISODIC
    ):
        return body_text(record)
    parts: list[Json] = [body_text(record), record.provenance.subject, details.get("location")]
    parts.extend(_items(details.get("participants")))
    parts.extend((details.get("emotion"), *record.tags))
    moment = details.get("event_time")
    if record.type is MemoryType.EPISODIC:
        parts.append(date_words(moment if isinstance(moment, int) else record.created_at))
    return "\n".join(part for part in parts if isinstance(part, str))


def embedding_text(record: Record) -> str:
    """What the embedder sees: the words alone. A name or a date would pull everything that shares it together."""
    return body_text(record)


def date_words(moment: int) -> str:
    """A day as people write it."""
    try:
        day = _EPOCH + timedelta(milliseconds=moment)
    except OverflowError:
        return ""
    return f"{day.day} {day:%B} {day.year} {day:%A}"


def is_common(having: float, in_reach: int, common_from: float) -> bool:
    """A word that two records have is not common, however few records there are."""
    return having > max(2.0, common_from * in_reach)


def stripped(query: str, shares: WordShares, common_from: float) -> str:
    """The query without words that a large share of the records in reach have, and with "someone" for users it names.

    Those words say nothing about which record is meant, and they pull every record of that name near. When nothing
    else is left the query stays as it is.
    """
    kept: list[str] = []
    is_left = False
    for word, share in shares.words:
        if is_stop_word(word):
            kept.append(word)
        elif word in shares.names:
            kept.append(SOMEONE)
        elif not is_common(share * shares.in_reach, shares.in_reach, common_from):
            kept.append(word)
            is_left = True
    return once(" ".join(kept)) if is_left else query


def is_shortened(shares: WordShares, common_from: float) -> bool:
    """Whether `stripped` leaves words out of the query, or has "someone" for them."""
    content = [(word, share) for word, share in shares.words if not is_stop_word(word)]
    kept = [
        word not in shares.names and not is_common(share * shares.in_reach, shares.in_reach, common_from)
        for word, share in content
    ]
    return any(kept) and not all(kept)


def has_stranger(shares: WordShares) -> bool:
    """Whether a question names somebody of whom nothing is known: no record in reach has the name.

    It can be told only where people are told apart. In one person's memory, and in one that is nobody's in particular,
    the records may well be about whoever is named without ever saying the name.
    """
    if not shares.has_several_users:
        return False
    unknown = {word for word, share in shares.words if not share and not is_stop_word(word)} - shares.names
    return bool(unknown) and not unknown.isdisjoint(persons([word for word, _ in shares.words]))


def named(text: str, names: Mapping[str, str]) -> frozenset[str]:
    """Which of the names the text mentions, as whole words. Each name comes with how it is spelled."""
    if not names:
        return frozenset()
    said = spelled(text)
    return frozenset([name for name, words in names.items() if name and words in said])


def spelled(text: str) -> str:
    """A text as names are looked for: its plain words, each between spaces."""
    return f" {' '.join(_plain_words(text))} "


def _plain_words(text: str) -> list[str]:
    return _PLAIN_WORD.findall(_POSSESSIVE.sub("", composed(text.lower())))
