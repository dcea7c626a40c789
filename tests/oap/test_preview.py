"""What the owner is shown before lending is what the grantee sees afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quipu.model.grants import Asked
from tests.oap.hosts import OWNER, Host, pair

#: Somebody who is spoken of inside something else.
MEETING = {
    "day": "tue",
    "with": {
        "entity_type": "oap.entity.contact",
        "entity_version": "1.0",
        "id": "ent_zoe",
        "names": {"given": "Zoe", "family": "Lee"},
    },
}


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        yield both


def draft(b: Host, **more: Any) -> dict[str, Any]:
    return {"grantee": b.owner, "purpose": "Brief", "scopes": ["memory.query"], "trust_level": 1, **more}


@pytest.mark.parametrize("labels", [["web"], ["web", "other"]])
@pytest.mark.parametrize("level", [0, 1, 2, 3, 4])
def test_a_preview_is_what_the_grant_covers(hosts: tuple[Host, Host], labels: list[str], level: int) -> None:
    a, b = hosts
    a.remember("A meeting.", tags=("web",), structured=MEETING)
    a.remember("A seat.", tags=("web",), structured={"seat": "zoe", "row": "lee-4"})
    a.remember("Elsewhere.", tags=("private",), structured={"seat": "zoe"})
    a.remember("Of work.", tags=("web",), scope_id="work")
    a.remember("Stays here.", tags=("web",), exportable=False)
    wanted = draft(b, filter={"labels_any": labels}, trust_level=level)
    shown = a.at.do(a.sharing.disclosing.preview(OWNER, wanted))

    async def covered() -> list[Any]:
        grant = a.sharing.grants.drafted(OWNER, wanted)
        found = await a.sharing.disclosing.views.covered(OWNER.tenant, grant)
        return [one.seen.projected.item for one in found.ranked(Asked(body={}), 1 << 60)]

    assert shown == a.at.do(covered())
    assert len(shown) == 2


def test_a_preview_shows_the_newest_and_no_more_than_is_asked_for(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    names = [a.remember(f"note {number}", tags=("web",)) for number in range(5)]
    wanted = draft(b, filter={"labels_any": ["web"]})
    shown = a.at.do(a.sharing.disclosing.preview(OWNER, wanted, 2))
    assert {item["item_id"] for item in shown} == set(names[-2:])
    capped = a.at.do(a.sharing.disclosing.preview(OWNER, {**wanted, "max_items": 3}))
    assert len(capped) == 3
