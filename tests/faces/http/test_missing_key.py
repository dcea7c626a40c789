"""A key file that is gone: whoever asks is told what is missing and what to do, not that something failed."""

from __future__ import annotations

from pathlib import Path

from tests.faces.serving import served


def test_writes_without_the_sealing_key_are_503_and_say_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    with served(file) as server, server.client() as client:
        token = server.admin_token
        secret = {"label": "door", "value": "a-value-that-is-long"}
        assert client.post("/quipu/v1/secrets", json=secret).status_code == 201
    (tmp_path / "memory.db.sealing-key").unlink()
    with served(file) as server, server.client(token) as client:
        told = client.post(
            "/memorywire/v0/remember", json={"agent_id": "ana", "type": "semantic", "content": "tea"}
        )
        assert told.status_code == 503
        body = told.json()
        assert (body["code"], body["reason"], body["retryable"]) == (
            "backend_unavailable",
            "missing_key",
            False,
        )
        assert "Put back the key file" in body["detail"]
        assert "Retry-After" not in told.headers
