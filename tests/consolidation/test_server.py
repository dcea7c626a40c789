"""A server settles by itself, survives being killed in the middle, and settles on demand over REST and the command."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu import sync
from quipu.errors import InvalidError
from quipu.testing.embedders import WordEmbedder
from tests.cli.conftest import Cli
from tests.faces.serving import Program, served
from tests.requirement import requirement

MW, Q = "/memorywire/v0", "/quipu/v1"
BURSTS, EACH = 10, 10


def pushed(client: httpx.Client, text: str) -> str | None:
    """The id of an acknowledged push; None where nobody answered."""
    body = {"agent_id": "ana", "type": "semantic", "content": text, "store": "window", "importance": 1.0}
    try:
        answer = client.post(f"{MW}/remember", json={**body, "idempotency_key": text})
    except httpx.HTTPError:
        return None
    return str(answer.json()["id"]) if answer.status_code == 200 else None


def records(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        body = {"agent_id": "ana", "limit": 500} | ({} if cursor is None else {"cursor": cursor})
        page = client.post(f"{Q}/records/query", json=body).json()
        found += page["records"]
        cursor = page.get("next_cursor")
        if cursor is None:
            return found


def settled(client: httpx.Client, patience_s: float = 60) -> list[dict[str, Any]]:
    """Everything live, once nothing is left in the window."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        found = records(client)
        if found and all(record["tier"] == "long_term" for record in found):
            return found
        time.sleep(0.2)
    raise AssertionError("the window was never settled")


@requirement("memorywire:consolidation.once")
def test_bursts_killed_in_the_middle_are_each_promoted_once_and_none_is_lost(
    tmp_path: Path, ledger_url: str
) -> None:
    """Ten bursts at once; the server is killed while it takes and settles them, three times, and goes on."""
    store = tmp_path / "memory.db"
    often = {"QUIPU_CONSOLIDATION_S": "1", "QUIPU_RATE": "0", "QUIPU_STORE": ledger_url}
    wanted = {f"burst{b} item{i} word{b * EACH + i}" for b in range(BURSTS) for i in range(EACH)}
    acknowledged: dict[str, str] = {}
    lock = threading.Lock()
    token = ""
    for attempt in range(4):
        with Program(store, **often) as program:
            token = token or program.token
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=program.url, headers=headers, timeout=20) as client:
                if attempt == 0:
                    made = client.post(f"{Q}/stores", json={"name": "window", "tier": "short_term"})
                    assert made.status_code == 201

                def burst(number: int, client: httpx.Client = client, last: bool = attempt == 3) -> None:
                    for item in range(EACH):
                        text = f"burst{number} item{item} word{number * EACH + item}"
                        if text not in acknowledged and (name := pushed(client, text)) is not None:
                            with lock:
                                acknowledged[text] = name
                        if not last:
                            time.sleep(0.03)

                killer = threading.Timer(1.3, program.process.kill) if attempt < 3 else None
                if killer is not None:
                    killer.start()
                with ThreadPoolExecutor(BURSTS) as bursts:
                    list(bursts.map(burst, range(BURSTS)))
                if killer is not None:
                    killer.join()
                    assert program.process.wait(20) == -signal.SIGKILL
                    continue
                assert set(acknowledged) == wanted
                found = settled(client)
                verified = [json.loads(line) for line in client.post(f"{Q}/verify").text.splitlines() if line]
            assert program.stop() == 0
    assert Counter(record["content"] for record in found) == Counter(wanted), "each once, and none lost"
    sources = [link["to"] for record in found for link in record["links"] if link["rel"] == "derived_from"]
    assert sorted(sources) == sorted(acknowledged.values())
    assert verified[-1]["result"]["faults"] == []


@requirement("memorywire:consolidation.once")
def test_several_servers_over_one_store_settle_each_item_once(tmp_path: Path, ledger_url: str) -> None:
    """Small windows that overflow all the time, and rounds every second, in three processes at once."""
    given = {
        **{"QUIPU_CONSOLIDATION_S": "1", "QUIPU_CONSOLIDATION_WINDOW": "5", "QUIPU_RATE": "0"},
        "QUIPU_STORE": ledger_url,
    }
    texts = [f"item{number} word{number}" for number in range(60)]
    with contextlib.ExitStack() as open_now:
        programs = [open_now.enter_context(Program(tmp_path / "memory.db", **given)) for _ in range(3)]
        headers = {"Authorization": f"Bearer {programs[0].token}"}
        clients = [
            open_now.enter_context(httpx.Client(base_url=one.url, headers=headers, timeout=20))
            for one in programs
        ]
        made = clients[0].post(f"{Q}/stores", json={"name": "window", "tier": "short_term"})
        assert made.status_code == 201

        def push(number: int) -> str | None:
            return pushed(clients[number % len(clients)], texts[number])

        with ThreadPoolExecutor(6) as pushers:
            names = list(pushers.map(push, range(len(texts))))
        assert None not in names
        found = settled(clients[1])
        assert [program.stop() for program in programs] == [0, 0, 0]
    assert Counter(record["content"] for record in found) == Counter(texts)
    sources = [link["to"] for record in found for link in record["links"] if link["rel"] == "derived_from"]
    assert sorted(sources) == sorted(name for name in names if name is not None)


def test_a_server_settles_by_itself_and_on_demand(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    with (
        served(store, embedder=WordEmbedder(), consolidation_every_s=1) as server,
        server.client() as api,
    ):
        api.post(f"{Q}/stores", json={"name": "window", "tier": "short_term"})
        assert pushed(api, "settles by itself") is not None
        (record,) = settled(api)
        assert record["provenance"]["written_by"] == "system"
        entries = api.get(f"{Q}/journal?limit=1000").json()["entries"]
        assert len({entry["detail"]["pass"] for entry in entries if "pass" in entry["detail"]}) == 1


def test_rest_and_the_remote_client_make_passes_and_take_them_back(tmp_path: Path) -> None:
    with served(tmp_path / "memory.db", embedder=WordEmbedder(), consolidation_every_s=0) as server:
        with (
            server.client() as api,
            sync.connect(server.url, token=server.admin_token, agent_id="ana") as memory,
        ):
            memory.create_store("window", tier="short_term")
            first = pushed(api, "one thing")
            tried = memory.consolidate(dry_run=True)
            assert (tried.dry_run, tried.counts) == (True, {"promoted": 1})
            seen: list[tuple[int, int]] = []
            done = memory.consolidate(progress=lambda so_far, of: seen.append((so_far, of)))
            assert done.counts == {"promoted": 1}
            undone = memory.undo_consolidation(done.pass_id)
            assert (undone.restored, undone.forgotten) == ((first,), (done.settled[0].into,))
            with pytest.raises(InvalidError):
                memory.undo_consolidation("pass_of nothing")
            lines = api.post(f"{Q}/consolidate", json={"agent_id": "ana"}).text.splitlines()
            assert json.loads(lines[-1])["result"]["counts"] == {"promoted": 1}
            assert api.post(f"{Q}/consolidate", json={"agent": "ana"}).status_code == 400
            reader = api.post(f"{Q}/tokens", json={"name": "r", "permissions": ["memory:read"]}).json()[
                "text"
            ]
        with server.client(reader) as weak:
            assert weak.post(f"{Q}/consolidate", json={"agent_id": "ana"}).status_code == 403
            assert weak.post(f"{Q}/consolidations/{done.pass_id}/undo").status_code == 403


def test_the_command_settles_reports_and_undoes(cli: Cli) -> None:
    cli.said("store", "create", "inbox", "--tier", "short_term")
    source = cli.remember("Mara asked for a receipt", "--store", "inbox", "--importance", "0.9")
    light = cli.remember("it rained", "--store", "inbox", "--confidence", "0.1")
    said = cli.said("consolidate", "--dry-run")
    assert "Would settle 1 window" in said
    assert source in said
    done = cli.json("consolidate")
    assert done["counts"] == {"kept": 1, "promoted": 1}
    assert cli.said("show", light)
    graph = cli.said("graph", done["settled"][0]["into"])
    assert f"derived_from -> {source} (forgotten)" in graph
    back = cli.said("consolidate", "--undo", done["pass_id"])
    assert "Restored 1, forgot 1" in back
    assert cli.problem("consolidate", "--undo", "pass_x")["code"] == "validation_error"
    assert cli("consolidate", "--undo", done["pass_id"], "--dry-run").exit_code == 1
