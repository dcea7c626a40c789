"""The journal proves what runs make of their entries, as it proves everything else."""

import pytest

from tests.openwop.hosts import REF, Host


@pytest.mark.parametrize("how", ["compact", "distill"])
async def test_a_memory_whose_entries_were_joined_still_verifies(host: Host, how: str) -> None:
    for text in ("Ana likes tea.", "Ana likes cake.", "Ana lives in Porto."):
        await host.put(text)
    if how == "compact":
        assert await host.service.runs.upkeep.compact(host.principal, REF) is not None
    else:
        await host.service.runs.upkeep.distill(host.principal, REF, 8000)
    report = await host.service.audit.verify(host.principal)
    assert (report.faults, report.records > 3) == ((), True)
