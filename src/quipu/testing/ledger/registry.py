"""Tenants, tokens and secrets: kept, found by their tenant alone, ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quipu.errors import ConflictError, NotFoundError, QuipuError
from quipu.model.access import KeptSecret, Tenant, Token
from quipu.model.change import AddToken, DropSecret, EndToken, KeepSecret, Suspend
from quipu.model.journal import Op
from quipu.model.principal import Permission
from quipu.ports.ledger import Ledger, Sealed
from quipu.testing.builders import FixedClock, Scribe, adding
from quipu.testing.ledger.case import LedgerCase

_DIGEST = "ab" * 32


def a_token(scribe: Scribe, **fields: Any) -> Token:
    known: dict[str, Any] = {
        "tenant": scribe.tenant,
        "id": "tok_1",
        "name": "bot",
        "prefix": "qp_x_abcdef",
        "permissions": frozenset({Permission.READ, Permission.WRITE}),
        "created_at": scribe.clock(),
        "created_by": "tester",
    }
    return Token(**{**known, **fields})


def a_secret(scribe: Scribe, secret_id: str = "sec_1", **fields: Any) -> KeptSecret:
    known: dict[str, Any] = {
        "tenant": scribe.tenant,
        "id": secret_id,
        "label": "db",
        "created_at": scribe.clock(),
        "created_by": "tester",
    }
    return KeptSecret(**{**known, **fields})


class RegistryContract(LedgerCase):
    """Who may come in, and what must stay out."""

    async def test_tenants_are_listed_by_name(self, ledger: Ledger, clock: FixedClock) -> None:
        for name in ("one", "a-first"):
            await ledger.open(name)
        at = clock()
        assert list(await ledger.tenants()) == [
            Tenant(id="a-first", created_at=at),
            Tenant(id="one", created_at=at),
        ]
        assert await ledger.tenant("one") == Tenant(id="one", created_at=at)
        assert await ledger.tenant("nobody") is None

    async def test_a_tenant_is_shut_and_opened(self, scribe: Scribe) -> None:
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await scribe.commit(Suspend(at=7), op=Op.SUSPEND)
        shut = {tenant.id: tenant.suspended_at for tenant in await scribe.ledger.tenants()}
        assert shut == {scribe.tenant: 7, other.tenant: None}
        await scribe.commit(Suspend(at=None), op=Op.RESUME)
        assert [tenant.suspended_at for tenant in await scribe.ledger.tenants()] == [None, None]

    async def test_a_token_comes_back_as_it_was_given(self, scribe: Scribe) -> None:
        plain = a_token(scribe)
        full = a_token(
            scribe,
            id="tok_2",
            agents=("ana", "bo-*"),
            user_id="mara",
            expires_at=9,
            rate=3,
            recall_budget=4,
            review_stores=("main", "shop-*"),
            review_operations=("remember",),
            permissions=frozenset(Permission),
        )
        await scribe.commit(AddToken(token=plain, digest=_DIGEST), op=Op.ISSUE_TOKEN)
        await scribe.commit(AddToken(token=full, digest="cd" * 32), op=Op.ISSUE_TOKEN)
        assert list(await scribe.ledger.tokens(scribe.tenant)) == [plain, full]
        tenant = await scribe.ledger.tenant(scribe.tenant)
        assert await scribe.ledger.token(scribe.tenant, _DIGEST) == (plain, tenant)
        assert await scribe.ledger.token(scribe.tenant, "cd" * 32) == (full, tenant)
        assert await scribe.ledger.token(scribe.tenant, "ef" * 32) is None

    async def test_a_token_is_found_in_its_own_tenant_alone(self, scribe: Scribe) -> None:
        await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await scribe.commit(AddToken(token=a_token(scribe), digest=_DIGEST), op=Op.ISSUE_TOKEN)
        assert await scribe.ledger.token("other", _DIGEST) is None
        assert list(await scribe.ledger.tokens("other")) == []

    async def test_a_token_says_that_its_tenant_is_shut(self, scribe: Scribe) -> None:
        await scribe.commit(AddToken(token=a_token(scribe), digest=_DIGEST), op=Op.ISSUE_TOKEN)
        for at in (7, None):
            await scribe.commit(Suspend(at=at), op=Op.SUSPEND if at else Op.RESUME)
            found = await scribe.ledger.token(scribe.tenant, _DIGEST)
            assert found is not None
            assert found[1].suspended_at == at

    async def test_one_text_is_one_token(self, scribe: Scribe) -> None:
        await scribe.commit(AddToken(token=a_token(scribe), digest=_DIGEST), op=Op.ISSUE_TOKEN)
        with pytest.raises(QuipuError):
            await scribe.commit(
                AddToken(token=a_token(scribe, id="tok_2"), digest=_DIGEST), op=Op.ISSUE_TOKEN
            )
        assert len(await scribe.ledger.tokens(scribe.tenant)) == 1

    async def test_a_token_ends_and_never_lives_longer_again(self, scribe: Scribe) -> None:
        token = a_token(scribe)
        await scribe.commit(AddToken(token=token, digest=_DIGEST), op=Op.ISSUE_TOKEN)
        for given, kept in ((50, 50), (90, 50), (10, 10)):
            await scribe.commit(EndToken(token_id=token.id, revoked_at=given), op=Op.END_TOKEN)
            found = await scribe.ledger.token(scribe.tenant, _DIGEST)
            assert found is not None
            assert found[0] == replace(token, revoked_at=kept)

    async def test_secrets_come_back_and_go(self, scribe: Scribe) -> None:
        before = await scribe.ledger.guard(scribe.tenant)
        assert (before.position, list(before.secrets)) == (0, [])
        one, two = a_secret(scribe), a_secret(scribe, "sec_2", run_id="run_1", label="api")
        first = await scribe.commit(KeepSecret(secret=one, sealed=b"\x00one"), op=Op.KEEP_SECRET)
        second = await scribe.commit(KeepSecret(secret=two, sealed=b"two"), op=Op.KEEP_SECRET)
        guard = await scribe.ledger.guard(scribe.tenant)
        assert guard.position == second.seq > first.seq
        assert list(guard.secrets) == [Sealed(one, b"\x00one"), Sealed(two, b"two")]
        dropped = await scribe.commit(DropSecret(secret_id=one.id), op=Op.DROP_SECRET)
        guard = await scribe.ledger.guard(scribe.tenant)
        assert (guard.position, list(guard.secrets)) == (dropped.seq, [Sealed(two, b"two")])
        with pytest.raises(NotFoundError):
            await scribe.commit(DropSecret(secret_id=one.id), op=Op.DROP_SECRET)

    async def test_secrets_are_the_tenants_own(self, scribe: Scribe) -> None:
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await scribe.commit(KeepSecret(secret=a_secret(scribe), sealed=b"x"), op=Op.KEEP_SECRET)
        assert list((await scribe.ledger.guard(other.tenant)).secrets) == []
        with pytest.raises(NotFoundError):
            await other.commit(DropSecret(secret_id=a_secret(other).id), op=Op.DROP_SECRET)
        with pytest.raises(NotFoundError):
            await scribe.ledger.guard("nobody")

    async def test_a_write_that_was_checked_against_an_older_list_is_refused(self, scribe: Scribe) -> None:
        old = (await scribe.ledger.guard(scribe.tenant)).position
        await scribe.ledger.commit(scribe.committing(adding(scribe.drafted())), guard=old)
        await scribe.commit(KeepSecret(secret=a_secret(scribe), sealed=b"x"), op=Op.KEEP_SECRET)
        with pytest.raises(ConflictError) as refused:
            await scribe.ledger.commit(scribe.committing(adding(scribe.drafted())), guard=old)
        assert refused.value.reason == "secrets_changed"
        now = (await scribe.ledger.guard(scribe.tenant)).position
        await scribe.ledger.commit(scribe.committing(adding(scribe.drafted())), guard=now)
        await scribe.commit(adding(scribe.drafted()))  # what keeps no text is not asked
        assert len(await scribe.scanned()) == 3
