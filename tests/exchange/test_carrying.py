"""Imports that are carried out while somebody looks on: for whom, once at a time, and without an end left untold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from quipu.errors import ConflictError, InternalError, NotFoundError
from quipu.model.moving import ImportReport
from quipu.model.moving_formats import Format
from quipu.model.principal import Principal, local
from quipu.service.import_carrying import Carrying
from tests.exchange.conftest import ADMIN, WRITER, Host
from tests.requirement import requirement

REPORT = ImportReport(import_id="imp_1", format=Format.TEXT, sha256="0", accepted=3)


class Gate:
    """Carries out as far as it is let, and counts how often it was asked."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.open, self.asked, self.fault = asyncio.Event(), 0, fault

    async def __call__(self, _who: Principal, _name: str, tell: Callable[[int], None]) -> ImportReport:
        self.asked += 1
        tell(2)
        await self.open.wait()
        if self.fault is not None:
            raise self.fault
        return REPORT


@requirement("moving:import.progress")
async def test_it_is_carried_out_once_and_told_to_who_began_it() -> None:
    gate = Gate()
    carrying = Carrying(gate)
    begun = await carrying.begun(WRITER, "imp_1", 3, 0.01)
    assert (begun.done, begun.total, begun.is_over) == (2, 3, False)
    assert await carrying.begun(WRITER, "imp_1", 3, 0.01) is begun
    assert gate.asked == 1
    assert carrying.standing(WRITER, "imp_1") is begun
    assert carrying.standing(ADMIN, "imp_1") is begun
    for other in (replace(WRITER, name="somebody"), replace(WRITER, tenant="other"), local("other")):
        with pytest.raises(NotFoundError):
            carrying.standing(other, "imp_1")
    gate.open.set()
    done = await carrying.begun(WRITER, "imp_1", 3, 5)
    assert (done.report, done.is_over) == (REPORT, True)


@requirement("moving:import.progress")
@pytest.mark.parametrize(
    ("fault", "told"), [(ConflictError("No."), ConflictError), (RuntimeError(), InternalError)]
)
async def test_one_that_fails_or_is_stopped_has_an_end(fault: Exception, told: type[Exception]) -> None:
    gate = Gate(fault)
    carrying = Carrying(gate)
    begun = await carrying.begun(WRITER, "imp_1", 3, 0.01)
    gate.open.set()
    await carrying.begun(WRITER, "imp_1", 3, 5)
    assert isinstance(begun.error, told)
    again = Gate()
    carrying = Carrying(again)
    begun = await carrying.begun(WRITER, "imp_1", 3, 0.01)
    await carrying.close()
    assert begun.is_over
    assert begun.report is None


@requirement("moving:import.progress")
async def test_what_was_never_tried_is_not_carried_out(host: Host) -> None:
    with pytest.raises(NotFoundError):
        await host.service.importing.carried_out(ADMIN, "imp_" + "0" * 26)
    tried = await host.tried("- Ana likes figs\n- Ana likes rye\n")
    done = await host.service.importing.carried_out(ADMIN, tried.import_id, 20)
    assert (done.total, done.done) == (2, 2)
    assert done.report is not None
    assert done.report.accepted == 2
