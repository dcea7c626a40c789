"""The whole corpus of secrets through the real server: nothing of it in files, journal, answers or logs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.corpora.secrets import Case, bearing, lookalikes, needles, registered
from tests.faces.serving import Program

pytestmark = pytest.mark.slow

MW, Q = "/memorywire/v0", "/quipu/v1"
#: Shorter pieces are found in any text by chance.
_TELLING = 8


@dataclass
class Told:
    """What the server gave out, everywhere it could."""

    answers: str
    log: str
    files: dict[str, bytes]


def body_of(case: Case) -> dict[str, Any]:
    body: dict[str, Any] = {"agent_id": "corpus", "type": case.type.value, "content": case.content}
    for name in ("metadata", "source"):
        if getattr(case, name) is not None:
            body[name] = getattr(case, name)
    if case.tags is not None:
        body["tags"] = list(case.tags)
    return body


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Every case by every way in: one by one, in batches, as an import, held for approval, as a reason."""
    folder: Path = tmp_path_factory.mktemp("secrets")
    cases = bearing()
    answers: list[str] = []
    with Program(folder / "memory.db", QUIPU_RATE="0", QUIPU_RECALL_BUDGET="0") as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:

            def told(answer: httpx.Response) -> httpx.Response:
                answers.append(answer.text + repr(dict(answer.headers)))
                assert answer.status_code < 500, answer.text
                return answer

            for label, value in registered():
                assert told(client.post(f"{Q}/secrets", json={"label": label, "value": value})).is_success
            kept = [told(client.post(f"{MW}/remember", json=body_of(case))) for case in cases]
            assert {answer.status_code for answer in kept} == {200}
            for start in range(0, len(cases), 200):
                items = [body_of(case) for case in cases[start : start + 200]]
                told(client.post(f"{MW}/remember/batch", json={"items": items}))
            lines = "\n".join(json.dumps(body_of(case)) for case in cases)
            ndjson = {"Content-Type": "application/x-ndjson"}
            told(client.post(f"{MW}/import", content=lines, headers=ndjson))
            for case, answer in list(zip(cases, kept, strict=True))[::5]:
                told(client.post(f"{MW}/remember", json={**body_of(case), "approval_required": True}))
                words = case.content if isinstance(case.content, str) else json.dumps(case.content)
                body = {"agent_id": "corpus", "ids": [answer.json()["id"]], "reason": words[:1000]}
                told(client.post(f"{MW}/forget", json=body))
            answers.extend(_everything_out(client))
            assert server.stop() == 0
            log = server.log
    files = {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("key")}
    return Told("\n".join(answers), log, files)


def _everything_out(client: httpx.Client) -> list[str]:
    """All that can be read."""
    out = [
        client.get(f"{MW}/export", params={"agent_id": "corpus"}).text,
        client.get(f"{MW}/audit", params={"agent_id": "corpus"}).text,
        client.get(f"{Q}/journal", params={"limit": 1000}).text,
        client.get(f"{Q}/journal/export").text,
        client.get(f"{Q}/proposals", params={"status": "all"}).text,
        client.get(f"{Q}/secrets").text,
        client.get("/metrics").text,
    ]
    body = {"agent_id": "corpus", "query": "it came this morning", "k": 1000, "min_relevance": 0}
    out.append(client.post(f"{MW}/recall", json=body).text)
    return out


@cache
def _needles() -> dict[bytes, str]:
    """Every form of every secret, as it would stand in a file, and whose it is."""
    return {
        needle.encode("utf-8", "surrogatepass"): case.label
        for case in {case.secret: case for case in bearing()}.values()
        for needle in needles(case.secret)
        if len(needle) >= _TELLING
    }


def _leaks(given: str | bytes) -> list[str]:
    """Bytes are looked through several times faster than a text with letters of every kind."""
    told = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else given
    return [label for needle, label in _needles().items() if needle in told]


def test_there_are_enough_of_them() -> None:
    assert len(bearing()) >= 200
    assert len(lookalikes()) >= 200


def test_no_answer_tells_a_secret(told: Told) -> None:
    assert _leaks(told.answers) == []


def test_no_log_line_tells_a_secret(told: Told) -> None:
    assert told.log
    assert _leaks(told.log) == []


def test_no_file_holds_a_secret(told: Told) -> None:
    assert any(name.endswith(".db") for name in told.files)
    for name, content in told.files.items():
        assert _leaks(content) == [], name


def test_the_check_itself_would_see_one() -> None:
    case = bearing()[0]
    assert case.label in _leaks(f"… {case.secret} …")


def test_what_only_looks_like_one_comes_back_as_it_was(tmp_path: Path) -> None:
    with Program(tmp_path / "memory.db", QUIPU_RATE="0", QUIPU_RECALL_BUDGET="0") as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
            items = [{"agent_id": "a", "type": "semantic", "content": text} for text in lookalikes()]
            for start in range(0, len(items), 200):
                answer = client.post(f"{MW}/remember/batch", json={"items": items[start : start + 200]})
                assert all("response" in row for row in answer.json()["results"])
            lines = client.get(f"{MW}/export", params={"agent_id": "a"}).text.splitlines()
    kept = {json.loads(line)["content"] for line in lines}
    assert [text for text in lookalikes() if text not in kept] == []
