"""Labelled sets as memories and questions. Ours stand in bench/corpus; others are read from a folder and never kept here.

A set is several memories of their own (a conversation, a corpus); each has texts in order of time, and questions with the
texts that answer them.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import ijson

_OWN = Path(__file__).resolve().parents[1] / "corpus"


@dataclass(frozen=True)
class Text:
    """One memory: what `remember_many` takes, and the name that questions call it by."""

    name: str
    item: dict[str, Any]

    @property
    def content(self) -> str:
        return self.item["content"]

    @property
    def session(self) -> str | None:
        return self.item.get("session_id")


@dataclass(frozen=True)
class Question:
    """Without gold and answers, nothing that is stored answers it."""

    text: str
    kind: str
    #: Names of the texts that answer it.
    gold: frozenset[str] = frozenset()
    #: Answers of which a right hit holds one, where texts are not named.
    answers: tuple[str, ...] = ()
    #: Sessions that hold an answer, where a set is asked for sessions too.
    sessions: frozenset[str] = frozenset()
    #: Of a fact that was updated: the texts that state it as it is, and as it was.
    newer: frozenset[str] = frozenset()
    older: frozenset[str] = frozenset()
    user_id: str | None = None

    @property
    def is_answerable(self) -> bool:
        return bool(self.gold or self.answers)


@dataclass(frozen=True)
class Part:
    """One memory of a set."""

    name: str
    texts: list[Text] = field(default_factory=list[Text])
    questions: list[Question] = field(default_factory=list[Question])


Parts: TypeAlias = Callable[[], Iterable[Part]]

# -- ours -----------------------------------------------------------------------------------------------------------


def own(facts: str, questions: str) -> Iterator[Part]:
    """Facts of several people in one memory; each question is asked within its person's memories."""
    found = _read(_OWN / facts)
    part = Part(questions)
    for fact in found["facts"] if isinstance(found, dict) else found:
        if isinstance(fact["content"], str):
            item = {"content": fact["content"], "user_id": fact["user_id"], "type": "semantic"}
            part.texts.append(Text(fact["id"], item))
    asked = _read(_OWN / questions)
    part.questions.extend(
        Question(one["query"], one["kind"], frozenset(one["gold"]), user_id=one["user_id"])
        for one in (asked["queries"] if isinstance(asked, dict) else asked)
    )
    yield part


# -- others ---------------------------------------------------------------------------------------------------------


def locomo(file: Path) -> Iterator[Part]:
    """Conversations of two; every turn is a memory. Of the adversarial questions none is answered as it is asked."""
    kinds = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop", 5: "adversarial"}
    for conversation in _read(file):
        said: dict[str, Any] = conversation["conversation"]
        part = Part(conversation["sample_id"])
        number = 1
        while f"session_{number}" in said:
            time = _moment(said[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
            for turn in said[f"session_{number}"]:
                text = f"{turn['speaker']}: {turn['text']}"
                if caption := turn.get("blip_caption"):
                    text += f" [shares {caption}]"
                part.texts.append(
                    _turn(turn["dia_id"], text, f"session {number}", time, speaker=turn["speaker"])
                )
            number += 1
        names = {one.name for one in part.texts}
        for asked in conversation["qa"]:
            gold = frozenset(asked["evidence"]) & names
            kind = kinds[asked["category"]]
            if kind == "adversarial":
                part.questions.append(Question(asked["question"], kind))
            elif gold:  # some name turns that are not there
                part.questions.append(Question(asked["question"], kind, gold))
        yield part


def beam(file: Path) -> Iterator[Part]:
    """Long chats with an assistant. A time stands with few turns, and holds until the next one."""
    for chat in _read(file):
        part = Part(f"chat {chat['chat']}")
        time = None
        for turn in chat["turns"]:
            if turn["time"]:
                time = _moment(turn["time"], "%B-%d-%Y")
            part.texts.append(_turn(str(turn["id"]), turn["content"], "chat", time, role=turn["role"]))
        for asked in chat["questions"]:
            gold, newer, older = (
                frozenset(str(one) for one in asked.get(ids, ()))
                for ids in ("source_ids", "updated_ids", "original_ids")
            )
            # One that names no source is unanswerable only where it is meant to be.
            if gold or asked["ability"] == "abstention":
                part.questions.append(
                    Question(asked["question"], asked["ability"], gold, newer=newer, older=older)
                )
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


def friendsqa(file: Path) -> Iterator[Part]:
    """Scenes of several people; all of them are one memory, each with a session of its own."""
    part = Part("scenes")
    for scene in _read(file)["data"]:
        title = scene["title"]
        for paragraph in scene["paragraphs"]:
            for line in paragraph["utterances:"]:
                speaker = " and ".join(line["speakers"])
                text = f"{speaker}: {line['utterance']}"
                part.texts.append(_turn(f"{title}:{line['uid']}", text, title, None, speaker=speaker))
            for asked in paragraph["qas"]:
                gold = frozenset(f"{title}:{one['utterance_id']}" for one in asked["answers"])
                part.questions.append(Question(asked["question"], "scene", gold))
    yield part


def longmemeval(file: Path) -> Iterator[Part]:
    """One of LongMemEval's published files: each question has a history of sessions of its own.

    Evidence are turns and sessions; of a question whose id ends in `_abs` nothing tells the answer. The file is read
    piece by piece, since the longest of them has gigabytes.
    """
    with file.open("rb") as opened:
        for asked in ijson.items(opened, "item", use_float=True):
            part = Part(asked["question_id"])
            gold: set[str] = set()
            for session, date, turns in zip(
                asked["haystack_session_ids"],
                asked["haystack_dates"],
                asked["haystack_sessions"],
                strict=True,
            ):
                time = _moment(_without_weekday(date), "%Y/%m/%d %H:%M")
                for number, turn in enumerate(turns):
                    name = f"{session}:{number}"
                    part.texts.append(_turn(name, turn["content"], session, time, role=turn["role"]))
                    if turn.get("has_answer"):
                        gold.add(name)
            question = Question(asked["question"], "abstention")
            if not asked["question_id"].endswith("_abs"):
                sessions = frozenset(asked["answer_session_ids"])
                question = replace(
                    question, kind=asked["question_type"], gold=frozenset(gold), sessions=sessions
                )
            part.questions.append(question)
            yield part


_FILES: dict[str, Callable[[Path], Iterator[Part]]] = {
    "locomo-dev": locomo,
    "beam-100k-dev": beam,
    "conflicts-dev": conflicts,
    "friendsqa-dev": friendsqa,
}
#: By name: facts and questions.
_CORPORA = {
    "own-development": ("development.json", "development.json"),
    "own-calibration": ("facts.json", "calibration.json"),
    "own-test": ("facts.json", "queries.json"),
}
#: Looked at last, and once: only where it is named.
_HELD_BACK = "own-test"


def sets(
    data: Path | None = None, chosen: Sequence[str] = (), most: int = 0, long_file: Path | None = None
) -> dict[str, Parts]:
    """Every set that is there, or those that are chosen, by name; each read anew by each call of it.

    `most` is how many questions are taken of each, 0 for all. `long_file` is a file of LongMemEval's.
    """
    found: dict[str, Parts] = {name: partial(own, *files) for name, files in _CORPORA.items()}
    for name, read in _FILES.items():
        if data is not None and (data / f"{name}.json").exists():
            found[name] = partial(read, data / f"{name}.json")
    if long_file is not None:
        found["longmemeval"] = partial(longmemeval, long_file)
    unknown = [name for name in chosen if name not in found]
    if unknown:
        raise SystemExit(f"no such set: {', '.join(unknown)}; there are {', '.join(found)}")
    wanted = chosen or [name for name in found if name != _HELD_BACK]
    return {name: partial(_cut, found[name], most) if most else found[name] for name in wanted}


def digests(data: Path | None, names: Iterable[str], long_file: Path | None = None) -> dict[str, str]:
    """The first digits of the SHA-256 of each set's files."""
    found: dict[str, str] = {}
    for name in names:
        digest = sha256()
        files = [_OWN / one for one in dict.fromkeys(_CORPORA.get(name, ()))]
        if name == "longmemeval" and long_file is not None:
            files = [long_file]
        elif not files and data is not None:
            files = [data / f"{name}.json"]
        for file in files:
            digest.update(file.read_bytes())
        found[name] = digest.hexdigest()[:12]
    return found


def _cut(parts: Parts, most: int) -> Iterator[Part]:
    """So many questions: parts as they come, and from the last one some of each kind; memories stay whole."""
    left = most
    for part in parts():
        if left <= 0:
            return
        yield replace(part, questions=_of_each_kind(part.questions, left))
        left -= len(part.questions)


def _of_each_kind(questions: list[Question], most: int) -> list[Question]:
    """So many, in turn one of each kind."""
    seen: Counter[str] = Counter()
    order: list[tuple[int, int]] = []
    for place, one in enumerate(questions):
        order.append((seen[one.kind], place))
        seen[one.kind] += 1
    return [questions[place] for _, place in sorted(order)[:most]]


def _turn(name: str, text: str, session: str, time: int | None, **metadata: str) -> Text:
    item: dict[str, Any] = {"content": text, "type": "episodic", "session_id": session, "metadata": metadata}
    if time is not None:
        item["event_time"] = time
    return Text(name, item)


def _moment(text: str, form: str) -> int:
    """Milliseconds since 1970, in universal time."""
    return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() * 1000)


def _without_weekday(date: str) -> str:
    """`2023/05/20 (Sat) 02:21` without the part in parentheses."""
    day, _, time = date.split()
    return f"{day} {time}"


def _read(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))
