"""A briefing in three commands: who am I, share, borrow. Between two servers, and for somebody who has none."""

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import process, started
from tests.requirement import requirement

LAUNCH = "The website launches in May; ask Ana at ana@example.org about the colours."
SHOWN = "The website launches in May; ask Ana at [email] about the colours."


@dataclass(frozen=True)
class Person:
    """Somebody at a terminal, with a home of their own."""

    home: Path
    settings: dict[str, str]

    def types(self, *words: str, code: int = 0) -> str:
        """What they read."""
        done = process(*words, **self.settings)
        said = done.stdout.decode() + done.stderr.decode()
        assert done.returncode == code, said
        return said


def person(home: Path, **settings: str) -> Person:
    home.mkdir(exist_ok=True)
    return Person(
        home,
        {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            "QUIPU_EMBEDDER": "none",
            "QUIPU_AGENT": "assistant",
            "NO_COLOR": "1",
            "COLUMNS": "200",
            **settings,
        },
    )


_HELD: list[socket.socket] = []


def free_port() -> int:
    """One that nobody else is given meanwhile: it stays bound, and a server may listen on it all the same."""
    one = socket.socket()
    _HELD.append(one)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", 0))
    port: int = one.getsockname()[1]
    return port


@contextmanager
def server(home: Path, port: int, *others: int) -> Iterator[Person]:
    """A server that others know by its address, and its owner at a terminal."""
    address = f"http://127.0.0.1:{port}"
    known = ",".join(f"http://127.0.0.1:{other}" for other in others)
    here = person(home, QUIPU_PUBLIC_URL=address, **({"QUIPU_OAP_ALLOWED_HOSTS": known} if others else {}))
    words = ("serve", "--port", str(port), "--json", "--store-url", str(home / "memory.db"))
    environment = {**os.environ, **here.settings}
    with started(*words, env=environment, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        said = json.loads(running.stdout.readline())
        yield Person(home, {**here.settings, "QUIPU_SERVER": address, "QUIPU_TOKEN": said["token"]})


def remembered(owner: Person) -> None:
    owner.types("remember", LAUNCH, "--tags", "website")
    owner.types("remember", "Ana likes green.", "--tags", "website")
    owner.types("remember", "The alarm code is with the neighbour.", "--tags", "home")


def did_in(text: str) -> str:
    """One's own DID, as a person would copy it."""
    found = re.search(r"^owner\s+(did:\S+)", text, re.M)
    assert found, text
    return found[1]


def link_in(text: str) -> str:
    found = re.search(r"^(http\S+/oap/memory/grant/mgr_\w+)$", text, re.M)
    assert found, text
    return found[1]


@requirement("oap:journey.delegated-briefing")
def test_a_briefing_between_two_servers_shows_text(tmp_path: Path) -> None:
    here, there = free_port(), free_port()
    with server(tmp_path / "a", here, there) as owner, server(tmp_path / "b", there, here) as contractor:
        remembered(owner)
        grantee = did_in(contractor.types("did"))
        assert grantee.startswith(f"did:web:127.0.0.1%3A{there}:owners:")
        said = owner.types("share", grantee, "--label", "website", "--purpose", "Brief the contractor")
        assert SHOWN in said, "the owner sees what the other side will see"
        link = link_in(said)

        briefing = contractor.types("borrow", link, "when does the website launch?")
        assert briefing.splitlines()[0] == f"- {SHOWN}"
        assert "alarm" not in briefing
        assert not re.search(r"[{}\"]", briefing), "text, not JSON"
        assert "written by others" in briefing
        everything = contractor.types("borrow", link)
        assert set(everything.splitlines()[:2]) == {f"- {SHOWN}", "- Ana likes green."}
        assert "website" in contractor.types("borrowed")

        assert contractor.types("recall", "website").count(SHOWN) == 0, "it is no memory of theirs"
        grant_id = link.rpartition("/")[2]
        page = owner.types("grant", "show", grant_id)
        assert f"To      {grantee}\nFor     Brief the contractor\nCovers  tagged website" in page
        assert "Seen    2 of at most 500 memories, in 2 answers" in page
        assert f"`quipu grant revoke {grant_id}`" in page
        owner.types("grant", "revoke", grant_id)
        refused = contractor.types("borrow", link, code=1)
        assert "The grant was taken back." in refused


@requirement("oap:journey.delegated-briefing")
def test_somebody_without_a_server_is_briefed_all_the_same(tmp_path: Path) -> None:
    """A fresh machine is known by its key; the address that its user typed is asked, though it is this machine's."""
    contractor = person(tmp_path / "fresh")
    with server(tmp_path / "a", free_port()) as owner:
        remembered(owner)
        grantee = did_in(contractor.types("did"))
        assert grantee.startswith("did:key:z")
        said = owner.types("share", grantee, "--label", "website", "--purpose", "Brief the contractor")
        briefing = contractor.types("borrow", link_in(said), "when does the website launch?")
        assert briefing.splitlines()[0] == f"- {SHOWN}"
        erased = owner.types("erase", "--filter", '{"labels_any": ["website"]}')
        assert "not told, because a did:key has no address" in erased
        again = contractor.types("borrow", link_in(said))
        assert "Nothing that is shared with you fits." in again
        assert "Dropped 2 items that their owner has erased since." in again
        assert "told with the answer to their query" in owner.types("erasures")
        stranger = person(tmp_path / "stranger")
        stranger.types("did")
        refused = stranger.types("borrow", link_in(said), code=1)
        assert "The grant is for somebody else." in refused
        assert "did:key:z" in refused, "it says who one is, to be sent to the owner"


@pytest.mark.parametrize("link", ["https://memory.example", "mgr_01HX2QFXR0Q4S8U9V3W7X2Y0Z1"])
def test_what_is_no_link_is_said_at_once(tmp_path: Path, link: str) -> None:
    said = person(tmp_path / "fresh").types("borrow", link, code=1)
    assert "the link of a grant, such as https://memory.example/oap/memory/grant/mgr_…" in said
