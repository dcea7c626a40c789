"""Positions that were published outside of the database tell of a journal that was cut or written anew."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from quipu.audit.anchors import Anchor, FileAnchor, HttpAnchor, anchor_at
from quipu.audit.keys import KeySigner
from quipu.audit.operations import ANCHOR, VERIFY
from quipu.errors import BackendUnavailableError, InvalidError, UnsupportedError
from quipu.memory.operations import REMEMBER
from tests.audit.conftest import TABLES, Audited, audited
from tests.audit.tampering import Owner
from tests.fixtures.memories import open_memory

T = "default"


class Notary(BaseHTTPRequestHandler):
    """Keeps what it is sent, and gives it back; answers 503 while it is out."""

    statements: list[str]
    is_out = False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.statements.append(body)
        self._answer(503 if self.is_out else 201, f"receipt {len(self.statements)}")

    def do_GET(self) -> None:
        (tenant,) = parse_qs(urlsplit(self.path).query)["tenant"]
        mine = [one for one in self.statements if json.loads(one)["tenant"] == tenant]
        self._answer(503 if self.is_out else 200, "\n".join(mine))

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Quietly."""


@pytest.fixture
def notary() -> Iterator[tuple[str, type[Notary]]]:
    Own = type("Own", (Notary,), {"statements": []})
    server = HTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/statements", Own
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["file", "http"])
def anchor(request: pytest.FixtureRequest, tmp_path: Path, notary: tuple[str, type[Notary]]) -> Anchor:
    return anchor_at(f"file://{tmp_path}/anchors.ndjson" if request.param == "file" else notary[0])


async def test_what_was_published_is_compared_with_the_journal(anchor: Anchor) -> None:
    memory = audited(open_memory(tables=TABLES), anchors=[anchor])
    await memory(REMEMBER, content="x")
    for _ in range(2):
        (published,) = (await memory(ANCHOR)).anchors
        assert published.target == anchor.target
        assert published.proof
    (tenant,) = (await memory(VERIFY)).tenants
    assert (tenant.anchors, tenant.faults, tenant.unverifiable) == (2, (), ())
    assert tenant.side_rows == 3, "the store main, and both"
    await memory.close()


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_database_that_was_set_back_whole_is_told_by_what_was_published(
    busy: Audited, owner: Owner, anchor: Anchor
) -> None:
    """Everything in it fits together: only somebody outside knows that there was more."""
    memory = audited(busy.memory, signer=busy.signer, anchors=[anchor])
    before = {
        table: owner.rows(table, ("tenant",))
        for table in ("journal", "record", "head", "vector", "checkpoint")
    }
    await memory(REMEMBER, content="to be denied")
    await memory(ANCHOR)
    for table, rows in before.items():
        owner(f"DELETE FROM {table}")  # noqa: S608  names from the test
        for row in rows:
            marks = ", ".join("?" for _ in row)
            owner(f"INSERT INTO {table} VALUES ({marks})", *row.values())  # noqa: S608  names from the test
    owner("DELETE FROM anchor")
    assert (await busy.audit.verifier.tenant(T)).is_verified
    found = await memory.audit.verifier.tenant(T)
    assert [fault.kind for fault in found.faults] == ["truncated"]


async def test_a_place_that_does_not_answer_is_unverifiable(notary: tuple[str, type[Notary]]) -> None:
    url, server = notary
    memory = audited(open_memory(tables=TABLES), anchors=[HttpAnchor(url)])
    await memory(REMEMBER, content="x")
    await memory(ANCHOR)
    server.is_out = True
    with pytest.raises(BackendUnavailableError):
        await memory(ANCHOR)
    (tenant,) = (await memory(VERIFY)).tenants
    assert (tenant.faults, tenant.reasons, tenant.anchors) == ((), ("anchor_unreachable",), 0)
    server.is_out = False
    server.statements.clear()
    (tenant,) = (await memory(VERIFY)).tenants
    assert tenant.reasons == ("missing_anchor",)
    await memory.close()


async def test_lines_that_are_not_ours_are_no_evidence(tmp_path: Path) -> None:
    file = FileAnchor(tmp_path / "anchors.ndjson")
    memory = audited(open_memory(tables=TABLES), anchors=[file])
    await memory(REMEMBER, content="x")
    await memory(ANCHOR)
    line = json.loads(file.path.read_text())
    for forged in ({**line, "seq": 999}, {**line, "more": 1}, [], {**line, "tenant": "other"}):
        with file.path.open("a") as lines:
            lines.write(json.dumps(forged) + "\n")
    (tenant,) = (await memory(VERIFY)).tenants
    assert (tenant.faults, tenant.reasons) == ((), ("foreign_anchor",))
    await memory.close()


async def test_what_is_signed_because_it_is_due_is_published_and_that_is_no_reason_to_sign_again(
    tmp_path: Path,
) -> None:
    signer = KeySigner.fresh()
    file = FileAnchor(tmp_path / "anchors.ndjson")
    for number in range(3):
        memory = open_memory(path=tmp_path / "memory.db", tables=TABLES)
        memory.clock.now += number * 100_000
        opened = audited(memory, signer=signer, anchors=[file])
        if not number:
            await opened(REMEMBER, content="x")
        await opened.audit.checkpoints.look(T)
        memory.clock.now += 100_000
        await opened.close()
    assert len(file.path.read_text().splitlines()) == 1


async def test_only_what_is_configured_is_published_to(memory: Audited, tmp_path: Path) -> None:
    await memory(REMEMBER, content="x")
    with pytest.raises(UnsupportedError):
        await memory(ANCHOR)
    opened = audited(memory.memory, anchors=[FileAnchor(tmp_path / "a")])
    with pytest.raises(InvalidError):
        await opened(ANCHOR, target="https://elsewhere.example/")
    for address in ("ftp://x/y", "http://elsewhere.example/", "file:", "anchors"):
        with pytest.raises(InvalidError):
            anchor_at(address)
    assert anchor_at("https://user:word@notary.example/a?token=b").target == "https://notary.example/a"
