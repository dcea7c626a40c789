"""Writing entries: the steps of every write, with the sizes that OpenWOP promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from quipu.errors import ConflictError
from quipu.model.change import Close, Commit
from quipu.model.governance import Effect
from quipu.model.operations import RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import Principal
from quipu.ports.parts import Parts
from quipu.rules.redaction import Redaction
from quipu.service import answers
from quipu.service.access import Access
from quipu.service.committing import Along, Plan, carried_out
from quipu.service.embedding import Vectors
from quipu.service.gate import Gate
from quipu.service.governance import Governance
from quipu.service.observing import Observing
from quipu.service.secrets import Checked, Secrets
from quipu.service.writing import Writing

#: Characters of a tag, in the published schema.
_TAG_LENGTH = 256


class Entering:
    """authorise → validate → redact → govern → commit, for entries."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        vectors: Vectors,
        secrets: Secrets,
        gate: Gate,
        governance: Governance,
        observing: Observing,
    ) -> None:
        limits = replace(parts.limits, tag_length=max(parts.limits.tag_length, _TAG_LENGTH))
        self._parts = replace(parts, limits=limits)
        self._writing = Writing(self._parts, access, vectors)
        self._secrets, self._gate, self._governance = secrets, gate, governance
        self._observing = observing

    async def put(
        self,
        principal: Principal,
        request: RememberRequest,
        *,
        record_id: str | None = None,
        closing: Sequence[Close] = (),
        is_seed: bool = False,
        along: Along | None = None,
    ) -> RememberResponse:
        """Keep an entry, under an id that was chosen before if one is given; `closing` ends with the same commit.

        Only a seed of a test is kept as it is given. `along` adds what is told of it. What ends or tells of something
        else is refused where it would have to wait for a person.
        """

        async def keep(principal: Principal, request: RememberRequest) -> RememberResponse:
            return await self._kept(principal, request, record_id, closing, is_seed=is_seed, along=along)

        return await self._observing.remember(principal, request, keep)

    async def check_names(self, tenant: str, names: Mapping[str, str | None]) -> None:
        """Raise where a name that is about to be kept holds a secret; by pointer."""
        (await self._secrets.checked(tenant)).names(names)

    async def beside(self, principal: Principal, request: RememberRequest, record_id: str) -> Commit:
        """How an entry is kept together with something else; refused where it would have to wait for a person."""
        accepted = self._writing.accepted(principal, request)
        checked = await self._secrets.checked(principal.tenant, request.run_id)
        kept = checked.kept(accepted)
        verdict = await self._gate.judged(principal, kept, checked.position, has_secret=kept is not accepted)
        plan = await self._plan(principal, kept, record_id, (), checked)
        if verdict.effect is Effect.HOLD or plan.commit is None:
            raise _would_wait()
        return plan.commit

    async def _kept(
        self,
        principal: Principal,
        request: RememberRequest,
        record_id: str | None,
        closing: Sequence[Close],
        *,
        is_seed: bool,
        along: Along | None,
    ) -> RememberResponse:
        accepted = self._writing.accepted(principal, request)

        async def work(checked: Checked) -> RememberResponse:
            if is_seed:
                checked = replace(checked, redaction=Redaction())
            # What ends with it is what it was made of.
            kept = checked.made_of_others(accepted) if closing else checked.kept(accepted)
            verdict = await self._gate.judged(
                principal, kept, checked.position, has_secret=kept is not accepted
            )
            if verdict.effect is Effect.HOLD and (closing or along is not None):
                # What ends or is told with it cannot wait, and must not come without it. No commit says whether the
                # rules have changed meanwhile.
                if (await self._parts.ledger.guard(principal.tenant)).position != checked.position:
                    raise ConflictError("The rules have changed meanwhile.", reason="secrets_changed")
                raise _would_wait()
            if verdict.effect is Effect.HOLD:
                told = partial(answers.pending_remember, kept)
                return await self._governance.hold(principal, kept, verdict, told, guard=checked.position)
            new_id = record_id or self._parts.mint_id("mem")
            return await carried_out(
                self._parts.ledger,
                lambda: self._plan(principal, kept, new_id, closing, checked),
                guard=checked.position,
                is_fixed=kept.id is None or kept.if_version is not None,
                along=along,
            )

        return await self._secrets.checking(principal.tenant, work, request.run_id)

    async def _plan(
        self,
        principal: Principal,
        request: RememberRequest,
        new_id: str,
        closing: Sequence[Close],
        checked: Checked,
    ) -> Plan[RememberResponse]:
        if request.id is not None:
            return await self._writing.change(principal, request, checked)
        plan = await self._writing.creation(principal, request, new_id)
        if plan.commit is None:
            return plan
        commit = replace(plan.commit, changes=(*plan.commit.changes, *closing))
        if commit.once is not None:  # a key is the tenant's, whoever uses it
            commit = replace(commit, once=replace(commit.once, principal="openwop", operation="put_entry"))
        return replace(plan, commit=commit)


def _would_wait() -> ConflictError:
    """Nothing is staged: a yes would carry out a part of it alone."""
    return ConflictError("A person would have to approve this entry first.", reason="pending_approval")
