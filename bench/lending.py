"""What a query under a grant costs, against a plain recall of the same memory.

Both take turns within one run, question by question and in changing order, over one ledger. Of the blocks of questions the
quietest quarter counts, by what both took together: what else the machine did is in the others, and neither side is favoured.
Three things are compared: the medians, which is what is judged; the means of blocks, where what happens now and then has
its share (a log that is folded into the file); and processor time, which says the same however busy the disk is. A query
does everything that one over the wire does: token, proof, grant row, projection, ranking, integrity blocks, log lines,
receipt, one durable transaction. Once with the default embedder and questions never asked before, as people have it, and
once with keyword search alone, the quickest recall there is. Beside each stands what the disk takes to make as many bytes
durable: that a query waits for, and a recall does not.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
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
_WARM_UP = 40
_K = 10
#: Questions whose mean is one number.
_BLOCK = 20
#: About what one query writes.
_WRITTEN = bytes(192 << 10)
Note = Callable[[str], None]
#: Wall and processor time of one call, in milliseconds.
Spent = tuple[float, float]


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
        await running.parts.ledger.open("grantee")  # for who is nobody here there is no key
        grantee = running.parts.lending.keyring.did("grantee")
        return {
            f"level_{level}": await _level(
                service, service.sharing, grantee, level, questions, texts, Disk(path.with_suffix(".disk"))
            )
            for level in (1, 4)
        }
    finally:
        await running.close()


async def _level(
    service: Any, sharing: Sharing, grantee: str, level: int, questions: int, texts: list[str], disk: Disk
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
    plain: list[Spent] = []
    lent: list[Spent] = []
    waits: list[float] = []
    order = random.Random(level)  # no question is asked twice: what was embedded once is not embedded again
    address = f"{HOST}/oap/memory/query"

    async def recall(text: str) -> Spent:
        return await _spent(lambda: service.recall(who, RecallRequest(agent_id=AGENT, query=text, k=_K)))

    async def query(text: str) -> Spent:
        made = sharing.borrowing.proof("grantee", "POST", address, token)

        async def asked() -> None:
            shown = Shown(scheme="DPoP", token=token, proof=made, method="POST", url=address)
            who_asks = await sharing.doors.lent(shown, is_read_later=True)
            await sharing.disclosing.query(who_asks, parsed_query({"query": text, "max_results": _K}))

        return await _spent(asked)

    for place in range(questions + _WARM_UP):
        asked = f"{' '.join(order.sample(order.choice(texts).split(), 2))} {level}{place:04}"
        if place % 2:
            one, other = await recall(asked), await query(asked)
        else:
            other, one = await query(asked), await recall(asked)
        if place >= _WARM_UP:
            plain.append(one)
            lent.append(other)
            waits.append(disk.wait())
    return compared(plain, lent) | {"disk": latency_summary(waits)}


def compared(plain: Sequence[Spent], lent: Sequence[Spent]) -> dict[str, Any]:
    """What the second costs beside the first, in the quietest quarter of the blocks."""
    pairs = list(zip(plain, lent, strict=True))
    blocks = [pairs[at : at + _BLOCK] for at in range(0, len(pairs), _BLOCK)]
    blocks.sort(key=lambda block: statistics.fmean(one[0] + other[0] for one, other in block))
    quiet = blocks[: -(-len(blocks) // 4)]
    recalls = [one[0] for block in quiet for one, _ in block]
    queries = [other[0] for block in quiet for _, other in block]
    return {
        "recall": latency_summary(recalls),
        "query": latency_summary(queries),
        "ratio": statistics.median(queries) / statistics.median(recalls),
        "block_ratio": statistics.median(_ratio(block, 0) for block in quiet),
        "processor_ratio": statistics.median(_ratio(block, 1) for block in quiet),
    }


def _ratio(block: Sequence[tuple[Spent, Spent]], which: int) -> float:
    """How the means of a block compare: of wall time (0), or of processor time (1)."""
    return sum(other[which] for _, other in block) / sum(one[which] for one, _ in block)


async def _spent(work: Callable[[], Awaitable[Any]]) -> Spent:
    began, busy = time.perf_counter(), time.process_time()
    await work()
    return 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - busy)


class Disk:
    """A file on the ledger's disk, written over in place and synced, as a ledger's log is."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(16 << 20))
        self._path, self._at = path, 0

    def wait(self) -> float:
        """How long it takes until a query's worth of bytes is durable, in milliseconds."""
        file = os.open(self._path, os.O_WRONLY)
        try:
            began = time.perf_counter()
            os.pwrite(file, _WRITTEN, self._at)
            os.fdatasync(file)
            self._at = (self._at + len(_WRITTEN)) % (8 << 20)
            return 1000 * (time.perf_counter() - began)
        finally:
            os.close(file)


def _texts(count: int) -> list[str]:
    words = (
        "meeting", "budget", "colour", "release", "server", "contract", "invoice", "garden", "project", "travel",
        "deadline", "review", "design", "museum", "recipe", "training", "library", "harbour", "weather", "customer",
    )  # fmt: skip
    made = random.Random(3)
    return [" ".join(made.choices(words, k=12)).capitalize() + f" {place}." for place in range(count)]
