"""Files that are sealed: the options for it, and opening one to look into it."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, TypeAlias, cast

import typer

from quipu.errors import InvalidError

Recipients: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--encrypt-to", metavar="AGE1...", help="Only this age recipient can read it; may be repeated."
    ),
]
Passphrase: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file", metavar="FILE", help="Seal or open it with the first line of this file."
    ),
]
Identity: TypeAlias = Annotated[
    Path | None,
    typer.Option("--identity", metavar="FILE", help="Open what is sealed with this age key."),
]
_PREFIX = "AGE-SECRET-KEY-"


def identities(file: Path | None) -> list[str]:
    """The keys of an identity file; other lines are comments."""
    if file is None:
        return []
    found = [line.strip() for line in _text(file).splitlines() if line.strip().startswith(_PREFIX)]
    if not found:
        raise InvalidError(
            f"{file} holds no age key.", reason="bad_identity", hint="`quipu bundle key FILE` makes one."
        )
    return found


def passphrase(file: Path | None) -> str | None:
    """The first line of a file, which no list of processes shows."""
    if file is None:
        return None
    line = _text(file).partition("\n")[0].rstrip("\r")
    if not line:
        raise InvalidError(f"{file} begins with an empty line.", reason="bad_passphrase")
    return line


def is_sealed(file: Path) -> bool:
    """Whether it is a file that is sealed."""
    if str(file) == "-" or not file.is_file():
        return False
    from quipu.bootstrap import envelopes

    with file.open("rb") as opened:
        return envelopes.is_sealed(opened.read(64))


@contextmanager
def opened(file: Path, identity: Path | None, words: Path | None) -> Generator[BinaryIO]:
    """The file as it was before it was sealed; one that is not is just opened."""
    try:
        source = file.open("rb")
    except OSError as error:
        raise _unreadable(file, error) from error
    with source:
        if not is_sealed(file) or (identity is None and words is None):
            yield source
            return
        from quipu.bootstrap import envelopes

        with tempfile.TemporaryFile(prefix="quipu-bundle-") as plain:
            target = cast("BinaryIO", plain)
            envelopes.envelope().open(
                source, target, identities=identities(identity), passphrase=passphrase(words)
            )
            plain.seek(0)
            yield target


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise _unreadable(file, error) from error
    except UnicodeDecodeError:
        raise InvalidError(f"{file} is not text.", reason="bad_encoding") from None


def _unreadable(file: Path, error: OSError) -> InvalidError:
    return InvalidError(f"{file} cannot be read: {error.strerror}.", reason="no_file", hint="Check the path.")
