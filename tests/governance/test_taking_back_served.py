"""A decision on the page is taken back at another server of the same database, and after a server was started again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quipu.model.access import Role
from quipu.model.operations import ListRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from tests.faces.serving import Served, served
from tests.faces.web.conftest import Person
from tests.postgres import Server

TEXT = "the harbour gate opens at seven"


@contextmanager
def at(running: Served, token: str) -> Iterator[Person]:
    """A reviewer who has signed in there."""
    with Person(running.url) as ruth:
        assert ruth.sign_in(token).status_code == 303
        yield ruth


def a_token(running: Served) -> str:
    issued = running.do(running.service.tokens.issue(local(), name="ruth", roles=[Role.REVIEWER]))
    return issued.text


def held(running: Served) -> str:
    request = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=TEXT, approval_required=True)
    return str(running.do(running.service.remember(local(), request)).extensions["proposal_id"])


def live(running: Served) -> list[str]:
    found = running.do(running.service.reading.list(local(), ListRequest(agent_id="ana")))
    return [record.content for record in found.records]


def waiting(running: Served) -> list[str]:
    found = running.do(running.service.governance.proposals(local(), "pending"))
    return [str(one.request["content"]) for one in found]


def undone(running: Served, token: str, name: str) -> None:
    """The page of the decision offers to take it back, and does."""
    with at(running, token) as ruth:
        assert "Take this decision back" in ruth.get(f"/review/{name}").text
        went = ruth.send("/undo", proposal=name)
        assert went.status_code == 303
        assert "it waits again" in ruth.get(went.headers["location"]).text
        assert "too late" in ruth.get(ruth.send("/undo", proposal=name).headers["location"]).text
        assert "Take this decision back" not in ruth.get(f"/review/{name}").text


@pytest.mark.parametrize("choice", ["approve", "reject"])
def test_two_servers_on_one_database_take_back_what_the_other_decided(postgres: Server, choice: str) -> None:
    url = postgres.database(is_empty=True)
    with served(store_url=url) as one, served(store_url=url) as two:
        token = a_token(one)
        name = held(one)
        with at(one, token) as ruth:
            assert ruth.send(f"/review/{name}", decision=choice).status_code == 303
        assert live(two) == ([TEXT] if choice == "approve" else [])
        undone(two, token, name)
        assert (live(one), live(two), waiting(one)) == ([], [], [TEXT])
    postgres.drop(url)


@pytest.mark.parametrize("choice", ["approve", "reject"])
def test_a_server_that_was_started_again_takes_back_what_it_decided(tmp_path: Path, choice: str) -> None:
    file = tmp_path / "memory.db"
    with served(file) as before:
        token = a_token(before)
        name = held(before)
        with at(before, token) as ruth:
            assert ruth.send(f"/review/{name}", decision=choice).status_code == 303
    with served(file) as after:
        undone(after, token, name)
        assert (live(after), waiting(after)) == ([], [TEXT])


def test_a_candidate_is_proposed_on_the_page_and_waits_for_a_decision() -> None:
    with served() as running:
        for text in ("Mara lives in the harbour street", "mara lives in the Harbour street"):
            request = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=text)
            running.do(running.service.remember(local(), request))
        (kept, gone) = running.do(running.service.tidying.candidates(local())).candidates[0].records
        with at(running, a_token(running)) as ruth:
            shown = ruth.get("/candidates").text
            assert kept.id in shown
            assert gone.id in shown
            went = ruth.send("/candidates", kept=kept.id, gone=gone.id)
            assert went.status_code == 303
            (proposal,) = running.do(running.service.governance.proposals(local(), "pending"))
            assert went.headers["location"] == f"/review/{proposal.id}"
            assert "Merge these?" in ruth.get(went.headers["location"]).text
            assert (proposal.operation, proposal.writer) == ("merge", "system")
            assert kept.id not in ruth.get("/candidates").text, "what waits is not offered again"
            assert ruth.send("/candidates", kept=kept.id, gone=gone.id).status_code == 404
            assert len(live(running)) == 2, "nothing happens by itself"
