"""What a command that is interrupted leaves behind, and how to go on from there."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quipu.cli import output
from quipu.errors import QuipuError

if TYPE_CHECKING:
    from quipu.cli.session import Session
    from quipu.model.journal import Entry
    from quipu.sync import Memory

_PAGE = 100


@contextmanager
def telling(run: Session, advice: Callable[[], str | None]) -> Generator[None]:
    """Say how to go on when what is done in here is interrupted, while the memory is still open."""
    try:
        yield
    except KeyboardInterrupt:
        if said := advice():
            run.warn(said)
        raise


def position(memory: Memory) -> int:
    """Where the journal stands before the work."""
    seq: Any = memory.health()["seq"]
    return int(seq)


def brought_in(memory: Memory, before: int, *, dry_run: bool) -> str | None:
    """What an import of lines has brought in since then. Each line is a new memory, so the file must not simply come again."""
    if dry_run:
        return None
    count, names = 0, set[str]()
    try:
        for entry in _since(memory, before):
            name = entry.detail.get("import_id")
            if entry.op.value == "import" and isinstance(name, str):
                names.add(name)
                count += len(entry.records)
    except QuipuError:  # who may write need not be allowed to read the journal
        return (
            "Part of the file is in. Look before you bring it in again: lines that are in would come twice."
        )
    if not names:
        return None
    is_in = f"{output.counted(count, 'line')} of the file {'is' if count == 1 else 'are'} in"
    if len(names) > 1:  # somebody else imports at the same time
        return f"Part of the file is in, as one of the imports {', '.join(sorted(names))}."
    name = names.pop()
    return f"{is_in}, as import {name}. `quipu imports undo {name}` takes it back; the same lines would come twice."


def _since(memory: Memory, before: int) -> Iterator[Entry]:
    while entries := memory.journal(after=before, limit=_PAGE):
        yield from entries
        before = entries[-1].seq
