"""People who work with one memory, and words they use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from quipu import Memory
from quipu.model.principal import Permission, Principal, local

AGENT = frozenset({Permission.READ, Permission.WRITE, Permission.DELETE})
REVIEWER = frozenset({Permission.READ, Permission.REVIEW})


def person(name: str, permissions: frozenset[Permission] = AGENT, **more: Any) -> Principal:
    return replace(local(), name=name, is_local=False, permissions=permissions, **more)


def a_rule(effect: str = "hold", **when: Any) -> dict[str, Any]:
    return {"rules": [{"id": "r", "when": when, "effect": effect, "reason": "because"}]}


class Office:
    """An administrator, an agent without rights over rules, and two reviewers, at one file."""

    def __init__(self, opened: Any, file: Path) -> None:
        self.file, self._opened = file, opened
        self.admin: Memory = opened(file)
        self.agent: Memory = opened(file, principal=person("agent"))
        self.carla: Memory = opened(file, principal=person("carla", REVIEWER))
        self.dario: Memory = opened(file, principal=person("dario", REVIEWER))

    def joined_by(
        self, name: str, permissions: frozenset[Permission] = AGENT, *, agent_id: str = "ana", **more: Any
    ) -> Memory:
        """Somebody else."""
        return self._opened(self.file, principal=person(name, permissions, **more), agent_id=agent_id)


def proposal_of(answer: Any) -> str:
    assert answer.pending_approval
    return str(answer.extensions["proposal_id"])
