"""Personal data in a text, replaced by the name of its class: `[email]`, `[phone]`.

Recognised by shape, like the classes that rules ask for; where a rule may miss one, this rather takes too much: whatever
`has_personal_data` finds is masked. Names are masked where they are known. Other names and postal addresses stay.
"""

import re
from collections.abc import Collection

from quipu.governance.text_classes import has_personal_data, is_card
from quipu.secrets.decoded import folded

_URL = re.compile(r"\b(?:https?|ftp)://\S+|\bwww\.\S+", re.I)
#: What follows the name of a mailbox. The name is read backwards from here: forwards, a text without any would be read
#: anew from each of its letters.
_MAIL_HOST = re.compile(r"@[\w-]++(?:\.[\w-]++)++")
_MAILBOX = "_.+-"
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b")
_IP = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])",
    re.I,
)
_DIGITS = re.compile(r"\+?\(?\d(?:[ ().\-/]{0,2}\d){6,18}")
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
        parts += _DIGITS.sub(_number, text[end : day.start()]), day.group()
        end = day.end()
    return "".join([*parts, _DIGITS.sub(_number, text[end:])])


def _number(found: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", found.group())
    return "[card]" if 13 <= len(digits) <= 19 and is_card(digits) else "[phone]"


def _without_names(text: str, names: Collection[str]) -> str:
    if not names:
        return text
    return _WORD.sub(lambda word: "[name]" if word.group().lower() in names else word.group(), text)
