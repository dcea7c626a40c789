"""What `--json` prints is what the published schemas say, for every command that answers in one of their forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quipu.faces.memorywire.schemas import names
from tests.cli.conftest import Cli
from tests.cli.published import valid

MACHINE = {
    "name": "return",
    "initial": "asked",
    "states": ["asked", "sent"],
    "transitions": [{"trigger": "send", "source": "asked", "dest": "sent"}],
}


class Full:
    """A memory in which everything is that a command can show."""

    def __init__(self, cli: Cli, home: Path) -> None:
        self.cli, self.home = cli, home
        self.name = cli.remember("Mara lives in Lisbon", "--tag", "home")
        cli.remember("Mara lives in Porto", "--id", self.name)
        self.gone = cli.remember("Ilir prefers trains")
        cli.json("forget", "--id", self.gone, "--reason", "he flies now")
        self.erased = cli.remember("a secret")
        cli.json("forget", "--id", self.erased, "--hard", "--yes")
        self.episode = cli.remember("They met in Rome", "--type", "episodic")
        self.feeling = cli.remember("Mara was glad", "--type", "emotional")
        self.machine = cli.remember(json.dumps(MACHINE), "--type", "procedural")
        self.twin = cli.remember("Mara lives in Porto, they say")

    def held(self) -> str:
        """The id of a write that waits."""
        return str(self.cli.json("remember", "Mara is vegetarian", "--approve", code=3)["approval_url"])


@pytest.fixture
def full(cli: Cli, home: Path) -> Full:
    return Full(cli, home)


Answer = Callable[[Full], Any]
#: Schema → what is printed in its form.
DOCUMENTS: dict[str, list[Answer]] = {
    "operations/remember.response": [
        lambda full: full.cli.json("remember", "Mara drinks tea"),
        lambda full: full.cli.json("remember", "Mara lives in Faro", "--id", full.name),
    ],
    "operations/recall.response": [
        lambda full: full.cli.json("recall", "where does Mara live?"),
        lambda full: full.cli.json("recall", "nothing of the kind"),
        lambda full: full.cli.json("recall", "Mara", "--explain"),
    ],
    "operations/forget.response": [
        lambda full: full.cli.json("forget", "--id", full.twin),
        lambda full: full.cli.json("forget", "--id", full.twin, "--dry-run"),
    ],
    "operations/merge.response": [lambda full: full.cli.json("merge", full.name, full.twin)],
    "operations/expire.response": [
        lambda full: full.cli.json("expire", "--older-than-days", "1", "--dry-run")
    ],
    "operations/import.response": [
        lambda full: full.cli.json("import", "-", input='{"content": "Mara rows"}\n'),
        lambda full: full.cli.json("import", "-", "--dry-run", input='{"content": "Mara rows"}\n'),
    ],
    "types/semantic": [
        lambda full: full.cli.json("show", full.name),
        lambda full: full.cli.json("list", "--type", "semantic")["records"][0],
    ],
    "types/episodic": [lambda full: full.cli.json("show", full.episode)],
    "types/emotional": [lambda full: full.cli.json("show", full.feeling)],
    "types/procedural": [lambda full: full.cli.json("show", full.machine)],
    "history": [
        lambda full: full.cli.json("history", full.name),
        lambda full: full.cli.json("history", full.gone),
        lambda full: full.cli.json("history", full.erased),
        lambda full: full.cli.json("history", full.machine),
    ],
    "procedure": [lambda full: full.cli.json("show", full.machine)["content"]],
    "change": [lambda full: full.cli.lines("changes", "--since", "0", "--limit", "3")[-1]],
    "health": [lambda full: full.cli.json("health")],
    "capabilities": [lambda full: full.cli.json("capabilities")],
    "governance/review": [lambda full: full.cli.json("review", "show", full.held())],
    "governance/decision.response": [
        lambda full: full.cli.json("review", "approve", full.held()),
        lambda full: full.cli.json("review", "reject", full.held(), "--reason", "no"),
    ],
    "governance/reviews": [lambda full: (full.held(), full.cli.json("review", "list"))[1]],
    "governance/rules": [lambda full: full.cli.json("rules", "show")],
    "problem": [
        lambda full: full.cli.problem("show", "mem_01J9V8B7HM3K8E2A0M9R8F0XZT"),
        lambda full: full.cli.problem("recall", "tea", "--filter", '{"$no": 1}'),
        lambda full: full.cli.problem("list", "--store-url", "sqlite:///nowhere/at/all.db"),
        lambda full: full.cli.problem("forget", "--filter", "{}"),
        lambda full: full.cli.problem("verify", "--export", "nowhere"),
        lambda full: full.cli.problem("remember", "x", "--type", "no-type"),
    ],
}
#: Schemas in whose form no command answers: requests, and pages that a server cuts a long answer into.
ELSEWHERE = [
    *("filter", "governance/decision"),
    "audit",  # `audit log` tells a stretch of the journal, and signs nothing
    *(f"operations/{name}" for name in ("remember", "recall", "forget", "merge", "expire")),
    *("operations/remember_batch", "operations/remember_batch.response"),
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_has_its_published_form(full: Full, name: str) -> None:
    for answer in DOCUMENTS[name]:
        valid(name, answer(full))


def test_it_is_said_of_every_schema_which_command_prints_it() -> None:
    assert sorted([*DOCUMENTS, *ELSEWHERE]) == sorted(names())
