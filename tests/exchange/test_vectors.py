"""Vectors on the move: the same bytes arrive, where they are believed and of the same space; otherwise they are made anew."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any

import pytest
from safetensors.numpy import load

from quipu import Memory
from quipu.errors import InvalidError
from quipu.formats.vectors import FILE
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.model.moving_formats import Format
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.exchange.conftest import ADMIN, Host, Hosted
from tests.exchange.test_round_trip import OWNER, filled
from tests.formats.shelves import unpacked
from tests.requirement import requirement


class CountingEmbedder(WordEmbedder):
    """Knows what it was asked for."""

    def __init__(self, dimensions: int = 64) -> None:
        super().__init__(dimensions)
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        self.asked += texts
        return await super().embed(texts)


async def opened(clock: FixedClock, embedder: Any) -> Host:
    memory = Memory(agent_id="ana", stores="sqlite://:memory:", embedder=embedder, clock=clock)
    service: Any = await memory._service()
    return Host(memory, service)


async def source(hosted: Hosted) -> tuple[Host, bytes]:
    one = await hosted()
    await filled(one)
    await one.memory.remember("Mara rows", metadata={"subject_entity_id": "person:mara"})
    await one.memory.remember("Mara reads", metadata={"subject_entity_id": "person:mara"})
    return one, (await one.out(owner=OWNER, embeddings=True))[0]


@requirement("moving:bundle.vectors")
async def test_vectors_and_entities_are_the_same_bytes_after_a_move(
    hosted: Hosted, clock: FixedClock
) -> None:
    one, data = await source(hosted)
    files, embedder = unpacked(data), CountingEmbedder()
    items = [json.loads(line)["item_id"] for line in files["items.jsonl"].splitlines()]
    assert sorted(load(files[FILE])) == items
    assert files["entities.jsonl"] == b'{"entity_id":"person:mara"}\n'
    other = await opened(clock, embedder)
    try:
        came = await other.into(data, keys=await one.keys())
        assert (came.accepted, came.loss.dropped) == (8, ())
        assert embedder.asked == [], "nothing was embedded a second time"
        again = unpacked((await other.out(owner=OWNER, embeddings=True))[0])
        for name in (FILE, "entities.jsonl", "items.jsonl", "relations.jsonl", "tombstones.jsonl"):
            assert again[name] == files[name]
        found = await other.memory.recall("what does Mara eat, is she vegan")
        assert found.results[0].content == "Mara is vegan"
    finally:
        await other.memory.close()


@requirement("moving:bundle.vectors")
async def test_a_memory_without_an_embedder_takes_them_over(hosted: Hosted, clock: FixedClock) -> None:
    one, data = await source(hosted)
    other = await opened(clock, "none")
    try:
        await other.into(data, keys=await one.keys())
        again = unpacked((await other.out(owner=OWNER, embeddings=True))[0])
        assert again[FILE] == unpacked(data)[FILE]
    finally:
        await other.memory.close()


@requirement("moving:bundle.vectors")
@pytest.mark.parametrize("why", ["another model", "an unknown key", "nobody signed"])
async def test_other_vectors_are_made_anew_and_that_is_told(
    hosted: Hosted, clock: FixedClock, why: str
) -> None:
    one, data = await source(hosted)
    keys, wide = await one.keys(), 32 if why == "another model" else 64
    if why == "nobody signed":
        data = _repacked(data, drop="signature.json")
    embedder = CountingEmbedder(wide)
    other = await opened(clock, embedder)
    try:
        given: dict[str, Any] = {"foreign_owner": True} if why == "an unknown key" else {"keys": keys}
        came = await other.into(data, **given)
        told = {one.field: one.count for one in came.loss.dropped}
        reason = "of another model" if why == "another model" else "that no known key has signed"
        assert told[f"vectors {reason}"] == 8
        assert len(embedder.asked) >= came.accepted > 0
    finally:
        await other.memory.close()


def _repacked(data: bytes, drop: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, body in unpacked(data).items():
            if name != drop:
                archive.writestr(name, body)
    return target.getvalue()


@requirement("moving:bundle.vectors")
async def test_a_text_that_is_altered_on_its_way_in_loses_its_vector(
    hosted: Hosted, clock: FixedClock
) -> None:
    one = await hosted()
    await one.memory.remember("The password is opensesame42, says Tom")
    await one.memory.remember("Tom rows")
    data, _ = await one.out(owner=OWNER, embeddings=True)
    embedder = CountingEmbedder()
    other = await opened(clock, embedder)
    try:
        await other.service.secrets.register(ADMIN, label="door", value="opensesame42")
        await other.into(data, keys=await one.keys())
        assert len(embedder.asked) == 1
        assert "opensesame42" not in embedder.asked[0]
        again = unpacked((await other.out(owner=OWNER, embeddings=True))[0])
        mine, theirs = load(unpacked(data)[FILE]), load(again[FILE])
        assert sum(mine[name].tobytes() != theirs[name].tobytes() for name in mine) == 1
    finally:
        await other.memory.close()


@requirement("moving:bundle.vectors")
async def test_vectors_go_into_archives_of_bundles_only(host: Host) -> None:
    await host.memory.remember("Mara rows", confidence=0.5)
    for given in ({"format": Format.PAM}, {"as_lines": True}):
        with pytest.raises(InvalidError) as refused:
            await host.out(embeddings=True, **given)
        assert refused.value.faults[0].pointer == "/embeddings"
    assert FILE not in unpacked((await host.out())[0])
    await host.memory.expire({"confidence_below": 1.0}, action="archive")
    archived = unpacked((await host.out(embeddings=True))[0])
    assert FILE not in archived, "what is archived has none"


@requirement("moving:bundle.vectors")
async def test_a_version_of_the_past_goes_out_with_its_own_vector(host: Host) -> None:
    first = await host.memory.remember("Mara rows")
    then = await host.positions()
    await host.memory.remember("Mara reads", id=first.id)
    old = load(unpacked((await host.out(embeddings=True, as_of=str(then)))[0])[FILE])
    assert old[first.id].tobytes() == WordEmbedder().vector("Mara rows")
    new = load(unpacked((await host.out(embeddings=True))[0])[FILE])
    assert new[first.id].tobytes() == WordEmbedder().vector("Mara reads")


@requirement("moving:import.speed")
async def test_records_are_looked_up_a_chunk_at_a_time(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each item would be a hundred times slower where the machine is busy, or the ledger is far away."""
    reads: list[int] = []
    looked_up, entries = SqliteLedger.read, SqliteLedger.entries

    async def counted(self: SqliteLedger, tenant: str, ids: Sequence[str], seq: int | None = None) -> Any:
        reads.append(len(ids))
        return await looked_up(self, tenant, ids, seq)

    async def noted(self: SqliteLedger, *given: Any) -> Any:
        reads.append(0)
        return await entries(self, *given)

    lines = [{"id": f"m{number}", "memory": f"Fact {number}"} for number in range(1_200)]
    monkeypatch.setattr(SqliteLedger, "read", counted)
    monkeypatch.setattr(SqliteLedger, "entries", noted)
    came = await host.into(json.dumps({"results": lines}))
    assert came.accepted == 1_200
    assert len(reads) < 30
    reads.clear()
    await host.memory.forget(filter={"user_id": None}, reason="moved")
    data, _ = await host.out()
    assert unpacked(data)["tombstones.jsonl"].count(b"\n") == 1_200
    assert len(reads) < 60
