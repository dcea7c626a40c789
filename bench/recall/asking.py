"""Asks a Quipu the questions of the sets through its public API, as its users would; run with that Quipu's Python.

`python asking.py OUTPUT [--data FOLDER] [--sets …] [--most N] [--longmemeval FILE] [--callers]` writes a line of JSON for
each part, with a list of answers in the order of its questions. Settings come from the environment, as ever.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.recall.sets import Part, sets

_BATCH = 500
_DEPTH = 25
#: Where sessions are asked for: several hits are of one session.
_SESSION_DEPTH = 100
_CALLERS = (1, 8, 64)
_RECALLS = 192


async def answers(part: Part, folder: Path, with_callers: bool) -> dict[str, Any]:
    """What a memory of these texts answers, and how long that took."""
    from quipu import Memory

    place = Path(tempfile.mkdtemp(dir=folder)) / "memory.db"
    async with Memory(agent_id="bench", stores=[f"sqlite:///{place}"]) as memory:
        names: dict[str, str] = {}
        started = time.perf_counter()
        for start in range(0, len(part.texts), _BATCH):
            some = part.texts[start : start + _BATCH]
            answer = await memory.remember_many([one.item for one in some])
            for one, result in zip(some, answer.results, strict=True):
                if result.response is None:
                    raise SystemExit(f"{part.name}: {one.name} was refused: {result.error}")
                names[result.response.id] = one.name
        written_ms = (time.perf_counter() - started) * 1000
        await memory.recall("warm up", min_relevance="off")
        found: list[dict[str, Any]] = []
        for question in part.questions:
            scope: dict[str, Any] = {} if question.user_id is None else {"user_id": question.user_id}
            scope["k"] = _SESSION_DEPTH if question.sessions else _DEPTH
            kept, new_ms = await _timed(memory.recall(question.text, **scope))
            # Once more, and by now the question's vector is known.
            whole, known_ms = await _timed(memory.recall(question.text, min_relevance="off", **scope))
            found.append(
                {
                    "hits": [(names[hit.id], hit.relevance) for hit in whole],
                    "kept": [names[hit.id] for hit in kept],
                    "new_ms": new_ms,
                    "known_ms": known_ms,
                }
            )
        callers = await _with_callers(memory, part) if with_callers else {}
    return {
        "part": part.name,
        "texts": len(part.texts),
        "written_ms": written_ms,
        "answers": found,
        "callers": callers,
    }


async def _with_callers(memory: Any, part: Part) -> dict[int, list[float]]:
    """Milliseconds of each recall while so many ask at the same time, each time something new."""
    found: dict[int, list[float]] = {}
    # The beginning of some text makes a question a new one; a number would not, since it is in no text.
    new = (
        f"{part.questions[n % len(part.questions)].text} {part.texts[n % len(part.texts)].content[:30]}"
        for n in count()
    )
    for callers in _CALLERS:
        texts = islice(new, _RECALLS)
        taken: list[float] = []

        async def caller(texts: Iterator[str] = texts, taken: list[float] = taken) -> None:
            for text in texts:
                taken.append((await _timed(memory.recall(text)))[1])

        await asyncio.gather(*(caller() for _ in range(callers)))
        found[callers] = taken
    return found


async def _timed(call: Awaitable[Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    answer = await call
    return answer, (time.perf_counter() - started) * 1000


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--longmemeval", type=Path)
    parser.add_argument(
        "--callers", action="store_true", help="also with several callers, for the first part of a set"
    )
    given = parser.parse_args(arguments)
    with given.output.open("w", encoding="utf-8") as output, tempfile.TemporaryDirectory() as folder:
        for name, parts in sets(given.data, given.sets, given.most, given.longmemeval).items():
            for number, part in enumerate(parts()):
                print(f"  {name}: {part.name}", file=sys.stderr, flush=True)
                answered = asyncio.run(answers(part, Path(folder), given.callers and number == 0))
                output.write(json.dumps({"set": name, **answered}) + "\n")


if __name__ == "__main__":
    main()
