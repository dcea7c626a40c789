"""Classes of text that rules can ask for: personal data, and text that talks to a model instead of about the world.

Both are told by shape, so they miss some and find some that are none: a rule that goes by them holds, it does not delete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from quipu.model.governance import Found
from quipu.model.record import Record
from quipu.model.value import Json
from quipu.rules.readings import folded

#: Each pattern has bounded repetitions only, and none whose parts can be told apart in several ways.
_EMAIL = re.compile(r"[\w.+-]@[\w-]{1,63}\.[\w-]{2}")
_SOCIAL = re.compile(r"(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)")
_DIGITS = re.compile(r"(?<![\w.])\+?\(?\d(?:[ ().-]{0,2}\d){6,18}(?![\w])")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b")
_DATE = re.compile(r"(?:19|20)\d\d[-. ]?[01]\d[-. ]?[0-3]\d|[0-3]?\d\.[01]?\d\.(?:19|20)\d\d")

_GAP = r"[\s,:;\"'*_-]{1,5}"
_PHRASES = (
    r"(?:ignore|disregard|forget|override)" + _GAP + r"(?:all|any|the|your|every|previous|prior|earlier|above)"
    r"(?:" + _GAP + r"[a-z]{1,12}){0,3}" + _GAP + r"(?:instruction|prompt|rule|direction|message|guideline)s?",
    r"(?:new|updated|real|hidden|secret)" + _GAP + r"(?:system" + _GAP + r")?(?:instructions|prompt)\s{0,3}:",
    r"(?:reveal|print|show|repeat)" + _GAP + r"(?:me" + _GAP + r")?(?:your|the)" + _GAP + r"(?:system|hidden)"
    + _GAP + r"(?:prompt|instructions|message)",
    r"you" + _GAP + r"(?:are" + _GAP + r"now|must" + _GAP + r"now|will" + _GAP + r"now)\b",
    r"(?:do" + _GAP + r"not|don.?t|never)" + _GAP + r"(?:tell|inform|mention|show)" + _GAP + r"(?:this" + _GAP
    + r")?(?:to" + _GAP + r")?(?:the|your)" + _GAP + r"(?:user|human|operator)",
    r"from" + _GAP + r"now" + _GAP + r"on" + _GAP + r"(?:you|always|never|act|respond|answer)\b",
    r"(?:act|behave|respond)" + _GAP + r"as" + _GAP + r"(?:if|though|an?|the)" + _GAP
    + r"(?:you|unrestricted|developer|admin|root|system|jailbroken)",
    r"<\|?(?:im_start|im_end|system|endoftext)\|?>|\[/?(?:inst|system)\]|^\s{0,3}#{2,3}\s?(?:system|instruction)s?\b",
    r"(?:send|post|forward|upload|exfiltrate)" + _GAP + r"(?:it|this|them|all|everything|the" + _GAP
    + r"[a-z]{1,20})" + _GAP + r"to" + _GAP + r"(?:https?|ftp)\b",
)  # fmt: skip
_INSTRUCTION = re.compile("|".join(f"(?:{phrase})" for phrase in _PHRASES), re.IGNORECASE | re.MULTILINE)


def said(record: Record) -> str:
    """Everything that a record says: its text, and whatever stands beside it, keys included, at any depth."""
    words = [record.content, *record.tags, record.source or ""]
    for beside in (record.metadata, record.details):
        words.extend(_words(beside))
    return "\n".join(words)


def _words(value: Json) -> Iterator[str]:
    """The texts and keys of a value. A number stays out: most are times and counts, and look like anything."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield name
            yield from _words(item)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Json]", value):
            yield from _words(item)


def classes(text: str) -> frozenset[Found]:
    """What is in a text, secrets aside: those are taken out before rules look at it.

    It is also read without invisible characters, and with full-width and other variants as their plain form.
    """
    return frozenset(one for reading in dict.fromkeys((text, folded(text))) for one in _classes(reading))


def _classes(text: str) -> Iterator[Found]:
    if has_personal_data(text):
        yield Found.PII
    if _INSTRUCTION.search(text):
        yield Found.INSTRUCTION


def has_personal_data(text: str) -> bool:
    """An address, a telephone number, a card, an account."""
    if ("@" in text and _EMAIL.search(text)) or _SOCIAL.search(text):
        return True
    if any(_is_account(found.group()) for found in _IBAN.finditer(text)):
        return True
    return any(_is_number_of_somebody(found.group()) for found in _DIGITS.finditer(text))


def _is_number_of_somebody(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    if 13 <= len(digits) <= 19 and _is_card(digits):
        return True
    looks_dialled = text.startswith(("+", "(", "0")) or bool(re.search(r"\d[ ().-]{1,2}\d", text))
    return looks_dialled and 8 <= len(digits) <= 15 and not _DATE.search(text) and "." not in text


def _is_card(digits: str) -> bool:
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
