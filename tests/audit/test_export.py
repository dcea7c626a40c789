"""An exported journal is verified by its files alone, and any alteration of them is told."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.audit.keys import KeySigner
from quipu.audit.model import CHECKPOINTS, FILES, JOURNAL, KEYS, RECORDS, TenantReport
from quipu.audit.offline import verified
from quipu.audit.operations import EXPORT_JOURNAL, SIGN_CHECKPOINT
from quipu.errors import ConflictError, ForbiddenError
from quipu.memory.operations import FORGET, REMEMBER, UPDATE
from quipu.model.principal import Permission
from quipu.operation import dispatch_stream
from tests.audit.conftest import TABLES, Audited, audited
from tests.audit.tampering import live
from tests.fixtures.memories import open_memory

Files = Mapping[str, list[str]]


async def exported(memory: Audited, **fields: Any) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    ctx = memory.memory.context()
    async for item in dispatch_stream(ctx, EXPORT_JOURNAL, fields):
        files.setdefault(item.file, []).append(item.line)
    return files


@pytest.fixture(scope="module")
def files() -> Files:
    """The export of a memory in which everything has happened."""

    async def made() -> Files:
        memory = audited(open_memory(tables=TABLES))
        await live(memory.memory)
        await memory(SIGN_CHECKPOINT)
        await memory(REMEMBER, content="behind the first signature")
        found = await exported(memory)
        await memory.close()
        return found

    return asyncio.run(made())


def test_the_page_says_how_another_program_checks_the_chain(files: Files, tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "howto" / "verify.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    scope: dict[str, Any] = {}
    exec(code, scope)  # noqa: S102  our own page
    journal = tmp_path / JOURNAL
    journal.write_text("\n".join(files[JOURNAL]), "utf-8")
    assert scope["last_hash"](tmp_path) == json.loads(files[CHECKPOINTS][-1])["hash"]
    journal.write_text("\n".join(files[JOURNAL]).replace('"forget"', '"forgot"'), "utf-8")
    with pytest.raises(ValueError, match="not what was written"):
        scope["last_hash"](tmp_path)


def proven(report: TenantReport) -> bool:
    return report.is_verified and not report.reasons


async def test_an_export_verifies_by_its_files_alone(busy: Audited) -> None:
    await busy(SIGN_CHECKPOINT)
    files = await exported(busy)
    assert set(files) == set(FILES)
    found = verified(files)
    assert (found.faults, found.reasons) == ((), ())
    assert (found.entries, found.records, found.checkpoints) == (
        len(files[JOURNAL]),
        len(files[RECORDS]),
        2,
    )


def test_the_journal_holds_no_content_and_the_export_nothing_erased(files: Files) -> None:
    journal, records = "\n".join(files[JOURNAL]), "\n".join(files[RECORDS])
    for word in ("tea", "cake", "mara", "sweet", "correct-horse"):
        assert word not in journal
    assert "erased later" not in records
    assert "correct-horse" not in records


def test_an_export_without_its_signatures_is_not_called_proven(files: Files) -> None:
    unsigned = verified({name: lines for name, lines in files.items() if name not in (CHECKPOINTS, KEYS)})
    assert unsigned.reasons == ("unsigned",)
    assert [fault.kind for fault in unsigned.faults] == ["missing_checkpoint"]
    first_only = verified({**files, CHECKPOINTS: files[CHECKPOINTS][:1]})
    assert (first_only.faults, first_only.reasons) == ((), ("unsigned_end",))
    without_keys = verified({**files, KEYS: []})
    assert "missing_key" in without_keys.reasons
    without_records = verified({name: files[name] for name in (JOURNAL, CHECKPOINTS, KEYS)})
    assert (without_records.faults, without_records.reasons) == ((), ("missing_records",))
    assert verified({}).reasons == ("unsigned",)


def test_keys_from_elsewhere_are_believed_and_not_those_of_the_export(files: Files) -> None:
    (line,) = files[KEYS]
    assert proven(verified(files, json.loads(line)))
    stranger = KeySigner.fresh()
    found = verified(files, dict(stranger.known_keys))
    assert not proven(found)
    assert "missing_key" in found.reasons


def test_lines_that_were_removed_moved_or_repeated_are_told(files: Files) -> None:
    for name in (JOURNAL, RECORDS, CHECKPOINTS):
        lines = files[name]
        for place in range(len(lines)):
            left, line, right = lines[:place], lines[place], lines[place + 1 :]
            for changed in ([*left, *right], [*left, line, line, *right]):
                assert not proven(verified({**files, name: changed})), (name, place)
            if right and name == JOURNAL:
                assert not proven(verified({**files, name: [*left, right[0], line, *right[1:]]}))


@pytest.mark.parametrize("name", [JOURNAL, RECORDS, CHECKPOINTS])
def test_a_name_that_stands_twice_in_an_object_is_refused(files: Files, name: str) -> None:
    """It means one thing to us and another to the next reader."""
    first, *rest = files[name]
    member = next(iter(json.loads(first)))
    for twice in (
        first.replace("{", f'{{"{member}":"eve",', 1),
        first[:-1] + f',"{member}":{json.dumps(json.loads(first)[member])}}}',
    ):
        assert not verified({**files, name: [twice, *rest]}).is_verified


@given(data=st.data())
def test_any_character_that_is_altered_is_told(files: Files, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([JOURNAL, RECORDS, CHECKPOINTS]))
    lines = files[name]
    number = data.draw(st.integers(0, len(lines) - 1))
    line = lines[number]
    place = data.draw(st.integers(0, len(line) - 1))
    other = data.draw(st.sampled_from('0a1"}{,: xZ9n'))
    altered = line[:place] + other + line[place + 1 :]
    try:
        is_same = json.loads(line) == json.loads(altered)
    except ValueError:
        is_same = False
    if is_same:
        return
    assert not proven(verified({**files, name: [*lines[:number], altered, *lines[number + 1 :]]}))


def test_lines_that_are_no_lines_are_told(files: Files) -> None:
    deep = "[" * 100_000
    for name in (JOURNAL, RECORDS, CHECKPOINTS):
        for wrong in ("[]", "{}", "null", "7", deep, '{"a":NaN}', '{"seq":1e999}'):
            assert not proven(verified({**files, name: [*files[name], wrong]})), (name, wrong[:20])


async def test_writes_during_an_export_are_not_in_it_and_do_no_harm(memory: Audited) -> None:
    kept = [(await memory(REMEMBER, content=f"x {number}")).id for number in range(3)]
    files: dict[str, list[str]] = {}
    async for item in dispatch_stream(memory.memory.context(), EXPORT_JOURNAL, {}):
        if not files:
            await memory(UPDATE, id=kept[0], content="changed")
            await memory(FORGET, ids=[kept[1]])
            await memory(REMEMBER, content="new")
        files.setdefault(item.file, []).append(item.line)
    assert proven(verified(files))
    assert "changed" not in "".join(files[RECORDS])


async def test_an_erasure_during_an_export_ends_it(memory: Audited) -> None:
    """What is erased can neither be proven any more nor should it stand in the files."""
    kept = [(await memory(REMEMBER, content=f"x {number}")).id for number in range(3)]

    async def erasing_at(file: str) -> None:
        is_done = False
        async for item in dispatch_stream(memory.memory.context(), EXPORT_JOURNAL, {}):
            if item.file == file and not is_done:
                await memory(FORGET, ids=[kept.pop()], hard_delete=True)
                is_done = True

    for file in (JOURNAL, RECORDS):
        with pytest.raises(ConflictError) as refused:
            await erasing_at(file)
        assert refused.value.reason == "erased_meanwhile"
    assert proven(verified(await exported(memory)))


async def test_only_an_admin_exports(memory: Audited) -> None:
    await memory(REMEMBER, content="x")
    limits: list[dict[str, Any]] = [
        {"permissions": frozenset(Permission) - {Permission.ADMIN}},
        {"permissions": frozenset(Permission), "agents": ("mine",)},
        {"permissions": frozenset(Permission), "user_id": "me"},
    ]
    for given_ in limits:
        ctx = memory.memory.context(memory.memory.named(name="somebody", **given_))
        with pytest.raises(ForbiddenError):
            async for _ in dispatch_stream(ctx, EXPORT_JOURNAL, {}):
                pass


async def test_the_chain_alone_is_exported_without_memories(memory: Audited, tmp_path: Path) -> None:
    await memory(REMEMBER, content="x")
    files = await exported(memory, with_records=False)
    assert RECORDS not in files
    assert verified(files).reasons == ("missing_records",)
