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
from quipu.rules.letters import plain
from quipu.rules.names import SOMEONE, once, persons
from quipu.rules.stop_words import is_stop_word

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


def shared_names(shares: WordShares) -> frozenset[str]:
    """The names that may be words like any other: others' records have them more often than those of whoever is called so,
    and they are not written as a person's name is."""
    shared = shares.names - shares.mentions
    if not shared or not shares.users:
        return frozenset()
    return shared - persons([word for word, _ in shares.words])


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
    return _PLAIN_WORD.findall(plain(_POSSESSIVE.sub("", text.lower())))
