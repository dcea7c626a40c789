"""Files that are named by their address: tried like a file that was sent, and fetched from nowhere inside (6.1, 10.3)."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.crypto import dids_peers
from quipu.crypto.dids_peers import GuardedPeers
from quipu.errors import QuipuError
from quipu.service.import_fetching import file_name
from tests.cli.conftest import Cli, cli, home, model_cache
from tests.faces.serving import served
from tests.requirement import requirement

__all__ = ["cli", "home", "model_cache"]

FILE = json.dumps({"results": [{"id": "m1", "memory": "Mara likes tea"}, {"id": "m2", "memory": "Tom jam"}]})
INSIDE = (
    "https://10.0.0.1/",
    "http://127.0.0.1:1/",
    "https://[::ffff:169.254.169.254]/",
    "https://2130706433/",
    "file:///etc/passwd",
    "//localhost/x",
)


class _Elsewhere(BaseHTTPRequestHandler):
    """A host that hands out a file, and one that does not mean well."""

    asked: list[str] = []  # noqa: RUF012  the handler is made anew for every request

    def do_GET(self) -> None:
        self.asked.append(self.path)
        path, _, rest = self.path[1:].partition("?")
        with contextlib.suppress(OSError):
            getattr(self, f"_{path.partition('.')[0]}")(rest)

    def _head(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _good(self, _: str) -> None:
        self._head(200, Content_Length=str(len(FILE)))
        self.wfile.write(FILE.encode())

    def _moved(self, to: str) -> None:
        self._head(302, Location=httpx.QueryParams(f"to={to}")["to"])

    def _missing(self, _: str) -> None:
        self._head(404)

    def _packed(self, _: str) -> None:
        self._head(200, Content_Encoding="gzip")
        self.wfile.write(b"\x1f\x8b")

    def _claims(self, _: str) -> None:
        self._head(200, Content_Length=str(1 << 40))

    def _endless(self, _: str) -> None:
        self._head(200)
        while True:
            self.wfile.write(b"x" * 65536)

    def _slow(self, _: str) -> None:
        self._head(200)
        for _piece in range(100):
            self.wfile.write(b"x")
            self.wfile.flush()
            time.sleep(0.05)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[str]:
    _Elsewhere.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
async def peers(elsewhere: str) -> AsyncIterator[GuardedPeers]:
    made = GuardedPeers(frozenset({elsewhere}))
    yield made
    await made.close()


async def read(peers: GuardedPeers, url: str, most: int = 1 << 20, seconds: float = 20) -> bytes | str:
    """What is handed out, or why not."""
    try:
        return b"".join([piece async for piece in peers.pieces(url, most, seconds)])
    except QuipuError as error:
        return error.reason or error.code


@requirement("moving:import.address")
async def test_a_file_comes_in_pieces_also_where_it_has_moved(peers: GuardedPeers, elsewhere: str) -> None:
    assert await read(peers, f"{elsewhere}/good.json") == FILE.encode()
    assert await read(peers, f"{elsewhere}/moved?/good.json") == FILE.encode()
    assert await read(peers, f"{elsewhere}/missing") == "peer_refused"
    assert await read(peers, f"{elsewhere}/packed") == "peer_refused"


@requirement("moving:import.address")
@requirement("oap:ssrf.guard")
async def test_a_redirect_leads_nowhere_inside_and_not_in_circles(
    peers: GuardedPeers, elsewhere: str
) -> None:
    for inside in INSIDE:
        assert await read(peers, f"{elsewhere}/moved?{inside}") == "address_refused", inside
        assert await read(peers, inside) == "address_refused", inside
    _Elsewhere.asked.clear()
    assert await read(peers, f"{elsewhere}/moved?/moved") == "peer_refused"
    assert len(_Elsewhere.asked) <= 4


@requirement("moving:import.address")
@requirement("oap:ssrf.guard")
async def test_a_name_is_resolved_once_and_that_address_is_connected_to(
    peers: GuardedPeers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that stands for another address a moment later leads nowhere else."""
    looked: list[str] = []
    sent: list[str] = []

    async def resolved(host: str, _port: int) -> str:
        looked.append(host)
        return "93.184.215.14" if len(looked) == 1 else "10.0.0.1"

    async def send(request: httpx.Request, **_: Any) -> httpx.Response:
        sent.append(request.url.host)
        moved = {"Location": "https://rebound.example/again"}
        return httpx.Response(302, headers=moved, request=request, content=b"")

    monkeypatch.setattr(dids_peers, "_resolved", resolved)
    monkeypatch.setattr(peers._client, "send", send)
    assert await read(peers, "https://rebound.example/file") == "address_refused"
    assert (looked, sent) == (["rebound.example"] * 2, ["93.184.215.14"])


@requirement("moving:import.address")
async def test_there_is_an_end_to_size_and_time(peers: GuardedPeers, elsewhere: str) -> None:
    assert await read(peers, f"{elsewhere}/claims") == "too_large"
    assert await read(peers, f"{elsewhere}/endless") == "too_large"
    begun = time.monotonic()
    assert await read(peers, f"{elsewhere}/slow", seconds=0.3) == "peer_unreachable"
    assert time.monotonic() - begun < 4


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://a.example/x/mine.zip?y=1", "mine.zip"),
        ("https://a.example/%2e%2e%2fpasswd", "passwd"),
        ("https://a.example/", None),
        ("https://[", None),
    ],
)
def test_a_file_is_called_as_its_address_says_and_no_more(url: str, name: str | None) -> None:
    assert file_name(url) == name


@requirement("moving:import.address")
@requirement("oap:import.address")
def test_both_faces_try_it_like_a_file_that_was_sent(tmp_path: Path, elsewhere: str) -> None:
    with served(tmp_path / "a.db", oap_allowed_hosts=elsewhere) as at, at.client() as http:
        link = {"url": f"{elsewhere}/good.json"}
        q = "/quipu/v1/imports?agent_id=ana"
        sent = http.post(q, content=FILE)
        named = http.post(q, json=link)
        assert named.status_code == 200, named.text
        (first, then) = ([json.loads(line) for line in one.text.splitlines()][-1] for one in (sent, named))
        first, then = (one.get("result", one) for one in (first, then))
        assert then["import_id"] == first["import_id"], "the same file is the same import"
        assert (then["accepted"], then["dry_run"]) == (first["accepted"], True)
        assert http.get("/quipu/v1/records?agent_id=ana").json()["records"] == [], "nothing is written yet"
        told = http.post("/oap/memory/import", json={**link, "agent_id": "ana"})
        assert told.status_code == 200, told.text
        assert told.json()["output"]["import_id"] == first["import_id"]
        done = http.post(f"/oap/memory/import/{first['import_id']}/commit")
        assert done.json()["output"]["accepted"] + done.json()["output"]["quarantined"] == 2
        for inside in INSIDE:
            refused = http.post("/oap/memory/import", json={"url": inside, "agent_id": "ana"})
            assert refused.json()["error"]["details"]["reason"] == "address_refused", inside
            assert http.post(q, json={"url": inside}).text.count("address_refused") == 1, inside
        _Elsewhere.asked.clear()
        reader = http.post("/quipu/v1/tokens", json={"name": "reader", "permissions": ["memory:read"]}).json()
        assert http.post(q, json=link, headers=at.headers(reader["text"])).status_code == 403
        with at.client("") as nobody:
            assert nobody.post(q, json=link).status_code == 401
        assert _Elsewhere.asked == [], "nobody is asked for who may not bring anything in"


@requirement("moving:import.address")
def test_a_json_file_that_says_more_than_an_address_is_a_file(tmp_path: Path) -> None:
    with served(tmp_path / "a.db") as at, at.client() as http:
        q = "/quipu/v1/imports?agent_id=ana"
        answer = http.post(q, json={**json.loads(FILE), "url": "https://10.0.0.1/"})
        assert answer.status_code == 200
        assert "address_refused" not in answer.text
        assert http.post(q, content=FILE, headers={"Content-Type": "application/json"}).status_code == 200


@requirement("moving:import.address")
def test_the_command_line_fetches_and_brings_in(
    cli: Cli, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_OAP_ALLOWED_HOSTS", elsewhere)
    tried = cli.json("import", f"{elsewhere}/good.json", "--dry-run")
    assert (tried["read"], tried["dry_run"], tried["file_name"]) == (2, True, "good.json")
    assert cli.json("list")["records"] == []
    assert cli.json("import", f"{elsewhere}/good.json")["accepted"] == 2
    assert cli.problem("import", "https://127.0.0.1/x")["reason"] == "address_refused"
    monkeypatch.delenv("QUIPU_OAP_ALLOWED_HOSTS")
    assert cli.problem("import", f"{elsewhere}/good.json")["reason"] == "address_refused"
