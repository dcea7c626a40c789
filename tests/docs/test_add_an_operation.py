"""The page on adding an operation is carried out in a copy of the tree, and the operation asked for on every face."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "howto" / "add-an-operation.md"
BLOCK = re.compile(r'^```diff title="([^"]+)"(?: step="(\w+)")?\n(.*?)^```$', re.M | re.S)

#: Runs inside of the copy: where the operation, or the field, is found.
FACES = """
import asyncio, inspect, json, sys
from pathlib import Path
import httpx
from quipu import api, bootstrap, catalogue, methods, sync
from quipu.cli.program import run
from quipu.client import RemoteConnection, Transport
from quipu.config import Settings
from quipu.mcp.tools import operation_tools
from quipu.model.principal import local

def listed(field):
    operation = catalogue.operation("count")
    root = Path(sys.argv[1])
    document = json.loads((root / "schemas" / "openapi.json").read_text("utf-8"))
    route = document["paths"]["/v1/memories/count"]["get"]
    schema = json.loads((root / "schemas" / "count.json").read_text("utf-8"))
    page = (root / "docs" / "reference" / "operations.md").read_text("utf-8").partition("## count\\n")[2]
    (tool,) = [one for one in operation_tools(bootstrap.OPERATIONS, None) if one.name == "count"]
    method = methods.async_source([operation])
    return {
        "OpenAPI": field in {one["name"] for one in route["parameters"]},
        "JSON Schema": field in schema["properties"],
        "reference": f"| `{field}` |" in page.partition("\\n## ")[0],
        "MCP": field in tool.input["properties"],
        "method": f"        {field}: " in method,
    }

async def asked(given):
    container = await bootstrap.open_container(Settings(), stores=[":memory:"], embedder="none")
    app = bootstrap.http_app(container, is_open=True)
    transport = Transport("http://127.0.0.1", network=httpx.ASGITransport(app))
    connection = RemoteConnection(transport, new_key=lambda: "key")
    async with api.Memory(stores=":memory:", embedder="none") as memory:
        await memory.remember("Ana lives in Lisbon", session_id="s")
        found = {"Python": (await memory.count(**given)).total}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
        await http.post("/v1/memories", json={"content": "Ana lives in Lisbon", "session_id": "s"})
        found["HTTP"] = (await http.get("/v1/memories/count", params=given)).json()["total"]
        wrong = await http.get("/v1/memories/count", params={"stor": "x"})
        found["misspelt"] = wrong.json()["reason"]
    found["client"] = (await connection.call(catalogue.operation("count"), given)).total
    await connection.close()
    await container.close()
    return found

given = json.loads(sys.argv[2])
found = listed(next(iter(given))) | asyncio.run(asked(given))
words = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
found["command"] = run(["--json", "count", *words])
print("\\n" + json.dumps(found))
"""


def patched(text: str, diff: str) -> str:
    """The text with the added lines of each hunk behind the lines that stand before them."""
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if not line.startswith("+"))
        after = "".join(line[1:] for line in lines)
        if before:
            assert text.count(before) == 1, before
            text = text.replace(before, after)
        else:
            text += after
    return text


def test_the_page_makes_an_operation_that_is_on_every_face_and_a_field_more_with_one_line(
    tmp_path: Path,
) -> None:
    for name in ("src", "schemas", "scripts", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.onnx"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) == 5
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "src"),
        "HOME": str(tmp_path),
        "QUIPU_EMBEDDER": "none",
    }

    def python(*arguments: str) -> str:
        line = [sys.executable, *arguments]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    python("-m", "quipu.cli.program", "remember", "Ana lives in Lisbon", "--session-id", "s")
    for step, given in (("", {"store": "main"}), ("field", {"session_id": "s"})):
        for title, kind, diff in blocks:
            if kind == step:
                file = tmp_path / title
                file.write_text(patched(file.read_text("utf-8"), diff), "utf-8")
        python("scripts/generate.py")
        found = json.loads(python("-c", FACES, str(tmp_path), json.dumps(given)).splitlines()[-1])
        assert found.pop("misspelt") == "unknown_field"
        assert found.pop("command") == 0
        assert {name: int(value) for name, value in found.items()} == dict.fromkeys(found, 1), step
