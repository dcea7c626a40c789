"""Memories of a product that runs, or of its database, as the file that its own dump would be: `quipu import mem0://…`.

It is read on this machine, by whoever types the command; a server opens no address that somebody names.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast
from urllib.parse import parse_qsl, unquote

from quipu.errors import InvalidError
from quipu.transfer import listings
from quipu.transfer.formats.names import FormatName

#: What they read while they are imported: nothing is reported to anybody, and no model is asked.
_QUIET = {
    "MEM0_TELEMETRY": "False",
    "TELEMETRY_DISABLED": "1",
    "GRAPHITI_TELEMETRY_ENABLED": "false",
    "COGNEE_SKIP_CONNECTION_TEST": "true",
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LOG_LEVEL": "ERROR",
    **dict.fromkeys(("LLM_API_KEY", "OPENAI_API_KEY", "EMBEDDING_API_KEY"), "none"),
    **dict.fromkeys(("LLM_ENDPOINT", "OPENAI_BASE_URL"), "http://127.0.0.1:9/v1"),
}
_PACKAGES = {
    "mem0": "mem0ai",
    "cognee": "cognee",
    "graphiti": "graphiti-core[kuzu]",
    "langgraph": "psycopg",
    "letta": "none",
}


@contextmanager
def dump_of(address: str) -> Generator[tuple[BinaryIO, FormatName]]:
    """The dump, as a file that goes when the block ends, and its format."""
    scheme, _, rest = address.partition("://")
    scheme = scheme.lower()
    if scheme not in listings.READERS:
        raise InvalidError(
            "Memories cannot be read from such an address.",
            reason="bad_value",
            hint=f"Accepted: {', '.join(f'{name}://' for name in listings.READERS)}, or the path of a file.",
        )
    place, _, query = rest.partition("?")
    parameters = dict(parse_qsl(query))
    python = parameters.pop("python", sys.executable)
    product = scheme.partition("+")[0]
    is_server = "postgresql" in scheme or product == "letta"
    asked = {"scheme": scheme, "place": place if is_server else unquote(place), "parameters": parameters}
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile("w+b") as file:
        found = _told(python, asked, home, product)
        if product == "cognee":
            _archive(file, found, Path(home))
        else:
            _document(file, found)
        file.seek(0)
        yield cast("BinaryIO", file), "cogx" if product == "cognee" else cast("FormatName", product)


def _told(python: str, asked: Mapping[str, object], home: str, product: str) -> Iterator[tuple[str, bytes]]:
    """What the program says, as arrays and members. The address goes over its input: it may hold a password."""
    place = str(asked["place"])
    command = (python, "-P", str(Path(listings.__file__)))
    environment = {**_QUIET, "PATH": os.defpath, "HOME": home, "PYTHONIOENCODING": "utf-8"}
    if product == "cognee":
        for name, ours, own in (("SYSTEM", "system", ".cognee_system"), ("DATA", "data", ".data_storage")):
            folder = Path(place, own)
            environment[f"{name}_ROOT_DIRECTORY"] = str(folder if folder.is_dir() else Path(place, ours))
    try:
        process = subprocess.Popen(  # noqa: S603  the interpreter that the user named, and a program of ours
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=environment,
        )
    except OSError as error:
        raise _unreadable(product, "Check `?python=` in the address.") from error
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.close()
        try:
            for line in process.stdout:
                array, member = json.loads(line)
                yield array, json.dumps(member).encode()
        except BaseException:
            process.kill()
            raise
    hints = {
        listings.NO_PACKAGE: f"Add `?python=` with an interpreter that has `{_PACKAGES[product]}`.",
        listings.NO_PLACE: "There is nothing at this place.",
    }
    if process.returncode:
        raise _unreadable(
            product,
            hints.get(process.returncode, "Check the address, and that no other program has it open."),
        )


def _unreadable(product: str, hint: str) -> InvalidError:
    return InvalidError(f"The memories of {product} cannot be read.", reason="unreadable", hint=hint)


def _document(file: IO[bytes], found: Iterator[tuple[str, bytes]]) -> None:
    """One object with an array for each kind; members of one kind come together."""
    last: str | None = None
    file.write(b"{")
    for array, member in found:
        if array != last:
            file.write((b"" if last is None else b"],") + json.dumps(array).encode() + b":[")
        else:
            file.write(b",")
        file.write(member)
        last = array
    file.write(b"}" if last is None else b"]}")


def _archive(file: IO[bytes], found: Iterator[tuple[str, bytes]], folder: Path) -> None:
    """A file of lines for each kind, as Cognee writes them; several datasets become one archive."""
    for array, member in found:
        with (folder / f"{Path(array).name}.jsonl").open("ab") as lines:
            lines.write(member + b"\n")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", '{"cogx_version": "0.1"}')
        for lines in sorted(folder.glob("*.jsonl")):
            archive.write(lines, lines.name)
