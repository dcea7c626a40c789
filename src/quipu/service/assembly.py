"""Everything that memory offers beside its operations, each part built when it is first asked for.

The parts know each other by what they are handed here. An import stands in the property that needs it, so that a
process loads what it uses and nothing else; tests/cli/test_start.py holds the command line to that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

from quipu.service.groundwork import Groundwork, part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quipu.model.operations import ForgetRequest, MergeRequest, RecallRequest, RememberRequest
    from quipu.model.outcomes import ForgetResponse, MergeResponse, RecallResponse, RememberResponse
    from quipu.model.principal import Principal
    from quipu.service.audit import Audit
    from quipu.service.batches import Batches
    from quipu.service.changes import Changes
    from quipu.service.committing import Along
    from quipu.service.condition import Condition
    from quipu.service.consolidating import Consolidating
    from quipu.service.decisions import Decisions
    from quipu.service.exchange import Exchange
    from quipu.service.exporting import Exporting
    from quipu.service.graph import Graphs
    from quipu.service.hit_signing import HitSigning
    from quipu.service.import_register import Imports
    from quipu.service.importing import Importing
    from quipu.service.learning import Learning
    from quipu.service.lending_moves import Moves
    from quipu.service.mirror_checks import MirrorChecks
    from quipu.service.notices import Notices
    from quipu.service.observed import ObservedStores
    from quipu.service.previewing import Previewing
    from quipu.service.procedures import Procedures
    from quipu.service.recovery import Recovery
    from quipu.service.runs import Runs
    from quipu.service.sharing import Sharing
    from quipu.service.tidying import Tidying
    from quipu.service.trail import Trail
    from quipu.service.undoing import Undoing
    from quipu.service.upkeep import Upkeep


class Assembly(Groundwork, ABC):
    """The parts of a service, over its operations."""

    def whole(self) -> None:
        """Build every part now, so that nobody who asks a server for something waits for modules to load."""
        for kind in type(self).__mro__:
            for name, built in vars(kind).items():
                if isinstance(built, cached_property):
                    getattr(self, name)

    def is_built(self, name: str) -> bool:
        """Whether somebody has asked for a part."""
        return name in vars(self)

    # -- the operations that parts are made of -------------------------------------------------------------------

    @abstractmethod
    async def remember(self, principal: Principal, request: RememberRequest) -> RememberResponse: ...

    @abstractmethod
    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse: ...

    @abstractmethod
    async def forget(self, principal: Principal, request: ForgetRequest) -> ForgetResponse: ...

    @abstractmethod
    async def merge(
        self, principal: Principal, request: MergeRequest, along: Along | None = None
    ) -> MergeResponse: ...

    @abstractmethod
    async def restore(
        self, principal: Principal, agent_id: str | None, record_id: str, reason: str | None = None
    ) -> RememberResponse: ...

    # -- the parts -----------------------------------------------------------------------------------------------

    @part
    def consolidating(self) -> Consolidating:
        from quipu.service.consolidating import Consolidating
        from quipu.service.extracting import Extracting

        return Consolidating(
            self._parts,
            self._access,
            self._vectors,
            self.secrets,
            self._gate,
            self.governance,
            self._writing,
            self._removing,
            self._resembling,
            self._notes,
            Extracting(self._parts, self._resembling, self.remember),
            self.forget,
            self.restore,
            self._observing,
        )

    @part
    def graphs(self) -> Graphs:
        from quipu.service.graph import Graphs

        return Graphs(self._parts, self._access, self._recalling, self._notes, self._budgets)

    @part
    def procedures(self) -> Procedures:
        from quipu.service.procedures import Procedures

        return Procedures(self._parts, self._access, self.remember, self._writing.accepted)

    @part
    def audit(self) -> Audit:
        from quipu.service.audit import Audit

        return Audit(self._parts, self._access)

    @part
    def changes(self) -> Changes:
        from quipu.service.changes import Changes

        return Changes(self._parts, self._access)

    @part
    def _batches(self) -> Batches:
        from quipu.service.batches import Batches

        return Batches(
            self._parts,
            self._writing,
            self._lines,
            self.secrets,
            self._gate,
            self.governance,
            self._together,
            self._operating.remember,
        )

    @part
    def mirror_checks(self) -> MirrorChecks:
        from quipu.service.mirror_checks import MirrorChecks

        return MirrorChecks(self._parts, self._access, self.mirrors)

    @part
    def hit_signing(self) -> HitSigning:
        from quipu.service.hit_signing import HitSigning

        return HitSigning(self._parts)

    @part
    def _condition(self) -> Condition:
        from quipu.service.condition import Condition

        return Condition(self._parts, self._access, self.mirrors, self._version)

    @part
    def decisions(self) -> Decisions:
        from quipu.service.decisions import Decisions

        return Decisions(self._parts, self.changes)

    @part
    def previewing(self) -> Previewing:
        from quipu.service.previewing import Previewing

        return Previewing(self._parts, self._recalling)

    @part
    def learning(self) -> Learning:
        from quipu.service.learning import Learning

        return Learning(self._parts, self._access, self.policies)

    @part
    def tidying(self) -> Tidying:
        from quipu.service.tidying import Tidying

        return Tidying(
            self._parts,
            self._access,
            self.secrets,
            self._gate,
            self.governance,
            self._resembling,
            self._notes,
        )

    @part
    def notices(self) -> Notices:
        from quipu.service.notices import Notices

        return Notices(self._parts, self._access)

    @part
    def recovery(self) -> Recovery:
        from quipu.service.recovery import Recovery, Ways

        ways = Ways(self.remember, self.forget, self.restore)
        return Recovery(self._parts, self._access, self.secrets, self._gate, self.governance, ways)

    @part
    def undoing(self) -> Undoing:
        from quipu.service.undoing import Undoing

        return Undoing(self._parts, self._access, self.governance, self.recovery)

    @part
    def trail(self) -> Trail:
        from quipu.service.trail import Trail

        return Trail(self._parts, self._access, self._notes)

    @part
    def upkeep(self) -> Upkeep:
        from quipu.service.upkeep import Upkeep

        return Upkeep(self._parts, self._access, self._notes)

    @part
    def sharing(self) -> Sharing:
        from quipu.service.sharing import Sharing

        return Sharing(self._parts, self._access, self._vectors, self._version)

    @part
    def stores(self) -> ObservedStores:
        from quipu.service.observed import ObservedStores

        async def followed(principal: Principal, ids: Sequence[str]) -> None:
            await self.sharing.erasing.followed(principal, ids)  # built where something is erased

        return ObservedStores(
            self._observing, self._parts, self._access, self.secrets, self._vectors, followed
        )

    @part
    def exchange(self) -> Exchange:
        from quipu.service.exchange import Exchange

        return Exchange(
            self._parts,
            self._access,
            self._writing,
            self._lines,
            self.reading,
            self._notes,
            self._gate,
            self.secrets,
            self._observing,
        )

    @part
    def runs(self) -> Runs:
        from quipu.service.runs_assembly import assembled
        from quipu.service.runs_entering import Entering

        entering = Entering(
            self._parts,
            self._access,
            self._vectors,
            self.secrets,
            self._gate,
            self.governance,
            self._observing,
        )
        return assembled(
            self._parts,
            self._access,
            self.secrets,
            entering,
            self._notes,
            self._budgets,
            self.recall,
            self.forget,
            self.merge,
        )

    @part
    def exporting(self) -> Exporting:
        from quipu.service.exporting import Exporting

        return Exporting(self._parts, self._access, self.reading, self.exchange, self._version)

    @part
    def importing(self) -> Importing:
        from quipu.service.import_tombstones import Burying
        from quipu.service.importing import Importing

        burying = Burying(self._parts, self._access, self._gate, self.secrets, self.forget)
        return Importing(
            self._parts,
            self._access,
            self.secrets,
            self._writing,
            self._lines,
            self.governance,
            self.stores,
            burying,
        )

    @part
    def imports(self) -> Imports:
        from quipu.service.import_register import Imports

        return Imports(self._parts, self._access, self.governance, self.reviewing, self._vectors)

    @part
    def moves(self) -> Moves:
        from quipu.service.lending_moves import Moves

        return Moves(
            self._parts, self._access, self.sharing.disclosing, self.exporting, self.importing, self.imports
        )
