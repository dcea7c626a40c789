"""The tables of ledgers and mirrors in docs/reference/backends.md, from a run of the tests.

    pytest tests/vendors tests/conformance --junitxml build/backends.xml
    python scripts/backends.py write build/backends.xml   note the run in backends.json, and write the page from it;
                                                          a run in parts has several reports, and what is in none
                                                          of them stays as it was noted
    python scripts/backends.py check                      fail when page and notes do not belong together, or a
                                                          backend, a scenario or a promise of today has no place
                                                          in them

A check cannot know whether a run would pass today: that is for the tests. It sees to the shape.
"""

import json
import sys
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTES = ROOT / "docs" / "reference" / "backends.json"
PAGE = ROOT / "docs" / "reference" / "backends.md"

#: Column → the tests that play the scenarios on it as in use, up to the scenario's name.
LEDGERS = {
    "SQLite": "tests.conformance.test_scenarios:test_memory_plays_the_scenario[async-file-",
    "PostgreSQL": "tests.conformance.test_postgres:test_a_memory_on_postgresql_plays_the_scenario[",
}
#: Column → the test class that plays the scenarios, and the URL whose promises are told.
MIRRORS = {
    "mem0, Qdrant": ("test_mem0.TestQuipuOverQdrant", "mem0://default"),
    "mem0, PostgreSQL": ("test_mem0.TestQuipuOverPostgres", "mem0+postgresql://"),
    "Letta": ("test_letta.TestQuipuOverLetta", "letta://127.0.0.1"),
    "Cognee": ("test_cognee.TestQuipuOverCognee", "cognee://quipu"),
    "LangGraph, memory": ("test_langgraph.TestQuipuOverMemory", "langgraph://memory"),
    "LangGraph, SQLite": ("test_langgraph.TestQuipuOverSqlite", "langgraph+sqlite://"),
    "LangGraph, PostgreSQL": ("test_langgraph.TestQuipuOverPostgres", "langgraph+postgresql://"),
    "Graphiti": ("test_graphiti.TestQuipuOverGraphiti", "graphiti://quipu"),
    "another Quipu": ("test_quipu.TestQuipuOverQuipu", "quipu+https://memory.example.org"),
}
#: What the tables do not say by themselves.
_NOTES = [
    "## What is played",
    "",
    "Each scenario says the same on every backend; only how much it writes differs.",
    "",
    "| | {head} |",
    "|---{rule}|",
    "| on the ledgers | {full} |",
    "| on a Quipu with a mirror | {small} |",
    "| with Cognee, Graphiti or Letta | {least} |",
    "",
    "- `Q2` puts the crowd between query and answer once for each of agent, user, type, metadata and store, always nearer",
    "  to the query than the answer is; `Q3` does so with forgotten, archived and pending memories, at most 500.",
    "- `Q7` asks for 257 and for 1,000 memories: as many as there are must come, each once; 1,001 and 0 are refused.",
    "- `Q10` lets 50 ms pass on the memory's clock. On a server that is in use, `quipu conformance URL` waits five seconds.",
    "- `Q18`, `Q19` and `Q28` look for the erased text in every file of the ledger and in the exported journal. PostgreSQL's",
    "  tables are rewritten first (`quipu vacuum`); its write-ahead log is the server's to recycle.",
    "  [Erasure](../explanation/erasure.md) tells what is promised when. That vendors forget too is shown by the suite of",
    "  the port, which searches their files and rows.",
    "- `Q34` writes with 2, 8 and 40 writers at once, and every memory must be found first by its own text. Four processes",
    "  on one file and on one database are tests of the ledgers.",
    "- `Q38` wants no answer to a question that nothing matches, and where meaning is searched the nearest all the same",
    "  once the floor is taken away, with a relevance below that of a true answer. Without an embedder nothing is near.",
    "- `Q41` gives back texts, metadata, details and a text of one mebibyte as they were given, each found by words of its",
    "  own; the large one is read by its id.",
    "- `Q43` looks at the journal when the first recall has returned (nothing may be there yet), and after a flush: every",
    "  recall is noted, what was returned is marked as recalled, and what was not is not. On a server that is in use others",
    "  may have its notes written at any moment, so there only the second half is asked.",
]
MODES = {"test_in_use": "in_use", "test_only_the_vendor_finds": "only_the_vendor"}
Notes = dict[str, dict[str, dict[str, str]]]


def _places() -> dict[str, tuple[str, str]]:
    """How a test's name begins → the column and the mode it tells of."""
    places = {place: (name, "in_use") for name, place in LEDGERS.items()}
    for name, (group, _) in MIRRORS.items():
        places |= {f"tests.vendors.{group}:{test}[": (name, mode) for test, mode in MODES.items()}
    return places


def noted(reports: list[Path], before: Notes) -> Notes:
    """Column → mode → scenario → outcome: as the reports tell it, else as it was noted before."""
    found = {name: before.get(name, {}) for name in (*LEDGERS, *MIRRORS)}
    places = _places()
    cases = [case for report in reports for case in xml.parse(report).iter("testcase")]  # noqa: S314  pytest's own
    for case in cases:
        whole = f"{case.get('classname')}:{case.get('name', '').removesuffix(']')}"
        for place, (column, mode) in places.items():
            if whole.startswith(place):
                wrong = {child.tag for child in case} & {"failure", "error", "skipped"}
                outcome = sorted(wrong)[0] if wrong else "passed"
                found.setdefault(column, {}).setdefault(mode, {})[whole.removeprefix(place)] = outcome
    return found


def page(notes: Notes) -> str:
    """The notes and the promises as tables."""
    from quipu.testing.scenarios import SCENARIOS

    names = [*LEDGERS, *MIRRORS]
    lines = [
        "<!-- Generated by scripts/backends.py from a run of the tests. Do not edit. -->",
        "",
        "# Backends",
        "",
        "How the conformance scenarios went on each of Quipu's two ledgers and on a Quipu that mirrors to each vendor, and",
        "what each vendor's adapter promises: the vendors' real packages and servers, nothing recorded, no language model,",
        "nothing asked outside the machine. [Mirror to a vendor](../howto/vendors.md) tells how to use one.",
        "",
        "## Promises",
        "",
        "What is not promised is made up for by the ledger, or not asked of the vendor.",
        "",
        *_table("promise", list(MIRRORS), _promises()),
        "",
        "## Scenarios",
        "",
        "`✓` passed as in use; `✓✓` passed also with the ledger's own search switched off, so that every hit came from the",
        "mirror, which a ledger cannot be asked. No cell is left out, and nothing is skipped.",
        "",
        *_table(
            "scenario",
            names,
            {one.name: [_cell(notes.get(name, {}), one.name) for name in names] for one in SCENARIOS},
        ),
        "",
        *_notes(),
        "",
    ]
    return "\n".join(lines)


def _notes() -> list[str]:
    from quipu.testing.scenarios import FULL, LEAST, SMALL

    names = [field.name for field in fields(FULL)]
    told = {
        "head": " | ".join(f"`{name}`" for name in names),
        "rule": "|---" * len(names),
        "full": " | ".join(f"{getattr(FULL, name):,}" for name in names),
        "least": " | ".join(f"{getattr(LEAST, name):,}" for name in names),
        "small": " | ".join(f"{getattr(SMALL, name):,}" for name in names),
    }
    return [line.format(**told) for line in _NOTES]


def _table(head: str, names: list[str], rows: dict[str, list[str]]) -> Iterator[str]:
    yield f"| {head} | " + " | ".join(names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    for name, cells in rows.items():
        yield f"| `{name}` | " + " | ".join(cells) + " |"


def _cell(modes: dict[str, dict[str, str]], scenario: str) -> str:
    outcomes = [modes.get(mode, {}).get(scenario) for mode in MODES.values()]
    wrong = [outcome for outcome in outcomes if outcome not in (None, "passed")]
    return wrong[0] if wrong else "✓" * outcomes.count("passed") or "not played"


def _promises() -> dict[str, list[str]]:
    sys.path.insert(0, str(ROOT / "src"))
    from quipu.ports.backend import Capability, Setup
    from quipu.testing.embedders import WordEmbedder

    told = []
    for _, url in MIRRORS.values():
        scheme = url.partition("://")[0]
        adapter = scheme.partition("+")[0].replace("quipu", "remote")
        module = import_module(f"quipu.backends.{adapter}")
        told.append(
            module.make(
                Setup(name=scheme, url=url, scheme=scheme, embedder=WordEmbedder(), folder=Path("unused"))
            ).capabilities
        )
    rows = {str(one): ["yes" if one in promised else "·" for promised in told] for one in Capability}
    return {**rows, "score_kind": [str(promised.score_kind) for promised in told]}


def wrong() -> Iterator[str]:
    """What is not as it should be, in shape."""
    from quipu.testing.scenarios import SCENARIOS
    from quipu.testing.scenarios_sixteen import SIXTEEN

    notes = json.loads(NOTES.read_text("utf-8"))
    if PAGE.read_text("utf-8") != page(notes):
        yield "docs/reference/backends.md does not say what backends.json and the adapters say"
    for name in (*LEDGERS, *MIRRORS):
        for mode in MODES.values() if name in MIRRORS else ["in_use"]:
            told = notes.get(name, {}).get(mode, {})
            known = {one.name for one in (SCENARIOS if mode == "in_use" else SIXTEEN)}
            yield from (f"{name}: {one} was not played ({mode})" for one in sorted(known - told.keys()))
            yield from (f"{name}: there is no {one}" for one in sorted(told.keys() - known))
            yield from (f"{name}: {one}: {how}" for one, how in told.items() if how != "passed")


def main(words: list[str]) -> int:
    match words:
        case ["write", *reports] if reports:
            notes = noted([Path(report) for report in reports], json.loads(NOTES.read_text("utf-8")))
            NOTES.write_text(json.dumps(notes, indent=1, sort_keys=True) + "\n", "utf-8")
            PAGE.write_text(page(notes), "utf-8")
            return 0
        case ["check"]:
            found = list(wrong())
            print("\n".join(found), file=sys.stderr)
            return bool(found)
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
