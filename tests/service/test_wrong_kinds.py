"""Values of a wrong kind: whatever a caller hands to `Memory`, what is wrong is told with its place."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quipu import InvalidError, Memory, QuipuError

CASES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "neighbours": (lambda memory: memory.neighbours(5), "/id"),
    "neighbours, hops": (lambda memory: memory.neighbours("mem_1", hops="x"), "/hops"),
    "step": (lambda memory: memory.step(5), "/id"),
    "step, trigger": (lambda memory: memory.step("mem_1", 5), "/trigger"),
    "step, replay": (lambda memory: memory.step("mem_1", replay="go"), "/replay"),
    "decide": (lambda memory: memory.decide(5, approved=True), "/proposal_id"),
    "review": (lambda memory: memory.review(5), "/proposal_id"),
    "changes": (lambda memory: anext(memory.changes(since="x")), "/since"),
    "changes, since yes": (lambda memory: anext(memory.changes(since=True)), "/since"),
    "changes, types": (lambda memory: anext(memory.changes(types=5)), "/types"),
    "add_secret": (lambda memory: memory.add_secret(5, 5), "/label"),
    "add_secret, value": (lambda memory: memory.add_secret("a", 5), "/value"),
    "import_file": (lambda memory: memory.import_file(5), "/file"),
    "export_file": (lambda memory: memory.export_file(5), "/file"),
    "create_token": (lambda memory: memory.create_token("a", roles=5), "/roles"),
    "add_webhook": (lambda memory: memory.add_webhook(5), "/url"),
    "metadata": (lambda memory: memory.remember("x", metadata=5, tags=["a"]), "/metadata"),
    "forget": (lambda memory: memory.forget("mem_1"), "/request"),
}


@pytest.mark.parametrize(("call", "place"), CASES.values(), ids=CASES)
async def test_a_value_of_a_wrong_kind_is_told_with_its_place(
    memory: Memory, call: Callable[[Any], Any], place: str
) -> None:
    with pytest.raises(InvalidError) as refused:
        await call(memory)
    assert refused.value.faults[0].pointer == place


@pytest.mark.parametrize("embedder", [5, object(), ["onnx"], b"onnx"])
def test_what_cannot_embed_is_no_embedder(embedder: Any) -> None:
    with pytest.raises(InvalidError) as refused:
        Memory(stores="sqlite://:memory:", embedder=embedder)
    assert refused.value.faults[0].pointer == "/embedder"
    assert "onnx" in refused.value.faults[0].accepted


#: One of every kind that a caller may hand over by mistake.
WRONG: tuple[Any, ...] = (5, "x", [5], object(), b"x")


def methods() -> list[str]:
    """Everything that can be asked of a memory, but for its own beginning and end."""
    return [
        name
        for name, value in inspect.getmembers(Memory, inspect.isfunction)
        if not name.startswith("_") and name not in ("open", "close", "flush")
    ]


def calls(name: str, place: Path) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """The method with one value wrong at a time, everything else right enough."""
    told = [
        parameter
        for parameter in inspect.signature(getattr(Memory, name)).parameters.values()
        if parameter.name != "self"
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    for target in told:
        kind = str(target.annotation)
        if (
            "Callable" in kind or "bool" in kind
        ):  # truth is anything's, and what is called is the caller's own
            continue
        for value in WRONG:
            if "Path" in kind and isinstance(value, str):
                continue
            given: list[Any] = []
            named: dict[str, Any] = {}
            for parameter in told:
                usual = place if "Path" in str(parameter.annotation) else "mem_1"
                if parameter is not target and parameter.default is not parameter.empty:
                    if parameter.kind is not parameter.POSITIONAL_ONLY:
                        continue
                    usual = parameter.default
                chosen = value if parameter is target else usual
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    given.append(chosen)
                else:
                    named[parameter.name] = chosen
            yield f"{target.name}={value!r}", given, named


@pytest.mark.parametrize("name", methods())
async def test_no_value_of_a_wrong_kind_ends_in_a_raw_error(
    memory: Memory, name: str, tmp_path: Path
) -> None:
    await memory.remember("x")
    for said, given, named in calls(name, tmp_path / "somewhere"):
        try:
            async with asyncio.timeout(0.3 if name == "changes" else 20):
                answer = getattr(memory, name)(*given, **named)
                await (anext(answer) if hasattr(answer, "__anext__") else answer)
        except (QuipuError, StopAsyncIteration, TimeoutError):
            continue
        except Exception as error:  # noqa: BLE001  whatever else comes is what is looked for
            pytest.fail(f"{name}({said}) raised {type(error).__name__}: {error}")
