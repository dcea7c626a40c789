"""`quipu procedure`: show, step, check, draw, history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.procedures.machines import EVIL, PARCEL


@pytest.fixture
def parcel(cli: Cli) -> str:
    return str(cli.json("remember", "-", "--type", "procedural", input=json.dumps(PARCEL))["id"])


def test_a_procedure_is_shown_stepped_and_remembered(cli: Cli, parcel: str) -> None:
    said = cli.said("procedure", "show", parcel)
    assert "in state  asked" in said
    assert "can do    label, drop" in said
    assert "asks for  goods_intact" in said
    assert "labelled  version 2" in cli.said("procedure", "step", parcel, "label")
    assert cli.json("procedure", "step", parcel, "ship")["current"] == "shipped"
    assert cli.problem("procedure", "step", parcel, "refund")["reason"] == "invalid_trigger"
    tried = cli.said("procedure", "step", parcel, "refund", "--fact", "goods_intact", "--try")
    assert "would be refunded  version 3" in tried
    refused = cli("procedure", "step", parcel, "refund", "--fact", "goods_intact=false")
    assert refused.exit_code == 1
    assert cli.json("procedure", "step", parcel, "refund", "--fact", "goods_intact")["version"] == 4
    life = cli.json("procedure", "history", parcel)["life"]
    assert [one.get("trigger") for one in life] == [None, "label", "ship", "refund"]
    table = cli.said("procedure", "history", parcel)
    assert "goods_intact" in table
    assert "(written)" in table


def test_a_replay_is_only_told_unless_it_is_kept(cli: Cli, parcel: str) -> None:
    words = ("procedure", "step", parcel, "--replay", "label", "--replay", "ship")
    assert "would be shipped" in cli.said(*words)
    assert cli.json(*words, "--keep")["version"] == 2
    assert cli("procedure", "step", parcel, "drop", "--try", "--keep").exit_code == 1
    assert cli("procedure", "step", parcel).exit_code == 1


def test_a_step_may_be_held(cli: Cli, parcel: str) -> None:
    said = cli.said("procedure", "step", parcel, "label", "--approve", code=3)
    assert "Held for approval" in said
    assert "asked" in cli.said("procedure", "show", parcel)


def test_drawings_for_people_and_for_graphviz(cli: Cli, parcel: str) -> None:
    cli.said("procedure", "step", parcel, "label")
    drawn = cli.said("procedure", "draw", parcel)
    assert "* labelled" in drawn
    assert "refund [goods_intact] -> refunded" in drawn
    assert "from anywhere: drop -> dropped" in drawn
    dot = cli.said("procedure", "draw", parcel, "--dot")
    assert dot.startswith('digraph "return-parcel" {')
    assert '"shipped" -> "refunded" [label="refund [goods_intact]"];' in dot
    assert '"labelled" [style=filled];' in dot


def test_a_machine_is_checked_before_it_is_remembered(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_text(json.dumps({**PARCEL, "states": [*PARCEL["states"], "lost"]}), "utf-8")
    assert "is a machine: 6 states, 4 transitions" in cli.said("procedure", "check", str(file))
    assert cli.json("procedure", "check", str(file))["unreachable"] == ["lost"]
    for machine in EVIL.values():
        told = cli.problem("procedure", "check", "-", input=json.dumps(machine))
        assert told["code"] == "validation_error"
        assert told["errors"]
    assert cli("procedure", "check", "-", input="no json").exit_code == 1
    assert cli("procedure", "check", str(tmp_path / "none.json")).exit_code == 1


def test_bad_words_are_refused(cli: Cli, parcel: str) -> None:
    assert cli("procedure", "step", parcel, "label", "--fact", "x=maybe").exit_code == 1
    assert cli("procedure", "step", parcel, "label", "--fact", "=true").exit_code == 1
    assert cli("procedure", "show", "mem_none").exit_code == 1
    words = cli.remember("no machine")
    assert cli.problem("procedure", "show", words)["reason"] == "type_mismatch"
