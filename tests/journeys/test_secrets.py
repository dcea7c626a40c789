"""A registered secret that is sent to the server, in whatever place, comes back in no answer, log line, metric or file."""

import json
import logging
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx
import pytest

from quipu.access.operations import CREATE_TOKEN
from quipu.bootstrap import OPERATIONS, http_app
from quipu.client.remote import rendered
from quipu.errors import QuipuError
from quipu.http.v0 import v0_operations
from quipu.secrets.operations import ADD_SECRET
from tests.architecture.test_secrets import SECRET, kept, placements
from tests.architecture.world import FILE_SENT, file_of, open_world

FORMS = (SECRET, quote(f"it is {SECRET}."), SECRET.encode().hex())


def holds(text: str) -> bool:
    return any(form in text for form in FORMS)


async def test_a_secret_that_is_sent_comes_back_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG, logger="quipu")  # not that of the client here
    world = await open_world(tmp_path)
    issued = await world(CREATE_TOKEN, name="olga", roles=["admin", "operator"], default_agent="theirs")
    world.sender = await world.container.access.credentials.principal(issued.text)
    await world(ADD_SECRET, label="pass", value=SECRET)
    transport = httpx.ASGITransport(http_app(world.container), raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {issued.text}"}
    wires = [*OPERATIONS, *v0_operations(OPERATIONS).values()]
    statuses: set[int] = set()
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as http:
        for operation in wires:
            if operation.http is None or operation.is_stream:
                continue
            base = await world.request(operation)
            for name, value in placements(operation, f"it is {SECRET}."):
                try:
                    takes_file = operation.http.body != "json"
                    upload = file_of(FILE_SENT) if takes_file else None
                    call = rendered(operation, {**base, name: value}, upload=upload)
                except QuipuError:  # it cannot even be written down
                    continue
                query = "" if not call.query else "?" + urlencode(call.query, doseq=True)
                body = None if call.method in ("GET", "DELETE") else call.body
                answer = await http.request(call.method, call.path + query, json=body, content=call.upload)
                statuses.add(answer.status_code)
                assert not holds(answer.text), (operation.name, name, answer.text)
                assert not holds(json.dumps(dict(answer.headers))), (operation.name, name)
                assert "internal_error" not in answer.text, (operation.name, name)
        metrics = await http.get("/metrics")
    await world.container.close()
    assert {200, 422} <= statuses, "some are carried out without the secret, some are refused"
    assert not holds(metrics.text)
    assert not holds(caplog.text)
    assert kept(tmp_path) == []
