"""Every argument of every call, given what it is not: told in our words, with its place, and nothing is written."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quipu.sync
from quipu import InvalidError, Memory, QuipuError

PATIENCE_S = 30
_BEGIN_S = 0.5
HALF = "\ud800"
MACHINE = {
    "name": "tea",
    "states": ["cold", "hot"],
    "initial": "cold",
    "transitions": [{"trigger": "boil", "source": "cold", "dest": "hot"}],
}


class Unshown:
    """What cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def deep() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(3_000):
        found = {"a": found}
    return found


def cyclic() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["a"] = found
    return found


def one_by_one() -> Iterator[str]:
    yield "a"


#: Made anew for each call: the kind it passes for at a glance, and the value.
VALUES: dict[str, tuple[str, Callable[[], Any]]] = {
    "nothing": ("None", lambda: None),
    "a yes": ("bool", lambda: True),
    "a number": ("int", lambda: 7),
    "a number beyond 64 bits": ("int", lambda: 10**19),
    "a number that cannot be written": ("int", lambda: 10**5_000),
    "a fraction": ("float", lambda: 1.5),
    "no number": ("float", lambda: math.nan),
    "without end": ("float", lambda: math.inf),
    "half a character": ("str", lambda: HALF),
    "bytes": ("bytes", lambda: b"x"),
    "a time without a zone": ("object", lambda: datetime.datetime(2026, 1, 1)),  # noqa: DTZ001  that is the point
    "an exact number": ("object", lambda: decimal.Decimal(1)),
    "an object": ("object", object),
    "what cannot be shown": ("object", Unshown),
    "a list of nothing": ("list", lambda: [None]),
    "a list of numbers": ("list", lambda: [7]),
    "a list of half a character": ("list", lambda: [HALF]),
    "a list of objects": ("list", lambda: [{"a": [1]}]),
    "a list of what cannot be shown": ("list", lambda: [Unshown()]),
    "a list of something deep": ("list", lambda: [deep()]),
    "one by one": ("one_by_one", one_by_one),
    "something deep": ("dict", deep),
    "something cyclic": ("dict", cyclic),
    "a key that is no text": ("dict", lambda: {1: 2}),
    "a set within": ("dict", lambda: {"a": {1}}),
}
#: A call that is right, to which one wrong value is given at a time; calls that are not named need no argument.
CALLS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "remember": (["Deploys happen on Tuesdays"], {}),
    "recall": (["deploys"], {}),
    "forget": ([], {"ids": ["mem_1"], "dry_run": True}),
    "merge": (["mem_1", ["mem_2"]], {"dry_run": True}),
    "expire": ([{"older_than_days": 1}], {"dry_run": True}),
    "submit": (["recall", {"query": "x"}], {}),
    "remember_many": ([["tea"]], {}),
    "get": (["@record"], {}),
    "history": (["@record"], {}),
    "restore": (["@record"], {}),
    "create_store": (["attic"], {}),
    "delete_store": (["cellar"], {"confirm": "cellar"}),
    "review": (["prp_1"], {}),
    "decide": (["prp_1"], {"approved": False}),
    "set_rules": ([{"rules": []}], {}),
    "import_records": ([[{"content": "x"}]], {"dry_run": True}),
    "export_journal": (["journal"], {}),
    "backup": (["copy.db"], {}),
    "import_file": (["pasted.txt"], {"dry_run": True}),
    "decide_import": (["imp_1"], {"approved": False}),
    "roll_back_import": (["imp_1"], {}),
    "export_file": (["out.zip"], {}),
    "step": (["@machine", "boil"], {"persist": False}),
    "procedure": (["@machine"], {}),
    "consolidate": ([], {"dry_run": True}),
    "undo_consolidation": (["pass_1"], {}),
    "neighbours": (["@record"], {}),
    "changes": ([], {"since": 0}),
    "accept_rule": (["sug_1"], {}),
    "dismiss_rule": (["sug_1"], {}),
    "recover": ([], {"run_id": "run_1"}),
    "add_webhook": (["https://hooks.example.org/x"], {}),
    "remove_webhook": (["wh_1"], {}),
    "ping_webhook": (["wh_1"], {}),
    "verify_mirror": (["copy"], {}),
    "resync_mirror": (["copy"], {}),
    "create_token": (["writer"], {"roles": ["agent"]}),
    "revoke_token": (["tok_1"], {}),
    "rotate_token": (["tok_1"], {}),
    "create_tenant": (["other"], {}),
    "suspend_tenant": (["nobody"], {}),
    "resume_tenant": (["nobody"], {}),
    "add_secret": (["label", "a-value-that-is-long"], {}),
    "remove_secret": (["sec_1"], {}),
}
#: What is wrong with an item of these is told in its place of the answer.
_EACH = {("remember_many", "items"), ("import_records", "lines")}
METHODS = [
    name
    for name, method in inspect.getmembers(Memory)
    if not name.startswith("_")
    and name not in ("open", "close")
    and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method))
    and len(inspect.signature(method).parameters) > 1
]


def passes_for(kind: str, annotation: str) -> bool:
    """Whether a value may be what the annotation asks for; what it holds is another matter."""
    words = annotation.replace("[", " ").replace("]", " ").replace(",", " ").split()
    match kind:
        case "None":
            return "None" in words or "EmbeddingLike" in annotation
        case "bool" | "str":
            return kind in words
        case "int":
            return "int" in words or "float" in words
        case "float":
            return "float" in words
        case "dict":
            return any(word in annotation for word in ("Mapping", "Json", "EmbeddingLike"))
        case "one_by_one":
            return any(word in annotation for word in ("Sequence", "Iterable"))
        case "list":  # none of them is a list of texts
            return False
        case _:
            return False


async def asked(memory: Memory, name: str, positional: list[Any], named: dict[str, Any]) -> None:
    method = getattr(memory, name)
    if inspect.isasyncgenfunction(getattr(Memory, name)):
        # What begins is right: one that waits for the next change would wait for ever.
        beginning = asyncio.ensure_future(anext(method(*positional, **named), None))
        await asyncio.wait({beginning}, timeout=_BEGIN_S)
        if not beginning.done():
            beginning.cancel()
            await asyncio.wait({beginning})
            return
        await beginning
        return
    await method(*positional, **named)


def given(name: str, parameter: str, value: Any, known: dict[str, str]) -> tuple[list[Any], dict[str, Any]]:
    """The right call, with this one value in its place."""
    right, named = CALLS.get(name, ([], {}))
    positional = [known.get(one, one) if isinstance(one, str) else one for one in right]
    ordered = [
        one
        for one in list(inspect.signature(getattr(Memory, name)).parameters.values())[1:]
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    places = [one.name for one in ordered]
    if parameter not in places:
        return positional, {**named, parameter: value}
    positional += [one.default for one in ordered[len(positional) :]]
    positional[places.index(parameter)] = value
    return positional, dict(named)


@pytest.mark.parametrize("name", METHODS)
async def test_what_an_argument_is_not_is_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pasted.txt").write_text("Mara likes tea.\n")
    wrong: list[str] = []
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        known = {
            "@record": (await memory.remember("Deploys happen on Tuesdays")).id,
            "@machine": (await memory.remember(MACHINE, type="procedural")).id,
        }
        for parameter in list(inspect.signature(getattr(Memory, name)).parameters.values())[1:]:
            if parameter.kind is parameter.VAR_KEYWORD:
                continue
            for said, (kind, made) in VALUES.items():
                positional, named = given(name, parameter.name, made(), known)
                may_be = passes_for(kind, str(parameter.annotation)) or (
                    kind == "list" and (name, parameter.name) in _EACH
                )
                case = f"{parameter.name}: {said}"
                try:
                    async with asyncio.timeout(PATIENCE_S):
                        await asked(memory, name, positional, named)
                except QuipuError as error:
                    error.message.encode()
                    if not may_be and not isinstance(error, InvalidError):
                        wrong.append(f"{case} is {error.code}")
                except Exception as error:  # noqa: BLE001  whatever else comes out is what this looks for
                    wrong.append(f"{case} ends in {type(error).__name__}")
                else:
                    if not may_be:
                        wrong.append(f"{case} is taken")
        assert wrong == []
        # What was right could be written, and can be read.
        assert (await memory.verify()).faults == ()
        assert [line async for line in memory.export()]
        await memory.test_rules()


def test_the_blocking_twin_tells_the_same(tmp_path: Path) -> None:
    with quipu.sync.Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        for call in (
            lambda: memory.remember_many(["tea"], atomic=_any(1.5)),
            lambda: memory.recover(trusted=_any([None])),
            lambda: memory.expire({"no_recall_in_days": 10**19}),
            lambda: memory.remember("tea", tags=_any([None])),
            lambda: memory.get("mem_1", as_of=10**5_000),
        ):
            with pytest.raises(InvalidError):
                call()
        assert memory.list().records == ()


def _any(value: object) -> Any:
    return value
