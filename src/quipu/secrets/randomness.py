"""Whether a text looks like a secret, or like something people write: a word, a name in a program, a placeholder."""

import base64
import binascii
import json
import re
from collections import Counter
from math import log2

_PLACEHOLDER = re.compile(
    r"(?:^|[^a-z0-9])(?:example|placeholder|change[_-]?me|redacted|dummy|sample|your|insert|replace|goes[_-]here)"
    r"|example(?:key)?$|(.)\1{5}|\*\*\*|\.\.\.|<[^<>]*+>|\{\{|\$\{|%\(|secrets\.|environ|process\.env|getenv"
)
#: What documentation writes where the reader has a secret.
_STAND_INS = frozenset(
    """pass passw passwd password passphrase pw pwd secret token key apikey credential credentials user username
    admin none null true false string required optional hidden masked unset undefined""".split()  # noqa: SIM905  words read better as a text
)
_VARIABLE = re.compile(
    r"\$[A-Za-z_][A-Za-z0-9_]*|\$?\{.*\}|%[A-Za-z_]+%|@[A-Za-z_.]+|<.*>|\[.*\]|:[A-Za-z_]+"
)
_DATE_OR_NUMBER = re.compile(r"[0-9][0-9:.,TZ+/-]*")
_TECHNIQUE = re.compile(
    r"(?:b(?:ase)?-?\d{2}|sha-?\d{1,3}|md5|utf-?\d{1,2}|pbkdf2|argon2|oauth-?2?|http-?\d|aes-?\d{3}|rsa-?\d{4}|bcrypt"
    r"|scrypt|[hre]s\d{3}|ed25519|x25519|p-?\d{3}|v\d{1,4})[a-z]*+(?:[._/-][a-z]++)*+[.,;:!?)]?"
)
_SEPARATORS = re.compile(r"[._:/\\-]+")
#: The words of a name, and a few digits after them: `getUserToken2`, `API_KEY`, `v2`; also `PKCS7KeyTypes`.
_WORDS = re.compile(
    r"(?:[A-Z]{2,5}[0-9]{1,2}(?=[A-Z][a-z]))?"
    r"(?:[A-Z][a-z]{2,}+|[a-z]{3,}+|(?:As|At|By|Db|Id|In|Is|It|My|No|Of|On|Or|To|Up)(?![a-z])|[A-Z]++(?![a-z])|[A-Z]{2,}(?=[A-Z][a-z]))*+"
    r"(?:[A-Z]?[a-z]{1,2})?[0-9]{0,2}"
)
_UNSPEAKABLE = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}")
_LETTER = re.compile(r"[A-Za-z]")
_DIGIT = re.compile(r"[0-9]")
_CASE_CHANGE = re.compile(r"[a-z][A-Z]")
_SYMBOL = re.compile(r"[^A-Za-z0-9._:/\\-]")
_UPPER = re.compile(r"[A-Z]")
_KEY_FRAME = re.compile(r"-----[A-Z0-9 ]{0,80}-----|\\[nr]|\s")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{20}")
_LEAST_ENTROPY = 2.5
_LEAST_DISTINCT = 8


def entropy(text: str) -> float:
    """Bits per character, by Shannon."""
    length = len(text)
    return -sum(count / length * log2(count / length) for count in Counter(text).values())


def is_varied(text: str) -> bool:
    """Not the same few characters over and over, as in `ghp_xxxxxxxx`."""
    return len(set(text)) >= _LEAST_DISTINCT


def is_mixed(text: str) -> bool:
    """Letters and digits without order; no placeholder and nothing made of words."""
    return (
        is_varied(text)
        and _LETTER.search(text) is not None
        and (_DIGIT.search(text) is not None or _changes_case(text))
        and not is_placeholder(text)
        and not is_wordy(text)
    )


def _changes_case(text: str) -> bool:
    """Again and again, as noise does that happens to have no digit."""
    return len(_CASE_CHANGE.findall(text)) > 2


def is_placeholder(text: str) -> bool:
    """Something that documentation writes where the reader has a secret."""
    lowered = text.lower()
    return (
        lowered in _STAND_INS
        or _PLACEHOLDER.search(lowered) is not None
        or _VARIABLE.fullmatch(text) is not None
        or len(set(text)) < 4
    )


def is_wordy(text: str) -> bool:
    """A name, a path, a date or a technique: parts that a person would read aloud."""
    return (
        _DATE_OR_NUMBER.fullmatch(text) is not None
        or _TECHNIQUE.fullmatch(text.lower()) is not None
        or all(map(_is_word, _SEPARATORS.split(text)))
    )


def _is_word(part: str) -> bool:
    lowered = part.lower()
    if _UNSPEAKABLE.search(lowered):
        return False
    return _WORDS.fullmatch(part) is not None or _TECHNIQUE.fullmatch(lowered) is not None


def is_assigned_secret(text: str) -> bool:
    """What follows `secret=`: with a digit or a sign in it, and not something else that stands there in programs."""
    return (
        _LETTER.search(text) is not None
        and (_DIGIT.search(text) is not None or _SYMBOL.search(text) is not None or _changes_case(text))
        and not is_placeholder(text)
        and not is_wordy(text)
        and entropy(text) >= _LEAST_ENTROPY
    )


def is_assigned_password(text: str) -> bool:
    """What follows `password=`: the same, and numbers too."""
    return is_assigned_secret(text) or (text.isdecimal() and len(set(text)) >= 4)


def is_stated_secret(text: str) -> bool:
    """What follows "the password is": a sentence goes on there too, so a capital or a sign must be in it as well."""
    return is_assigned_secret(text) and (
        _changes_case(text)
        or (
            _DIGIT.search(text) is not None
            and (_UPPER.search(text) is not None or _SYMBOL.search(text) is not None or len(text) >= 16)
        )
    )


def is_url_password(text: str) -> bool:
    """The password in a URL is one unless it is a word that only says so."""
    return not is_placeholder(text)


def has_jwt_header(text: str) -> bool:
    """The first part of a JSON Web Token decodes to an object that names its algorithm."""
    try:
        return "alg" in json.loads(base64.urlsafe_b64decode(_padded(text.partition(".")[0])))
    except (ValueError, TypeError, RecursionError):
        return False


def is_name_and_password(text: str) -> bool:
    """What HTTP's Basic scheme carries: base64 of `name:password`."""
    try:
        name, colon, password = base64.b64decode(_padded(text)).partition(b":")
    except binascii.Error:
        return False
    return bool(colon) and name.isascii() and name.decode("ascii").isprintable() and len(password) > 2


def has_numeric_id(text: str) -> bool:
    """The first part of a Discord token is the bot's number in base64."""
    try:
        return base64.urlsafe_b64decode(_padded(text.partition(".")[0])).isdigit()
    except binascii.Error:
        return False


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)


def has_key_body(text: str) -> bool:
    """A PEM block with a body: three dots between two lines are an explanation."""
    return _KEY_BODY.search(_KEY_FRAME.sub("", text)) is not None
