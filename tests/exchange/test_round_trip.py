"""Out of one host, into another, and out again: the bytes of the items are the same."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quipu import Memory
from quipu.model.moving_formats import WRITTEN, Format
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from quipu.testing.strategies import json_objects, machines, texts
from tests.exchange.conftest import Host, Hosted
from tests.requirement import requirement

OWNER = "did:web:user.example"
GONE = ("items.jsonl", "relations.jsonl")


def parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in GONE}


async def filled(host: Host) -> None:
    """One of everything."""
    memory = host.memory
    await memory.create_store("shared", scope="team", description="for all")
    first = await memory.remember(
        "Mara is vegetarian",
        user_id="mara",
        tags=["food", "kind:summary"],
        metadata={"x": 1.5, "nested": {"list": [1, None, "ü"]}},
        confidence=0.25,
        importance=0.5,
        source="chat",
    )
    await memory.remember("Prefers tea", metadata={"oap_kind": "preference"}, session_id="s1")
    moved = await memory.remember(
        "Moved desks", type="episodic", store="shared", event_time=1_700_000_000_000, participants=["Tom"]
    )
    await memory.remember("Glad", type="emotional", valence=0.5, links=[{"to": first.id, "rel": "about"}])
    machine = {
        "name": "m",
        "states": ["a", "b"],
        "initial": "a",
        "transitions": [{"trigger": "go", "source": "a", "dest": "b"}],
    }
    await memory.remember(machine, type="procedural")
    await memory.remember("Only for a while", expires_at=1_990_000_000_000)
    await memory.remember("Mara is vegan", id=first.id, links=[{"to": moved.id, "rel": "supports"}])
    gone = await memory.remember("Forgotten again")
    await memory.forget(ids=[gone.id])


@requirement("moving:bundle.round-trip")
@pytest.mark.parametrize("as_lines", [False, True])
async def test_items_and_relations_are_the_same_bytes_after_a_move(hosted: Hosted, as_lines: bool) -> None:
    one, other = await hosted(), await hosted()
    await filled(one)
    data, _ = await one.out(owner=OWNER)
    sent, report = await one.out(owner=OWNER, as_lines=as_lines)
    came = await other.into(sent, keys=await one.keys())
    assert (came.accepted, came.refused, came.quarantined) == (report.items, 0, 0)
    assert report.items == 6
    assert came.signature == "valid"
    again, _ = await other.out(owner=OWNER)
    assert parts(again) == parts(data)


@requirement("moving:bundle.round-trip")
async def test_what_packs_too_well_to_be_believed_is_taken_back_all_the_same(hosted: Hosted) -> None:
    one, other = await hosted(), await hosted()
    for number in range(3):
        await one.memory.remember(f"Log {number}" + ", and all is well" * 30_000)
    data, _ = await one.out(owner=OWNER)
    names = {info.filename: info.compress_type for info in zipfile.ZipFile(io.BytesIO(data)).infolist()}
    assert (names["items.jsonl"], names["manifest.json"]) == (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    assert (await other.into(data, keys=await one.keys())).accepted == 3
    again, _ = await other.out(owner=OWNER)
    assert parts(again) == parts(data)


@requirement("moving:bundle.round-trip")
@pytest.mark.parametrize("is_bundle", [True, False])
async def test_a_conversation_of_one_moment_is_recalled_alike_after_a_move(
    hosted: Hosted, is_bundle: bool
) -> None:
    """It is exported newest first, and its turns are still understood by what was said before and after them."""
    one, other = await hosted(), await hosted()
    said = ("Yes.", "The rope is at the quay.", "No.", "Bread and plums.")
    await one.memory.remember_many(
        [{"content": turn, "type": "episodic", "session_id": "s"} for turn in said]
    )
    if is_bundle:
        data, _ = await one.out(owner=OWNER)
        await other.into(data, keys=await one.keys())
    else:
        await other.memory.import_records([line async for line in one.memory.export()])
    before, after = [
        [(hit.content, hit.score) for hit in await host.memory.recall("rope at the quay", min_relevance=0)]
        for host in (one, other)
    ]
    assert after == before


@requirement("moving:import.idempotent")
async def test_the_same_file_again_changes_nothing(hosted: Hosted) -> None:
    one, other = await hosted(), await hosted()
    await filled(one)
    data, _ = await one.out()
    keys = await one.keys()
    first = await other.into(data, keys=keys)
    before = await other.contents()
    second = await other.into(data, keys=keys)
    assert (second.import_id, second.accepted, second.duplicate) == (first.import_id, 0, 6)
    assert await other.contents() == before
    assert (await one.into(data)).duplicate == 6


@pytest.mark.parametrize("format", [format for format in WRITTEN if format is not Format.BUNDLE])
@requirement("moving:formats.losses")
async def test_every_other_format_brings_the_texts_and_tells_its_losses(
    hosted: Hosted, format: Format
) -> None:
    one, other = await hosted(), await hosted()
    await filled(one)
    data, report = await one.out(format)
    assert report.loss.dropped or report.loss.mapped or format is Format.OMI
    await other.memory.create_store("shared", scope="team")
    came = await other.into(data, keys=await one.keys())
    assert came.refused == 0, came.rejected
    held = {p.id for p in await other.memory.proposals()}
    for name in held:
        await other.memory.decide(name, approved=True)
    text = json.dumps(await other.contents(), ensure_ascii=False)
    for said in ("Mara is vegan", "Prefers tea", "Moved desks", "Glad", "Only for a while"):
        assert said in text
    again, _ = await other.out(format)
    if format in (Format.PAM, Format.OMI):
        mine, theirs = json.loads(data)["memories"], json.loads(again)["memories"]
        capped = [_bare(memory) for memory in mine]
        assert [_bare(memory) for memory in theirs] == capped


def _bare(memory: dict[str, Any]) -> dict[str, Any]:
    """Without what an unsigned file is not believed in, and whose it is."""
    return {name: value for name, value in memory.items() if name not in ("confidence", "subject", "source")}


def values() -> st.SearchStrategy[dict[str, Any]]:
    plain = st.fixed_dictionaries(
        {"content": texts(min_size=1).filter(str.strip)},
        optional={
            "metadata": json_objects().filter(lambda drawn: "tags" not in drawn),
            "tags": st.lists(texts(min_size=1, max_size=8).filter(str.strip), max_size=3),
            "confidence": st.floats(0, 1),
            "user_id": st.sampled_from(("u1", "ü")),
            "type": st.sampled_from(("semantic", "episodic", "emotional")),
        },
    )
    return plain | st.builds(lambda machine: {"content": machine, "type": "procedural"}, machines())


@requirement("moving:bundle.round-trip")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(values(), min_size=1, max_size=4))
async def test_whatever_was_remembered_survives_a_move(wanted: list[dict[str, Any]]) -> None:
    clock = FixedClock()
    memories = [
        Memory(agent_id="ana", stores="sqlite://:memory:", embedder=WordEmbedder(), clock=clock)
        for _ in range(2)
    ]
    try:
        one, other = [Host(memory, await memory._service()) for memory in memories]
        for value in wanted:
            given_value = dict(value)
            content = given_value.pop("content")
            await one.memory.remember(content, **given_value)
        data, _ = await one.out(owner=OWNER)
        came = await other.into(data, keys=await one.keys())
        assert came.accepted == len(wanted), came.rejected
        again, _ = await other.out(owner=OWNER)
        assert parts(again) == parts(data)
    finally:
        for memory in memories:
            await memory.close()
