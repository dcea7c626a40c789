"""A store URL that names a vendor: what Quipu was told is really there, by the vendor's own word, and really goes.

The memory is opened from nothing but URLs, closed, and then a program that knows nothing of Quipu looks.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from quipu import Memory
from quipu.config import Config
from tests.vendors.audited import audited, outbound
from tests.vendors.letta_server import endpoint
from tests.vendors.sharing import ROOT, python_of
from tests.vendors.starting import Vendors

pytestmark = [pytest.mark.vendor, pytest.mark.slow]

DIET, DRINK = "Mara eats no meat and no fish.", "Mara drinks black tea in the morning."
_PATIENT = {"mirror_write_deadline_ms": 120_000, "recall_deadline_ms": 60_000}


def looked(vendor: str, **at: str) -> dict[str, list[str]]:
    """What the vendor's own API lists and finds."""
    program = ROOT / "tests" / "vendors" / "native" / f"look_{vendor}.py"
    done = subprocess.run(
        [python_of(vendor), str(program), json.dumps({**at, "query": "what does Mara drink"})],
        cwd=at["home"],
        env={"PATH": os.defpath, "HOME": at["home"], "MEM0_TELEMETRY": "False", "MEM0_DIR": at["home"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize(
    ("vendor", "url"),
    [
        ("mem0", "mem0://default"),
        ("langgraph", "langgraph+sqlite://"),
        ("cognee", "cognee://quipu"),
        ("graphiti", "graphiti://quipu"),
    ],
    ids=lambda value: value if "://" not in value else "",
)
async def test_the_vendor_has_it_finds_it_and_loses_it(
    vendor: str, url: str, vendors: Vendors, tmp_path: Path
) -> None:
    """Letta's server takes long to start: its turn is beside its other tests."""
    await has_finds_and_loses(vendor, url, vendors, tmp_path)


async def has_finds_and_loses(
    vendor: str, url: str, vendors: Vendors, place: Path, server: str | None = None
) -> None:
    """Two memories go to the vendor, one goes away; each time its own program looks while no memory is open."""
    real = vendors.switched.real
    vendors.switched.now = real
    at = {"home": str(place), "folder": f"{place}/memory.db.mirror-{vendor}"}
    if server is not None:
        at["server"] = server
    stores = [
        f"sqlite://{place}/memory.db",
        f"{url}?name={vendor}&python={audited(python_of(vendor))}&deadline_ms=60000",
    ]

    def opened(**more: object) -> Memory:
        return Memory("ana", stores, embedder=real, config=Config(**{**_PATIENT, **more}))

    async with opened() as memory:
        for text in (DIET, DRINK):
            kept = await memory.remember(text, user_id="mara")
            assert kept.stores == ("sqlite", vendor)
        held = await memory.remember("Mara has a secret plan.", user_id="mara", approval_required=True)
        assert held.pending_approval
        hits = await memory.recall("what does Mara drink", user_id="mara", k=1)
        assert set(hits.stores_queried) == {"sqlite", vendor}
        assert [hit.content for hit in hits] == [DRINK]

    with endpoint(real) as at["embeddings"]:
        seen = await asyncio.to_thread(looked, vendor, **at)
        assert sorted(seen["texts"]) == sorted([DIET, DRINK])
        assert seen["found"][0] == DRINK

        async with opened(recall_ledger_votes=False) as memory:
            hits = await memory.recall("what does Mara drink", user_id="mara", k=1)
            assert [(hit.id, hit.content) for hit in hits] == [(kept.id, DRINK)], "only the vendor was asked"
            gone = await memory.forget(ids=[kept.id])
            assert {row.store: row.count for row in gone.stores} == {"sqlite": 1, vendor: 1}
        seen = await asyncio.to_thread(looked, vendor, **at)
        assert (seen["texts"], seen["found"]) == ([DIET], [DIET])
    assert outbound() == [], "nothing but this machine was asked for"
