"""What gives people away in text, and what tries to give orders (OAP contract 7.4, 5.1): patterns, no model.

Names and postal addresses are not recognised; that is why free text is left out unless the owner decides otherwise.
"""

from __future__ import annotations

import re

#: What follows the name of a mailbox. The name is read backwards from here: forwards, a text without any would be read
#: anew from each of its letters.
_MAIL_HOST = re.compile(r"@[\w-]++(?:\.[\w-]++)++")
_URL = re.compile(r"\b(?:https?://|www\.)\S+", re.I)
_IP = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])",
    re.I,
)
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b")
_DIGITS = re.compile(r"\+?\(?\d(?:[ ().\-/]{0,2}\d){6,18}")
_HANDLE = re.compile(r"(?<!\w)@\w{2,}")

_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|all|earlier|system)\b.{0,40}"
    r"\b(?:instruction|prompt|rule|message)s?\b"
    r"|\bsystem prompt\b|\byou are now\b|\bdo not tell\b|<\s*/?\s*(?:system|instructions?)\s*>|\bBEGIN SYSTEM\b",
    re.I | re.S,
)


def hits(text: str) -> bool:
    """Whether anything that gives somebody away was recognised."""
    return masked(text) != text


def masked(text: str) -> str:
    """The text with what was recognised replaced by the name of its class."""
    text = _URL.sub("[url]", text)
    text = _without_emails(text)
    text = _IBAN.sub("[iban]", text)
    text = _IP.sub("[ip]", text)
    text = _DIGITS.sub(_number, text)
    return _HANDLE.sub("[handle]", text)


def _without_emails(text: str) -> str:
    parts: list[str] = []
    end = 0
    for host in _MAIL_HOST.finditer(text):
        start = host.start()
        while start > end and (text[start - 1].isalnum() or text[start - 1] in "_.+-"):
            start -= 1
        if start < host.start():
            parts += text[end:start], "[email]"
            end = host.end()
    return "".join([*parts, text[end:]])


def _number(found: re.Match[str]) -> str:
    text = found.group()
    digits = [int(char) for char in text if char.isdigit()]
    if 13 <= len(digits) <= 19 and _is_luhn(digits):
        return "[card]"
    return "[phone]" if _looks_like_a_phone(text, len(digits)) else text


def _looks_like_a_phone(text: str, digits: int) -> bool:
    """A date has fewer digits, or other ones; what remains unclear is masked."""
    return digits >= 7 and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text)


def _is_luhn(digits: list[int]) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def gives_orders(text: str) -> bool:
    """Whether a text reads like an instruction to a model. It is data all the same; readers are told."""
    return bool(_ORDERS.search(text))
