"""What the operations of memory go through: access, secrets, rules, writing, reading.

A part is built, and its module loaded, when it is first asked for: a command line that lists what is there loads
nothing that writes. A server asks for all of them when it starts (`Assembly.whole`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from quipu.service.access import Access
from quipu.service.budgets import Budgets
from quipu.service.embedding import Vectors
from quipu.service.notes import ReadNotes
from quipu.service.observing import Observing
from quipu.service.secrets import Secrets

if TYPE_CHECKING:
    from quipu.ports.parts import Parts
    from quipu.service.credentials import Credentials
    from quipu.service.gate import Gate
    from quipu.service.governance import Governance
    from quipu.service.lines import Lines
    from quipu.service.mirrors import Mirrors
    from quipu.service.observed import ObservedReading, ObservedTenancy
    from quipu.service.operating import Operating
    from quipu.service.policies import Policies
    from quipu.service.recalling import Recalling
    from quipu.service.removing import Removing
    from quipu.service.resembling import Resembling
    from quipu.service.restoring import Restoring
    from quipu.service.reviewing import Reviewing
    from quipu.service.together import Together
    from quipu.service.tokens import Tokens
    from quipu.service.writing import Writing

if TYPE_CHECKING:
    part = property  # a type checker takes no cached property for the property that a protocol asks for
else:
    part = cached_property


class Groundwork:
    """The parts that others are made of, and the plainest of those that are offered."""

    def __init__(self, parts: Parts, version: str) -> None:
        self._parts, self._version = parts, version
        self._access = Access(parts.ledger)
        self._vectors = Vectors(parts)
        self._budgets = Budgets(parts.clock, rate=parts.rate, recall_budget=parts.recall_budget)
        self.secrets = Secrets(parts, self._access)
        self._notes = ReadNotes(parts.ledger, self.secrets.noted)
        self._observing = Observing(parts, self._access, self.secrets)

    @part
    def _removing(self) -> Removing:
        from quipu.service.removing import Removing

        return Removing(self._parts, self._access, self._vectors, self._notes)

    @part
    def _resembling(self) -> Resembling:
        from quipu.service.resembling import Resembling

        return Resembling(self._parts, self._vectors)

    @part
    def policies(self) -> Policies:
        from quipu.service.policies import Policies

        return Policies(self._parts, self._access)

    @part
    def _gate(self) -> Gate:
        from quipu.service.gate import Gate

        return Gate(self._parts, self._access, self._removing, self._resembling, self.policies)

    @part
    def governance(self) -> Governance:
        from quipu.service.governance import Governance

        return Governance(self._parts, self._access)

    @part
    def _writing(self) -> Writing:
        from quipu.service.writing import Writing

        return Writing(self._parts, self._access, self._vectors)

    @part
    def _lines(self) -> Lines:
        from quipu.service.lines import Lines

        return Lines(self._parts.ledger, self._writing, self.secrets, self._gate, self.governance)

    @part
    def _together(self) -> Together:
        from quipu.service.together import Together

        return Together(self._writing)

    @part
    def _restoring(self) -> Restoring:
        from quipu.service.restoring import Restoring

        return Restoring(
            self._parts, self._access, self._vectors, self.secrets, self._gate, self.governance, self._writing
        )

    @part
    def reviewing(self) -> Reviewing:
        from quipu.service.reviewing import Reviewing

        return Reviewing(
            self._parts,
            self.governance,
            self._writing,
            self._removing,
            self._restoring,
            self._together,
            self._resembling,
            self.secrets,
        )

    @part
    def _recalling(self) -> Recalling:
        from quipu.service.recalling import Recalling

        return Recalling(self._parts, self._access, self._vectors, self._notes)

    @part
    def _operating(self) -> Operating:
        from quipu.service.operating import Operating
        from quipu.service.permits import Permits

        return Operating(
            self._parts,
            self._access,
            self.secrets,
            self._gate,
            self.governance,
            self._writing,
            self._removing,
            Permits(self._parts, self._gate, self.governance),
            self._recalling,
            self._budgets,
            self._notes,
        )

    @part
    def reading(self) -> ObservedReading:
        from quipu.service.observed import ObservedReading

        return ObservedReading(
            self._observing, self._parts, self._access, self._recalling, self._notes, self._budgets
        )

    @part
    def tenancy(self) -> ObservedTenancy:
        from quipu.service.observed import ObservedTenancy

        return ObservedTenancy(self._observing, self._parts, self._access, self._mirrored)

    async def _mirrored(self, tenant: str) -> None:
        """A tenant that is new has the mirrors of the others before its first write."""
        if self._parts.mirrors:
            await self.mirrors.registered(tenant)

    @part
    def tokens(self) -> Tokens:
        from quipu.service.tokens import Tokens

        return Tokens(self._parts, self._access)

    @part
    def credentials(self) -> Credentials:
        from quipu.service.credentials import Credentials

        return Credentials(self._parts, self._budgets)

    @part
    def mirrors(self) -> Mirrors:
        from quipu.service.mirrors import Mirrors

        return Mirrors(self._parts)
