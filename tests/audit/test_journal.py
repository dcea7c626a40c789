"""Reading the journal, as far as a reviewer may see it."""

from typing import Any

import pytest

from quipu.audit.operations import JOURNAL, JOURNAL_HEAD, SIGN_CHECKPOINT
from quipu.errors import ForbiddenError, InvalidError
from quipu.memory.operations import CREATE_STORE, FORGET, RECALL, REMEMBER, UPDATE
from quipu.model.principal import Permission, Principal
from tests.audit.conftest import Audited

REVIEWER = frozenset({Permission.READ, Permission.REVIEW})


def reviewer(memory: Audited, **limits: Any) -> Principal:
    return memory.memory.named(name="carla", permissions=REVIEWER, **limits)


async def test_the_journal_says_who_did_what_and_no_word_of_it(memory: Audited) -> None:
    one = (await memory(REMEMBER, content="tea at noon", user_id="mara")).id
    await memory(UPDATE, id=one, content="tea at five", run_id="run_1")
    await memory(RECALL, query="tea", user_id="mara")
    await memory(FORGET, ids=[one])
    await memory.memory.service.read_log.flush()
    signed = await memory(SIGN_CHECKPOINT)
    page = await memory(JOURNAL, reviewer(memory))
    said = [(entry.seq, entry.op) for entry in page.entries]
    assert said == list(
        enumerate(["create_store", "remember", "update", "forget", "recall", "checkpoint"], 1)
    )
    assert "tea" not in page.model_dump_json()
    head = await memory(JOURNAL_HEAD)
    assert (page.head, page.signed, page.next_cursor) == (head, signed, None)
    assert (head.seq, head.hash) == (6, page.entries[-1].hash)
    for fields, expected in (
        ({"op": "update"}, [3]),
        ({"run": "run_1"}, [3]),
        ({"record": one}, [2, 3, 4, 5]),
        ({"record": one, "newest_first": True}, [5, 4, 3, 2]),
        ({"user_id": "mara"}, [2, 3, 4, 5]),
        ({"user_id": "otto"}, []),
        ({"actor": "system"}, [1]),
        ({"agent_id": "agent", "op": "remember"}, [2]),
        ({"since": memory.memory.clock() + 1}, []),
    ):
        found = await memory(JOURNAL, **fields)
        assert [entry.seq for entry in found.entries] == expected, fields


@pytest.mark.parametrize("newest_first", [False, True])
async def test_pages_follow_each_other_without_loss(memory: Audited, newest_first: bool) -> None:
    for number in range(11):
        await memory(REMEMBER, content=f"x {number}", agent_id="mine" if number % 3 else "other")
    for principal in (reviewer(memory), reviewer(memory, agents=("mine",))):
        whole = await memory(JOURNAL, principal, newest_first=newest_first)
        seqs: list[int] = []
        cursor: str | None = None
        while True:
            given = {} if cursor is None else {"cursor": cursor}
            page = await memory(JOURNAL, principal, limit=2, newest_first=newest_first, **given)
            seqs += [entry.seq for entry in page.entries]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seqs == [entry.seq for entry in whole.entries]
        assert seqs == sorted(seqs, reverse=newest_first)


async def test_a_reviewer_with_limits_sees_entries_of_what_it_may_see_only(memory: Audited) -> None:
    await memory(CREATE_STORE, name="attic")
    mine = (await memory(REMEMBER, content="x", agent_id="mine")).id
    theirs = (await memory(REMEMBER, content="x", user_id="them")).id
    stored = (await memory(REMEMBER, content="x", store="attic")).id
    both = [(await memory(REMEMBER, content="x", agent_id="mine", user_id="them")).id, mine]
    await memory(FORGET, ids=both, agent_id="mine")
    await memory(SIGN_CHECKPOINT)
    limits: list[tuple[dict[str, Any], set[str]]] = [
        ({"agents": ("mine",)}, {mine, both[0]}),
        ({"user_id": "them"}, {theirs, both[0]}),
        ({"review_stores": ("attic",)}, {stored}),
    ]
    for given, expected in limits:
        page = await memory(JOURNAL, reviewer(memory, **given))
        assert {one.id for entry in page.entries for one in entry.records} == expected
        said = page.model_dump_json()
        for name in {mine, theirs, stored, *both} - expected:
            assert name not in said, given
        # That its own store was made is all that it sees beside: nothing of the tenant as a whole.
        assert {entry.op for entry in page.entries if not entry.records} <= {"create_store"}


async def test_who_may_not_review_reads_no_journal(memory: Audited) -> None:
    with pytest.raises(ForbiddenError):
        await memory(JOURNAL, memory.memory.named(name="x", permissions=frozenset({Permission.READ})))
    for cursor in ("x", "-1", "1.5", "9" * 30):
        with pytest.raises(InvalidError):
            await memory(JOURNAL, cursor=cursor)
