"""Reviewing at a terminal."""

import json
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Cli, cli, home

__all__ = ["cli", "home"]


@pytest.fixture
def rules(tmp_path: Path) -> str:
    """A file that holds what speaks of tea."""
    file = tmp_path / "rules.toml"
    file.write_text(
        '[[rules]]\nid = "tea"\neffect = "hold"\nreason = "Ask Ana."\n[rules.when]\ncontent_any = ["tea"]\n'
    )
    return str(file)


def test_a_held_write_is_shown_approved_and_found(cli: Cli) -> None:
    kept = cli.remember("Ana lives in Lisbon")
    held = cli.json("update", kept, "--content", "Ana lives in Porto", "--approval-required", code=3)
    proposal_id = held["proposal_id"]
    assert proposal_id in cli.says("review", "list")
    shown = cli.says("review", "show", proposal_id)
    assert "content: Ana lives in [-Lisbon][+Porto]" in shown
    assert f"Approved {proposal_id}." in cli.says("review", "approve", proposal_id, "--reason", "yes")
    assert "Ana lives in Porto" in cli.says("show", kept)
    assert cli.problem("review", "reject", proposal_id)["reason"] == "already_decided"


def test_an_approval_says_more_than_yes(cli: Cli) -> None:
    tea = cli.remember("Ana likes tea")
    held = [
        cli.json("remember", f"Ana likes {what}", "--approval-required", code=3)["proposal_id"]
        for what in ("green tea", "milk", "rain", "sun")
    ]
    cli.says("review", "approve", held[0], "--merge-into", tea, "--strategy", "merge_content")
    cli.says("review", "approve", held[1], "--edit", '{"content": "Ana likes oat milk"}')
    assert cli.problem("review", "approve", held[2], "--edit", "oat")["code"] == "validation_error"
    assert cli.problem("review", "reject", held[2], held[3])["code"] == "validation_error"  # asks, or --yes
    answer = cli.json("review", "reject", held[2], held[3], "--yes")
    assert [one["approved"] for one in answer["decided"]] == [False, False]
    assert cli.problem("review", "approve")["reason"] == "usage"
    listed = cli.says("list")
    assert "Ana likes oat milk" in listed
    assert "rain" not in listed


def test_the_desk_goes_through_what_waits_and_decides_what_was_shown(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [
        cli.json("remember", text, "--approval-required", code=3)["proposal_id"]
        for text in ("Ana likes tea", "Ana likes rain", "Ana likes sun")
    ]
    assert cli.problem("review")["reason"] == "usage"  # nobody is there
    said = iter(["a", "because", "s", "r", ""])
    monkeypatch.setattr("quipu.governance.commands.sys", Terminal())
    monkeypatch.setattr(click, "prompt", lambda *_, **__: next(said))
    shown = cli.says("review")
    assert [f"Approved {held[0]}." in shown, held[1] in shown, f"Rejected {held[2]}." in shown] == [True] * 3
    assert [one["id"] for one in cli.json("review", "list")["reviews"]] == [held[1]]


class Terminal:
    """A person sits there."""

    @property
    def stdin(self) -> "Terminal":
        return self

    stdout = stdin

    def isatty(self) -> bool:
        return True


def test_what_stands_in_a_memory_cannot_steer_the_terminal(cli: Cli) -> None:
    text = "Ana \x1b[2Jlikes \u202etea"
    held = cli.json("remember", text, "--approval-required", code=3)["proposal_id"]
    for words in (("review", "show", held), ("review", "list")):
        shown = cli.says(*words)
        assert "\x1b[2J" not in shown
        assert "\u202e" not in shown


def test_rules_are_set_from_a_file_shown_and_tried(cli: Cli, rules: str, tmp_path: Path) -> None:
    cli.remember("Ana likes tea")
    cli.remember("Ana likes rain")
    tried = cli.says("rules", "test", rules)
    assert "tea" in tried
    assert [one["effect"] for one in cli.json("rules", "test", rules)["replayed"]] == ["allow", "hold"]
    cli.says("rules", "set", rules)
    shown = cli.says("rules", "show")
    assert "shipped-bulk-removal" in shown
    assert "content_any" in shown
    assert cli.json("remember", "more tea", code=3)["held_by"] == ["tea"]
    own = cli.json("rules", "show")
    (tmp_path / "rules.json").write_text(json.dumps({"rules": own["rules"]}))
    again = cli.json("rules", "set", str(tmp_path / "rules.json"), "--if-match", own["etag"])
    assert again["rules"] == own["rules"]
    (tmp_path / "empty.toml").write_text("rule = 7")
    assert cli.problem("rules", "set", str(tmp_path / "empty.toml"))["reason"] == "missing_field"
    assert cli.problem("rules", "set", str(tmp_path / "nowhere.toml"))["reason"] == "no_file"
