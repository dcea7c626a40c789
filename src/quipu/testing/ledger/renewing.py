"""Terms by other rules: told, renewed where they differ, and seen by whoever searches."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from quipu.model.record import Record, State
from quipu.ports.ledger import Indexed
from quipu.rules.texts import search_text
from quipu.testing.builders import SPACE, Scribe, vector
from quipu.testing.ledger.case import LedgerCase

#: A text whose words stand close to signs: an earlier build took it for one long word.
_TEXT = "ម្ហូប\U0001f375tea"


def _as_before(text: str) -> bytes:
    return crc32(text.encode()).to_bytes(4, "little") + b"\x01"


class RenewingContract(LedgerCase):
    """What a later build does about the terms of an earlier one."""

    async def _aged(self, scribe: Scribe, *records: Record) -> None:
        """As an earlier build would have written them."""
        for record in records:
            await self.raw(
                scribe.ledger,
                "UPDATE record SET terms = :terms WHERE tenant = :tenant AND id = :id AND version = :version",
                terms=_as_before(record.content),
                tenant=scribe.tenant,
                id=record.id,
                version=record.version,
            )
        await self.raw(
            scribe.ledger, "UPDATE tenant SET terms = 0 WHERE tenant = :tenant", tenant=scribe.tenant
        )

    @staticmethod
    async def _expected(scribe: Scribe) -> Sequence[Indexed]:
        return [
            Indexed(record=record, search_text=search_text(record) if record.state is State.LIVE else None)
            async for record in scribe.ledger.every_version(scribe.tenant)
        ]

    async def test_terms_of_other_rules_are_named_and_renewed(self, scribe: Scribe) -> None:
        ledger, tenant = scribe.ledger, scribe.tenant
        sound = await scribe.put("tea at noon", vector=vector(1))
        old = await scribe.put(_TEXT, vector=vector(2))
        await self._aged(scribe, old)
        before = [record async for record in ledger.every_version(tenant)], await scribe.entries()
        assert await ledger.has_other_terms(tenant)
        assert await scribe.found("tea") == {sound.id}
        expected = await self._expected(scribe)
        (fault,) = await ledger.index_faults(tenant, expected)
        assert (fault.kind, fault.id, fault.seq) == ("index_differs", old.id, old.born)
        assert "another build" in fault.detail
        assert "`quipu reembed`" in fault.detail
        assert await ledger.renew_terms(tenant, expected) == 1
        assert await scribe.found("tea") == {sound.id, old.id}
        assert await ledger.index_faults(tenant, expected) == []
        assert await ledger.renew_terms(tenant, expected) == 0
        assert await ledger.has_other_terms(tenant)
        await ledger.settle_terms(tenant)
        assert not await ledger.has_other_terms(tenant)
        assert ([record async for record in ledger.every_version(tenant)], await scribe.entries()) == before
        assert await scribe.audit() == []

    async def test_terms_that_were_altered_are_told_from_those_of_another_build(self, scribe: Scribe) -> None:
        record = await scribe.put("word")
        await self.raw(scribe.ledger, "UPDATE record SET terms = NULL WHERE id = :id", id=record.id)
        expected = await self._expected(scribe)
        (fault,) = await scribe.ledger.index_faults(scribe.tenant, expected)
        assert "not those of the text" in fault.detail
        assert await scribe.ledger.renew_terms(scribe.tenant, expected) == 1
        assert await scribe.found("word") == {record.id}

    async def test_a_new_tenant_has_the_terms_of_today(self, scribe: Scribe) -> None:
        await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        assert not await scribe.ledger.has_other_terms(scribe.tenant)
        assert not await scribe.ledger.has_other_terms("other")

    async def test_renewed_terms_are_found_as_of_then_too(self, scribe: Scribe) -> None:
        first = await scribe.put(_TEXT)
        second = await scribe.change(first, content=f"{_TEXT} cake")
        gone = await scribe.put(f"{_TEXT} gone")
        last = await scribe.forget(gone)
        await self._aged(scribe, first, second, gone)
        assert await scribe.found("tea", seq=gone.born) == set()
        assert await scribe.ledger.renew_terms(scribe.tenant, await self._expected(scribe)) == 3
        assert await scribe.found("tea", seq=gone.born) == {first.id, gone.id}
        assert await scribe.found("cake", seq=first.born) == set()
        assert await scribe.found("cake", seq=second.born) == {second.id}
        assert await scribe.found("gone", seq=last.seq) == set()

    async def test_readers_without_vectors_see_renewed_terms(self, scribe: Scribe) -> None:
        bare = await Scribe.at(scribe.ledger, scribe.clock, tenant="bare")
        record = await bare.put(_TEXT)
        await self._aged(bare, record)
        assert await bare.found("tea") == set()
        assert await bare.ledger.renew_terms("bare", await self._expected(bare)) == 1
        assert await bare.found("tea") == {record.id}

    async def test_terms_of_another_tenant_are_left_alone(self, scribe: Scribe) -> None:
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        mine, theirs = await scribe.put(_TEXT), await other.put(_TEXT)
        await self._aged(scribe, mine)
        await self._aged(other, theirs)
        assert await scribe.ledger.renew_terms(scribe.tenant, await self._expected(scribe)) == 1
        await scribe.ledger.settle_terms(scribe.tenant)
        assert await other.found("tea") == set()
        assert await scribe.ledger.has_other_terms("other")

    async def test_what_is_gone_gets_no_terms(self, scribe: Scribe) -> None:
        erased, pruned, kept = [await scribe.put(f"{_TEXT} {n}") for n in range(3)]
        changed = await scribe.change(pruned, content="later")
        await self._aged(scribe, erased, pruned, kept)
        expected = await self._expected(scribe)
        await scribe.erase(erased.id)
        await scribe.ledger.prune(scribe.tenant, changed.born)
        assert await scribe.ledger.renew_terms(scribe.tenant, expected) == 1
        left = await self.raw(
            scribe.ledger, "SELECT id FROM record WHERE emptied IS NOT NULL AND terms IS NOT NULL"
        )
        assert list(left) == []
        assert await scribe.found("tea") == {kept.id}

    async def test_terms_that_should_not_be_there_go(self, scribe: Scribe) -> None:
        archived = await scribe.put("archived", state=State.ARCHIVED)
        erased = await scribe.put("erased")
        await scribe.erase(erased.id)
        await self._aged(scribe, archived, erased)
        expected = [Indexed(record=one, search_text=None) for one in (archived, erased)]
        assert await scribe.ledger.renew_terms(scribe.tenant, expected) == 2
        assert await scribe.ledger.index_faults(scribe.tenant, expected) == []
        assert await scribe.ledger.without_vector(scribe.tenant, SPACE, 10) == []
