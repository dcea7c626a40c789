"""`python -m bench.recall [--data FOLDER]`: what recall finds of every set, beside simple methods, as one page with plots.

Every set is reported, always; no average hides a loss. Written to bench/results/recall.md. Our own test questions are
asked only where `--sets own-test` names them: they are for a last look.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.recall import asking, baselines
from bench.recall.measures import Outcome, outcome
from bench.recall.page import Results, Timings, page, plots
from bench.recall.sets import digests, sets

_CHECKOUT = Path(__file__).resolve().parents[2]
_DEPTH = 100
_THIS, _BEFORE = "Quipu", "Quipu before"


def simple_outcomes(given: argparse.Namespace, results: Results) -> list[str]:
    """What the simple methods find. Their names."""
    with baselines.methods(given.cache) as methods:
        for name, parts in _sets(given).items():
            for part in parts():
                for method, scored in methods.items():
                    print(f"  {name}: {part.name}, {method}", file=sys.stderr, flush=True)
                    found = results.outcomes.setdefault(name, {}).setdefault(method, [])
                    for question, scores in zip(part.questions, scored(part), strict=True):
                        ranked = baselines.ranking(part, question, scores)[:_DEPTH]
                        hits = [(part.texts[number].name, score) for number, score in ranked]
                        found.append(outcome(part, question, hits))
        return list(methods)


def quipu_outcomes(
    given: argparse.Namespace, results: Results, name: str, checkout: Path, settings: Mapping[str, str]
) -> None:
    """What a Quipu answers, asked in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="quipu-recall-") as folder:
        output = Path(folder) / "answers"
        environment = {**os.environ, **{f"QUIPU_{key.upper()}": value for key, value in settings.items()}}
        line = [checkout / ".venv/bin/python", asking.__file__, output, *_arguments(given)]
        subprocess.run(line, check=True, cwd=folder, env=environment)
        with output.open(encoding="utf-8") as answers:
            for set_name, parts in _sets(given).items():
                found = results.outcomes.setdefault(set_name, {}).setdefault(name, [])
                timings = results.timings.setdefault(set_name, {}).setdefault(name, Timings())
                for part in parts():
                    answered = json.loads(next(answers))
                    found += _judged(part, answered, timings)


def _judged(part: Any, answered: dict[str, Any], timings: Timings) -> Iterator[Outcome]:
    timings.texts += answered["texts"]
    timings.written += answered["written_ms"]
    timings.callers = timings.callers or answered["callers"]
    for question, answer in zip(part.questions, answered["answers"], strict=True):
        timings.new.append(answer["new_ms"])
        timings.known.append(answer["known_ms"])
        yield outcome(part, question, answer["hits"], answer["kept"])


def _arguments(given: argparse.Namespace) -> list[str]:
    """The same choice of sets, for another process."""
    found = ["--callers", "--most", str(given.most)]
    if given.data:
        found += ["--data", str(given.data)]
    if given.longmemeval:
        found += ["--longmemeval", str(given.longmemeval)]
    return [*found, "--sets", *given.sets]


def _sets(given: argparse.Namespace) -> Any:
    return sets(given.data, given.sets, given.most, given.longmemeval)


def about(given: argparse.Namespace) -> str:
    """Machine, commits and data."""
    commits = [f"this {_commit(_CHECKOUT)}", *([f"before {_commit(given.other)}"] if given.other else [])]
    names = digests(given.data, _sets(given), given.longmemeval)
    data = ", ".join(f"{name} {digest}" for name, digest in names.items())
    most = f" At most {given.most} questions of each set." if given.most else ""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}; "
        f"load at the start {os.getloadavg()[0]:.1f}. Commits: {', '.join(commits)}. Data, by SHA-256: {data}.{most}"
    )


def _commit(checkout: Path) -> str:
    line = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask, count, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.recall", description=__doc__)
    parser.add_argument("--data", type=_path, help="a folder with sets that are not kept here")
    parser.add_argument("--longmemeval", type=_path, help="one of LongMemEval's files")
    parser.add_argument("--sets", nargs="*", default=[], help="only these")
    parser.add_argument("--most", type=int, default=0, help="so many questions of each set; 0: all")
    parser.add_argument("--other", type=_path, help="another checkout with its own .venv, as it was before")
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="once more with this setting, such as reranker=…; may be given several times, each for itself",
    )
    parser.add_argument("--cache", type=_path, default=Path(tempfile.gettempdir()) / "quipu-bench")
    parser.add_argument("--output", type=_path, default=_CHECKOUT / "bench" / "results")
    given = parser.parse_args(arguments)
    said = about(given)
    results = Results()
    quipus: list[tuple[str, Path, dict[str, str]]] = [(_BEFORE, given.other, {})] if given.other else []
    quipus.append((_THIS, _CHECKOUT, {}))
    for setting in given.setting:
        key, _, value = setting.partition("=")
        quipus.append((f"{_THIS}, {setting}", _CHECKOUT, {key: value}))
    results.simple = simple_outcomes(given, results)
    for name, checkout, settings in quipus:
        print(name, file=sys.stderr, flush=True)
        quipu_outcomes(given, results, name, checkout, settings)
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "recall.md").write_text(page(results, said), "utf-8")
    for file, drawn in plots(results).items():
        (given.output / file).write_text(drawn, "utf-8")
    print(given.output / "recall.md")


def _path(text: str) -> Path:
    return Path(text).resolve()


if __name__ == "__main__":
    main()
