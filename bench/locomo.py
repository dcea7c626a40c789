"""LoCoMo: load the conversations, ask every question, measure the share of evidence turns returned.

Rules:
- one turn is one memory; its time is the session's plus one second per turn, so that order is kept;
- an evidence entry may hold several ids ("D8:6; D9:17"): they are split; what is malformed or names an
  absent turn is dropped and counted; a question whose evidence is gone is left out and counted;
- the answer is never read: the measure needs no language model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from bench.metrics import Answer, complete_at, evidence_share, hit_at, mean, ndcg_at, pooled_evidence_share

DEFAULT_DATA = Path(__file__).parent.parent.parent / "shared" / "data"
FILE_NAME = "locomo-dev.json"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
TURN_ID = re.compile(r"D(\d+):(\d+)")
ENTRY_PARTS = re.compile(r"[;,\s]+")


@dataclass(frozen=True)
class Turn:
    """One utterance of a conversation."""

    conversation: str
    session: int
    position: int
    dia_id: str
    speaker: str
    text: str
    caption: str | None
    at: int

    @property
    def session_id(self) -> str:
        return f"{self.conversation}/session_{self.session}"

    @property
    def content(self) -> str:
        """What is stored: the words, and the caption of a shared picture behind them."""
        return f"{self.text} [shared a picture: {self.caption}]" if self.caption else self.text


@dataclass(frozen=True)
class Question:
    """One question with the turns that answer it."""

    conversation: str
    text: str
    category: int
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Conversation:
    """All turns in order, and the questions about them."""

    id: str
    turns: Sequence[Turn]
    questions: Sequence[Question]


@dataclass
class Dropped:
    """How much of the labels could not be used."""

    malformed: int = 0
    absent: int = 0
    without_evidence: int = 0


class System(Protocol):
    """What is measured: it stores the turns of a conversation and finds turns for a question."""

    async def ingest(self, turns: Sequence[Turn]) -> None: ...

    async def search(self, conversation: str, question: str, k: int) -> Sequence[str]:
        """Up to k dia_ids, best first."""
        ...


def session_time(text: str) -> int:
    """'1:56 pm on 8 May, 2023' as milliseconds UTC."""
    return int(
        datetime.strptime(text.strip(), "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC).timestamp() * 1000
    )


def evidence_ids(entries: Sequence[str], present: set[str], dropped: Dropped) -> tuple[str, ...]:
    """The usable ids of a question's evidence, each once; counts what it drops."""
    found: dict[str, None] = {}
    for entry in entries:
        for part in filter(None, ENTRY_PARTS.split(entry)):
            match = TURN_ID.fullmatch(part)
            if match is None:
                dropped.malformed += 1
                continue
            one = f"D{int(match[1])}:{int(match[2])}"
            if one in present:
                found[one] = None
            else:
                dropped.absent += 1
    return tuple(found)


def _turns(sample: dict[str, Any]) -> list[Turn]:
    """The turns of one sample, in order."""
    talk = sample["conversation"]
    numbers = sorted(int(key.removeprefix("session_")) for key in talk if re.fullmatch(r"session_\d+", key))
    rows: list[Turn] = []
    for number in numbers:
        start = session_time(talk[f"session_{number}_date_time"])
        for position, turn in enumerate(talk[f"session_{number}"]):
            caption = turn.get("blip_caption")
            at = start + position * 1000
            rows.append(
                Turn(
                    sample["sample_id"],
                    number,
                    position,
                    turn["dia_id"],
                    turn["speaker"],
                    turn["text"],
                    caption,
                    at,
                )
            )
    return rows


def load(data: Path | None = None) -> tuple[list[Conversation], Dropped]:
    """All conversations of the file in `data`, and how much of the labels was dropped."""
    path = data or DEFAULT_DATA
    path = path / FILE_NAME if path.is_dir() else path
    dropped = Dropped()
    loaded: list[Conversation] = []
    for sample in json.loads(path.read_text(encoding="utf-8")):
        turns = _turns(sample)
        present = {turn.dia_id for turn in turns}
        questions: list[Question] = []
        for entry in sample["qa"]:
            evidence = evidence_ids(entry.get("evidence", []), present, dropped)
            if evidence:
                questions.append(
                    Question(sample["sample_id"], entry["question"], entry["category"], evidence)
                )
            else:
                dropped.without_evidence += 1
        loaded.append(Conversation(sample["sample_id"], turns, questions))
    return loaded, dropped


async def asked(
    system: System,
    conversations: Sequence[Conversation],
    *,
    k: int = 25,
    limit: int | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> list[Answer]:
    """Asks every question, at most `limit` of each conversation, once with the largest k."""
    found: list[Answer] = []
    for conversation in conversations:
        note(f"locomo: questions of {conversation.id}")
        for question in conversation.questions[:limit]:
            ranked = await system.search(conversation.id, question.text, k)
            found.append(Answer(CATEGORIES[question.category], list(ranked), question.evidence))
    return found


async def answers(
    system: System,
    conversations: Sequence[Conversation],
    *,
    k: int = 25,
    limit: int | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> list[Answer]:
    """Stores every conversation, then asks the questions."""
    for conversation in conversations:
        note(f"locomo: turns of {conversation.id}")
        await system.ingest(conversation.turns)
    return await asked(system, conversations, k=k, limit=limit, note=note)


def report(found: Sequence[Answer], ks: Sequence[int] = (5, 10, 25)) -> dict[str, Any]:
    """Evidence share by category and pooled, the any/all/nDCG view, and how often nothing came back."""
    asked = [one for one in found if one.kind != "adversarial"]
    twisted = [one for one in found if one.kind == "adversarial"]
    return {
        "evidence": dict(evidence_share(found, ks)),
        "pooled": {f"@{k}": pooled_evidence_share(found, k) for k in ks},
        "any": {f"@{k}": mean(hit_at(one.ranked, one.gold, k) for one in found) for k in ks},
        "complete": {f"@{k}": mean(complete_at(one.ranked, one.gold, k) for one in found) for k in ks},
        "ndcg": {f"@{k}": mean(ndcg_at(one.ranked, one.gold, k) for one in found) for k in ks},
        "empty_adversarial": mean(float(not one.ranked) for one in twisted),
        "empty_answerable": mean(float(not one.ranked) for one in asked),
    }
