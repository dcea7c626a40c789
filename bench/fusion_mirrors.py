"""Fusion under attack, real stores: a ledger, an honest mirror and a rogue one."""

from __future__ import annotations

import statistics
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import labelled
from bench.fusion_stubs import K, Measured
from quipu import bootstrap
from quipu.backends.guarded import GuardedBackend, Patience
from quipu.backends.ledgers import LedgerBackend
from quipu.config import Config
from quipu.crypto.canonical import canonical
from quipu.model.operations import ForgetRequest, Fusion, RecallRequest, RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.ports.backend import Answer, Mirror, NativeHit, Query, Routing
from quipu.ports.embedder import Embedder
from quipu.service.memory import MemoryService
from quipu.testing.backend.shelf import ShelfBackend


class RogueShelf(ShelfBackend):
    """A mirror that lies about what it holds."""

    def __init__(self, attack: str, size: int) -> None:
        super().__init__()
        self.attack, self.size = attack, size
        self.ghosts: list[NativeHit] = []

    async def search(self, query: Query, limit: int) -> Answer:
        honest = (await super().search(query, limit)).hits
        wrong = [
            NativeHit(native_id=name, score=1.0, text=copy.content)
            for name, copy in self.kept.items()
            if name not in {hit.native_id for hit in honest[:K]}
        ][: self.size]
        match self.attack:
            case "invent":
                lies = [NativeHit(native_id=f"x{n}", score=1.0, text=query.text) for n in range(self.size)]
            case "scores":
                lies = [NativeHit(native_id=f"x{n}", score=1e9, text="zzz") for n in range(self.size)]
            case "existing":
                return Answer(hits=tuple(wrong), is_filtered=True)
            case "omitted":  # what the others find as well, without what is best
                return Answer(hits=honest[K:], is_filtered=True)
            case "altered":
                lies = [replace(hit, text=f"altered {hit.text}") for hit in honest[: self.size]]
            case "ghosts":
                lies = self.ghosts[: self.size]
            case _:
                lies = []
        return Answer(hits=(*lies, *honest)[:limit], is_filtered=True)


@dataclass(slots=True)
class Stores:
    """A service over a ledger, an honest mirror and a rogue one, filled with facts."""

    service: MemoryService
    rogue: RogueShelf
    ids: dict[str, str]

    async def top(self, question: labelled.Query, method: Fusion, **fields: Any) -> list[Any]:
        request = RecallRequest(
            agent_id="bench", query=question.query, user_id=question.user_id, k=K, fusion=method, **fields
        )
        return list((await self.service.recall(local(), request)).results)


@asynccontextmanager
async def stores(
    folder: Path,
    embedder: Embedder,
    facts: Sequence[labelled.Fact],
    attack: str,
    size: int,
    *,
    trims: bool = True,
    has_own_contents: bool = False,
) -> AsyncGenerator[Stores]:
    """Open and fill them; everything is delivered when this returns. The rogue may be said to hold more than copies."""
    running = await bootstrap.start(Config(store_url=f"sqlite://{folder / 'memory.db'}"), embedder=embedder)
    honest = LedgerBackend(
        partial(bootstrap.open_ledger, bootstrap.address(f"sqlite://{folder / 'honest.db'}"), Config()),
        embedder=embedder,
        clock=bootstrap.now_ms,
        mint_salt=bootstrap.mint_salt,
        canonical=canonical,
    )
    rogue = RogueShelf("", size)
    patience = Patience(search_s=30.0)
    parts = replace(
        running.parts,
        recall_budget=None,
        mirrors=(
            Mirror(
                name="a-rogue",
                backend=GuardedBackend("a-rogue", rogue, patience=patience),
                has_own_contents=has_own_contents,
            ),
            Mirror(name="honest", backend=GuardedBackend("honest", honest, patience=patience)),
        ),
        routing=Routing(deadline_ms=60_000, trim_votes=trims),
    )
    service = MemoryService(parts, "bench")
    try:
        await service.open(local().tenant)
        ids = await _filled(service, facts, rogue)
        rogue.attack = attack
        yield Stores(service, rogue, ids)
    finally:
        await service.close()
        await running.close()


async def _filled(
    service: MemoryService, facts: Sequence[labelled.Fact], rogue: RogueShelf
) -> dict[str, str]:
    requests = [
        RememberRequest(
            agent_id="bench",
            user_id=fact.user_id,
            type=MemoryType(fact.type),
            content=fact.content,
            details=fact.details,
        )
        for fact in facts
    ]
    done = [
        one for one in await service.remember_many(local(), requests) if isinstance(one, RememberResponse)
    ]
    await service.mirrors.drained(local().tenant)
    await _haunted(service, rogue)
    return {fact.id: answer.id for fact, answer in zip(facts, done, strict=True)}


async def _haunted(service: MemoryService, rogue: RogueShelf) -> None:
    """Forgotten and pending memories that the rogue will show all the same."""
    gone = RememberRequest(agent_id="bench", type=MemoryType.SEMANTIC, content="a forgotten memory")
    done = await service.remember(local(), gone)
    await service.mirrors.drained(local().tenant)
    natives = {copy.record_id: name for name, copy in rogue.kept.items()}
    rogue.ghosts = [NativeHit(native_id=natives[done.id], score=1.0, text="a forgotten memory")]
    await service.forget(local(), ForgetRequest(agent_id="bench", ids=(done.id,)))
    await service.mirrors.drained(local().tenant)


async def real(
    folder: Path,
    embedder: Embedder,
    facts: Sequence[labelled.Fact],
    questions: Sequence[labelled.Query],
    method: Fusion,
    attack: str,
    size: int,
    **fields: Any,
) -> Measured:
    """The three numbers for one attack on real stores. Leak also counts altered and forgotten texts."""
    own = bool(fields.pop("has_own_contents", False))
    async with stores(folder, embedder, facts, attack, size, has_own_contents=own) as made:
        return await asked_of(made, facts, questions, method, attack, **fields)


async def asked_of(
    made: Stores,
    facts: Sequence[labelled.Fact],
    questions: Sequence[labelled.Query],
    method: Fusion,
    attack: str,
    **fields: Any,
) -> Measured:
    """The same on stores that are open."""
    recalls, leaks, displaced = [], [], []
    texts = {made.ids[fact.id]: fact.content for fact in facts}
    for question in questions:
        gold = {made.ids[name] for name in question.gold}
        made.rogue.attack = ""
        before = [hit.id for hit in await made.top(question, method, **fields)]
        made.rogue.attack = attack
        hits = await made.top(question, method, **fields)
        after = [hit.id for hit in hits]
        kept = [id for id in before if id in gold]
        if gold:
            recalls.append(len(gold & set(after)) / len(gold))
        wrong = [hit for hit in hits if texts.get(hit.id) != hit.content]
        leaks.append(len(wrong) / max(1, len(hits)))
        displaced.append(sum(id not in after for id in kept) / max(1, len(kept)))
    return Measured(*(statistics.fmean(values) for values in (recalls, leaks, displaced)))
