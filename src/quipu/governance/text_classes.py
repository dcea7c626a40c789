"""Classes of text that rules can ask for: personal data, and text that talks to a model instead of about the world.

Both are recognised by shape, so they miss some and find some that are none: a rule that goes by them holds, it does not
delete. Where personal data is masked (`[email]`, `[phone]`), rather too much is taken: whatever `has_personal_data` finds.
Names are masked where they are known; other names and postal addresses stay.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

import re2  # pyright: ignore[reportMissingTypeStubs]  it has none

from quipu.governance.model import TextClass
from quipu.model.record import Record
from quipu.model.value import Json
from quipu.secrets.decoded import folded

#: Each of Python's patterns has bounded repetitions only, and none whose parts can match in several ways.
_EMAIL = re.compile(r"[\w.+-]@[\w-]{1,63}\.[\w-]{2}")
_SOCIAL = re.compile(r"(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)")
_DIGITS = re.compile(r"(?<![\w.])\+?\(?\d(?:[ ().-]{0,2}\d){6,18}(?![\w])")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b")
_DATE = re.compile(r"(?:19|20)\d\d[-. ]?[01]\d[-. ]?[0-3]\d|[0-3]?\d\.[01]?\d\.(?:19|20)\d\d")

_GAP = r"[\s,:;\"'*_-]{1,5}"
_PHRASES = (
    rf"(?:ignore|disregard|forget|override){_GAP}(?:all|any|the|your|every|previous|prior|earlier|above)"
    rf"(?:{_GAP}[a-z]{{1,12}}){{0,3}}{_GAP}(?:instruction|prompt|rule|direction|message|guideline)s?",
    rf"(?:new|updated|real|hidden|secret){_GAP}(?:system{_GAP})?(?:instructions|prompt)\s{{0,3}}:",
    rf"(?:reveal|print|show|repeat){_GAP}(?:me{_GAP})?(?:your|the){_GAP}(?:system|hidden){_GAP}(?:prompt|instructions|message)",
    rf"you{_GAP}(?:are{_GAP}now|must{_GAP}now|will{_GAP}now)\b",
    rf"(?:do{_GAP}not|don.?t|never){_GAP}(?:tell|inform|mention|show){_GAP}(?:this{_GAP})?(?:to{_GAP})?(?:the|your){_GAP}"
    r"(?:user|human|operator)",
    rf"from{_GAP}now{_GAP}on{_GAP}(?:you|always|never|act|respond|answer)\b",
    rf"(?:act|behave|respond){_GAP}as{_GAP}(?:if|though|an?|the){_GAP}"
    r"(?:you|unrestricted|developer|admin|root|system|jailbroken)",
    r"<\|?(?:im_start|im_end|system|endoftext)\|?>|\[/?(?:inst|system)\]|^\s{0,3}#{2,3}\s?(?:system|instruction)s?\b",
    rf"(?:send|post|forward|upload|exfiltrate){_GAP}(?:it|this|them|all|everything|the{_GAP}[a-z]{{1,20}}){_GAP}to{_GAP}"
    r"(?:https?|ftp)\b",
)
_INSTRUCTION: Any = re2.compile("(?im)" + "|".join(f"(?:{phrase})" for phrase in _PHRASES))  # pyright: ignore[reportUnknownMemberType]  it has no stubs


def said(record: Record) -> str:
    """Everything that a record says: its text, and whatever stands beside it, keys included, at any depth."""
    return all_words(record.content, record.tags, record.source, record.metadata, record.details)


def all_words(content: Json, tags: Sequence[str], source: str | None, *more: Json) -> str:
    """The same of its parts. A number stays out: most are times and counts, and look like anything."""
    words = [*_words(content), *tags, source or ""]
    for value in more:
        words.extend(_words(value))
    return "\n".join(words)


def _words(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield name
            yield from _words(item)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Json]", value):
            yield from _words(item)


def classes(text: str) -> frozenset[TextClass]:
    """What is in a text, secrets aside: those are masked before rules look at it."""
    found: set[TextClass] = set()
    if has_instruction(text):
        found.add("instruction")
    if any(has_personal_data(variant) for variant in _variants(text)):
        found.add("pii")
    return frozenset(found)


def has_instruction(text: str) -> bool:
    """Whether it talks to a model, as it is written or as it looks."""
    return any(_INSTRUCTION.search(variant) is not None for variant in _variants(text))


def has_personal_data(text: str) -> bool:
    """An address, a telephone number, a card, an account."""
    if ("@" in text and _EMAIL.search(text)) or _SOCIAL.search(text):
        return True
    if any(_is_account(found.group()) for found in _IBAN.finditer(text)):
        return True
    return any(_is_number_of_somebody(found.group()) for found in _DIGITS.finditer(text))


def _variants(text: str) -> Sequence[str]:
    """Also without invisible characters, and with full-width and other variants as their plain form."""
    if text.isascii():
        return (text,)
    plain = folded(text)
    return (text,) if plain == text else (text, plain)


def _is_number_of_somebody(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    if 13 <= len(digits) <= 19 and is_card(digits):
        return True
    looks_dialled = text.startswith(("+", "(", "0")) or bool(re.search(r"\d[ ().-]{1,2}\d", text))
    return looks_dialled and 8 <= len(digits) <= 15 and not _DATE.search(text) and "." not in text


def is_card(digits: str) -> bool:
    """The sum that Luhn's formula gives."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0 and len(set(digits)) > 1


def _is_account(text: str) -> bool:
    """ISO 13616: the number, turned round and read in base 36, leaves 1."""
    plain = text.replace(" ", "")
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])) % 97 == 1


# -- masking ----------------------------------------------------------------------------------------------------------

_URL = re.compile(r"\b(?:https?|ftp)://\S+|\bwww\.\S+", re.I)
#: What follows the name of a mailbox. The name is read backwards from here: forwards, a text without any would be read
#: anew from each of its letters.
_MAIL_HOST = re.compile(r"@[\w-]++(?:\.[\w-]++)++")
_MAILBOX = "_.+-"
_IP = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])",
    re.I,
)
_NUMBERS = re.compile(r"\+?\(?\d(?:[ ().\-/]{0,2}\d){6,18}")
#: A day, and perhaps a time of it.
_DAY = re.compile(r"(?<![\w-])\d{4}-[01]\d-[0-3]\d(?:[T ][0-2]\d:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?Z?)?(?![\w-])")
_HANDLE = re.compile(r"(?<!\w)@\w{2,}")
_WORD = re.compile(r"[^\W_]+")


def masked(text: str, names: Collection[str] = ()) -> str:
    """The text without personal data, and without these names, which are words in small letters."""
    found = _without_names(_masked(text), names)
    if text.isascii():
        return found
    # Full-width digits, invisible characters: what looks like a number to a reader is one.
    plain = folded(text)
    if plain != text and _without_names(_masked(plain), names) != plain and has_personal_data(folded(found)):
        return _without_names(_masked(plain), names)
    return found


def _masked(text: str) -> str:
    if text.isalpha():
        return text
    text = _without_emails(_URL.sub("[url]", text))
    text = _IBAN.sub("[iban]", _IP.sub("[ip]", text))
    return _HANDLE.sub("[handle]", _without_numbers(text))


def _without_emails(text: str) -> str:
    parts: list[str] = []
    end = 0
    for host in _MAIL_HOST.finditer(text):
        start = host.start()
        while start > end and (text[start - 1].isalnum() or text[start - 1] in _MAILBOX):
            start -= 1
        if start < host.start():
            parts += text[end:start], "[email]"
            end = host.end()
    return "".join([*parts, text[end:]])


def _without_numbers(text: str) -> str:
    """Days stay; any other row of seven digits and more goes."""
    parts: list[str] = []
    end = 0
    for day in _DAY.finditer(text):
        parts += _NUMBERS.sub(_number, text[end : day.start()]), day.group()
        end = day.end()
    return "".join([*parts, _NUMBERS.sub(_number, text[end:])])


def _number(found: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", found.group())
    return "[card]" if 13 <= len(digits) <= 19 and is_card(digits) else "[phone]"


def _without_names(text: str, names: Collection[str]) -> str:
    if not names:
        return text
    return _WORD.sub(lambda word: "[name]" if word.group().lower() in names else word.group(), text)
