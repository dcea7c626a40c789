"""The rules file changes while the memory is open; a broken one never opens the gate."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from quipu import BackendUnavailableError, InvalidError, Memory
from quipu.config import Config
from quipu.model.principal import local
from tests.faces.serving import served
from tests.requirement import requirement

HOLD = "[[rules]]\nid = 'a'\neffect = 'hold'\n"
TEA = "[[rules]]\nid = 'tea'\neffect = 'hold'\nwhen = {content_any = ['tea']}\n"
BROKEN = [
    "",
    "[[rules]\n",
    "[[rules]]\nid = 'a'\neffect = 'allow'\nwhen = {sorces = ['x']}\n",
    "rules = 3\n",
    pytest.param("rules = " + "[" * 100_000, id="nested without end"),
    None,
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "rules.toml"
    made.write_text(HOLD, "utf-8")
    return made


@pytest.fixture
def strict(opened: Any, file: Path) -> Memory:
    memory: Memory = opened(
        config=Config(store_url="sqlite://:memory:", governance_rules=str(file)), stores=None
    )
    return memory


def says(file: Path, text: str | None) -> None:
    """What the file says from now on; None: it is gone."""
    if text is None:
        file.unlink()
    else:
        file.write_text(text, "utf-8")


async def changes(memory: Memory) -> list[list[str]]:
    """What the journal tells of rules of the file."""
    service: Any = await memory._service()
    entries = await service._parts.ledger.entries("default", 0, 1_000)
    told = [entry for entry in entries if entry.detail.get("file")]
    assert {(entry.op.value, entry.actor) for entry in told} <= {("change_rules", "system")}
    return [list(entry.detail["rules"]) for entry in told]


@requirement("memorywire:rest.rules")
async def test_a_changed_file_decides_from_the_next_write_on_and_is_journaled_once(
    strict: Memory, file: Path
) -> None:
    assert (await strict.remember("x")).pending_approval
    assert await changes(strict) == [], "what it was started with is no change"
    says(file, TEA)
    assert not (await strict.remember("x")).pending_approval
    assert (await strict.remember("tea")).extensions["held_by"] == ["tea"]
    assert [rule.id for rule in await strict.rules()][:1] == ["tea"]
    assert await changes(strict) == [["tea"]]
    says(file, f"# the same\n{TEA}")
    assert (await strict.remember("more tea")).pending_approval
    assert await changes(strict) == [["tea"]], "a file that says the same is no change"


@requirement("memorywire:rest.rules")
@pytest.mark.parametrize("broken", BROKEN)
async def test_a_file_that_breaks_leaves_the_last_good_rules_and_says_so(
    strict: Memory, file: Path, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "quipu.governance")
    assert (await strict.remember("x")).pending_approval
    says(file, broken)
    for _ in range(3):
        assert (await strict.remember("x")).extensions["held_by"] == ["a"]
    said = [one for one in caplog.records if one.name == "quipu.governance"]
    assert [one.levelname for one in said] == ["ERROR"], "once, not at every write"
    health: Any = await strict.health()
    assert (health["status"], health["rules"]["status"]) == ("degraded", "stale")
    says(file, TEA)
    assert not (await strict.remember("x")).pending_approval
    health = await strict.health()
    assert health["status"] == "ok"
    assert "rules" not in health
    assert await changes(strict) == [["tea"]]


async def test_a_change_that_could_not_be_journaled_is_told_by_the_next_write(
    strict: Memory, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service: Any = await strict._service()

    async def full(*_: Any, **__: Any) -> None:
        raise BackendUnavailableError("The disk is full.", reason="disk_full")

    says(file, TEA)
    with monkeypatch.context() as patched:
        patched.setattr(service._parts.ledger, "commit", full)
        with pytest.raises(BackendUnavailableError):
            await strict.remember("x")
    await strict.remember("x")
    await strict.remember("y")
    assert await changes(strict) == [["tea"]]


@requirement("memorywire:rest.rules")
def test_a_server_tells_those_who_may_know(tmp_path: Path, file: Path) -> None:
    with served(tmp_path / "memory.db", governance_rules=str(file)) as server:
        says(file, "[[rules]\n")
        with server.client() as admin:
            told = admin.get("/memorywire/v0/health").json()
            assert (told["status"], told["rules"]["status"]) == ("degraded", "stale")
            body = {"agent_id": "ana", "type": "semantic", "content": "x"}
            assert admin.post("/memorywire/v0/remember", json=body).json()["pending_approval"]
        assert server.do(server.service.policies.list(local()))[0].id == "a"


@pytest.mark.parametrize(
    "rule",
    [
        {"id": "\ud800", "effect": "hold"},
        {"id": "a", "effect": "hold", "reason": "odd \ud800"},
        {"id": "a", "effect": "hold", "when": {"content_any": ["\udfff"]}},
        {"id": "a", "effect": "hold", "when": {"content_regex": "\ud800"}},
    ],
    ids=["id", "reason", "phrase", "pattern"],
)
async def test_a_rule_that_no_ledger_can_hold_is_refused(opened: Any, rule: dict[str, Any]) -> None:
    memory: Memory = opened(stores="sqlite://:memory:")
    with pytest.raises(InvalidError) as refused:
        await memory.set_rules({"rules": [rule]})
    assert refused.value.reason == "bad_value"
    assert refused.value.faults[0].pointer.startswith("/rules/0/")
    assert not (await memory.remember("tea")).pending_approval
