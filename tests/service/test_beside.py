"""What stands beside the records is what the journal and the records say of it; on both ledgers, and while others write."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu.errors import BackendUnavailableError
from quipu.memory import Memory
from quipu.model.journal import Op
from tests.ledgers import altered, ledger_url

__all__ = ["ledger_url"]

RULES = {
    "rules": [{"id": "r1", "when": {"operations": ["expire"], "types": ["emotional"]}, "effect": "hold"}]
}


def opened(url: str) -> Memory:
    return Memory(agent_id="a", stores=url, embedder="none")


async def told(memory: Memory) -> dict[str, str]:
    """One of everything that stands beside the records; ids by what they are."""
    tea = await memory.remember("tea at noon")
    cup = await memory.remember(
        "a cup for it", links=[{"to": tea.id, "rel": "about"}], idempotency_key="once"
    )
    pot = await memory.remember("a pot")
    lid = await memory.remember("its lid", links=[{"to": pot.id, "rel": "part_of"}])
    await memory.merge(canonical=tea.id, duplicates=[pot.id])
    gone = await memory.remember("a saucer", links=[{"to": cup.id, "rel": "under"}])
    await memory.forget(ids=[gone.id], reason="it broke")
    mood = await memory.remember("calm", type="emotional")
    await memory.expire({"type": "emotional"}, action="demote", reason="it passed")
    erased = await memory.remember("nobody", links=[{"to": tea.id, "rel": "about"}])
    led = await memory.remember("somebody", links=[{"to": erased.id, "rel": "knows"}])
    await memory.forget(ids=[erased.id], hard_delete=True)
    await memory.create_store("garden")
    await memory.create_token("reader", permissions=["memory:read"])
    ended = await memory.create_token("former", permissions=["memory:read"])
    await memory.revoke_token(ended.token.id)
    turned = await memory.create_token("turned", permissions=["memory:read"])
    await memory.rotate_token(turned.token.id, grace_ms=60_000)
    await memory.add_secret("door", "a long way to Porto")
    await memory.add_secret("gate", "an even longer way", run_id="run_1")
    await memory.add_webhook("https://example.org/notices", agents=["a"])
    await memory.set_rules(RULES)
    await memory.remember("yes to this", approval_required=True)
    await memory.decide((await memory.proposals())[0].id, approved=True)
    await memory.remember("no to this", approval_required=True)
    await memory.decide((await memory.proposals())[0].id, approved=False, reason="not now")
    await memory.remember("wait for me", approval_required=True)
    return {"tea": tea.id, "cup": cup.id, "lid": lid.id, "mood": mood.id, "led": led.id, "gone": gone.id}


async def faults(url: str, statement: str, *values: str) -> list[str]:
    """The kinds that are found after a statement; the memory was sound before it."""
    async with opened(url) as memory:
        names = await told(memory)
        await memory.recall("tea")
        assert (await memory.verify()).faults == ()
    assert altered(url, statement, *[names.get(value, value) for value in values]) > 0
    async with opened(url) as memory:
        return [fault.kind for fault in (await memory.verify()).faults]


DEEDS: dict[str, tuple[str, ...]] = {
    "a link that is gone": ("DELETE FROM link WHERE from_id = {}", "cup"),
    "a link to something else": ("UPDATE link SET to_id = {} WHERE from_id = {}", "lid", "cup"),
    "another kind of link": ("UPDATE link SET rel = 'denies' WHERE from_id = {}", "cup"),
    "a link that ended": ("UPDATE link SET died = born + 1 WHERE from_id = {}", "cup"),
    "a link that was ended and stands": ("UPDATE link SET died = NULL WHERE from_id = {}", "gone"),
    "a link that a merge had led on": ("DELETE FROM link WHERE from_id = {} AND died IS NULL", "lid"),
    "a link to what was merged away": (
        "UPDATE link SET died = CASE WHEN died IS NULL THEN born END WHERE from_id = {}",
        "lid",
    ),
    "a link nobody made, and that only an erasure follows": (
        "INSERT INTO link (tenant, from_id, to_id, rel, born, died) VALUES ('default', {}, {}, 'compacted_from', 3, 3)",
        "tea",
        "cup",
    ),
    "a link nobody made": (
        "INSERT INTO link (tenant, from_id, to_id, rel, born) VALUES ('default', {}, {}, 'about', 3)",
        "tea",
        "cup",
    ),
    "a record that ranks as before": ("UPDATE mark SET demoted = NOT demoted WHERE id = {}", "mood"),
    "a record that ranks lower": ("UPDATE mark SET demoted = NOT demoted WHERE id = {}", "tea"),
    "rules that do something else": (
        "UPDATE tenant SET rules = {}",
        '[{"id": "r1", "when": {}, "effect": "allow"}]',
    ),
    "no rules": ("UPDATE tenant SET rules = NULL",),
    "a token's rights": ("UPDATE token SET permissions = '[\"memory:admin\"]' WHERE name = 'reader'",),
    "a token's text": ("UPDATE token SET digest = (SELECT hash FROM tenant) WHERE name = 'reader'",),
    "a token's user": ("UPDATE token SET user_id = 'mara' WHERE name = 'reader'",),
    "a token that was ended": ("UPDATE token SET revoked_at = NULL WHERE name = 'former'",),
    "a token that is gone": ("DELETE FROM token WHERE name = 'reader'",),
    "a token nobody issued": (
        "INSERT INTO token (tenant, id, digest, name, prefix, permissions, agents, created_at, created_by)"
        " SELECT tenant, 'tok_1', (SELECT hash FROM tenant), 'x', 'qp_', permissions, agents, 1, 'x' FROM token"
        " WHERE name = 'reader'",
    ),
    "a token that was rotated": ("UPDATE token SET revoked_at = NULL WHERE name = 'turned'",),
    "a token that is good for longer": (
        "UPDATE token SET revoked_at = revoked_at + 5 WHERE name = 'turned' AND revoked_at IS NOT NULL",
    ),
    "a token that nobody ended": ("UPDATE token SET revoked_at = 5 WHERE name = 'reader'",),
    "a store that is gone": ("DELETE FROM store WHERE name = 'garden'",),
    "a store's name": ("UPDATE store SET name = 'yard' WHERE name = 'garden'",),
    "a store's scope": ("UPDATE store SET scope = 'global' WHERE name = 'garden'",),
    "the first store's scope": ("UPDATE store SET scope = 'global' WHERE name = 'main'",),
    "a secret's label": ("UPDATE secret SET label = 'window' WHERE label = 'door'",),
    "which run a secret is for": ("UPDATE secret SET run_id = NULL WHERE label = 'gate'",),
    "what a secret is": (
        "UPDATE secret SET sealed = (SELECT sealed FROM secret WHERE label = 'gate') WHERE label = 'door'",
    ),
    "where notices go": ("UPDATE webhook SET url = 'https://example.org/elsewhere'",),
    "whose notices go there": ("UPDATE webhook SET agents = '[]'",),
    "the key of notices": ("UPDATE webhook SET sealed = (SELECT sealed FROM secret WHERE label = 'door')",),
    "a door that is shut": ("UPDATE tenant SET suspended_at = 5",),
    "a reason": ("UPDATE reason SET text = 'it was mine' WHERE record_id = {}", "gone"),
    "a reason that is gone": ("DELETE FROM reason WHERE record_id = {}", "mood"),
    "a reason nobody gave": (
        "INSERT INTO reason (tenant, record_id, seq, text) VALUES ('default', {}, 3, 'mine')",
        "tea",
    ),
    "a reason that is said to be another's": (
        "INSERT INTO reason (tenant, record_id, seq, text) SELECT tenant, {}, seq, text FROM reason WHERE record_id = {}",
        "tea",
        "gone",
    ),
    "an answer to a repetition": ("UPDATE answer SET seq = seq + 1 WHERE key = 'once'",),
    "an answer about something else": (
        "UPDATE answer SET answer = {} WHERE key = 'once'",
        '{"id": "mem_other", "stored_at": 1, "stores": []}',
    ),
    "what a search leaves out": ("UPDATE record SET emptied = 5 WHERE id = {}", "tea"),
    "what a record is about": ("UPDATE record SET subject = 'Eve' WHERE id = {}", "tea"),
}


#: One for each statement by which a ledger reads such things.
ON_BOTH = (
    "a link that a merge had led on", "a link nobody made", "a record that ranks lower", "a token's text",
    "an answer to a repetition", "a reason", "a store's name", "what a secret is", "where notices go", "what a search leaves out", "what a record is about", "no rules",
)  # fmt: skip


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
async def test_what_was_altered_beside_the_records_is_found(tmp_path: Path, deed: tuple[str, ...]) -> None:
    statement, *values = deed
    found = await faults(f"sqlite://{tmp_path}/memory.db", statement, *values)
    assert set(found) == {"beside_differs"}


@pytest.mark.parametrize("name", ON_BOTH)
async def test_it_is_found_on_a_server_too(postgres_url: str, name: str) -> None:
    statement, *values = DEEDS[name]
    assert set(await faults(postgres_url, statement, *values)) == {"beside_differs"}


OTHERS: dict[str, tuple[str, str, str]] = {
    "how a version ended": ("UPDATE record SET ending = 'expired' WHERE id = {}", "gone", "life_differs"),
    "what a record was merged into": (
        "UPDATE record SET merged_into = 'mem_x' WHERE merged_into = {}",
        "tea",
        "life_differs",
    ),
    "how far history was pruned": ("UPDATE tenant SET horizon = 4 WHERE horizon < {}", "4", "wrong_head"),
    "when the chain grew last": ("UPDATE tenant SET at = at + {}", "5", "wrong_head"),
    "a held write that is gone": (
        "DELETE FROM proposal WHERE operation = {}",
        "remember",
        "altered_proposal",
    ),
    "a held write that was decided": (
        "UPDATE proposal SET status = 'approved' WHERE status = {}",
        "pending",
        "altered_proposal",
    ),
    "that a held write is gone with an erasure": (
        "UPDATE proposal SET status = 'rejected', request = NULL, salt = NULL, reviewer = 'erased', reviewed_at = 5"
        " WHERE status = {}",
        "pending",
        "altered_proposal",
    ),
    "how many must say yes": (
        "UPDATE proposal SET approvals = 2 WHERE status = {}",
        "pending",
        "altered_proposal",
    ),
    "until when a write waits": (
        "UPDATE proposal SET lapses_at = lapses_at + 1 WHERE status = {}",
        "pending",
        "altered_proposal",
    ),
    "which record a held write is about": (
        "UPDATE proposal SET record_id = 'mem_x' WHERE status = {}",
        "pending",
        "altered_proposal",
    ),
    "that a no was a yes": (
        "UPDATE proposal SET status = 'approved' WHERE status = {}",
        "rejected",
        "altered_proposal",
    ),
    "who decided": (
        "UPDATE proposal SET reviewer = 'eve' WHERE status = {}",
        "approved",
        "altered_proposal",
    ),
    "when it was decided": (
        "UPDATE proposal SET reviewed_at = reviewed_at - 1 WHERE status = {}",
        "approved",
        "altered_proposal",
    ),
    "a yes that nobody asked for": (
        "INSERT INTO proposal (tenant, id, operation, agent_id, writer, held_by, status, created_at, given)"
        " SELECT tenant, 'prp_x', operation, agent_id, writer, held_by, status, created_at, given FROM proposal"
        " WHERE status = {}",
        "approved",
        "altered_proposal",
    ),
    "a decision that is gone": (
        "DELETE FROM proposal WHERE status = {}",
        "rejected",
        "altered_proposal",
    ),
    "rules that are none": ("UPDATE tenant SET rules = {}", "[7]", "damaged_file"),
    "a permission that nobody has": (
        "UPDATE token SET permissions = {}",
        '["memory:everything"]',
        "damaged_file",
    ),
    "an event that nobody is told of": ("UPDATE webhook SET events = {}", '["dawn"]', "damaged_file"),
    "whose a held write is": ("UPDATE proposal SET writer = {}", "eve", "altered_proposal"),
    "a yes to a held write": (
        "UPDATE proposal SET given = {}",
        '[{"reviewer":"eve","at":1,"etag":"x"}]',
        "altered_proposal",
    ),
}


@pytest.mark.parametrize("deed", OTHERS.values(), ids=OTHERS)
async def test_what_was_altered_around_a_record_is_named_first(
    tmp_path: Path, deed: tuple[str, str, str]
) -> None:
    statement, value, kind = deed
    given: Any = int(value) if value.isdigit() else value
    assert (await faults(f"sqlite://{tmp_path}/memory.db", statement, given))[0] == kind


async def test_a_memory_that_others_change_meanwhile_holds(ledger_url: str) -> None:
    async with opened(ledger_url) as memory, opened(ledger_url) as other:
        await told(memory)
        is_done = asyncio.Event()

        async def change() -> None:
            number = 0
            while not is_done.is_set():
                number += 1
                one = await other.remember(f"one {number}")
                two = await other.remember(
                    "two", links=[{"to": one.id, "rel": "about"}], idempotency_key=f"{number}"
                )
                await other.remember("changed", id=two.id, reasoning="better so")
                await other.merge(canonical=two.id, duplicates=[one.id])
                await other.expire(
                    {"type": "semantic", "no_recall_in_days": 1}, action="demote", reason="old"
                )
                await other.forget(ids=[two.id], hard_delete=number % 2 == 0)
                await other.create_token(f"t{number}", permissions=["memory:read"])

        changing = asyncio.create_task(change())
        try:
            for _ in range(6):
                assert (await memory.verify()).faults == ()
        finally:
            is_done.set()
            await changing
        assert (await memory.verify()).faults == ()


async def test_history_that_was_pruned_is_no_fault_of_what_stands_beside(ledger_url: str) -> None:
    async with opened(ledger_url) as memory:
        names = await told(memory)
        await memory.remember("changed", id=names["cup"], reasoning="better so")
        service: Any = await memory._service()
        ledger = service.audit._parts.ledger
        await ledger.prune("default", (await ledger.head("default")).seq)
        assert (await memory.verify()).faults == ()
        await memory.forget(ids=[names["tea"]], hard_delete=True)
        assert (await memory.verify()).faults == ()


async def test_a_reason_is_told_by_a_digest_that_goes_with_what_it_is_about(tmp_path: Path) -> None:
    async with opened(str(tmp_path / "memory.db")) as memory:
        one, two = await memory.remember("one"), await memory.remember("two")
        await memory.forget(ids=[one.id], reason="gone")
        await memory.forget(ids=[two.id], reason="gone")
        first, second = [e.detail["reason"] for e in await memory.journal() if e.op is Op.FORGET]
        assert first != second
        await memory.forget(ids=[one.id], hard_delete=True)
        assert (await memory.verify()).holds


async def test_a_ledger_that_cannot_be_reached_is_no_fault(tmp_path: Path) -> None:
    async with opened(str(tmp_path / "memory.db")) as memory:
        await memory.remember("one")
        service: Any = await memory._service()
        ledger = service.audit._parts.ledger

        async def gone(_tenant: str) -> frozenset[str]:
            raise BackendUnavailableError("The server went away.", reason="unreachable")

        ledger.demoted = gone
        with pytest.raises(BackendUnavailableError):
            await memory.verify()


class Meanwhile:
    """A ledger in which somebody else is quick, whenever something is about to be read."""

    def __init__(self, ledger: Any, reads: str, happens: Callable[[], Awaitable[object]]) -> None:
        self._ledger, self._reads, self._happens = ledger, reads, happens

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ledger, name)
        if name != self._reads:
            return found

        async def read(*given: Any) -> Any:
            await self._happens()
            return await found(*given)

        return read


@pytest.mark.parametrize("reads", ["tokens", "demoted", "rules", "links_from", "versions"])
async def test_what_others_change_between_two_looks_is_no_fault(tmp_path: Path, reads: str) -> None:
    async with opened(str(tmp_path / "memory.db")) as memory:
        names = await told(memory)
        service: Any = await memory._service()
        parts, number = service.audit._parts, iter(range(4))

        async def others() -> None:
            now = str(next(number, ""))
            if not now:
                return
            await memory.create_token(f"t{now}", permissions=["memory:read"])
            await memory.remember("moved", type="emotional")
            await memory.expire({"type": "emotional"}, action="demote")
            await memory.set_rules({"rules": [{**RULES["rules"][0], "id": f"r{now}"}]})
            await memory.remember("held", approval_required=True)
            await memory.remember(f"lid {now}", id=names["lid"], links=[{"to": names["cup"], "rel": now}])

        service.audit._parts = replace(parts, ledger=Meanwhile(parts.ledger, reads, others))
        assert (await memory.verify()).faults == ()
