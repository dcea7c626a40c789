"""The code blocks of a page, and how they are run.

- Blocks of a page run in order, in one folder, with one namespace. `await` may stand at the top level of a Python block.
- A block ```` ```output ```` after a Python block is what it prints.
- In a ```` ```console ```` block a line that begins with `$ ` is a command; the lines under it are what it prints. Ids in
  what the page shows stand for the ids that really came, so a later command may use them.
- `<!-- not run: why -->` before a block leaves it out. `<!-- ends with 3 -->` names the exit code of the last command.
- Output is compared line by line after ids, times and hashes are taken out, that of a command also without numbers and
  bars. A line `...` leaves lines out. The relevance beside a bar is what really came, to within 0.05.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quipu.cli.program import run

ROOT = Path(__file__).parent.parent.parent
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>(?:not run|ends with)[^\n]*?) -->\n+)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
_ID = re.compile(r"\b(?:[a-z]{2,8})_[0-9A-Z]{26}\b")
_MASKS = (
    (_ID, "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d\S*)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "HASH"),
)
_RELEVANCE = re.compile(r"[█░]+ (\d\.\d\d)\b")
_LOOSER = (
    (re.compile(r"[█░]+"), "BAR"),
    (re.compile(r"[─━]+"), "RULE"),
    (re.compile(r"\d[\d,.]*(?: (?:k|M|G)?B\b)?"), "N"),
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, its text, the line it begins at, and the mark before it."""

    kind: str
    text: str
    line: int
    mark: str = ""


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page that name a language."""
    text = page.read_text("utf-8")
    return [
        Block(found["kind"], found["text"], text[: found.start("kind")].count("\n") + 1, found["mark"] or "")
        for found in _BLOCK.finditer(text)
    ]


def masked(text: str, *, exact: bool = False) -> list[str]:
    """The lines of an output without what differs from run to run."""
    for pattern, word in _MASKS if exact else (*_MASKS, *_LOOSER):
        text = pattern.sub(word, text)
    return [line for line in (" ".join(line.split()) for line in text.splitlines()) if line]


@dataclass(slots=True)
class Page:
    """A page being run: its folder, its names, and which real id each shown id stands for."""

    path: Path
    folder: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    ids: dict[str, str] = field(default_factory=dict[str, str])
    ran: int = 0

    async def run(self) -> None:
        printed = ""
        for block in blocks(self.path):
            place = f"{self.path.relative_to(ROOT)}:{block.line}"
            if block.mark.startswith("not run: "):
                continue
            match block.kind:
                case "python":
                    printed = await self._python(block, place)
                    self.ran += 1
                case "output":
                    check(printed, self.real(block.text), place, exact=True)
                case "console":
                    await asyncio.to_thread(
                        self._console, block, place
                    )  # a command may have a loop of its own
                    self.ran += 1
                case _:
                    continue

    async def _python(self, block: Block, place: str) -> str:
        program = compile(
            "\n" * block.line + block.text, str(self.path), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            result = eval(program, self.names)  # noqa: S307  the documentation is our own program
            if inspect.iscoroutine(result):
                await result
        return out.getvalue()

    def _console(self, block: Block, place: str) -> None:
        calls = re.split(r"^\$ ", block.text, flags=re.M)
        assert not calls[0].strip(), f"{place}: a console block begins with a command"
        for number, call in enumerate(calls[1:], start=1):
            command, _, shown = call.partition("\n")
            while command.endswith("\\"):
                more, _, shown = shown.partition("\n")
                command = command[:-1] + more.strip()
            self._command(command, shown, place, self._expected(block, number == len(calls) - 1))

    @staticmethod
    def _expected(block: Block, is_last: bool) -> int:
        return int(block.mark.removeprefix("ends with ")) if is_last and block.mark else 0

    def _command(self, command: str, shown: str, place: str, expected: int) -> None:
        words = shlex.split(command)
        match words[0]:
            case "quipu" | "printf":
                code, out = self._quipu(self.real(command))
                assert code == expected, f"{place}: `{command}` ended with {code}\n{out}"
                self.ids.update(zip(unique(shown), unique(out), strict=False))
                check(out, self.real(shown), place)
            case "export":
                os.environ.update([words[1].split("=", 1)])
            case "make":
                assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text("utf-8"), re.M), place
            case other:
                raise AssertionError(f"{place}: cannot run {other}; mark the block `not run`")

    def _quipu(self, command: str) -> tuple[int, str]:
        """In this process where the line is a plain command, which is fast; through a shell where it is more."""
        words = shlex.split(command, posix=True)
        if not {"|", ">", "<"} & set(words):
            return in_process(words[1:])
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )
        return ran.returncode, ran.stdout + ran.stderr

    def real(self, text: str) -> str:
        """The text with the ids that really came."""
        return _ID.sub(lambda found: self.ids.get(found[0], found[0]), text)


def in_process(words: list[str]) -> tuple[int, str]:
    """One command line of this program, run here: exit code and everything it printed."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = run(words)
    out.flush()
    return code, raw.getvalue().decode("utf-8")


def unique(text: str) -> list[str]:
    """The ids in a text, in order, each once."""
    return list(dict.fromkeys(_ID.findall(text)))


def check(real: str, shown: str, place: str, *, exact: bool = False) -> None:
    """Every line the page shows was printed, in that order; with `exact`, nothing else was."""
    printed, expected = masked(real, exact=exact), masked(shown, exact=exact)
    if exact and "..." not in expected:
        assert printed == expected, f"{place}: the page shows what was not printed\n{real}"
    following = iter(printed)
    for line in expected:
        assert line == "..." or any(line == other for other in following), (
            f"{place}: the page shows a line that was not printed: {line!r}\n{real}"
        )
    came = iter(relevances(real))
    for value in relevances(shown):
        assert any(abs(value - other) <= 0.05 for other in came), (
            f"{place}: the page shows a relevance that did not come: {value}\n{real}"
        )


def relevances(text: str) -> list[float]:
    """The numbers beside the bars of a recall."""
    return [float(number) for number in _RELEVANCE.findall(text)]
