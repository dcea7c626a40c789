"""A copy that is brought back, with its keys and without, and a file that is taken away from under a server."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx

from tests.faces.http.rig import problem
from tests.faces.http.wires import wait_for
from tests.faces.serving import Program


def remembered(server: Program, token: str, text: str) -> httpx.Response:
    body: dict[str, Any] = {"agent_id": "ana", "type": "semantic", "content": text}
    return httpx.post(f"{server.url}/memorywire/v0/remember", json=body, headers=bearer(token))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_copy_lets_everybody_in_and_tells_at_once_which_key_it_lacks(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    with Program(store) as server:
        token = server.token
        secret = {"label": "pin", "value": "a long secret value"}
        assert (
            httpx.post(f"{server.url}/quipu/v1/secrets", json=secret, headers=bearer(token)).status_code < 300
        )
        assert remembered(server, token, "Mara is vegetarian").status_code == 200
        copied = httpx.post(f"{server.url}/quipu/v1/backup", headers=bearer(token))
        assert copied.status_code == 200
        assert "sealing" not in server.log
    restored = tmp_path / "restored" / "memory.db"
    restored.parent.mkdir()
    restored.write_bytes(copied.content)
    with Program(restored) as server:
        assert "token" not in server.told, "those of before are good"
        wait_for(lambda: "every write is refused" in server.log)
        assert "memory.db.sealing-key" in server.log
        found = httpx.post(
            f"{server.url}/memorywire/v0/recall",
            json={"agent_id": "ana", "query": "Mara"},
            headers=bearer(token),
        )
        assert found.json()["results"]
        assert remembered(server, token, "a fact").status_code >= 500
    shutil.copy(tmp_path / "memory.db.sealing-key", tmp_path / "restored" / "memory.db.sealing-key")
    with Program(restored) as server:
        told = remembered(server, token, "it is a long secret value").json()
        record = httpx.get(f"{server.url}/quipu/v1/records/{told['id']}", headers=bearer(token)).json()
        assert "a long secret value" not in record["content"], "what was kept out still is"
        assert server.stop() == 0
        assert "every write is refused" not in server.log


def test_a_file_that_is_replaced_under_a_server_takes_no_write_that_would_be_lost(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    with Program(store) as server:
        token = server.token
        assert remembered(server, token, "one").status_code == 200
        copied = httpx.post(f"{server.url}/quipu/v1/backup", headers=bearer(token))
        (tmp_path / "copy.db").write_bytes(copied.content)
        (tmp_path / "copy.db").replace(store)
        body = problem(remembered(server, token, "two"), 503, "backend_unavailable", "moved")
        assert body["retryable"] is False
