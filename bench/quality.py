"""`python -m bench.quality [--data FOLDER] [--other CHECKOUT] [--sets NAME…]`: what recall finds, set by set.

Every set is reported, always; no average hides a loss. With another checkout its own Python answers the same questions,
and the table has both. Written to bench/results/quality.md.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE.parent))

from bench.sets import Part, Question, sets  # noqa: E402  found by the line above

_KS = (1, 5, 10, 25)
_BATCH = 500


async def asked(part: Part, folder: Path) -> list[dict[str, Any]]:
    """For each question: the names that were found, how sure the first one was, and how many the default floor leaves."""
    from quipu import Memory

    found: list[dict[str, Any]] = []
    place = Path(tempfile.mkdtemp(dir=folder)) / "memory.db"
    async with Memory(agent_id="bench", stores=[f"sqlite:///{place}"]) as memory:
        names: dict[str, str] = {}
        for start in range(0, len(part.texts), _BATCH):
            some = part.texts[start : start + _BATCH]
            answer = await memory.remember_many([one.item for one in some])
            results = getattr(answer, "results", answer)  # a release before this one answers a list
            for one, result in zip(some, results, strict=True):
                response = getattr(result, "response", result)
                names[response["id"] if isinstance(response, dict) else response.id] = one.name
        texts = {one.name: one.item["content"] for one in part.texts}
        for question in part.questions:
            scope = {} if question.user_id is None else {"user_id": question.user_id}
            answer = await memory.recall(question.text, k=_KS[-1], min_relevance="off", **scope)
            hits = [(names[hit.id], float(hit.relevance)) for hit in answer.results]
            kept = await memory.recall(question.text, k=5, **scope)
            found.append(
                {
                    "ranked": [name for name, _ in hits],
                    "first": texts[hits[0][0]] if hits else "",
                    "relevance": hits[0][1] if hits else 0.0,
                    "kept": len(kept.results),
                }
            )
    return found


async def answered(data: Path | None, chosen: Sequence[str]) -> dict[str, list[list[dict[str, Any]]]]:
    """What this installation answers, set by set."""
    out: dict[str, list[list[dict[str, Any]]]] = {}
    with tempfile.TemporaryDirectory(prefix="quipu-quality-") as folder:
        for name, parts in sets(data).items():
            if chosen and name not in chosen:
                continue
            print(f"{name} …", file=sys.stderr, flush=True)
            out[name] = [await asked(part, Path(folder)) for part in parts]
    return out


def measures(parts: Sequence[Part], answers: Sequence[Sequence[dict[str, Any]]]) -> dict[str, float]:
    """Share of what answers, by depth and by kind; and how often nothing was returned."""
    pairs: list[tuple[Question, dict[str, Any]]] = [
        (question, answer)
        for part, some in zip(parts, answers, strict=True)
        for question, answer in zip(part.questions, some, strict=True)
    ]
    found: dict[str, float] = {}
    gold = [(one, answer) for one, answer in pairs if one.gold]
    by_kind: dict[str, list[float]] = defaultdict(list)
    for k in _KS if gold else ():
        found[f"@{k}"] = fmean(_share(one, answer, k) for one, answer in gold)
    for one, answer in gold:
        by_kind[one.kind].append(_share(one, answer, 5))
    if len(by_kind) > 1:
        found |= {f"@5 {kind}": fmean(values) for kind, values in sorted(by_kind.items())}
    current = [(one, answer) for one, answer in pairs if one.answers]
    if current:
        found["first is current"] = fmean(
            any(text.lower() in answer["first"].lower() for text in one.answers) for one, answer in current
        )
    nothing = [answer for one, answer in pairs if not one.gold and not one.answers]
    if nothing:
        found["nothing answers: nothing returned"] = fmean(answer["kept"] == 0 for answer in nothing)
        if gold:
            found["answerable: nothing returned"] = fmean(answer["kept"] == 0 for _, answer in gold)
            sure = [answer["relevance"] for _, answer in gold]
            unsure = [answer["relevance"] for answer in nothing]
            found["relevance tells the two apart, AUC"] = _auc(sure, unsure)
    return found


def _share(question: Question, answer: dict[str, Any], k: int) -> float:
    return len(question.gold.intersection(answer["ranked"][:k])) / len(question.gold)


def _auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    wins = sum((a > b) + 0.5 * (a == b) for a in positive for b in negative)
    return wins / (len(positive) * len(negative))


def elsewhere(checkout: Path, arguments: Sequence[str]) -> dict[str, list[list[dict[str, Any]]]]:
    """The same, asked of another checkout with its own Python."""
    line = [checkout / ".venv/bin/python", _HERE / "quality.py", "--answers", *arguments]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True, cwd=checkout)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder with sets that are not kept here")
    parser.add_argument("--other", type=Path, help="another checkout, beside this one")
    parser.add_argument("--sets", nargs="*", default=[], help="only these")
    parser.add_argument(
        "--answers", action="store_true", help="print the answers as JSON, for another process"
    )
    given = parser.parse_args()
    data = None if given.data is None else given.data.resolve()
    mine = asyncio.run(answered(data, given.sets))
    if given.answers:
        print(json.dumps(mine))
        return
    arguments = [*(["--data", str(data)] if data else []), *(["--sets", *given.sets] if given.sets else [])]
    theirs = elsewhere(given.other.resolve(), arguments) if given.other else None
    known = sets(data)
    head = "| set | measure | " + ("other | this |" if theirs else "this |")
    lines = ["# What recall finds", "", head, "|---|---|" + "---|" * (2 if theirs else 1)]
    for name, answers in mine.items():
        other = measures(known[name], theirs[name]) if theirs else {}
        for measure, value in measures(known[name], answers).items():
            cells = [f"{other[measure]:.3f}"] if theirs else []
            lines.append(f"| {name} | {measure} | {' | '.join([*cells, f'{value:.3f}'])} |")
    text = "\n".join(lines) + "\n"
    if theirs:
        same = sum(
            a["ranked"] == b["ranked"]
            for n in mine
            for p, q in zip(mine[n], theirs[n], strict=True)
            for a, b in zip(p, q, strict=True)
        )
        whole = sum(len(p) for n in mine for p in mine[n])
        text += f"\nThe first {_KS[-1]} in the same order: {same} of {whole} questions.\n"
    (_HERE / "results" / "quality.md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
