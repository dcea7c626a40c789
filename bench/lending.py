"""What a query under a grant costs, against a plain recall of the same memory.

Both take turns within one run, question by question and in changing order, over one ledger; what is compared is the
median of each pair's ratio. A query does everything that one over the wire does: token, proof, grant row, projection,
ranking, integrity blocks, log lines, receipt, one durable transaction. Once with the default embedder and questions
never asked before, as people have it, and once with keyword search alone, the quickest recall there is.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.metrics import latency_summary
from quipu import bootstrap
from quipu.config import Config
from quipu.model.operations import RecallRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.rules.grants import parsed_query
from quipu.service.lending_callers import Shown
from quipu.service.sharing import Sharing

AGENT = "bench"
HOST = "https://memory.example"
_RECORDS = 1_000
_WARM_UP = 20
_K = 10
Note = Callable[[str], None]


async def measured(folder: Path, questions: int, note: Note) -> dict[str, Any]:
    """Both ways, at two levels of trust."""
    found: dict[str, Any] = {}
    for name, embedder in (("embedded", "onnx"), ("words", "none")):
        note(f"lending, {name}")
        found[name] = await _compared(folder / f"{name}.db", embedder, questions)
    return found


async def _compared(path: Path, embedder: str, questions: int) -> dict[str, Any]:
    config = Config(
        store_url=f"sqlite://{path}", embedder=embedder, public_url=HOST, oap_queries_per_minute=10**9
    )
    running = await bootstrap.start(config)
    try:
        await running.parts.ledger.open("default")
        service, who = running.service, local()
        texts = _texts(_RECORDS)
        await service.remember_many(
            who,
            [
                RememberRequest(
                    agent_id=AGENT,
                    type=MemoryType.SEMANTIC,
                    content=text,
                    tags=("lent",),
                    metadata={"structured": {"topic": text.split()[0].lower(), "number": place}},
                )
                for place, text in enumerate(texts)
            ],
        )
        grantee = running.parts.lending.keyring.did("grantee")
        return {
            f"level_{level}": await _level(service, service.sharing, grantee, level, questions, texts)
            for level in (1, 4)
        }
    finally:
        await running.close()


async def _level(
    service: Any, sharing: Sharing, grantee: str, level: int, questions: int, texts: list[str]
) -> dict[str, Any]:
    who = local()
    draft = {"grantee": grantee, "purpose": "bench", "filter": {"labels_any": ["lent"]}, "trust_level": level}
    kept = await sharing.grants.issue(who, {**draft, "max_items": _RECORDS})
    url = f"{HOST}/oap/memory/grant/{kept.id}/token"
    proof = sharing.borrowing.proof("grantee", "POST", url, None)
    minted = await sharing.doors.mint(
        kept.id, Shown(scheme="", token="", proof=proof, method="POST", url=url)
    )
    token = minted["access_token"]
    plain: list[float] = []
    lent: list[float] = []
    order = random.Random(level)  # no question is asked twice: what was embedded once is not embedded again
    address = f"{HOST}/oap/memory/query"

    async def recall(text: str) -> float:
        began = time.perf_counter()
        await service.recall(who, RecallRequest(agent_id=AGENT, query=text, k=_K))
        return 1000 * (time.perf_counter() - began)

    async def query(text: str) -> float:
        made = sharing.borrowing.proof("grantee", "POST", address, token)
        began = time.perf_counter()
        shown = Shown(scheme="DPoP", token=token, proof=made, method="POST", url=address)
        who_asks = await sharing.doors.lent(shown, is_read_later=True)
        await sharing.disclosing.query(who_asks, parsed_query({"query": text, "max_results": _K}))
        return 1000 * (time.perf_counter() - began)

    for place in range(questions + _WARM_UP):
        asked = f"{' '.join(order.sample(order.choice(texts).split(), 2))} {level}{place:04}"
        if place % 2:
            one, other = await recall(asked), await query(asked)
        else:
            other, one = await query(asked), await recall(asked)
        if place >= _WARM_UP:
            plain.append(one)
            lent.append(other)
    ratios = [other / one for one, other in zip(plain, lent, strict=True)]
    return {
        "recall": latency_summary(plain),
        "query": latency_summary(lent),
        "ratio": statistics.median(ratios),
    }


def _texts(count: int) -> list[str]:
    words = (
        "meeting", "budget", "colour", "release", "server", "contract", "invoice", "garden", "project", "travel",
        "deadline", "review", "design", "museum", "recipe", "training", "library", "harbour", "weather", "customer",
    )  # fmt: skip
    made = random.Random(3)
    return [" ".join(made.choices(words, k=12)).capitalize() + f" {place}." for place in range(count)]
