"""One kind of secret as a row of a table, and the three ways to write such a row."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quipu.rules import randomness
from quipu.rules.patterns import compiled

#: Not in the middle of a word.
APART: Final = r"(?<![A-Za-z0-9])"
#: No word of a language is this long, or hardly any.
LONG: Final = 20


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of secret."""

    name: str
    #: The regular expression; `pattern` is what it is compiled to, once a text asks for it.
    written: str
    #: At least one of them is in every text that holds such a secret; lower case when `is_cased` is false.
    keywords: tuple[str, ...]
    #: What tells a secret from something of the same shape.
    accepts: Callable[[str], bool] = randomness.is_varied
    #: Whether the keywords are looked for as they are written, or in the text in lower case.
    is_cased: bool = True
    #: Whether every match begins with a keyword: then the pattern is tried there and nowhere else.
    begins: bool = False
    #: Whether every match has LONG characters or more without white space between.
    is_long: bool = False
    #: At least one of them, in lower case, is in every match too, and in fewer texts than the keywords are.
    signs: tuple[str, ...] = ()

    @property
    def pattern(self) -> re.Pattern[str]:
        """What finds it; shapes that are told by words are found in either case."""
        return compiled(self.written, 0 if self.is_cased else re.IGNORECASE)


def token(
    name: str,
    prefixes: str,
    tail: str,
    accepts: Callable[[str], bool] = randomness.is_varied,
    *,
    is_apart: bool = False,
) -> Shape:
    """A secret that begins with a prefix of its issuer's; what comes after it must be accepted.

    `is_apart`: the prefix also occurs inside words.
    """
    words = tuple(prefixes.split())
    begins = "|".join(map(re.escape, words))
    pattern = f"{APART if is_apart else ''}(?:{begins}){tail}"
    return Shape(
        name,
        pattern,
        words,
        lambda text: accepts(compiled(begins).sub("", text, 1)),
        begins=True,
        is_long=True,
    )


def told(
    name: str,
    keywords: str,
    pattern: str,
    accepts: Callable[[str], bool] = randomness.is_varied,
    *,
    begins: bool = True,
    is_long: bool = False,
    signs: str = "",
) -> Shape:
    """A secret that is known by the words before it, in either case."""
    words = tuple(keywords.split())
    return Shape(
        name,
        pattern,
        words,
        accepts,
        is_cased=False,
        begins=begins,
        is_long=is_long,
        signs=tuple(signs.split()),
    )


def cased(
    name: str,
    keywords: str,
    pattern: str,
    accepts: Callable[[str], bool] = randomness.is_varied,
    *,
    is_long: bool = True,
    signs: str = "",
) -> Shape:
    """A secret whose words are always written the same way, somewhere in it."""
    return Shape(name, pattern, tuple(keywords.split()), accepts, is_long=is_long, signs=tuple(signs.split()))
