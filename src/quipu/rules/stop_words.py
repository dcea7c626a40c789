"""Words that every English text has: they say little of what is meant, and that the text is English."""

from __future__ import annotations

from collections.abc import Iterable

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
