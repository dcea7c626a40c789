"""Text is clean UTF-8, and says nothing of plans, people's machines or where packages came from."""

import re

import pytest

from tests.architecture.tree import ROOT, shown, texts, tracked

#: UTF-8 that was read as Windows-1252 and written again
TWICE_ENCODED = re.compile("\u00c3[\u0080-\u00bf\u0192\u201a]|\u00e2\u20ac|\u00c2[\u00a0-\u00bf]|\ufffd")

#: what does not belong in the tree; `[x]` is `x`, written so that this file passes its own test
UNWANTED = {
    "a path of somebody's machine": r"(?:^|[\s\"'`(=])/(?:[w]ork|[r]oot|[h]ome/\w+|[o]pt/pypi|[o]pt/wheels)\b",
    "an address of a package index": r"--(?:extra-)?[i]ndex-url|--[f]ind-links|/[s]imple/?(?:[\s\"']|$)|pythonho[s]ted",
    "a plan": r"\b[Pp]hase \d|\b[Mm]ilestone \d|\b[T]ODO\b|\b[F]IXME\b|\b[X]XX\b",
    "a ticket": r"\b[Tt]icket (?:#|no|\d)|\b[Ii]ssue #?\d|\b[Ii]ssues [s]how\b",
    "a note that is not in the tree": r"\b(?:DESIG[N]|STYL[E]|PERFORMANC[E]|USER[S])\.md\b|\bcontract[s]/\w+\.md|\.\./[s]hared\b",
    "how the work was divided": r"\b[Ss]ub-?[a]gents?\b|\bthe [l]ead (?:writes|will|provides|commits)\b",
}
#: a script that switches an option off has to name it
ALLOWED = {("scripts/pins", "an address of a package index")}
LOCK_FILES = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "conda-lock.yml", "pixi.lock"}


def unclean(data: bytes) -> list[str]:
    """What is wrong with the bytes of a text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return [str(error)]
    wrong = {
        "a byte order mark": data.startswith(b"\xef\xbb\xbf"),
        "carriage returns": b"\r" in data,
        "no newline at the end": bool(data) and not data.endswith(b"\n"),
        "encoded twice": TWICE_ENCODED.search(text) is not None,
    }
    return [what for what, is_so in wrong.items() if is_so]


def test_text_is_utf8_without_a_mark_and_ends_lines_as_unix_does() -> None:
    assert {shown(file): found for file in texts() if (found := unclean(file.read_bytes()))} == {}


def test_text_speaks_of_the_product_only() -> None:
    unwanted = {what: re.compile(pattern, re.M) for what, pattern in UNWANTED.items()}
    found = {
        (shown(file), what): match.group()
        for file in texts()
        for text in [file.read_text("utf-8", "replace")]
        for what, pattern in unwanted.items()
        if (match := pattern.search(text)) and (shown(file), what) not in ALLOWED
    }
    assert found == {}


@pytest.mark.parametrize("data", [b"\xff\n", b"\xef\xbb\xbfx\n", b"x\r\n", b"x", "\u00c3\u00a4\n".encode()])
def test_text_that_is_not_clean_is_noticed(data: bytes) -> None:
    assert len(unclean(data)) == 1


def test_no_lock_file_records_where_packages_came_from() -> None:
    names = {file.name for file in tracked()} | {file.name for file in ROOT.iterdir()}
    assert not names & LOCK_FILES
    assert not {name for name in names if name.startswith("pylock.")}
