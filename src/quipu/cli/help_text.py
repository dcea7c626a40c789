"""Help that reads well on a narrow screen: docstrings are wider than a terminal and are broken where their lines end."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: A terminal of 80 columns, less what stands around the help.
_NARROW = 78
_EXAMPLE = re.compile(r"( +)(\S.*?) {2,}(\S.*)")
#: After these a line ends where its writer ended it; everywhere else the sentence just goes on.
_ENDS = (".", ":", "!", "?", "]")


def flowed(text: str) -> str:
    """The same text, with broken sentences joined and with what is said beside a long example put below it."""
    return "\n".join(_lines(text.splitlines()))


def _lines(given: list[str]) -> Iterator[str]:
    sentence = ""
    for line in given:
        is_prose = bool(line) and not line.startswith(" ")
        if sentence and not is_prose:
            yield sentence
            sentence = ""
        if not is_prose:
            yield from _example(line)
            continue
        sentence = f"{sentence} {line}" if sentence else line
        if line.endswith(_ENDS):
            yield sentence
            sentence = ""
    if sentence:
        yield sentence


def _example(line: str) -> Iterator[str]:
    if len(line) <= _NARROW:
        yield line
        return
    if found := _EXAMPLE.fullmatch(line):
        indent, command, said = found.groups()
        yield from _example(indent + command)
        yield f"{indent}    {said}"
    elif (end := max(line.rfind(" --", 8, _NARROW - 1), 0) or line.rfind(" ", 8, _NARROW - 1)) > 0:
        # As a shell takes it, so that it can still be copied.
        yield f"{line[:end]} \\"
        yield from _example(f"      {line[end + 1 :]}")
    else:
        yield line
