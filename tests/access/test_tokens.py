"""Tokens and tenants: what is given, what is refused, what ends at once."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import pytest

from quipu.access.model import TABLES, TOKENS
from quipu.access.operations import (
    CREATE_SIGNIN_LINK,
    CREATE_TENANT,
    CREATE_TOKEN,
    LIST_TENANTS,
    LIST_TOKENS,
    OPERATIONS,
    RESUME_TENANT,
    REVOKE_TOKEN,
    ROTATE_TOKEN,
    SUSPEND_TENANT,
    WHOAMI,
)
from quipu.errors import UnauthenticatedError, UnverifiableError
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.driver import Driver
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.ledger.table import LEDGER_COLUMNS
from quipu.model.journal import Draft
from quipu.model.principal import Permission, local
from quipu.operation import authorised
from quipu.secrets.model import SECRETS, Secret
from quipu.secrets.redaction import Guard
from quipu.secrets.registered import RegisteredValue, compiled
from tests.access.conftest import Access, over, refusal
from tests.fixtures.memories import ids_from


async def test_a_token_stands_for_what_it_was_given(access: Access) -> None:
    bot = await access.new(
        "bot",
        "agent",
        agents=["ana", "bo-*"],
        user_id="mara",
        rate=7,
        recall_budget=9,
        review_stores=["shop"],
    )
    assert (bot.tenant, bot.name, bot.agents, bot.user_id) == ("default", "bot", ("ana", "bo-*"), "mara")
    assert bot.permissions == {Permission.READ, Permission.WRITE, Permission.DELETE}
    assert (bot.default_agent, bot.rate, bot.recall_budget, bot.is_local) == ("ana", 7, 9, False)
    assert (bot.review_stores, bot.trust) == (("shop",), "agent")
    assert (await access.new("boss", "admin")).trust == "user"


async def test_the_text_is_long_random_and_shown_once(access: Access) -> None:
    issued = [await access.issued(f"bot {number}") for number in range(20)]
    texts = [one.text for one in issued]
    assert len(set(texts)) == 20
    assert all(re.fullmatch(r"qp_default_[A-Za-z0-9_-]{43}", text) for text in texts)
    entries = await access.ledger.entries("default", JournalQuery())
    listed = await access(LIST_TOKENS)
    rows = await access.ledger.page(TOKENS, "default")
    seen = f"{listed!r} {entries!r} {rows!r} {issued!r}"
    assert not any(text in seen or text[11:] in seen for text in texts)
    assert [token.prefix for token in listed.tokens] == [text[:17] for text in texts]


async def test_whatever_is_no_known_credential_is_refused_alike(access: Access) -> None:
    await access(CREATE_TENANT, tenant="acme")
    good = await access.token("bot")
    forged = good.replace("qp_default_", "qp_acme_")
    almost = good[:-1] + ("A" if good[-1] != "A" else "B")
    texts = [
        "",
        "x",
        "qp_default_",
        "qp_default_" + "a" * 43,
        "qp_nobody_" + "a" * 43,
        "a.b.c",
        "x" * 100_000,
    ]
    texts += [
        forged,
        almost,
        good.upper(),
        good + "a",
        good + "\n",
        " " + good,
        "qp_DEFAULT_" + "a" * 43,
        "ä\0",
    ]
    said: set[str] = set()
    for text in texts:
        with pytest.raises(UnauthenticatedError) as refused:
            await access.shown(text)
        said.add(f"{refused.value.message} {refused.value.hint} {refused.value.reason}")
    assert len(said) == 1
    assert "nobody" not in [tenant.tenant for tenant in await access.ledger.tenants()], (
        "asking makes no tenant"
    )


async def test_one_read_tells_who_it_is(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    text = await access.token("bot")
    reads: list[str] = []
    read = access.ledger.read

    async def counted(tenant: str, work: Any, **how: Any) -> Any:
        reads.append(tenant)
        return await read(tenant, work, **how)

    monkeypatch.setattr(access.ledger, "read", counted)
    await access.shown(text)
    assert reads == ["default"]


async def test_revocation_is_effective_at_once_and_twice_does_no_harm(access: Access) -> None:
    issued = await access.issued("bot")
    assert (await access.shown(issued.text)).token_id == issued.token.id
    ended = await access(REVOKE_TOKEN, id=issued.token.id)
    assert await refusal(access.shown(issued.text)) == ("unauthenticated", "revoked_token")
    access.clock.now += 5
    assert await access(REVOKE_TOKEN, id=issued.token.id) == ended
    assert await refusal(access(REVOKE_TOKEN, id="tok_none")) == ("not_found", "token")


async def test_after_a_revocation_was_answered_nobody_uses_the_token(access: Access) -> None:
    issued = await access.issued("bot")

    async def use() -> None:
        for _ in range(20):
            try:
                await access.shown(issued.text)
            except UnauthenticatedError:
                return

    async def end() -> None:
        await access(REVOKE_TOKEN, id=issued.token.id)
        with pytest.raises(UnauthenticatedError):
            await access.shown(issued.text)

    await asyncio.gather(use(), end(), use())


async def test_a_token_expires(access: Access) -> None:
    text = await access.token("bot", expires_at=access.clock() + 1000)
    assert (await access.shown(text)).expires_at == access.clock() + 1000
    assert (await access.new("later", expires_at="30d")).expires_at == access.clock() + 30 * 86_400_000
    access.clock.now += 1000
    assert await refusal(access.shown(text)) == ("unauthenticated", "expired_token")
    for end in (access.clock(), "0s"):
        assert await refusal(access.token("late", expires_at=end)) == ("validation_error", "bad_value")


async def test_rotation_gives_a_new_text_and_ends_the_old_one(access: Access) -> None:
    first = await access.issued("bot", agents=["ana"], user_id="mara", rate=3)
    second = await access(ROTATE_TOKEN, id=first.token.id, grace_ms=500)
    old, new = await access.shown(first.text), await access.shown(second.text)
    assert replace(old, expires_at=None, token_id=None) == replace(new, token_id=None)
    assert old.expires_at == access.clock() + 500
    for asked in (500, 0):
        again = access(ROTATE_TOKEN, id=first.token.id, grace_ms=asked)
        assert await refusal(again) == ("conflict", "token_ended"), "one token has one successor"
    access.clock.now += 500
    assert await refusal(access.shown(first.text)) == ("unauthenticated", "revoked_token")
    third = await access(ROTATE_TOKEN, id=second.token.id)
    assert await refusal(access.shown(second.text)) == ("unauthenticated", "revoked_token")
    assert (await access.shown(third.text)).name == "bot"
    for grace in (-1, (1 << 63) - 1):
        asked = access(ROTATE_TOKEN, id=third.token.id, grace_ms=grace)
        assert (await refusal(asked))[0] == "validation_error"


async def test_a_name_stands_for_one_good_token(access: Access) -> None:
    first = await access.issued("bot")
    assert await refusal(access.token("bot")) == ("conflict", "name_taken")
    await access(REVOKE_TOKEN, id=first.token.id)
    second = await access.issued("bot")
    await access(ROTATE_TOKEN, id=second.token.id, grace_ms=1000)
    assert await refusal(access.token("bot")) == ("conflict", "name_taken")


async def test_of_many_who_create_one_name_at_once_one_gets_it(ledger: Ledger) -> None:
    """The name is the identity that approval goes by, so it is decided in the commit."""
    servers = [over(ledger, new_id=ids_from(1000 * number + 1)) for number in range(2)]
    await ledger.open_tenant("default", 1)
    asked = [servers[number % 2].issued("bot") for number in range(8)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 1
    assert {getattr(one, "reason", "made") for one in outcomes} == {"made", "name_taken"}
    assert await ledger.count(TOKENS, "default") == 1


async def test_the_first_token_is_made_once_though_several_servers_start_at_once(
    new_driver: Callable[[], Driver],
) -> None:
    opened = [Ledger(new_driver(), TABLES) for _ in range(3)]
    servers = [over(one, new_id=ids_from(1000 * number + 1)) for number, one in enumerate(opened)]
    made = await asyncio.gather(*(one.service.tokens.first(local(), one.clock()) for one in servers))
    issued = [one for one in made if one is not None]
    assert len(issued) == 1
    admin = await servers[0].shown(issued[0].text)
    assert (admin.name, admin.tenant) == ("admin", "default")
    assert admin.may(Permission.ADMIN)
    assert admin.may(Permission.OPERATE)
    assert issued[0].text not in repr(issued)
    assert await servers[0].service.tokens.first(local(), 1) is None
    for one in opened:
        await one.close()


async def test_there_is_no_first_token_where_any_tenant_has_one(access: Access) -> None:
    await access(CREATE_TENANT, tenant="acme")
    await access.token("bot", tenant="acme")
    assert await access.service.tokens.first(local(), access.clock()) is None


async def test_nobody_gives_more_than_they_have(access: Access) -> None:
    await access(CREATE_TENANT, tenant="acme")
    boss, bot = await access.new("boss", "admin"), await access.new("bot")
    await access.token("carla", "reviewer", by=boss)
    assert await refusal(access.token("ops", "operator", by=boss)) == ("forbidden", "missing_scope")
    asked = access(CREATE_TOKEN, boss, name="ops", permissions=["server:operate"])
    assert await refusal(asked) == ("forbidden", "missing_scope")
    for tenant in ("acme", "nobody"):  # whether it exists or not
        assert (await refusal(access.token("x", by=boss, tenant=tenant)))[0] == "forbidden"
        assert (await refusal(access(LIST_TOKENS, boss, tenant=tenant)))[0] == "forbidden"
    for call in (access(LIST_TOKENS, bot), access.token("y", by=bot)):
        assert (await refusal(call))[0] == "forbidden"


async def test_a_credential_with_limits_neither_creates_nor_rotates(access: Access) -> None:
    other = await access.issued("other")
    for number, limits in enumerate(
        (
            {"agents": ["ana"]},
            {"user_id": "mara"},
            {"review_stores": ["shop-*"]},
            {"review_operations": ["merge"]},
        )
    ):
        lead = await access.new(
            f"lead {number}", "agent", permissions=["tenant:manage", "memory:write"], **limits
        )
        for operation, fields in (
            (CREATE_TOKEN, {"name": "wide", "roles": ["agent"]}),
            (ROTATE_TOKEN, {"id": other.token.id}),
            (REVOKE_TOKEN, {"id": other.token.id}),
            (LIST_TOKENS, {}),
            (CREATE_SIGNIN_LINK, {"token_id": other.token.id}),
        ):
            assert (await refusal(access(operation, lead, **fields)))[0] == "forbidden"
    assert (await access.shown(other.text)).name == "other", "it goes on"


async def test_rotation_checks_what_the_rotator_may_give_as_creation_does(access: Access) -> None:
    """Whoever rotates a token holds its new text."""
    ops = await access.issued("ops", "operator", "admin")
    manager = await access.new("manager", permissions=["tenant:manage"])
    assert await refusal(access(ROTATE_TOKEN, manager, id=ops.token.id)) == ("forbidden", "missing_scope")
    asked = access(CREATE_SIGNIN_LINK, manager, token_id=ops.token.id)
    assert await refusal(asked) == ("forbidden", "missing_scope")
    assert (await access.shown(ops.text)).name == "ops"
    bot = await access.issued("bot")
    assert (await access(ROTATE_TOKEN, manager, id=bot.token.id)).token.created_by == "manager"


async def test_an_operator_runs_the_server_and_sees_no_memories(access: Access) -> None:
    ops = await access.new("ops", "operator")
    assert (await access(CREATE_TENANT, ops, tenant="acme")).tenant == "acme"
    assert [one.tenant for one in (await access(LIST_TENANTS, ops)).tenants] == ["acme", "default"]
    first = await access.new("first", "admin", by=ops, tenant="acme")
    assert (first.tenant, first.may(Permission.ADMIN)) == ("acme", True)
    for permission in (Permission.READ, Permission.WRITE, Permission.REVIEW, Permission.ADMIN):
        assert not ops.may(permission)
    assert await refusal(access.token("x", by=ops, tenant="nobody")) == ("not_found", "tenant")


async def test_a_suspended_tenant_is_refused_and_comes_back(access: Access) -> None:
    created = await access(CREATE_TENANT, tenant="acme")
    assert (created.created_at, created.suspended_at) == (access.clock(), None)
    assert await refusal(access(CREATE_TENANT, tenant="acme")) == ("conflict", "name_taken")
    text = await access.token("bot", tenant="acme")
    assert (await access.shown(text)).tenant == "acme"
    access.clock.now += 10
    suspended = await access(SUSPEND_TENANT, tenant="acme")
    assert suspended.suspended_at == access.clock()
    assert await refusal(access.shown(text)) == ("unauthenticated", "suspended_tenant")
    access.clock.now += 10
    assert await access(SUSPEND_TENANT, tenant="acme") == suspended
    assert (await access(LIST_TENANTS)).tenants[0] == suspended
    await access(RESUME_TENANT, tenant="acme")
    assert (await access.shown(text)).tenant == "acme"
    ops = [entry.op for entry in await access.ledger.entries("acme", JournalQuery())]
    assert ops == ["create_tenant", "create_token", "suspend_tenant", "resume_tenant"]


async def test_an_operator_does_not_shut_themselves_out(access: Access) -> None:
    ops = await access.new("ops", "operator")
    assert await refusal(access(SUSPEND_TENANT, ops, tenant="default")) == ("conflict", "own_tenant")


async def test_a_tenant_that_is_not_there_is_not_made_by_asking(access: Access) -> None:
    for name in ("nobody", "A", "a/b"):
        for operation in (SUSPEND_TENANT, RESUME_TENANT):
            assert await refusal(access(operation, tenant=name)) == ("not_found", "tenant")
    assert [one.tenant for one in await access.ledger.tenants()] == ["default"]


async def test_of_two_who_create_a_tenant_at_once_one_does(ledger: Ledger) -> None:
    server = over(ledger)
    asked = [server(CREATE_TENANT, tenant="acme") for _ in range(4)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert sorted(getattr(one, "reason", "made") for one in outcomes) == ["made", *["name_taken"] * 3]


async def test_lists_come_in_pages(access: Access) -> None:
    for number in range(5):
        await access.token(f"bot {number}")
        await access(CREATE_TENANT, tenant=f"t{number}")
    names: list[str] = []
    cursor = None
    while True:
        page = await access(LIST_TOKENS, limit=2, cursor=cursor)
        names += [token.name for token in page.tokens]
        if (cursor := page.next_cursor) is None:
            break
    assert names == [f"bot {number}" for number in range(5)]
    first = await access(LIST_TENANTS, limit=4)
    rest = await access(LIST_TENANTS, limit=4, cursor=first.next_cursor)
    assert [one.tenant for one in (*first.tenants, *rest.tenants)] == [
        "default",
        "t0",
        "t1",
        "t2",
        "t3",
        "t4",
    ]
    assert rest.next_cursor is None


async def test_creation_and_end_stand_in_the_journal_with_ids_only(access: Access) -> None:
    issued = await access.issued("Carla Meyer", "reviewer", agents=["ana"], user_id="mara")
    rotated = await access(ROTATE_TOKEN, id=issued.token.id)
    await access(REVOKE_TOKEN, id=rotated.token.id)
    entries = [one for one in await access.ledger.entries("default", JournalQuery()) if "token" in one.detail]
    assert [(one.op, one.detail["token"]) for one in entries] == [
        ("create_token", issued.token.id),
        ("rotate_token", rotated.token.id),
        ("revoke_token", rotated.token.id),
    ]
    assert "Carla" not in repr(entries)
    assert "mara" not in repr(entries)


async def test_bad_limits_of_a_reviewer_are_refused(access: Access) -> None:
    asked = access.token("x", "reviewer", review_operations=["destroy"])
    assert await refusal(asked) == ("validation_error", "bad_value")
    asked = access.token("x", agents=["bo-*"], default_agent="ana")
    assert await refusal(asked) == ("validation_error", "bad_value")
    assert (await access.new("y", agents=["bo-*"], default_agent="bo-1")).default_agent == "bo-1"
    assert (await access(LIST_TOKENS)).tokens[0].name == "y"


# -- lineage, solo ----------------------------------------------------------------------------------------------------


async def test_who_made_a_token_is_known_across_rotation(access: Access) -> None:
    boss = await access.issued("boss", "admin")
    puppet = await access.issued("puppet", "reviewer", by=await access.shown(boss.text))
    again = await access(ROTATE_TOKEN, await access.shown(boss.text), id=boss.token.id)
    tokens = access.service.tokens
    assert await tokens.makers("default", puppet.token.id) == {"boss"}
    fresh = await access.issued("fresh", "reviewer", by=await access.shown(again.text))
    assert await tokens.makers("default", fresh.token.id) == {"boss"}
    assert await tokens.makers("default", boss.token.id) == frozenset()
    deputy = await access.issued("deputy", "admin", by=await access.new("chief", "admin"))
    renewed = await access(ROTATE_TOKEN, await access.shown(deputy.text), id=deputy.token.id)
    assert await tokens.makers("default", renewed.token.id) >= {"chief"}, (
        "who rotates itself stays who it was"
    )


async def test_solo_is_who_alone_may_review(access: Access) -> None:
    assert (await access(WHOAMI)).solo, "the person at a file that nobody else reviews"
    boss = await access.issued("boss", "admin")
    who = await access.shown(boss.text)
    assert (await access(WHOAMI, who)).solo
    assert not (await access(WHOAMI)).solo
    bot = await access.new("bot")
    assert not (await access(WHOAMI, bot)).solo
    rotated = await access(ROTATE_TOKEN, id=boss.token.id, grace_ms=1000)
    assert (await access(WHOAMI, await access.shown(rotated.text))).solo, "two texts, one person"
    carla = await access.issued("carla", "reviewer")
    assert not (await access(WHOAMI, who)).solo
    await access(REVOKE_TOKEN, id=carla.token.id)
    assert (await access(WHOAMI, who)).solo
    assert not await access.service.tokens.is_solo(who, access.clock(), has_oidc=True)


async def test_whoami_says_what_there_is_to_know(access: Access) -> None:
    bot = await access.new("bot", agents=["ana"], user_id="mara", rate=7, recall_budget=9)
    said = await access(WHOAMI, bot)
    assert (said.tenant, said.name, said.agents, said.default_agent) == ("default", "bot", ("ana",), "ana")
    assert said.permissions == ("memory:read", "memory:write", "memory:delete")
    assert (said.user_id, said.rate, said.recall_left, said.solo) == ("mara", 7, 9, False)
    mine = await access(WHOAMI)
    assert (mine.rate, mine.recall_left, len(mine.permissions)) == (None, None, len(Permission))


# -- secrets ------------------------------------------------------------------------------------------------------


@dataclass
class Registered:
    """A redactor with one registered value, that can lose its key."""

    value: str
    has_key: bool = True
    checked_at: int = 0
    asked: int = 0

    async def guard(self, tenant: str, run_id: str | None) -> Guard:
        self.asked += 1
        if not self.has_key:
            raise UnverifiableError(reason="sealing_key")
        return Guard(registered=compiled([RegisteredValue("pin", self.value)]), checked_at=self.checked_at)


async def test_a_registered_secret_in_a_name_refuses_the_token_and_is_not_repeated(access: Access) -> None:
    value = "bluebird-7731-lake"
    server = over(access.ledger, redactor=Registered(value))
    for fields in ({"name": value}, {"name": "x", "agents": ["ana", value]}, {"name": "x", "user_id": value}):
        with pytest.raises(Exception, match=r"^(?!.*bluebird)") as refused:
            await server(CREATE_TOKEN, **{"roles": ["agent"], **fields})
        assert getattr(refused.value, "code", None) == "secret_leakage"
    assert (await server(LIST_TOKENS)).tokens == ()


async def test_without_the_sealing_key_tokens_still_work_and_shapes_are_still_seen(access: Access) -> None:
    server = over(access.ledger, redactor=Registered("bluebird-7731-lake", has_key=False))
    assert (await server.new("bot")).name == "bot"
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    assert (await refusal(server.token("x", user_id=key)))[0] == "secret_leakage"


class Overtaken:
    """A redactor whose list is changed by another process just after it was first read."""

    def __init__(self, ledger: Ledger, value: str) -> None:
        self.ledger, self.value, self.asked = ledger, value, 0

    async def guard(self, tenant: str, run_id: str | None) -> Guard:
        self.asked += 1
        if self.asked > 1:
            head = await self.ledger.head(tenant)
            return Guard(registered=compiled([RegisteredValue("pin", self.value)]), checked_at=head.guarded)
        secret = Secret(id="sec_1", label="pin", created_at=1, created_by="carla", sealed=b"x")
        draft = Draft(op="add_secret", actor="carla", at=1)
        await self.ledger.commit(Commit(tenant=tenant, draft=draft, changes=(Keep(SECRETS, secret, 0),)))
        return Guard(checked_at=0)


async def test_a_name_is_checked_again_when_a_secret_was_registered_meanwhile(access: Access) -> None:
    value = "bluebird-7731-lake"
    redactor = Overtaken(access.ledger, value)
    server = over(access.ledger, redactor=redactor)
    assert (await refusal(server.token(value)))[0] == "secret_leakage"
    assert redactor.asked == 2
    assert (await server(LIST_TOKENS)).tokens == ()


# -- sign-in links ------------------------------------------------------------------------------------------------


async def test_a_signin_link_works_once_and_not_for_long(access: Access) -> None:
    boss = await access.issued("boss", "admin")
    who = await access.shown(boss.text)
    links = access.service.signin_links
    made = await access(CREATE_SIGNIN_LINK, who)
    text = made.url.removeprefix("/signin?link=")
    assert text not in repr(made)
    assert (await links.redeemed(text)) == who
    for bad in (text, "", "ql_nobody_" + "a" * 43, text.replace("ql_", "qp_")):
        assert await refusal(links.redeemed(bad)) == ("unauthenticated", "bad_token")
    assert await refusal(access.shown(text)) == ("unauthenticated", "bad_token"), "it is no token"
    assert [one.tenant for one in await access.ledger.tenants()] == ["default"], "asking makes no tenant"
    late = (await access(CREATE_SIGNIN_LINK, who)).url.removeprefix("/signin?link=")
    access.clock.now = made.expires_at
    assert await refusal(links.redeemed(late)) == ("unauthenticated", "bad_token")
    ended = (await access(CREATE_SIGNIN_LINK, token_id=boss.token.id)).url.removeprefix("/signin?link=")
    await access(REVOKE_TOKEN, id=boss.token.id)
    assert await refusal(links.redeemed(ended)) == ("unauthenticated", "revoked_token")
    assert await refusal(access(CREATE_SIGNIN_LINK, token_id=boss.token.id)) == ("conflict", "token_ended")
    assert await refusal(access(CREATE_SIGNIN_LINK)) == ("validation_error", "missing_field")
    assert await refusal(access(CREATE_SIGNIN_LINK, token_id="tok_x")) == ("not_found", "token")


async def test_of_many_who_open_one_link_at_once_one_gets_in(ledger: Ledger) -> None:
    server = over(ledger, public_url="https://memory.example/")
    await ledger.open_tenant("default", 1)
    boss = await server.issued("boss", "admin")
    url = (await server(CREATE_SIGNIN_LINK, token_id=boss.token.id)).url
    assert url.startswith("https://memory.example/signin?link=ql_default_")
    text = url.partition("=")[2]
    asked = [server.service.signin_links.redeemed(text) for _ in range(6)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(not isinstance(one, Exception) for one in outcomes) == 1


async def test_a_web_session_names_a_token_and_ends_with_it(access: Access) -> None:
    boss = await access.issued("boss", "admin")
    credentials = access.service.credentials
    assert await credentials.of_token("default", boss.token.id) == await access.shown(boss.text)
    for tenant, token_id in (("default", "tok_x"), ("acme", boss.token.id), ("A/B", boss.token.id)):
        assert await refusal(credentials.of_token(tenant, token_id)) == ("unauthenticated", "bad_token")
    await access(REVOKE_TOKEN, id=boss.token.id)
    assert await refusal(credentials.of_token("default", boss.token.id)) == (
        "unauthenticated",
        "revoked_token",
    )


# -- declarations -------------------------------------------------------------------------------------------------


def test_every_operation_is_bound_and_says_how_limits_bind_it(access: Access) -> None:
    bound = {binding.operation.name for binding in access.service.bindings}
    assert bound == {operation.name for operation in OPERATIONS}
    for operation in OPERATIONS:
        assert operation.summary.endswith("."), operation.name
        assert operation.limits in ("whole", "server")
        assert operation.http is not None


def test_every_table_has_the_columns_of_the_schema() -> None:
    schema = files("quipu.ledger").joinpath("sql/schema.sql").read_text("utf-8")
    for table in TABLES:
        found = re.search(rf"CREATE TABLE {table.name} \((.*?)\n\) ", schema, re.S)
        assert found is not None
        lines = [line.split() for line in found[1].strip().splitlines()]
        columns = {words[0] for words in lines if words[0] not in ("--", "CONSTRAINT")}
        assert columns == {"tenant", *table.columns, *(LEDGER_COLUMNS if table.is_journaled else ())}


def test_only_whoami_is_for_everybody() -> None:
    nobody = replace(local(), permissions=frozenset[Permission](), is_local=False)
    samples: dict[str, dict[str, Any]] = {
        "create_token": {"name": "x"},
        "revoke_token": {"id": "x"},
        "rotate_token": {"id": "x"},
        "create_tenant": {"tenant": "x"},
        "suspend_tenant": {"tenant": "x"},
        "resume_tenant": {"tenant": "x"},
    }
    for operation in OPERATIONS:
        request = operation.request.parse(samples.get(operation.name, {}))
        if operation is WHOAMI:
            assert authorised(nobody, operation, request) is request
            continue
        with pytest.raises(Exception, match="may not do that") as refused:
            authorised(nobody, operation, request)
        assert getattr(refused.value, "code", None) == "forbidden"
