"""Requests that a caller made: a field that holds what it is not is told, and never kept."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from quipu import (
    Edit,
    Embedding,
    ExpirePolicy,
    ExpireRequest,
    ForgetRequest,
    InvalidError,
    Link,
    Memory,
    MemoryType,
    MergeRequest,
    PrivacyIntent,
    QuipuError,
    RecallRequest,
    RememberRequest,
)
from tests.memory.test_wrong_values import VALUES

REQUESTS: dict[str, tuple[type, dict[str, Any]]] = {
    "remember": (RememberRequest, {"agent_id": "ana", "type": MemoryType.SEMANTIC, "content": "Tea at noon"}),
    "recall": (RecallRequest, {"agent_id": "ana", "query": "tea"}),
    "forget": (ForgetRequest, {"agent_id": "ana", "ids": ("mem_1",), "dry_run": True}),
    "merge": (MergeRequest, {"agent_id": "ana", "canonical": "mem_1", "duplicates": ("mem_2",)}),
    "expire": (ExpireRequest, {"agent_id": "ana", "policy": ExpirePolicy(older_than_days=1)}),
}
#: Kinds that no field of a request has.
_NEVER = {"bytes", "object", "one_by_one"}


def _any(value: object) -> Any:
    return value


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_field_of_another_kind_is_told(name: str, tmp_path: Path) -> None:
    kind, right = REQUESTS[name]
    wrong: list[str] = []
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        await memory.remember("Deploys happen on Tuesdays")
        for field in fields(kind):
            for said, (of, made) in VALUES.items():
                request = kind(**{**right, field.name: made()})
                case = f"{field.name}: {said}"
                try:
                    await getattr(memory, name)(request)
                except InvalidError:
                    pass
                except QuipuError as error:
                    if of in _NEVER:
                        wrong.append(f"{case} is {error.code}")
                except Exception as error:  # noqa: BLE001  whatever else comes out is what this looks for
                    wrong.append(f"{case} ends in {type(error).__name__}")
                else:
                    if of in _NEVER:
                        wrong.append(f"{case} is taken")
        assert wrong == []
        assert (await memory.verify()).faults == ()
        assert [line async for line in memory.export()]


async def test_a_word_that_no_sensitivity_is_does_not_spoil_the_memory(tmp_path: Path) -> None:
    """It was kept as it came, and from then on nothing could be listed or exported any more."""
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        with pytest.raises(InvalidError) as refused:
            await memory.remember("Mara is ill", privacy_intent=PrivacyIntent(sensitivity=_any("secrett")))
        assert refused.value.faults[0].pointer == "/privacy_intent/sensitivity"
        assert "secret" in refused.value.faults[0].accepted[0]
        assert (await memory.list()).records == ()


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"links": [Link(_any(None), "about")]}, "/links/0/to"),
        ({"embedding": Embedding(_any(7), (1.0,))}, "/embedding/model"),
        ({"embedding": Embedding("m", _any("no numbers"))}, "/embedding/vector"),
        ({"privacy_intent": PrivacyIntent(share_with=_any("bob"))}, "/privacy_intent/share_with"),
        ({"privacy_intent": {"share_with": [None]}}, "/privacy_intent/share_with/0"),
        ({"tags": [None]}, "/tags/0"),
    ],
)
async def test_a_part_of_another_kind_is_told_with_its_place(
    more: dict[str, Any], place: str, tmp_path: Path
) -> None:
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        with pytest.raises(InvalidError) as refused:
            await memory.remember("Tea at noon", **more)
        assert refused.value.faults[0].pointer == place
        assert (await memory.list()).records == ()


async def test_an_edit_of_another_kind_decides_nothing(tmp_path: Path) -> None:
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        held = await memory.remember("Tea at noon", approval_required=True)
        named = str(held.extensions["proposal_id"])
        with pytest.raises(InvalidError) as refused:
            await memory.decide(named, approved=True, edit=Edit(tags=_any("tea")))
        assert refused.value.faults[0].pointer == "/edit/tags"
        assert [one.id for one in await memory.proposals()] == [named]


async def test_an_id_that_cannot_be_written_is_a_line_that_failed(tmp_path: Path) -> None:
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        summary = await memory.import_records([{"content": "tea", "id": "\ud800"}, {"content": "cake"}])
        assert (summary.read, summary.stored, summary.failed) == (2, 1, 1)


async def test_one_that_is_right_may_hold_lists(tmp_path: Path) -> None:
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        request = RememberRequest(
            agent_id="ana", type=MemoryType.SEMANTIC, content="Tea at noon", tags=_any(["tea"])
        )
        kept = await memory.remember(request)
        assert (await memory.get(kept.id)).tags == ("tea",)
