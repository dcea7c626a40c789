"""A file of another product through the real server: tried, held, approved as a whole, found, undone; and a server that is
killed half way through."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.transfer.room import memories

_PATIENCE_S = 60


class Server:
    """A server in a process of its own, and somebody who speaks to it."""

    def __init__(self, folder: Path, token: str | None = None) -> None:
        line = [str(Path(sys.executable).with_name("quipu")), "serve", "--json", "--port", "0"]
        self.process = subprocess.Popen(
            [*line, "--store-url", f"sqlite:///{folder / 'memory.db'}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, "QUIPU_EMBEDDER": "none"},
        )
        assert self.process.stdout is not None
        said = json.loads(self.process.stdout.readline())
        self.token = token or said["token"]
        self.http = httpx.Client(base_url=said["address"], timeout=_PATIENCE_S)

    def __call__(self, method: str, path: str, token: str | None = None, **given: Any) -> Any:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        answer = self.http.request(method, path, headers=headers, **given)
        assert answer.is_success, answer.text
        return answer.json()

    def sent(self, data: bytes, token: str | None = None, **fields: Any) -> Any:
        return self("POST", "/v1/imports", token, content=data, params={"agent_id": "agent", **fields})

    def end(self, sign: signal.Signals) -> None:
        self.http.close()
        self.process.send_signal(sign)
        self.process.wait(_PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def served(folder: Path, token: str | None = None) -> Iterator[Server]:
    server = Server(folder, token)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGTERM)


def found(server: Server, query: str) -> list[str]:
    body = {"query": query, "agent_id": "agent", "min_relevance": "off"}
    return [hit["content"] for hit in server("POST", "/v1/memories/recall", json=body)["results"]]


def test_a_file_is_tried_held_approved_found_and_undone(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        rule = {"id": "imported", "effect": "hold", "when": {"imported": True, "operations": ["remember"]}}
        server("PUT", "/v1/rules", json={"rules": [rule]})
        roles = {"name": "importer", "roles": ["agent"], "agents": ["agent"], "default_agent": "agent"}
        writer = server("POST", "/v1/tokens", json=roles)["text"]
        tried = server.sent(memories("Ana likes oolong", "Ana plays chess"), writer, file_name="mem0.json")
        assert (tried["status"], tried["counts"]["held"]) == ("checked", 2)
        held = server("POST", f"/v1/imports/{tried['import_id']}/commit", writer, json={})
        assert (held["status"], held["counts"]["held"]) == ("done", 2)
        assert found(server, "oolong") == []
        body = {"approved": True}
        assert server("POST", f"/v1/imports/{tried['import_id']}/decision", json=body)["decided"] == 2
        assert "Ana likes oolong" in found(server, "oolong")
        undone = {"import_id": tried["import_id"], "dry_run": False}
        assert len(server("POST", "/v1/undo", json=undone)["findings"]) == 2
        assert found(server, "oolong") == []
        assert server("GET", f"/v1/imports/{tried['import_id']}")["undone_at"] is not None
        assert server("POST", "/v1/verify", json={})["verified"]


def _is_under_way(report: dict[str, Any]) -> bool:
    """Whether two chunks are in. Until it begins, an import says what its trial counted."""
    return report["status"] == "running" and report["counts"]["accepted"] >= 1_000


def test_a_killed_server_leaves_nothing_that_a_second_try_does_not_mend(tmp_path: Path) -> None:
    data = memories(*(f"fact number {number}" for number in range(6_000)))
    with served(tmp_path) as server:
        tried = server.sent(data, wait_s=60)
        assert tried["counts"]["accepted"] == 6_000
        path = f"/v1/imports/{tried['import_id']}"
        server("POST", f"{path}/commit", json={"wait_s": 0})
        end = time.monotonic() + _PATIENCE_S
        while not _is_under_way(server("GET", path)) and time.monotonic() < end:
            time.sleep(0.02)
        token = server.token
        server.end(signal.SIGKILL)
    with sqlite3.connect(tmp_path / "memory.db") as database:
        (before,) = database.execute("SELECT count(*) FROM record").fetchone()
    database.close()
    assert 0 < before < 6_000
    assert before % 500 == 0, "whole chunks or nothing"
    with served(tmp_path, token) as server:
        assert server("GET", path)["status"] == "running"
        again = server.sent(data, wait_s=60)
        assert again["import_id"] == tried["import_id"]
        done = server("POST", f"{path}/commit", json={"wait_s": 60})
        assert done["status"] == "done"
        assert (done["counts"]["duplicate"], done["counts"]["accepted"]) == (before, 6_000 - before)
        (listed,) = server("GET", "/v1/imports")["imports"]
        assert listed["counts"]["accepted"] == 6_000
        assert server("POST", "/v1/verify", json={})["verified"]
