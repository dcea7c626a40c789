"""The `quipu` command.

Rules of this folder:

1. Nothing slow is imported before it is needed: `quipu --help` loads no memory, a list loads no model.
2. A command reads its words, calls `quipu.sync.Memory` once or twice, and shows the answer. It decides nothing.
3. Standard output carries the answer and nothing else; notes, progress and errors go to standard error.
4. Exit codes: 0 done, 1 bad input, 2 the memory or a server failed, 3 held for approval, 130 interrupted.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line of this process."""
    from quipu.cli.program import run

    run()
