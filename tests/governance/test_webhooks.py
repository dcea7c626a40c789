"""Webhooks: signed, in order, tried again, kept through a crash, and without a word that was not asked for."""

import asyncio
import hashlib
import hmac
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from quipu.access.credentials import Credentials
from quipu.access.model import TOKENS, Token
from quipu.errors import (
    BackendUnavailableError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    QuipuError,
    SecretLeakageError,
)
from quipu.governance import webhooks
from quipu.governance.model import PROPOSALS, WEBHOOK_POSITIONS, WEBHOOKS, Proposal
from quipu.governance.operations import (
    CREATE_WEBHOOK,
    DELETE_WEBHOOK,
    LIST_WEBHOOKS,
    TEST_WEBHOOK,
)
from quipu.governance.webhooks import MOST_WEBHOOKS, Delivery, Webhooks
from quipu.ledger.commit import Commit, Keep, Suspend
from quipu.ledger.driver import Driver
from quipu.ledger.ledger import Ledger
from quipu.ledger.sqlite.driver import SqliteDriver
from quipu.memory.operations import REMEMBER
from quipu.memory.scope import STORES
from quipu.model.journal import Draft
from quipu.model.principal import Permission, Principal, local
from quipu.operation import AnyOperation, Context, Services, dispatch
from quipu.outbound import Answer
from quipu.secrets.model import SECRETS
from quipu.secrets.operations import ADD_SECRET
from quipu.secrets.redaction import Guard
from quipu.secrets.sealing import KeySealer
from quipu.secrets.service import Secrets
from tests.fixtures.ledgers import database, engine, new_driver, postgres
from tests.fixtures.memories import Clock, Unlimited, Untraced, ids_from, open_memory

__all__ = ["database", "engine", "new_driver", "postgres"]

WORDS = "tangerine lighthouse"
ALL_TABLES = (STORES, SECRETS, TOKENS, PROPOSALS, WEBHOOKS, WEBHOOK_POSITIONS)
URL = "https://hooks.example/x"


@dataclass
class Receiver:
    """Other hosts: they note what they are sent, and answer as they are told."""

    statuses: list[int] = field(default_factory=list[int])
    got: list[tuple[str, bytes, Mapping[str, str]]] = field(default_factory=list[Any])
    before: Callable[[str], Any] | None = None

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        most_bytes: int = 0,
    ) -> Answer:
        if self.before is not None:
            await self.before(url)
        status = self.statuses.pop(0) if self.statuses else 204
        if not status:
            raise BackendUnavailableError(reason="no_answer")
        if status == 204:
            self.got.append((url, body, headers or {}))
        return Answer(status)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body, _ in self.got]


@dataclass
class Office:
    """One server, and what others do on its ledger."""

    ledger: Ledger
    webhooks: Webhooks
    receiver: Receiver
    services: Services
    clock: Clock
    secrets: Secrets
    numbers: Callable[[str], str]

    async def __call__(self, operation: AnyOperation, who: Principal | None = None, /, **fields: Any) -> Any:
        return await dispatch(Context(who or local(), self.clock, self.services), operation, fields)

    async def deliver(self) -> int:
        return await self.webhooks.delivery.deliver_due(self.clock())

    async def only(self) -> Any:
        (webhook,) = (await self(LIST_WEBHOOKS)).webhooks
        return webhook

    async def held(self, tenant: str = "default", agent: str = "ana", **given: Any) -> str:
        """A write that waits, as governance keeps it."""
        proposal = Proposal(
            id=self.numbers("prop"),
            operation=given.pop("operation", "remember"),
            agent_id=agent,
            request={"content": WORDS, "source": WORDS, **given.pop("request", {})},
            writer="shop-bot",
            held_by=("caller",),
            because=WORDS,
            created_at=self.clock(),
            traits={},
            **given,
        )
        await self.ledger.commit(self._commit(tenant, "hold", proposal, 0))
        return proposal.id

    async def decided(self, proposal_id: str, op: str = "approve", tenant: str = "default") -> None:
        kept = await self.ledger.kept(PROPOSALS, tenant, proposal_id)
        assert kept is not None
        status = "approved" if op == "approve" else "rejected"
        after = replace(kept.value, status=status, request=None, reviewer="carla", reason=WORDS)
        await self.ledger.commit(self._commit(tenant, op, after, kept.seq))

    def _commit(self, tenant: str, op: str, proposal: Proposal, expects: int) -> Commit:
        draft = Draft(
            op=op, actor="x", at=self.clock(), agent=proposal.agent_id, detail={"proposal": proposal.id}
        )
        return Commit(tenant=tenant, draft=draft, changes=(Keep(PROPOSALS, proposal, expects),))


def opened(
    ledger: Ledger, receiver: Receiver | None = None, *, clock: Clock | None = None, sealer: Any = None
) -> Office:
    clock, receiver, new_id = clock or Clock(), receiver or Receiver(), ids_from()
    secrets = Secrets(ledger, sealer or KeySealer(b"k" * 32), Guard(), new_id, sealed=(WEBHOOKS,))
    delivery = Delivery(
        ledger=ledger,
        sealing=secrets.sealing,
        outbound=receiver,
        clock=clock,
        new_id=lambda prefix: f"{prefix}_{os.urandom(8).hex()}",
        may_see_all=Credentials(ledger=ledger, clock=clock).is_whole_admin,
        public_url="https://memory.example/",
    )
    webhooks = Webhooks(
        ledger=ledger,
        redactor=secrets,
        sealing=secrets.sealing,
        delivery=delivery,
        new_id=new_id,
        random=os.urandom,
    )
    services = Services.of((*webhooks.bindings, *secrets.bindings), Unlimited(), Untraced())
    return Office(ledger, webhooks, receiver, services, clock, secrets, new_id)


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    ledger = Ledger(SqliteDriver(":memory:"), ALL_TABLES)
    yield opened(ledger)
    await ledger.close()


# -- what is told -------------------------------------------------------------------------------------------------


async def test_a_held_write_and_its_decision_are_told_in_order_without_a_word_of_it(office: Office) -> None:
    created = await office(CREATE_WEBHOOK, url=URL)
    held = await office.held()
    await office.decided(held)
    assert await office.deliver() == 2
    first, second = office.receiver.bodies
    assert (first["event"], second["event"]) == ("proposal.held", "proposal.approved")
    assert first["review_url"] == f"https://memory.example/review/{held}"
    assert (first["agent_id"], first["writer"], first["held_by"]) == ("ana", "shop-bot", ["caller"])
    assert WORDS not in str(office.receiver.got)
    assert await office.deliver() == 0, "nothing is told twice"
    url, body, headers = office.receiver.got[0]
    assert (url, headers["Quipu-Event"]) == (URL, "proposal.held")
    moment, _, digest = headers["Quipu-Signature"].partition(",v1=")
    signed = moment.removeprefix("t=").encode() + b"." + body
    assert digest == hmac.new(created.key.encode(), signed, hashlib.sha256).hexdigest()


async def test_only_what_was_asked_for_is_told_and_only_what_came_later(office: Office) -> None:
    before = await office.held()
    await office(CREATE_WEBHOOK, url=f"{URL}/decided", events=["proposal.rejected"])
    await office(CREATE_WEBHOOK, url=f"{URL}/bo", agents=["bo*"])
    await office.decided(before, "reject")
    await office.held(agent="bob")
    await office.deliver()
    told = sorted((url, json.loads(body)["event"]) for url, body, _ in office.receiver.got)
    assert told == [(f"{URL}/bo", "proposal.held"), (f"{URL}/decided", "proposal.rejected")]


async def test_one_tenant_is_told_nothing_of_another(office: Office) -> None:
    await office.ledger.open_tenant("acme", 1)
    await office(CREATE_WEBHOOK, url=f"{URL}/default")
    await office(CREATE_WEBHOOK, local("acme"), url=f"{URL}/acme")
    await office.held("acme")
    await office.held()
    assert await office.deliver() == 2
    told = {(url, json.loads(body)["tenant"]) for url, body, _ in office.receiver.got}
    assert told == {(f"{URL}/default", "default"), (f"{URL}/acme", "acme")}
    for operation in (DELETE_WEBHOOK, TEST_WEBHOOK):
        with pytest.raises(NotFoundError):
            await office(operation, local("acme"), id=(await office.only()).id)


async def test_a_suspended_tenant_hears_nothing_until_it_is_let_in_again(office: Office) -> None:
    await office(CREATE_WEBHOOK, url=URL)
    await office.held()
    for at, arrived in ((1, 0), (None, 1)):
        draft = Draft(op="suspend_tenant", actor="x", at=1)
        await office.ledger.commit(Commit(tenant="default", draft=draft, changes=(Suspend(at),)))
        assert await office.deliver() == arrived


async def test_content_is_told_only_where_it_was_asked_for_and_never_what_is_secret() -> None:
    memory = open_memory(tables=ALL_TABLES)
    office = opened(memory.ledger, clock=memory.clock)
    secret = {"content": WORDS, "privacy_intent": {"sensitivity": "secret"}}
    record = await memory(REMEMBER, **secret)
    plain = await memory(REMEMBER, content="something else")
    await office(CREATE_WEBHOOK, url=URL, with_content=True)
    await office.held()
    await office.held(operation="update", record_id=plain.id)
    await office.held(operation="update", record_id=record.id)
    await office.held(request=secret)
    await office.held(operation="remember_many", request={"items": [{"content": "x"}, secret]})
    await office.deliver()
    shown = [body.get("request", {}).get("content") for body in office.receiver.bodies]
    assert shown == [WORDS, WORDS, None, None, None]
    await memory.close()


@pytest.mark.parametrize(
    ("changed", "is_shown"),
    [
        ({}, True),
        ({"revoked_at": 1}, False),
        ({"review_stores": ("main",)}, False),
        ({"agents": ("ana",)}, False),
        ({"permissions": ("memory:read",)}, False),
    ],
)
async def test_content_goes_out_while_whoever_asked_for_it_may_see_it(
    office: Office, changed: dict[str, Any], is_shown: bool
) -> None:
    token = Token(
        id="tok_1",
        hash="h",
        name="mara",
        prefix="qp",
        permissions=("memory:admin",),
        created_at=1,
        created_by="local",
    )
    await office(CREATE_WEBHOOK, replace(local(), name="mara"), url=URL, with_content=True)
    draft = Draft(op="create_token", actor="local", at=1)
    await office.ledger.commit(
        Commit(tenant="default", draft=draft, changes=(Keep(TOKENS, replace(token, **changed), 0),))
    )
    await office.held()
    await office.deliver()
    (body,) = office.receiver.bodies
    assert ("request" in body) == is_shown


# -- what does not arrive -----------------------------------------------------------------------------------------


async def test_what_does_not_arrive_is_tried_again_later_and_nothing_overtakes_it(office: Office) -> None:
    await office(CREATE_WEBHOOK, url=URL)
    for _ in range(2):
        await office.held()
    office.receiver.statuses = [500, 0]
    assert await office.deliver() == 0
    webhook = await office.only()
    assert (webhook.attempts, webhook.error) == (1, "status_500")
    assert await office.deliver() == 0, "not before it is due"
    assert office.receiver.statuses == [0]
    office.clock.now += 10_000
    assert await office.deliver() == 0
    assert (await office.only()).error == "no_answer"
    office.clock.now += 10_000
    assert await office.deliver() == 0, "the second time it waits twice as long"
    office.clock.now += 10_000
    assert await office.deliver() == 2
    told = [body["seq"] for body in office.receiver.bodies]
    assert told == sorted(told)
    webhook = await office.only()
    assert (webhook.attempts, webhook.error, webhook.dropped, webhook.next_at) == (0, None, 0, None)


async def test_an_event_that_nobody_takes_is_given_up_and_the_next_one_goes_out(office: Office) -> None:
    await office(CREATE_WEBHOOK, url=URL)
    for _ in range(2):
        await office.held()
    office.receiver.statuses = [302] * webhooks.MOST_ATTEMPTS
    for _ in range(webhooks.MOST_ATTEMPTS):
        assert await office.deliver() == 0
        office.clock.now += 3_600_000
    webhook = await office.only()
    assert (webhook.dropped, webhook.error) == (1, "status_302")
    assert await office.deliver() == 1


async def test_without_the_key_nothing_is_sent_and_the_list_says_why(office: Office) -> None:
    await office(CREATE_WEBHOOK, url=URL)
    await office.held()
    other = opened(office.ledger, sealer=KeySealer.fresh())
    assert await other.deliver() == 0
    assert other.receiver.got == []
    assert (await office.only()).error == "missing_key"


def test_waits_grow_and_end() -> None:
    waits = [webhooks.wait_ms(attempt) for attempt in range(1, 20)]
    assert waits[:3] == [10_000, 20_000, 40_000]
    assert waits == sorted(waits)
    assert waits[-1] == 3_600_000


async def test_a_clock_that_was_wrong_for_a_while_holds_nothing_up(office: Office) -> None:
    await office(CREATE_WEBHOOK, url=URL)
    await office.held()
    office.clock.now += 24 * 3_600_000
    office.receiver.statuses = [500]
    assert await office.deliver() == 0
    office.clock.now -= 24 * 3_600_000
    assert await office.deliver() == 1


# -- side by side -------------------------------------------------------------------------------------------------


async def test_two_servers_do_not_send_the_same_event(new_driver: Callable[[], Driver]) -> None:
    ledgers = [Ledger(new_driver(), ALL_TABLES) for _ in range(2)]
    one, other = (opened(ledger) for ledger in ledgers)
    await one(CREATE_WEBHOOK, url=URL)
    await one.held()

    async def other_delivers(url: str) -> None:
        assert await other.deliver() == 0

    one.receiver.before = other_delivers
    assert await one.deliver() == 1
    one.receiver.before = None
    for _ in range(5):
        await one.held()
    assert sum(await asyncio.gather(one.deliver(), other.deliver(), one.deliver())) == 5
    told = [body["seq"] for body in (*one.receiver.bodies, *other.receiver.bodies)]
    assert len(told) == len(set(told)) == 6
    for ledger in ledgers:
        await ledger.close()


async def test_a_server_that_stops_while_it_sends_keeps_no_other_from_sending(office: Office) -> None:
    await office(CREATE_WEBHOOK, url=URL)
    await office.held()
    is_sending = asyncio.Event()

    async def never(url: str) -> None:
        is_sending.set()
        await asyncio.Event().wait()

    office.receiver.before = never
    sending = asyncio.create_task(office.deliver())
    async with asyncio.timeout(30):
        await is_sending.wait()
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending
    assert await opened(office.ledger).deliver() == 1


async def test_a_server_that_died_while_it_sent_holds_a_webhook_for_a_minute(office: Office) -> None:
    await office(CREATE_WEBHOOK, url=URL)
    await office.held()
    ((_, place),) = await office.webhooks.delivery.webhooks("default")
    assert await office.webhooks.delivery._claimed("default", place, office.clock())  # pyright: ignore[reportPrivateUsage]  as whoever dies
    assert await office.deliver() == 0
    office.clock.now += webhooks.LEASE_MS
    assert await office.deliver() == 1


async def test_a_server_that_was_away_too_long_writes_nothing_over_another(office: Office) -> None:
    await office(CREATE_WEBHOOK, url=URL)
    for _ in range(2):
        await office.held()
    other = opened(office.ledger, clock=office.clock)

    async def sleeps(url: str) -> None:
        office.receiver.before = None
        office.clock.now += webhooks.LEASE_MS
        assert await other.deliver() == 2

    office.receiver.before = sleeps
    assert await office.deliver() == 0
    assert (await office.only()).position >= other.receiver.bodies[-1]["seq"]
    assert await office.deliver() == 0


async def test_a_slow_one_delays_no_other(office: Office) -> None:
    arrived = asyncio.Event()

    async def waits(url: str) -> None:
        if url.endswith("/slow"):
            await arrived.wait()
        else:
            arrived.set()

    office.receiver.before = waits
    await office(CREATE_WEBHOOK, url=f"{URL}/slow")
    await office(CREATE_WEBHOOK, url=f"{URL}/quick")
    await office.held()
    async with asyncio.timeout(30):
        assert await office.deliver() == 2


async def test_a_slow_one_goes_on_by_itself_while_others_have_their_next_turn(office: Office) -> None:
    is_over = asyncio.Event()

    async def waits(url: str) -> None:
        if url.endswith("/slow"):
            await is_over.wait()

    office.receiver.before = waits
    office.webhooks = replace(office.webhooks, delivery=replace(office.webhooks.delivery, patience_s=0.2))
    await office(CREATE_WEBHOOK, url=f"{URL}/slow")
    await office(CREATE_WEBHOOK, url=f"{URL}/quick")
    async with asyncio.timeout(30):
        for _ in range(2):
            await office.held()
            assert await office.deliver() == 1
        is_over.set()
        assert await office.deliver() == 2
    told = [url.rpartition("/")[2] for url, _, _ in office.receiver.got]
    assert told == ["quick", "quick", "slow", "slow"]
    await office.webhooks.delivery.close()


async def test_one_that_takes_long_for_each_gets_the_rest_in_the_next_round(office: Office) -> None:
    async def slow(url: str) -> None:
        office.clock.now += 4_000

    office.receiver.before = slow
    await office(CREATE_WEBHOOK, url=URL)
    for _ in range(5):
        await office.held()
    assert [await office.deliver() for _ in range(3)] == [3, 2, 0]


async def test_a_webhook_that_is_deleted_while_it_is_told_stays_deleted(office: Office) -> None:
    webhook_id = (await office(CREATE_WEBHOOK, url=URL)).webhook.id
    for _ in range(2):
        await office.held()

    async def deleted(url: str) -> None:
        office.receiver.before = None
        await office(DELETE_WEBHOOK, id=webhook_id)

    office.receiver.before = deleted
    await office.deliver()
    assert len(office.receiver.got) == 1
    assert (await office(LIST_WEBHOOKS)).webhooks == ()
    assert await office.deliver() == 0


async def test_a_webhook_that_was_deleted_a_moment_ago_is_not_claimed(office: Office) -> None:
    webhook_id = (await office(CREATE_WEBHOOK, url=URL)).webhook.id
    ((_, place),) = await office.webhooks.delivery.webhooks("default")
    await office(DELETE_WEBHOOK, id=webhook_id)
    assert await office.webhooks.delivery._claimed("default", place, office.clock()) is None  # pyright: ignore[reportPrivateUsage]  as a round that began before
    assert await office.ledger.page(WEBHOOK_POSITIONS, "default") == []


async def test_a_quiet_webhook_writes_nothing(office: Office) -> None:
    await office(CREATE_WEBHOOK, url=URL, agents=["nobody"])
    for _ in range(5):
        await office.held()
        await office.deliver()
    assert await office.ledger.page(WEBHOOK_POSITIONS, "default") == []


# -- addresses ----------------------------------------------------------------------------------------------------


async def test_the_key_is_shown_once_and_kept_sealed(office: Office) -> None:
    created = await office(CREATE_WEBHOOK, url=URL)
    assert len(created.key) == 64
    assert created.key not in repr(created)
    assert created.key not in repr(await office(LIST_WEBHOOKS))
    assert created.key not in repr(await office.ledger.page(WEBHOOKS, "default"))


async def test_trying_one_says_what_is_wrong(office: Office) -> None:
    webhook_id = (await office(CREATE_WEBHOOK, url=URL)).webhook.id
    assert (await office(TEST_WEBHOOK, id=webhook_id)).status == 204
    assert office.receiver.bodies[0]["event"] == "test"
    office.receiver.statuses = [404, 0]
    for reason in ("status_404", "no_answer"):
        with pytest.raises(BackendUnavailableError) as refused:
            await office(TEST_WEBHOOK, id=webhook_id)
        assert refused.value.reason == reason
    assert (await office.only()).attempts == 0


async def test_who_may_and_what_is_refused(office: Office) -> None:
    admin = replace(local(), is_local=False, permissions=frozenset(Permission) - {Permission.OPERATE})
    for who in (
        replace(admin, permissions=admin.permissions - {Permission.ADMIN}),
        replace(admin, agents=("ana",)),
        replace(admin, user_id="me"),
        replace(admin, review_stores=("main",)),
    ):
        for operation, fields in (
            (CREATE_WEBHOOK, {"url": URL}),
            (LIST_WEBHOOKS, {}),
            (TEST_WEBHOOK, {"id": "x"}),
        ):
            with pytest.raises(ForbiddenError):
                await office(operation, who, **fields)
    for bad in (
        {"url": "ftp://x/y"},
        {"url": "https://u:p@example.org/"},
        {"url": ""},
        {"events": ["everything"]},
        {"events": []},
        {"agents": []},
        {"agents": ["a\0b"]},
        {"agents": ["a\ud800"]},
    ):
        with pytest.raises(InvalidError):
            await office(CREATE_WEBHOOK, **{"url": URL, **bad})
    await office(ADD_SECRET, label="pass", value="correct-horse-battery")
    for bad in ({"url": f"{URL}/correct-horse-battery"}, {"agents": ["correct-horse-battery"]}):
        with pytest.raises(SecretLeakageError):
            await office(CREATE_WEBHOOK, **{"url": URL, **bad})
    with pytest.raises(NotFoundError):
        await office(DELETE_WEBHOOK, id="whk_unknown")
    assert (await office(LIST_WEBHOOKS)).webhooks == ()


async def test_there_are_only_so_many(office: Office) -> None:
    for _ in range(MOST_WEBHOOKS):
        await office(CREATE_WEBHOOK, url=URL)
    with pytest.raises(QuipuError) as refused:
        await office(CREATE_WEBHOOK, url=URL)
    assert refused.value.reason == "too_large"


async def test_the_page_says_how_to_check_a_signature(office: Office) -> None:
    page = Path(__file__).parent.parent.parent / "docs" / "howto" / "webhooks.md"
    (code,) = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    found: dict[str, Any] = {}
    exec(code, found)  # noqa: S102  our own page
    key = (await office(CREATE_WEBHOOK, url=URL)).key
    await office.held()
    await office.deliver()
    ((_, body, headers),) = office.receiver.got
    now = office.clock() / 1000
    assert found["is_ours"](key, headers["Quipu-Signature"], body, now)
    assert not found["is_ours"](key, headers["Quipu-Signature"], body + b" ", now)
    assert not found["is_ours"](key, headers["Quipu-Signature"], body, now + 301)
    assert not found["is_ours"]("k" * 64, headers["Quipu-Signature"], body, now)
