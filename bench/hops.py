"""What `hops` is worth: LoCoMo's questions asked with 0 to 3 hops, evidence found by category.

`python -m bench.hops [--data FOLDER] [--multi-hop] [--conversations N] [--questions N]` prints the table; as the part `hops` of a
run it is written with the others. A difference is told with the interval of a paired bootstrap over the questions:
one that holds 0 is no difference. Only what is found is ranked anew, so a gain at k means that the right turn stood
below it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import locomo
from bench.metrics import Answer, latency_summary, mean, recall_at
from bench.quipu_side import QuipuLocomo
from quipu.bootstrap import open_embedder
from quipu.config import Config
from quipu.rules.links import RELATED_TO
from quipu.rules.policy_relations import SAME_MATTER, relation

HOPS = (0, 1, 2, 3)
KS = (5, 10, 25)
DEPTH = 25
MULTI_HOP = 1
RESAMPLES = 2_000
SEED = 2025


@dataclass(frozen=True)
class Setting:
    """How turns are kept: which links hops can walk."""

    name: str
    #: Beside the turns of its own session.
    in_sessions: bool = True
    #: To the nearest earlier turn of the same matter in another session, as consolidation links what it promotes.
    is_linked: bool = False


SETTINGS = (
    Setting("turns in sessions"),
    Setting("turns in sessions, linked by matter", is_linked=True),
    Setting("facts without sessions, linked by matter", in_sessions=False, is_linked=True),
)


class Hopping(QuipuLocomo):
    """LoCoMo on Quipu with links and a number of hops."""

    def __init__(self, path: Path, setting: Setting, embedder: Any) -> None:
        super().__init__(path, apart_by="agent", embedder=embedder)
        self.setting, self.hops, self._given = setting, 0, embedder
        self._edges: dict[str, frozenset[str]] = {}

    @property
    def links(self) -> int:
        return len(self._edges)

    async def ingest(self, turns: Sequence[locomo.Turn]) -> None:
        memory = await self.memory(turns[0].conversation)
        related = await self._related(turns) if self.setting.is_linked else {}
        for one, other in related.items():
            self._edges[_id(turns[0].conversation, one)] = frozenset({_id(turns[0].conversation, other)})
        lines = [self._line(turn, related.get(turn.dia_id)) for turn in turns]
        done = await memory.import_records(lines)
        if done.stored != len(turns):
            raise RuntimeError(f"{len(turns) - done.stored} turns could not be stored")

    def _line(self, turn: locomo.Turn, to: str | None) -> dict[str, Any]:
        line: dict[str, Any] = {
            "id": _id(turn.conversation, turn.dia_id),
            "agent_id": turn.conversation,
            "type": "episodic",
            "content": turn.content,
            "metadata": {"speaker": turn.speaker, "dia_id": turn.dia_id},
            "event_time": turn.at,
            "created_at": turn.at,
        }
        if self.setting.in_sessions:
            line["session_id"] = turn.session_id
        if to is not None:
            line["links"] = [{"to": _id(turn.conversation, to), "rel": RELATED_TO}]
        return line

    async def _related(self, turns: Sequence[locomo.Turn]) -> dict[str, str]:
        """For each turn the nearest earlier one of another session, where both are of the same matter."""
        made = await self._given.embed([turn.content for turn in turns])
        vectors = np.stack([np.frombuffer(vector, "<f4") for vector in made])
        sessions = np.array([turn.session for turn in turns])
        found: dict[str, str] = {}
        for place in range(1, len(turns)):
            near = vectors[:place] @ vectors[place]
            near[sessions[:place] == sessions[place]] = -1.0
            best = int(near.argmax())
            texts = (turns[place].content, turns[best].content)
            if near[best] >= SAME_MATTER and relation(*texts, float(near[best])) != "conflict":
                found[turns[place].dia_id] = turns[best].dia_id
        return found

    async def search(self, conversation: str, question: str, k: int) -> Sequence[str]:
        memory = await self.memory(conversation)
        started = time.perf_counter()
        hits = list(await memory.recall(question, k=k, min_relevance=self.floor, hops=self.hops))
        self.millis.append((time.perf_counter() - started) * 1000)
        return [hit.metadata["dia_id"] for hit in hits]


def _id(conversation: str, dia_id: str) -> str:
    return f"mem_{conversation}-{dia_id.replace(':', '-')}"


async def measured(
    folder: Path,
    data: Path | None = None,
    *,
    conversations: int | None = None,
    questions: int | None = None,
    only_multi_hop: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Each setting's evidence by hops, category and k, and what each number of hops gains over none."""
    loaded, _ = locomo.load(data)
    if only_multi_hop:
        loaded = [
            replace(one, questions=[q for q in one.questions if q.category == MULTI_HOP]) for one in loaded
        ]
    embedder = await open_embedder(Config())
    try:
        return {
            setting.name: await _measured(
                Hopping(folder / f"hops-{place}.db", setting, embedder),
                loaded[:conversations],
                questions,
                note,
            )
            for place, setting in enumerate(SETTINGS)
        }
    finally:
        if embedder is not None:
            await embedder.close()


async def _measured(
    system: Hopping,
    chosen: Sequence[locomo.Conversation],
    questions: int | None,
    note: Callable[[str], None],
) -> dict[str, Any]:
    found: dict[int, list[Answer]] = {}
    latency: dict[str, Any] = {}
    try:
        for conversation in chosen:
            note(f"hops: {conversation.id}, {system.setting.name}")
            await system.ingest(conversation.turns)
        for many in HOPS:
            system.hops, system.millis = many, []
            found[many] = await locomo.asked(system, chosen, k=DEPTH, limit=questions)
            latency[str(many)] = latency_summary(system.millis)
    finally:
        await system.close()
    kinds = ["multi-hop", *sorted({one.kind for one in found[0]} - {"multi-hop"})]
    return {
        "links": system.links,
        "questions": {kind: sum(one.kind == kind for one in found[0]) for kind in kinds},
        "evidence": {
            kind: {str(many): {f"@{k}": _share(found[many], kind, k) for k in KS} for many in HOPS}
            for kind in kinds
        },
        "gain": {
            kind: {str(many): {f"@{k}": _gain(found, many, kind, k) for k in KS} for many in HOPS[1:]}
            for kind in kinds
        },
        "recall_ms": latency,
    }


def _share(found: Sequence[Answer], kind: str, k: int) -> float:
    return mean(recall_at(one.ranked, one.gold, k) for one in found if one.kind == kind)


def _gain(found: dict[int, list[Answer]], many: int, kind: str, k: int) -> dict[str, float]:
    """The mean difference to no hops, with the middle 95 % of its resamples."""
    pairs = [
        recall_at(after.ranked, after.gold, k) - recall_at(before.ranked, before.gold, k)
        for before, after in zip(found[0], found[many], strict=True)
        if before.kind == kind
    ]
    if not pairs:
        return {"mean": 0.0, "low": 0.0, "high": 0.0}
    dice = random.Random(SEED)
    means = sorted(sum(dice.choices(pairs, k=len(pairs))) / len(pairs) for _ in range(RESAMPLES))
    return {
        "mean": sum(pairs) / len(pairs),
        "low": means[int(0.025 * RESAMPLES)],
        "high": means[int(0.975 * RESAMPLES) - 1],
    }


def section(result: Mapping[str, Any]) -> list[str]:
    """The result as lines of Markdown."""
    lines = [
        "## What hops are worth: LoCoMo, share of evidence turns returned",
        "",
        "In brackets: more than without hops, and the middle 95 % of a paired bootstrap over the questions.",
        "",
    ]
    for name, part in result.items():
        lines += [f"### {name[0].upper()}{name[1:]} ({part['links']:,} links)", "", *_table(part), ""]
    return lines


def _table(part: Mapping[str, Any]) -> list[str]:
    lines = ["| category | hops | " + " | ".join(f"@{k}" for k in KS) + " |", "|---|---|" + "---|" * len(KS)]
    for kind, by_hops in part["evidence"].items():
        for many, shares in by_hops.items():
            cells = [
                f"{shares[f'@{k}']:.4f}{_more(part['gain'][kind].get(many, {}).get(f'@{k}'))}" for k in KS
            ]
            lines.append(f"| {kind} ({part['questions'][kind]}) | {many} | " + " | ".join(cells) + " |")
    return lines


def _more(gain: dict[str, float] | None) -> str:
    if gain is None:
        return ""
    return f" ({gain['mean']:+.4f}, {gain['low']:+.4f} to {gain['high']:+.4f})"


def main() -> None:
    """Reads the options, runs, prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.hops", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of locomo-dev.json")
    parser.add_argument("--conversations", type=int, help="only so many")
    parser.add_argument("--questions", type=int, help="only so many of each conversation")
    parser.add_argument("--multi-hop", action="store_true", help="only the multi-hop questions")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quipu-hops-") as folder:
        found = asyncio.run(
            measured(
                Path(folder),
                given.data,
                conversations=given.conversations,
                questions=given.questions,
                only_multi_hop=given.multi_hop,
            )
        )
    print("\n".join(section(found)))


if __name__ == "__main__":
    main()
