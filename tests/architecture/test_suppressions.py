"""A suppression says why, on its line: `# noqa: BLE001  a mirror's fault must not reach the caller`."""

import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.architecture.tree import pythons, shown

CODES = r"[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*"
WHY = r"\W+\w+\W+\w.*"
#: what a suppression begins with, and what all of it must look like
FORMS = {
    r"#\s*noqa\b": rf"#\s*noqa:\s*{CODES}{WHY}",
    r"#\s*ruff\s*:": rf"#\s*ruff\s*:\s*noqa:\s*{CODES}{WHY}",
    r"#\s*type:\s*ignore\b": rf"#\s*type:\s*ignore\[[\w, -]+\]{WHY}",
    r"#\s*pyright:\s*ignore\b": rf"#\s*pyright:\s*ignore\[\w+(?:\s*,\s*\w+)*\]{WHY}",
    r"#\s*pragma\b": rf"#\s*pragma:\s*no (?:cover|branch)\b{WHY}",
}
#: a whole file is never excused from the type checker
WHOLE_FILE = re.compile(r"#\s*(?:pyright:(?!\s*ignore)|mypy:|type:\s*ignore\s*$)")

#: every one of the above holds one of these words
SPOKEN = re.compile(r"noqa|ruff|type:|pyright|mypy|pragma")


def unreasoned(text: str) -> Iterator[str]:
    """Comments of a program that switch a checker off and do not say why."""
    if not SPOKEN.search(text):  # most programs: nothing to be taken apart
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        place = f"line {token.start[0]}: {token.string}"
        if WHOLE_FILE.search(token.string):
            yield place
        for begins, whole in FORMS.items():
            found = re.search(begins, token.string)
            if found and not re.fullmatch(whole, token.string[found.start() :]):
                yield place


def test_every_suppression_carries_its_reason() -> None:
    found = {shown(file): list(unreasoned(file.read_text("utf-8"))) for file in pythons()}
    assert {file: places for file, places in found.items() if places} == {}


@pytest.mark.parametrize(
    "comment",
    [
        "noqa",
        "noqa: BLE001",
        "noqa: BLE001 why",
        "type: ignore",
        "type: ignore[arg-type]",
        "pyright: ignore[reportUnknownMemberType]",
        "pyright: basic",
        "pragma: no cover",
    ],
)
def test_a_bare_suppression_is_refused(comment: str) -> None:
    assert list(unreasoned(f"x = 1  # {comment}\n"))


@pytest.mark.parametrize(
    "comment",
    [
        "noqa: BLE001  a mirror's fault must not reach the caller",
        "noqa: S608, S105  the fragments are constants",
        "type: ignore[arg-type]  the stub is older than the library",
        "pyright: ignore[reportUnknownMemberType]  the library has no types",
        "pragma: no cover  only on another platform",
    ],
)
def test_a_reasoned_suppression_passes(comment: str) -> None:
    assert not list(unreasoned(f"x = 1  # {comment}\n"))
