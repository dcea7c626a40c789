"""A server with mirrors, by its settings: answers, health and metrics tell how they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.faces.serving import Program, served
from tests.postgres import Server
from tests.requirement import requirement


@requirement("memorywire:router.served")
def test_a_server_has_its_mirrors_from_the_settings(tmp_path: Path) -> None:
    copy, nowhere = tmp_path / "copy.db", tmp_path / "file" / "nowhere.db"
    (tmp_path / "file").write_text("not a folder")
    urls = f"sqlite://{copy}?name=copy sqlite://{nowhere}?name=down"
    with (
        served(tmp_path / "memory.db", mirrors=urls, mirror_write_deadline_ms=5000) as server,
        server.client() as ask,
    ):
        body = {"agent_id": "ana", "type": "semantic", "content": "Mara is vegetarian", "extensions": True}
        done = ask.post("/memorywire/v0/remember", json=body).json()
        assert done["stores"] == ["sqlite", "copy"]
        assert done["extensions"]["quipu"]["stores_pending"] == ["down"]
        asked = {"agent_id": "ana", "query": "vegetarian", "extensions": True, "quorum_k": 2}
        found = ask.post("/memorywire/v0/recall", json=asked).json()
        assert found["results"][0]["stores"] == ["copy", "sqlite"]
        assert found["stores_queried"] == ["sqlite", "copy"]
        assert [row["store"] for row in found["extensions"]["quipu"]["stores_failed"]] == ["down"]
        rows = {row["backend"]: row for row in ask.get("/memorywire/v0/health").json()["stores"]}
        assert (rows["copy"]["status"], rows["copy"]["role"]) == ("ok", "mirror")
        assert (rows["down"]["status"], rows["down"]["lag"]) == ("error", 1)
        told = _metrics(ask.get("/metrics").text)
        assert told['quipu_mirror_waiting{mirror="down"}'] == 1
        assert told['quipu_mirror_waiting{mirror="copy"}'] == 0
        assert told['quipu_mirror_lag_seconds{mirror="down"}'] > 0
        stores = ask.get("/memorywire/v0/capabilities").json()["stores"]
        assert stores["copy"]["role"] == "mirror"
        gone = ask.post("/memorywire/v0/forget", json={"agent_id": "ana", "ids": [done["id"]]}).json()
        assert gone["stores"] == [
            {"store": "sqlite", "count": 1, "error": None},
            {"store": "copy", "count": 1, "error": None},
            {"store": "down", "count": 0, "error": "queued"},
        ]


def _metrics(text: str) -> dict[str, Any]:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


@requirement("memorywire:router.urls")
def test_no_credential_of_an_address_is_logged_or_told(
    tmp_path: Path, fresh_url: str, postgres: Server
) -> None:
    """A process of its own, logging everything: a ledger, a mirror that works, two that do not."""
    copy = postgres.database()
    secrets = ["ledger-hunter2", "mirror-hunter2", "down-hunter2", "token-hunter2"]
    mirrors = [
        copy.replace("quipu@", f"quipu:{secrets[1]}@") + "&name=copy",
        f"postgresql://me:{secrets[2]}@127.0.0.1:1/none?name=down&connect_timeout=1",
        f"quipu+http://:{secrets[3]}@127.0.0.1:9?name=other",
    ]
    settings = {
        "QUIPU_STORE": fresh_url.replace("quipu@", f"quipu:{secrets[0]}@"),
        "QUIPU_MIRRORS": " ".join(mirrors),
        "QUIPU_LOG_LEVEL": "debug",
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    with Program(tmp_path / "unused.db", **settings) as program:
        told: list[str] = []
        headers = {"Authorization": f"Bearer {program.token}"}
        with httpx.Client(base_url=program.url, headers=headers, timeout=30) as ask:
            body = {
                "agent_id": "ana",
                "type": "semantic",
                "content": "Mara is vegetarian",
                "extensions": True,
            }
            told.append(ask.post("/memorywire/v0/remember", json=body).text)
            asked = {"agent_id": "ana", "query": "vegetarian", "extensions": True}
            told.append(ask.post("/memorywire/v0/recall", json=asked).text)
            for path in (
                "/memorywire/v0/health",
                "/memorywire/v0/capabilities",
                "/quipu/v1/mirrors",
                "/metrics",
            ):
                answer = ask.get(path)
                assert answer.status_code == 200, path
                told.append(answer.text)
            told.append(ask.post("/quipu/v1/mirrors/down/verify").text)
        assert program.stop() == 0
        told.append(program.log)
    assert "down" in "".join(told), "it speaks of the mirror"
    assert program.log.strip(), "and it does log"
    for secret in secrets:
        assert not [text for text in told if secret in text]
    postgres.drop(copy)
