"""Memory stores, and writes that wait for a person."""

from __future__ import annotations

from pathlib import Path

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


def held(cli: Cli, *words: str) -> str:
    """The id of a held write."""
    return str(cli.json(*words, "--approve", code=3)["approval_url"]).rpartition("/")[2]


def test_a_review_shows_the_diff_and_its_etag_guards_the_decision(cli: Cli) -> None:
    one = cli.remember("Mara drinks green tea")
    name = held(cli, "remember", "Mara drinks black tea", "--id", one)
    review = cli.json("review", "show", name)
    valid("governance/review", review)
    (changed,) = review["diff"]["modified"]
    assert (changed["fields"], changed["before"]) == (["content"], {"content": "Mara drinks green tea"})
    shown = cli.said("review", "show", name)
    assert "green" in shown
    assert review["etag"] in shown
    cli.json("remember", "Mara drinks water", "--id", one)
    assert cli.problem("review", "approve", name, "--etag", review["etag"])["reason"] == "stale_proposal"
    again = cli.json("review", "show", name)["etag"]
    assert "Approved" in cli.said("review", "approve", name, "--etag", again)


def test_reviewers_edit_merge_and_supersede(cli: Cli) -> None:
    edited = held(cli, "remember", "Mara is vegan")
    assert cli.problem("review", "edit", edited)["reason"] == "usage"
    cli.json(
        "review", "edit", edited, "--content", "Mara is vegetarian", "--tag", "food", "--confidence", "0.5"
    )
    (record,) = cli.json("list")["records"]
    assert (record["content"], record["tags"], record["confidence"]) == ("Mara is vegetarian", ["food"], 0.5)
    merged = held(cli, "remember", "Mara eats no fish")
    assert "Approved" in cli.said("review", "merge", merged, record["id"])
    (joined,) = cli.json("list")["records"]
    assert joined["content"] == "Mara is vegetarian\nMara eats no fish"
    newer = held(cli, "remember", "Mara eats fish again")
    valid("governance/decision.response", cli.json("review", "supersede", newer, record["id"]))
    assert [one["content"] for one in cli.json("list")["records"]] == ["Mara eats fish again"]


def test_many_are_decided_with_one_command(cli: Cli) -> None:
    names = [held(cli, "remember", f"n {number}") for number in range(3)]
    assert cli.said("review", "approve", *names[:2]).count("approved") == 2
    body = cli.json("review", "reject", *names, code=1)
    assert [one.get("error") for one in body["decisions"]] == ["already_decided", "already_decided", None]


def test_rules_are_tried_set_and_shown(cli: Cli, tmp_path: Path) -> None:
    cli.remember("from a page", "--source", "web_page")
    file = tmp_path / "rules.toml"
    file.write_text('[[rules]]\nid = "web"\neffect = "hold"\n[rules.when]\nsources = ["web_*"]\n', "utf-8")
    said = cli.said("rules", "test", str(file))
    assert "Of the last 1 write: 0 let through, 1 held, 0 refused." in said
    assert cli.json("rules", "test", str(file))["writes"][0]["rule"] == "web"
    assert "1 let through" in cli.said("rules", "test", "--last", "5")
    assert "shipped-import" in cli.said("rules", "set", str(file))
    assert [rule["id"] for rule in cli.json("rules", "show", "--own")["rules"]] == ["web"]
    valid("governance/rules", cli.json("rules", "show"))
    assert cli.json("remember", "another", "--source", "web_page", code=3)["pending_approval"]
    file.write_text('[[rules]]\nid = "web"\neffect = "maybe"\n', "utf-8")
    assert cli.problem("rules", "set", str(file))["reason"] == "bad_value"
    assert cli.problem("rules", "set", str(tmp_path / "none.toml"))["reason"] == "no_file"
    own = tmp_path / "own.json"
    own.write_text('{"rules": []}', "utf-8")
    assert len(cli.json("rules", "set", str(own))["rules"]) == 2
    assert "no rules of your own" in cli("rules", "show", "--own").output
