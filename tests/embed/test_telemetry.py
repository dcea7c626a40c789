"""Nobody is told anything: the runtime's own telemetry is off before it can make a device id."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EMBED = """
import asyncio, sys
from pathlib import Path
from quipu.embed.onnx import OnnxEmbedder

async def main() -> None:
    embedder = OnnxEmbedder(Path(sys.argv[1]))
    await embedder.embed(["a quiet sentence"])
    await embedder.close()

asyncio.run(main())
"""


def test_embedding_leaves_no_trace_of_the_runtimes_telemetry(
    cache_dir: Path, embedder: object, tmp_path: Path
) -> None:
    home = {name: str(tmp_path) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    environment = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", EMBED, str(cache_dir)], env={**environment, **home}, check=True)
    assert [
        path for path in tmp_path.rglob("*") if "onnxruntime" in str(path) or "Microsoft" in str(path)
    ] == []
