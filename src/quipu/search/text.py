"""What a memory is found by: its words for keyword search, its text for the embedder; and how words are compared.

The date in words and the subject stand beside the text, so that "in May" and "what did Ana say" find their turns.

How a word is written makes no difference:
1. Case, width and style: a sharp s and its capitals, full-width letters, ligatures, digits of any script.
2. Points and accents that many leave out are left out: of Greek, Arabic and Hebrew, and stress marks. What makes
   another letter stays, and so do vowel signs. Accents on Latin letters are left to the tokenizer.
3. What only says where a word may be broken or joined, such as a soft hyphen, is no part of it. Other signs end a word.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from quipu.model.record import Record
from quipu.model.value import Json, JsonObject
from quipu.search.passages import passages
from quipu.search.people import name_parts, without_names

# -- the text of a record -------------------------------------------------------------------------------------------

_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Metadata keys that name whom or what a memory is about, in the order they are looked at.
_SUBJECT_KEYS = ("subject", "speaker", "entity_name", "entity", "author")


def is_storable(text: str) -> bool:
    """Whether every ledger can hold this text: valid Unicode without U+0000."""
    return _UNSTORABLE.search(text) is None


def subject_of(metadata: JsonObject, details: JsonObject) -> str | None:
    """Whom or what a memory is about, where the writer said so."""
    named: list[Json] = [metadata.get(key) for key in _SUBJECT_KEYS]
    named.append(details.get("target"))
    return next((name for name in named if isinstance(name, str) and name.strip()), None)


def body_text(record: Record) -> str:
    """What the record says, in words."""
    if record.type == "procedural":
        try:
            machine = json.loads(record.content)
        except (ValueError, RecursionError):
            # Altered in the database: whoever verifies it must get as far as naming it.
            return record.content
        if isinstance(machine, dict):
            return procedure_text(cast("dict[str, Json]", machine))
    return record.content


def procedure_text(machine: Mapping[str, Json]) -> str:
    """A procedure in words: name, description, states, triggers."""
    metadata = machine.get("metadata")
    description = metadata.get("description") if isinstance(metadata, Mapping) else None
    parts: list[Json] = [machine.get("name"), description, *_items(machine.get("states"))]
    for transition in _items(machine.get("transitions")):
        if isinstance(transition, Mapping):
            parts.append(transition.get("trigger"))
    words = [part for part in parts if isinstance(part, str)]
    return " ".join(dict.fromkeys(word.replace("_", " ").replace("-", " ") for word in words))


def index_text(record: Record) -> str:
    """What keyword search finds the record by: its words, subject, place and people, tags, and the date of an event."""
    details = record.details
    parts: list[Json] = [body_text(record), record.provenance.subject, details.get("location")]
    parts.extend(_items(details.get("participants")))
    parts.extend((details.get("emotion"), *record.tags))
    if record.type == "episodic":
        happened_at = details.get("event_time")
        parts.append(date_words(happened_at if isinstance(happened_at, int) else record.created_at))
    return "\n".join(part for part in parts if isinstance(part, str))


def embedding_texts(record: Record) -> list[str]:
    """What the embedder sees: the words alone, passage by passage, without names (`people.py`)."""
    text = body_text(record)
    called = [record.user_id and record.user_id.partition("@")[0], record.provenance.subject]
    called.extend(name for name in _items(record.details.get("participants")) if isinstance(name, str))
    known = frozenset(part for name in called if name for part in name_parts(name))
    return [without_names(text[start:end], known).text for start, end in passages(text)]


def is_long(record: Record) -> bool:
    """Whether it is embedded in several passages."""
    return len(passages(body_text(record))) > 1


def is_question(record: Record) -> bool:
    """Whether the text ends with a question mark: a turn that asks seldom answers."""
    return record.content.rstrip().endswith("?")


def date_words(moment: int) -> str:
    """A day as people write it; empty where no calendar reaches."""
    try:
        day = _EPOCH + timedelta(milliseconds=moment)
    except OverflowError:
        return ""
    return f"{day.day} {day:%B} {day.year} {day:%A}"


def _items(value: Json) -> Sequence[Json]:
    return cast("Sequence[Json]", value) if isinstance(value, list | tuple) else ()


# -- stop words -----------------------------------------------------------------------------------------------------

#: Words that every English text has: they say little of what is meant, and that the text is English.
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
#: German has these words too, in other meanings.
_GERMAN = frozenset(("all", "also", "am", "an", "her", "in", "so", "was", "will"))


def is_stop_word(word: str) -> bool:
    return word.replace("\u2019", "'").lower() in _STOP_WORDS


def is_english(words: Iterable[str]) -> bool:
    """Whether one of the words shows that they are English ones."""
    return any(is_stop_word(word) and word.lower() not in _GERMAN for word in words)


# -- letters --------------------------------------------------------------------------------------------------------

#: Scripts written without spaces: every character is a word of its own.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff])"
)
#: Soft hyphen, joiners, marks of direction, variation selectors; and what stretches an Arabic word.
_INVISIBLE = re.compile("[\u00ad\u034f\u0640\u200d-\u200f\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]")
#: Letters to Unicode, apostrophes to those who write them.
_APOSTROPHES = "\u02bb\u02bc"
#: Letters that are often written as others: a dotless i, whose capital is I; yo; alefs with a sign.
_OFTEN_WRITTEN = {
    "\u0131": "i",
    "\u0451": "\u0435",
    "\u0622": "\u0627",
    "\u0623": "\u0627",
    "\u0625": "\u0627",
}
_GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
_PLAIN_WORD = re.compile(r"[^\W_]+")
_POSSESSIVE = re.compile("['\u2019]s\\b")
#: What `outline` has for all that belongs to the letter before it.
MARK = "\u0300"


def composed(text: str) -> str:
    """A letter and its accent as one character: a word may be written either way, and is the same word."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def folded(text: str) -> str:
    """The words of a text as they are compared, with nothing but spaces and ASCII signs between them."""
    if text.isascii():
        return text
    return _UNSPACED.sub(r" \1 ", composed(composed(text).translate(_FOLDED)))


def outline(text: str) -> str:
    """A text of the same length in which a word shows as letters and `MARK`."""
    return text if text.isascii() else text.translate(_OUTLINE)


def spaced_words(text: str) -> str:
    """A text as names are looked for in it: its folded words, each between spaces."""
    return f" {' '.join(_PLAIN_WORD.findall(folded(_POSSESSIVE.sub('', text.lower()))))} "


class _Translation(dict[int, str]):
    """What stands for a character, worked out when it is first met."""

    def __init__(self, of: Callable[[str], str]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, code: int) -> str:
        self[code] = found = self._of(chr(code))
        return found


def _folded(char: str) -> str:
    if char.isascii():
        return char
    category = unicodedata.category(char)
    if _INVISIBLE.match(char):
        return ""
    if category[0] == "M":
        return "" if _is_left_out(char) else char
    if category == "Nd":
        return str(unicodedata.digit(char))
    if category[0] == "N":  # a fraction, or a raised number: no part of what it stands at
        return f" {unicodedata.normalize('NFKC', char).casefold()} ".replace("\u2044", " ")
    if category[0] != "L" or char in _APOSTROPHES:
        return " "
    letters = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", char).casefold())
    if letters != char:
        return "".join(map(_folded, letters))
    if _GREEK.match(char):  # the letter itself comes first
        return unicodedata.normalize("NFD", char)[0]
    return _OFTEN_WRITTEN.get(char, char)


def _outlined(char: str) -> str:
    return MARK if unicodedata.category(char)[0] == "M" or _INVISIBLE.match(char) else char


def _is_left_out(mark: str) -> bool:
    """By Unicode's classes of marks: 1 strikes a letter out, 8 voices kana, 10 to 36 are points, from 200 on accents."""
    number = unicodedata.combining(mark)
    if number == 1 or 10 <= number <= 36 or number >= 200:
        return True
    return number != 8 and _UNSPACED.match(mark) is not None


_FOLDED, _OUTLINE = _Translation(_folded), _Translation(_outlined)
