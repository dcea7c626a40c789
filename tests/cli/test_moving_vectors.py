"""Vectors and other packings of bundles on the command line."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from tests.cli.conftest import Cli
from tests.formats.shelves import unpacked
from tests.requirement import requirement

LINE = {
    "agent_id": "default",
    "type": "semantic",
    "content": "Mara is vegetarian",
    "embedding": {"model": "letters", "vector": [0.6, 0.8]},
}


@requirement("moving:bundle.vectors")
@requirement("moving:import.tar")
def test_vectors_go_along_and_a_tar_archive_comes_in(cli: Cli, home: Path) -> None:
    (home / "lines.ndjson").write_text(json.dumps(LINE) + "\n", "utf-8")
    cli.said("import", "lines.ndjson")
    assert "Exported 1 memory" in cli.said("export", "plain.bundle.zip", "--all-agents")
    assert cli.json("bundle", "verify", "plain.bundle.zip")["vectors"] == 0
    cli.said("export", "all.bundle.zip", "--all-agents", "--embeddings", "--receipts")
    assert cli.json("bundle", "verify", "all.bundle.zip")["vectors"] == 1
    assert "1 vector of letters" in cli.said("bundle", "verify", "all.bundle.zip")
    files = unpacked((home / "all.bundle.zip").read_bytes())
    assert {"grants.jsonl", "receipts.jsonl", "vectors.safetensors"} <= files.keys()
    (home / "folder").mkdir()
    for name, data in files.items():
        (home / "folder" / name).write_bytes(data)
    with tarfile.open(home / "all.tar.gz", "w:gz") as packed:
        packed.add(home / "folder", ".")
    (home / "keys.json").write_text(cli("audit", "keys").stdout, "utf-8")
    assert cli.json("bundle", "verify", "all.tar.gz", "--keys", "keys.json")["vectors"] == 1
    other = ("--store-url", f"sqlite://{home / 'other.db'}")
    report = cli.json("import", "all.tar.gz", "--keys", "keys.json", *other)
    assert (report["accepted"], report["signature"]) == (1, "valid")
    cli.said("export", "again.bundle.zip", "--all-agents", "--embeddings", *other)
    again = unpacked((home / "again.bundle.zip").read_bytes())
    assert again["vectors.safetensors"] == files["vectors.safetensors"]
    assert cli.problem("export", "all.ndjson", "--embeddings")["reason"] == "bad_value"
