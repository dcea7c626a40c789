"""The command, from files to a page; with a Quipu in a process of its own."""

import json
from pathlib import Path

from bench.recall.__main__ import main
from tests.bench.files import BEAM, CONFLICTS, LOCOMO, LONGMEMEVAL


def test_the_command_asks_every_method_every_set_and_writes_one_page(tmp_path: Path) -> None:
    files = {
        "locomo-dev": LOCOMO,
        "beam-100k-dev": BEAM,
        "conflicts-dev": CONFLICTS,
        "longmemeval": LONGMEMEVAL,
    }
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content), "utf-8")
    chosen = list(files)
    main(
        [
            *("--data", str(tmp_path), "--longmemeval", str(tmp_path / "longmemeval.json")),
            *("--cache", str(tmp_path / "cache"), "--output", str(tmp_path / "results")),
            *("--setting", "embedder=none", "--sets", *chosen),
        ]
    )
    text = (tmp_path / "results" / "recall.md").read_text("utf-8")
    heads = [line for line in text.splitlines() if line.startswith("| measure | of |")]
    methods = "BM25 | MiniLM | default embedder | RRF of both | Quipu | Quipu, embedder=none"
    assert heads == [f"| measure | of | {methods} |"] * 4
    for name in chosen:
        assert f"## {name}" in text
        assert f"| {name} | @1 | " in text
    assert "| newer first | 1 | " in text
    assert "| first is current | 1 | " in text
    assert "| session recall_any@5 | 1 | 1.000 [1.000, 1.000] |" in text
    assert "97.0, MemPalace raw 96.6, YourMemory 95.8, agentmemory 95.2" in text
    assert {one.name for one in (tmp_path / "results").iterdir()} == {
        "recall.md",
        "recall-calibration.svg",
        "recall-latency.svg",
    }
