"""People in texts that are embedded: "someone" stands for them, in what is kept and in what is asked.

A name pulls everything that has it near: "Tom is on the Enterprise plan" would answer "Where does Tom live?". Who is meant
is a matter of words (`bm25.py`) and of whose record it is; the vectors say what is said about somebody.

A word is a name when it is a given name, written with a capital, or is known to be one: what a user is called, or a
speaker. Up to two capitalised words behind it belong to it. `scripts/build_names.py` writes the list.
"""

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

#: Stands for a person.
SOMEONE: Final = "someone"
NAMES_FILE: Final = Path(__file__).with_name("given_names.txt")
#: So many words behind a given name may belong to it.
_MOST_SURNAMES = 2
_SHORTEST = 3

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
#: A number, or a word with digits in it, is not what anybody is called.
_CALLED = re.compile(r"(?<![^\W_])[^\W\d_]{2,}(?![^\W_])")
_POSSESSIVE = re.compile("['\u2019]s$")


def bare_name(word: str) -> str:
    """A word without a possessive s."""
    return word if word.isalnum() else _POSSESSIVE.sub("", word)


def folded_name(word: str) -> str:
    """A word as names are compared: without case, accents and a possessive s."""
    bare = bare_name(word)
    if bare.isascii():
        return bare.lower()
    marked = unicodedata.normalize("NFKD", bare.casefold())
    return "".join(char for char in marked if not unicodedata.combining(char))


def name_parts(name: str) -> frozenset[str]:
    """The words of what somebody is called, as names are compared."""
    return frozenset(folded_name(part) for part in _CALLED.findall(unicodedata.normalize("NFC", name)))


@dataclass(frozen=True, slots=True)
class Masked:
    """A text with "someone" for each person it names, and the words that were names."""

    text: str
    names: frozenset[str]


def name_the_same(one: str, other: str) -> bool:
    """Whether two texts name the same people, which their vectors do not tell."""
    return without_names(one).names == without_names(other).names


def without_names(text: str, known: Collection[str] = ()) -> Masked:
    """`known`: words, folded, that are names here."""
    kept: list[str] = []
    names: set[str] = set()
    end, surnames_left = 0, 0
    for match in _WORD.finditer(text):
        word, start = match.group(), match.start()
        is_capital = word[0].isupper() and (len(word) == 1 or not word.isupper())
        if surnames_left and is_capital and text[end:start] == " ":
            surnames_left, end = surnames_left - 1, match.end()
            names.update(word.split("-"))
        elif is_capital and _is_name(folded_name(word), known):
            kept += text[end:start], SOMEONE
            surnames_left, end = _MOST_SURNAMES, match.end()
            names.update(word.split("-"))
        else:
            surnames_left = 0
            kept.append(text[end : match.end()])
            end = match.end()
    return Masked("".join((*kept, text[end:])), frozenset(names))


def _is_name(word: str, known: Collection[str]) -> bool:
    if word in known:
        return True
    first = word.partition("-")[0]
    return len(first) >= _SHORTEST and first in _given_names()


@cache
def _given_names() -> frozenset[str]:
    return frozenset(NAMES_FILE.read_text("utf-8").split())
