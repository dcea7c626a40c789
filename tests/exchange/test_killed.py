"""Whoever is killed in the middle: doing it again brings in the rest, and nothing twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from quipu import sync
from quipu.errors import QuipuError
from tests.conventions import command
from tests.faces.serving import Program
from tests.requirement import requirement

COUNT = 6_000
_PATIENCE_S = 60


@pytest.fixture
def file(tmp_path: Path) -> Path:
    memories = [{"id": f"m{number:05}", "memory": f"Fact number {number}"} for number in range(COUNT)]
    made = tmp_path / "mem0.json"
    made.write_text(json.dumps({"results": memories}), "utf-8")
    return made


def there(store: Path) -> int:
    """How many records are durable, seen from outside."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM record").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def wait_for_some(store: Path) -> None:
    until = time.monotonic() + _PATIENCE_S
    while there(store) == 0:
        assert time.monotonic() < until, "nothing came in"
        time.sleep(0.005)


@requirement("moving:import.killed")
@pytest.mark.slow
def test_a_client_that_is_killed_goes_on_by_being_started_again(tmp_path: Path, file: Path) -> None:
    store = tmp_path / "memory.db"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("QUIPU_")},
        "QUIPU_STORE": f"sqlite://{store}",
        "QUIPU_EMBEDDER": "none",
        "XDG_CONFIG_HOME": str(tmp_path / "no-settings"),
    }
    line = command("import", str(file), "--json")
    process = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_some(store)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(_PATIENCE_S)
    before = there(store)
    assert 0 < before < COUNT
    done = subprocess.run(line, env=environment, capture_output=True, timeout=_PATIENCE_S, check=True)
    report = json.loads(done.stdout)
    assert (report["accepted"], report["duplicate"]) == (COUNT - before, before)
    assert there(store) == COUNT
    with sync.Memory(stores=f"sqlite://{store}", embedder="none") as memory:
        undone = memory.roll_back_import(report["import_id"])
        assert undone.forgotten == COUNT, "both runs are one import"
        assert memory.verify().holds


@requirement("moving:import.killed")
@pytest.mark.slow
def test_a_server_that_is_killed_has_what_was_durable_and_gets_the_rest(tmp_path: Path, file: Path) -> None:
    store = tmp_path / "memory.db"
    with Program(store) as server:
        token = server.token
        failed: list[QuipuError] = []

        def bring_in() -> None:
            try:
                with sync.connect(server.url, token=token, retries=0) as memory:
                    memory.import_file(file)
            except QuipuError as error:
                failed.append(error)

        client = threading.Thread(target=bring_in)
        client.start()
        wait_for_some(store)
        server.stop(signal.SIGKILL)
        client.join(_PATIENCE_S)
        assert failed, "the client was told"
    before = there(store)
    assert 0 < before < COUNT
    with Program(store) as server, sync.connect(server.url, token=token) as memory:
        report = memory.import_file(file)
        assert (report.accepted, report.duplicate) == (COUNT - before, before)
        assert memory.verify().holds
    assert there(store) == COUNT
