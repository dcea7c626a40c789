"""What every memory must do, as scenarios that run on any `MemoryStore`.

    results = await run(MySubject(store))

memorywire's sixteen come first, then those that Quipu adds (`Q1` …). A scenario either passes with its assertions
counted, or says what does not hold, or says what the store lacks to be asked at all or does not promise: nothing is
skipped silently.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quipu.errors import QuipuError
from quipu.testing.scenarios_changing import CHANGING
from quipu.testing.scenarios_finding import FINDING
from quipu.testing.scenarios_memory import Awaited, MemorySubject, Opening
from quipu.testing.scenarios_review import REVIEW
from quipu.testing.scenarios_sixteen import SIXTEEN
from quipu.testing.scenarios_subject import (
    FULL,
    LEAST,
    MODEST,
    SMALL,
    Broken,
    Check,
    Lacking,
    Scenario,
    Size,
    Subject,
    Unpromised,
)

__all__ = [
    "FULL",
    "LEAST",
    "MODEST",
    "SCENARIOS",
    "SMALL",
    "Awaited",
    "MemorySubject",
    "Opening",
    "Result",
    "Scenario",
    "Size",
    "Subject",
    "played",
    "run",
]

SCENARIOS: Final[Sequence[Scenario]] = (*SIXTEEN, *FINDING, *CHANGING, *REVIEW)


@dataclass(frozen=True, slots=True)
class Result:
    """How one scenario went. `assertions` counts what was really checked."""

    name: str
    passed: bool
    detail: str
    assertions: int


async def run(subject: Subject, scenarios: Sequence[Scenario] = SCENARIOS) -> list[Result]:
    """Every scenario, one after the other."""
    return [await played(subject, scenario) for scenario in scenarios]


async def played(subject: Subject, scenario: Scenario) -> Result:
    """One scenario. Whatever the store raises is its result."""
    check = Check()
    try:
        async with subject.fresh(scenario) as fresh:
            await scenario.play(fresh, check)
    except Lacking as lack:
        return Result(scenario.name, False, f"not run, the store lacks {lack}", check.count)
    except Unpromised as missing:
        return Result(scenario.name, False, f"not run, the store does not promise {missing}", check.count)
    except Broken as broken:
        return Result(scenario.name, False, str(broken), check.count)
    except QuipuError as error:
        detail = f"{error.code} ({error.reason}): {error.message}"
        return Result(scenario.name, False, detail, check.count)
    except Exception as error:  # noqa: BLE001  a store's fault must not end the other scenarios
        return Result(scenario.name, False, f"{type(error).__name__}: {error}{_place(error)}", check.count)
    return Result(scenario.name, check.count > 0, scenario.says, check.count)


def _place(error: Exception) -> str:
    """Which line of its scenario did not get through; a scenario of somebody else's is theirs to show."""
    frames = traceback.extract_tb(error.__traceback__)[1:2]
    if not frames or Path(frames[0].filename).parent != Path(__file__).parent:
        return ""
    return f", in {Path(frames[0].filename).name}, line {frames[0].lineno}: {frames[0].line}"
