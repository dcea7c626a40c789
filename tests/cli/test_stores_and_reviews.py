"""Memory stores, and writes that wait for a person."""

from __future__ import annotations

from tests.cli.conftest import Cli
from tests.cli.published import valid


def test_stores_are_made_listed_and_deleted(cli: Cli) -> None:
    assert "Created store notes" in cli.said("store", "create", "notes", "--description", "what we know")
    body = cli.json("store", "create", "team", "--scope", "team", "--tier", "short_term", "--namespace", "n")
    assert (body["scope"], body["tier"], body["namespace"]) == ("team", "short_term", "n")
    said = cli.said("store", "list")
    assert "what we know" in said
    assert body["id"] in said
    assert [store["name"] for store in cli.json("store", "list")["stores"]] == ["main", "notes", "team"]
    cli.remember("in notes", "--store", "notes")
    assert "Deleted store notes with 1 record" in cli.said("store", "delete", "notes", "--yes")
    assert cli.json("store", "delete", "team", "--hard", "--yes") == {
        "store": "team",
        "removed": 0,
        "hard_delete": True,
    }


def test_a_store_is_not_deleted_when_nobody_can_be_asked(cli: Cli) -> None:
    cli.json("store", "create", "notes")
    assert cli.problem("store", "delete", "notes")["reason"] == "confirmation_required"
    assert cli.problem("store", "delete", "main", "--yes")["code"] == "conflict"


def test_a_held_write_is_listed_shown_and_approved(cli: Cli) -> None:
    address = cli.json("remember", "Wire 900 EUR", "--approve", "--reasoning", "rent", code=3)["approval_url"]
    name = address.rpartition("/")[2]
    assert cli.json("list")["records"] == []
    listed = cli.said("review", "list")
    assert name in listed
    assert "Wire 900 EUR" in listed
    review = cli.json("review", "show", address)
    valid("governance/review", review)
    assert (review["operation"], review["status"]) == ("remember", "pending")
    assert review["request"]["content"] == "Wire 900 EUR"
    assert review["reasoning"] == "rent"
    shown = cli.said("review", "show", name)
    assert "Wire 900 EUR" in shown
    assert "caller" in shown
    assert "Approved remember" in cli.said("review", "approve", name)
    assert cli.json("list")["records"][0]["content"] == "Wire 900 EUR"
    assert cli.problem("review", "approve", name)["reason"] == "already_decided"
    assert cli.json("review", "list")["reviews"] == []
    assert [r["status"] for r in cli.json("review", "list", "--status", "all")["reviews"]] == ["approved"]


def test_a_decision_tells_who_decided_what_and_why(cli: Cli) -> None:
    name = cli.json("remember", "Wire 900 EUR", "--approve", code=3)["approval_url"]
    decision = cli.json("review", "reject", name, "--reason", "not ours")
    valid("governance/decision.response", decision)
    assert (decision["approved"], decision["reviewer"], decision["reason"]) == (False, "local", "not ours")
    other = cli.json("remember", "Wire 800 EUR", "--approve", code=3)["approval_url"]
    assert cli.json("review", "approve", other)["approved"] is True
    third = cli.json("remember", "Wire 700 EUR", "--approve", code=3)["approval_url"]
    assert "Rejected" in cli.said("review", "reject", third)


def test_forget_merge_and_expire_can_be_held_too(cli: Cli) -> None:
    first, second = cli.remember("one"), cli.remember("two")
    for words in (
        ["forget", "--id", first, "--approve"],
        ["merge", first, second, "--approve"],
        ["expire", "--type", "semantic", "--action", "archive", "--approve"],
    ):
        body = cli.json(*words, code=3)
        assert body["pending_approval"] is True
        assert cli("review", "show", body["approval_url"]).exit_code == 0
    assert len(cli.json("list")["records"]) == 2
    said = cli.said("review", "list")
    assert f"into {first}" in said
    assert "1 record" in said


def test_with_nothing_held_review_list_says_so(cli: Cli) -> None:
    result = cli("review", "list")
    assert result.stdout == ""
    assert "Nothing waits" in result.stderr
