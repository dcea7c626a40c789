"""Labelled sets as memories and questions. Ours stand beside this file; others are read from a folder and never kept here.

A set is several memories of their own (a conversation, a corpus); each has texts in order of time, and questions with the
texts that answer them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_OWN = Path(__file__).resolve().parent / "corpus"


@dataclass(frozen=True)
class Text:
    """One memory: what `remember_many` takes, and the name that questions call it by."""

    name: str
    item: dict[str, Any]


@dataclass(frozen=True)
class Question:
    """Without gold, nothing that is stored answers it."""

    text: str
    kind: str
    gold: frozenset[str] = frozenset()
    #: Answers that the first hit should contain, where texts are not named.
    answers: tuple[str, ...] = ()
    user_id: str | None = None


@dataclass(frozen=True)
class Part:
    """One memory of a set."""

    name: str
    texts: list[Text] = field(default_factory=list[Text])
    questions: list[Question] = field(default_factory=list[Question])


def own(which: str) -> Iterator[Part]:
    """Facts of several people in one memory; each question is asked within its person's memories."""
    if which == "development":
        found = _read(_OWN / "development.json")
        facts, asked = found["facts"], found["queries"]
    else:
        facts = _read(_OWN / "facts.json")
        asked = _read(_OWN / ("queries.json" if which == "test" else "calibration.json"))
    part = Part(which)
    for fact in facts:
        if isinstance(fact["content"], str):
            item = {"content": fact["content"], "user_id": fact["user_id"], "type": "semantic"}
            part.texts.append(Text(fact["id"], item))
    part.questions.extend(
        Question(one["query"], one["kind"], frozenset(one["gold"]), user_id=one["user_id"]) for one in asked
    )
    yield part


def locomo(file: Path) -> Iterator[Part]:
    """Conversations of two; every turn is a memory."""
    kinds = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop", 5: "adversarial"}
    for conversation in _read(file):
        said: dict[str, Any] = conversation["conversation"]
        part = Part(conversation["sample_id"])
        number = 1
        while f"session_{number}" in said:
            for turn in said[f"session_{number}"]:
                text = turn["text"]
                if caption := turn.get("blip_caption"):
                    text += f" [shares {caption}]"
                part.texts.append(
                    _turn(turn["dia_id"], f"{turn['speaker']}: {text}", f"session {number}", turn["speaker"])
                )
            number += 1
        names = {one.name for one in part.texts}
        for asked in conversation["qa"]:
            gold = frozenset(asked["evidence"]) & names
            kind = kinds[asked["category"]]
            if kind == "adversarial":
                part.questions.append(Question(asked["question"], kind))
            elif gold:
                part.questions.append(Question(asked["question"], kind, gold))
        yield part


def beam(file: Path) -> Iterator[Part]:
    """Long chats with an assistant."""
    for chat in _read(file):
        part = Part(f"chat {chat['chat']}")
        for turn in chat["turns"]:
            part.texts.append(_turn(str(turn["id"]), turn["content"], "chat", turn["role"]))
        for asked in chat["questions"]:
            gold = frozenset(str(one) for one in asked["source_ids"])
            part.questions.append(Question(asked["question"], asked["ability"], gold))
        yield part


def conflicts(file: Path) -> Iterator[Part]:
    """Facts that later ones contradict; the newest is true."""
    for found in _read(file):
        part = Part(found["name"])
        for number, fact in enumerate(found["facts"]):
            part.texts.append(Text(str(number), {"content": fact, "type": "semantic"}))
        part.questions.extend(
            Question(asked["question"], "current", answers=tuple(asked["answers"]))
            for asked in found["questions"]
        )
        yield part


def scenes(file: Path) -> Iterator[Part]:
    """Scenes of several people; all of them are one memory, each with a session of its own."""
    part = Part("scenes")
    for scene in _read(file)["data"]:
        for paragraph in scene["paragraphs"]:
            for line in paragraph["utterances:"]:
                name = f"{scene['title']}:{line['uid']}"
                speaker = " and ".join(line["speakers"])
                part.texts.append(_turn(name, f"{speaker}: {line['utterance']}", scene["title"], speaker))
            for asked in paragraph["qas"]:
                gold = frozenset(f"{scene['title']}:{one['utterance_id']}" for one in asked["answers"])
                part.questions.append(Question(asked["question"], "scene", gold))
    yield part


def sets(data: Path | None) -> dict[str, list[Part]]:
    """Every set that is there, by name."""
    found = {f"own facts, {which}": list(own(which)) for which in ("test", "development")}
    others = {
        "locomo-dev.json": locomo,
        "beam-100k-dev.json": beam,
        "conflicts-dev.json": conflicts,
        "friendsqa-dev.json": scenes,
    }
    for name, read in others.items():
        if data is not None and (data / name).exists():
            found[name.removesuffix(".json")] = list(read(data / name))
    return found


def _turn(name: str, text: str, session: str, speaker: str) -> Text:
    item = {"content": text, "type": "episodic", "session_id": session, "metadata": {"speaker": speaker}}
    return Text(name, item)


def _read(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))
