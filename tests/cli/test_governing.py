"""The desk, recovery, suggestions and webhooks, from a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from quipu.cli.reviews_desk import Desk
from quipu.errors import BackendUnavailableError
from quipu.service.reviewing import Reviewing
from tests.cli.conftest import Cli


def held(cli: Cli, text: str, *more: str) -> str:
    """A memory that waits, by its proposal."""
    answer = cli.json("remember", text, "--approve", *more, code=3)
    return str(answer["approval_url"]).rpartition("/")[2]


def contents(cli: Cli) -> set[str]:
    return {record["content"] for record in cli.json("list")["records"]}


def test_a_queue_is_worked_with_keys_alone(cli: Cli) -> None:
    cli.said("remember", "the parcel is in Lima")
    for text in ("one", "two", "a wrong fact", "left for later"):
        held(cli, text)
    said = cli.said("review", "desk", input="?ar" + "not ours\n" + "e" + "a right fact\n" + "n")
    assert "a  approve it as it is shown" in said
    assert "3 decisions made." in said
    assert contents(cli) == {"the parcel is in Lima", "one", "a right fact"}
    rejected = cli.json("review", "list", "--status", "rejected")["reviews"]
    assert len(rejected) == 1
    assert len(cli.json("review", "list")["reviews"]) == 1


def test_q_leaves_the_rest_where_it_is(cli: Cli) -> None:
    held(cli, "one")
    held(cli, "two")
    assert "0 decisions made." in cli.said("review", "desk", input="q")
    assert len(cli.json("review", "list")["reviews"]) == 2


def test_merging_and_superseding_need_something_alike(cli: Cli) -> None:
    cli.said("remember", "Mara lives in Lima, near the sea")
    held(cli, "something else entirely")
    said = cli("review", "desk", input="mq")
    assert "Nothing is like it." in said.output
    cli.said("review", "reject", cli.json("review", "list")["reviews"][0]["id"])
    held(cli, "Mara lives in Lima, near the sea now")
    assert "1 decision made." in cli.said("review", "desk", input="s")
    assert contents(cli) == {"Mara lives in Lima, near the sea now"}


def test_what_changed_since_it_was_shown_is_not_decided(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    name = cli.json("remember", "before")["id"]
    held(cli, "after", "--id", name)
    shown = Desk._one

    def slow(self: Any, seen: Any, place: int, of: int) -> bool:
        self._memory.remember("meanwhile", id=name)
        return shown(self, seen, place, of)

    monkeypatch.setattr(Desk, "_one", slow)
    assert "0 decisions made." in cli.said("review", "desk", input="a")
    assert contents(cli) == {"meanwhile"}


def test_review_without_a_terminal_teaches(cli: Cli) -> None:
    assert "quipu review approve" in cli.said("review")


def test_recovery_shows_first_and_then_does_it(cli: Cli) -> None:
    cli.said("remember", "good", "--source", "user")
    cli.said("remember", "poison", "--source", "web_page")
    said = cli.said("recover", "--source", "web_*")
    assert "Would be: 1 forgotten." in said
    assert contents(cli) == {"good", "poison"}
    done = cli.json("recover", "--source", "web_*", "--apply", "--reason", "planted")
    assert [(one["step"], one["outcome"]) for one in done["findings"]] == [("forget", "done")]
    assert contents(cli) == {"good"}
    cli.said("restore", done["findings"][0]["id"])
    quarantined = cli.json("recover", "--source", "web_*", "--quarantine", "--apply")
    assert quarantined["findings"][0]["outcome"] == "held"
    assert contents(cli) == {"good"}
    assert len(cli.json("review", "list")["reviews"]) == 1


def test_recovery_wants_to_know_what_of(cli: Cli) -> None:
    cli.said("init")
    assert cli.problem("recover")["reason"] == "no_scope"
    assert cli.problem("recover", "--since", "yesterday")["reason"] == "bad_value"


def test_a_suggestion_is_shown_accepted_and_dismissed(cli: Cli) -> None:
    assert cli.json("rules", "suggested") == {"suggestions": []}
    # The local user decides on their own writes, which teaches nothing.
    for number in range(5):
        cli.said("review", "approve", held(cli, f"n{number}"))
    assert cli.json("rules", "suggested") == {"suggestions": []}
    for verb in ("accept", "dismiss"):
        assert cli.problem("rules", verb, "sug_unknown")["reason"] == "suggestion"


def test_webhooks_are_added_listed_and_removed(cli: Cli) -> None:
    made = cli.json("webhook", "add", "https://hooks.example.org/q", "--event", "proposal.held")
    assert len(made["key"]) == 64
    (told,) = cli.json("webhook", "list")["webhooks"]
    assert (told["url"], told["events"]) == ("https://hooks.example.org/q", ["proposal.held"])
    assert made["key"] not in cli.said("webhook", "list")
    cli.said("webhook", "remove", made["id"])
    assert cli.json("webhook", "list") == {"webhooks": []}
    assert cli.problem("webhook", "remove", made["id"])["reason"] == "webhook"
    assert cli.problem("webhook", "add", "ftp://x")["reason"] == "bad_value"


def test_a_ping_that_goes_inside_is_refused(cli: Cli) -> None:
    made = cli.json("webhook", "add", "https://127.0.0.1/x")
    assert cli.problem("webhook", "ping", made["id"], code=2)["reason"] == "forbidden_address"


def test_a_desk_that_loses_its_memory_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """That no decision was made would sound as if nothing waited."""
    held(cli, "one")

    def lost(*_: Any) -> Any:
        raise BackendUnavailableError("The server cannot be reached.", reason="unreachable")

    monkeypatch.setattr(Reviewing, "review", lost)
    result = cli("review", "desk", input="a")
    assert result.exit_code == 2
    assert "The server cannot be reached." in result.stderr
    assert "made" not in result.stdout
