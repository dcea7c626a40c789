"""What a scenario is, and how it is played."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from quipu.errors import QuipuError
from quipu.testing.scenarios.subject import Broken, Check, Subject, Unpromised

#: What became of a scenario: it held, it did not, or the memory does not promise it or cannot be asked.
Outcome = Literal["pass", "fail", "not promised"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing that every memory does, and how to see it."""

    name: str
    #: What holds when it passes.
    says: str
    play: Callable[[Subject, Check], Awaitable[None]]
    #: Whether it writes very much.
    is_large: bool = False
    #: Whether an embedder must know what words mean; for all others any will do.
    needs_meaning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one scenario went. `assertions` counts what was really checked."""

    name: str
    outcome: Outcome
    #: What holds, what does not, or why it could not be asked.
    detail: str
    assertions: int


async def played(subject: Subject, scenario: Scenario) -> Result:
    """One scenario, for an agent of its own. Whatever the memory raises is its result."""
    check = Check()
    outcome: Outcome = "fail"
    try:
        async with asyncio.timeout(subject.patience_s), subject.for_scenario(scenario.name) as own:
            await scenario.play(own, check)
    except Unpromised as missing:
        outcome, detail = "not promised", str(missing)
    except Broken as broken:
        detail = str(broken)
    except TimeoutError:
        detail = f"it did not end within {subject.patience_s:g} s"
    except QuipuError as error:
        detail = f"{error.code} ({error.reason}): {error.message}{_place(error)}"
    except Exception as error:  # noqa: BLE001  a memory's fault must not end the other scenarios
        detail = f"{type(error).__name__}: {error}{_place(error)}"
    else:
        outcome = "pass" if check.count else "fail"
        detail = scenario.says if check.count else "nothing was checked"
    return Result(name=scenario.name, outcome=outcome, detail=detail, assertions=check.count)


def _place(error: Exception) -> str:
    """Which line of its scenario did not get through."""
    for frame in traceback.extract_tb(error.__traceback__)[1:]:
        path = Path(frame.filename)
        if path.parent == Path(__file__).parent and path.name not in ("scenario.py", "subject.py"):
            return f" ({path.name}, line {frame.lineno})"
    return ""
