"""Secrets that are registered, and the check of everything that will be kept against them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from quipu.errors import (
    ConflictError,
    Fault,
    InvalidError,
    NotFoundError,
    SecretLeakageError,
    UnverifiableError,
)
from quipu.model.access import KeptSecret
from quipu.model.change import Commit, DropSecret, KeepSecret
from quipu.model.journal import Draft, Op
from quipu.model.limits import Limits
from quipu.model.operations import (
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
    RestoreRequest,
)
from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType, Record
from quipu.ports.ledger import Guard
from quipu.ports.parts import Parts
from quipu.rules import redaction, registered, staging, validation
from quipu.rules.marking import Marker
from quipu.rules.redaction import Redaction
from quipu.rules.texts import checked_keepable
from quipu.service.access import Access

if TYPE_CHECKING:
    from quipu.service.sealed import Sealing

R = TypeVar("R")
H = TypeVar("H", RememberRequest, ForgetRequest, MergeRequest, ExpireRequest, RestoreRequest)
W = TypeVar("W", bound=staging.Waiting)


@dataclass(frozen=True, slots=True)
class Checked:
    """What texts are checked with, and the position of the list of secrets it was made of."""

    redaction: Redaction
    position: int
    limits: Limits

    def kept(self, request: H, batch: redaction.Batch | None = None) -> H:
        """The request as it may be kept; or SecretLeakageError. `batch`: what is known of the others it came with."""
        if isinstance(request, RememberRequest):
            return cast("H", self._remembered(request, batch))
        if request.idempotency_key is not None:
            self.names(dict(staging.answered_names(request)))
        changed = {
            name: self.reason(getattr(request, name), f"/{name}")
            for name in ("reason", "reasoning")
            if getattr(request, name, None) is not None
        }
        return replace(request, **cast("Any", changed)) if changed else request

    def _remembered(self, request: RememberRequest, batch: redaction.Batch | None) -> RememberRequest:
        clean, found = redaction.guarded_request(request, self.redaction, batch)
        if found and clean.type is MemoryType.PROCEDURAL:
            # A marker may stand where only a name of a state or a fact can.
            try:
                validation.checked_remember(clean, self.limits)
            except InvalidError:
                raise SecretLeakageError(
                    "The machine holds a secret.",
                    reason="secret_found",
                    faults=[Fault("/content", "secret_found")],
                ) from None
        return clean

    def made_of_others(self, request: RememberRequest) -> RememberRequest:
        """A request whose text was made of others, line by line, as it may be kept; or SecretLeakageError."""
        kept = self.kept(request)
        content = redaction.guarded_lines(str(kept.content), self.redaction, "/content")
        return kept if content == kept.content else replace(kept, content=content, embedding=None)

    def joined(self, record: Record, before: Record | None = None) -> Record:
        """A version that was put together of others, as it may be kept; or SecretLeakageError.

        `before`: the version that it changes, where something was added to that.
        """
        from quipu.rules import joining  # most processes join nothing

        return joining.guarded(record, self.redaction, before)

    def reason(self, text: str | None, pointer: str = "/reason") -> str | None:
        """Somebody's words beside a change: without secrets, and not too long."""
        if text is None:
            return None
        clean, _ = redaction.guarded_text(text, self.redaction, pointer)
        return validation.cut(clean, self.limits)

    def shown(self, text: str) -> str:
        """A text as others may be shown it: without secrets, also those that were registered after it was written."""
        return redaction.redacted_text(text, self.redaction.redactors, [])

    def names(self, names: Mapping[str, str | None]) -> None:
        """Refuse names that hold a secret, by pointer."""
        redaction.refuse_named_secrets(names.items(), self.redaction)

    def waiting(self, request: W) -> W:
        """A request, its memories and reasons aside, as it may wait for a person; or SecretLeakageError.

        By which words something is chosen cannot be rewritten either. A held recall is only looked at: who asked says
        the words again.
        """
        self.names(dict(staging.names_of(request)))
        redaction.refuse_secrets(getattr(request, "filter", None), self.redaction, "/filter")
        if not isinstance(request, RecallRequest):
            return request
        query, found = redaction.guarded_text(request.query, self.redaction, "/query")
        # A vector of the caller's is one of the caller's words.
        return cast("W", replace(request, query=query, embedding=None)) if found else request


@dataclass(frozen=True, slots=True)
class CheckedRuns:
    """What a batch is checked with: each of its requests with the secrets of its own run, all as of one position."""

    by_run: Mapping[str | None, Checked]

    @property
    def position(self) -> int:
        """The earliest: a secret that came later makes the commit a conflict."""
        return min(checked.position for checked in self.by_run.values())

    def kept(self, request: H, batch: redaction.Batch | None = None) -> H:
        """The request as it may be kept; or SecretLeakageError."""
        run_id = request.run_id if isinstance(request, RememberRequest) else None
        return self.by_run[run_id].kept(request, batch)

    def joined(self, record: Record, before: Record | None = None) -> Record:
        """A version that was put together of others: without the secrets of any of the runs."""
        for checked in self.by_run.values():
            record = checked.joined(record, before)
        return record

    def reason(self, text: str | None) -> str | None:
        """Somebody's words about all of them: without the secrets of any."""
        for checked in self.by_run.values():
            text = checked.reason(text)
        return text


class Secrets:
    """One list for each tenant; unsealed and compiled once, made anew when the ledger says that it has changed."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access
        self._guards: dict[str, Guard] = {}
        self._checks: dict[tuple[str, str | None], Checked] = {}
        #: What runs at work have resolved: tenant and run → values by label. Nowhere else, and gone with the run.
        self._resolved: dict[tuple[str, str], dict[str, str]] = {}

    @cached_property
    def _sealing(self) -> Sealing:
        from quipu.service.sealed import Sealing  # most processes have nothing sealed to open

        return Sealing(self._parts)

    # -- the list -----------------------------------------------------------------------------------------------

    async def register(
        self, principal: Principal, *, label: str, value: str, run_id: str | None = None
    ) -> KeptSecret:
        """Keep a value out of memory from now on. What was remembered before is not searched for it."""
        self._access.authorise(principal, Permission.MANAGE)
        value = registered.checked_value(value)
        registered.checked_label(label, value)
        if run_id is not None:
            checked_keepable(run_id, "/run_id")
        # Both are told in the journal, where nothing goes again: a value in the label's place is none.
        redaction.refuse_named_secrets([("/label", label), ("/run_id", run_id)], self._parts.redaction)
        secret = KeptSecret(
            tenant=principal.tenant,
            id=self._parts.mint_id("sec"),
            label=label,
            run_id=run_id,
            created_at=self._parts.clock(),
            created_by=principal.name,
        )
        sealed = await self._sealing.seal(value.encode("utf-8"), secret)
        await self._changed(principal, Op.KEEP_SECRET, secret, KeepSecret(secret=secret, sealed=sealed))
        return secret

    async def list(self, principal: Principal) -> tuple[KeptSecret, ...]:
        """What is registered, without the values."""
        self._access.authorise(principal, Permission.MANAGE)
        guard = await self._parts.ledger.guard(principal.tenant)
        return tuple(sealed.secret for sealed in guard.secrets)

    async def remove(self, principal: Principal, secret_id: str) -> None:
        """It may be remembered again."""
        known = {secret.id: secret for secret in await self.list(principal)}
        if secret_id not in known:
            raise NotFoundError("There is no such secret.", reason="secret")
        await self._changed(principal, Op.DROP_SECRET, known[secret_id], DropSecret(secret_id=secret_id))

    async def _changed(
        self, principal: Principal, op: Op, secret: KeptSecret, change: KeepSecret | DropSecret
    ) -> None:
        draft = Draft(
            op=op,
            actor=principal.name,
            at=self._parts.clock(),
            run=secret.run_id,
            detail={"secret": secret.id, "label": secret.label},
        )
        await self._parts.ledger.commit(Commit(tenant=principal.tenant, draft=draft, changes=(change,)))
        self._forget(principal.tenant)

    # -- runs ---------------------------------------------------------------------------------------------------

    async def value(self, tenant: str, label: str) -> str | None:
        """The value of a registered secret, for a run that may resolve it."""
        guard = await self._parts.ledger.guard(tenant)
        for sealed in guard.secrets:
            if sealed.secret.label == label and sealed.secret.run_id is None:
                return self._sealing.unseal(sealed.value, sealed.secret).decode("utf-8")
        return None

    def resolved(self, tenant: str, run_id: str, label: str, value: str) -> None:
        """Keep a value out of everything that the run writes from now on."""
        self._resolved.setdefault((tenant, run_id), {})[label] = value
        self._checks.pop((tenant, run_id), None)

    def end_run(self, tenant: str, run_id: str) -> None:
        """The run is over: what it resolved is thrown away."""
        self._resolved.pop((tenant, run_id), None)
        self._checks.pop((tenant, run_id), None)

    # -- the check ----------------------------------------------------------------------------------------------

    async def checking(
        self, tenant: str, work: Callable[[Checked], Awaitable[R]], run_id: str | None = None
    ) -> R:
        """Do work that keeps texts; do it again when the list of secrets has changed before it was committed."""
        while True:
            known = self.current(tenant) if run_id is None else None
            checked = known or await self._known(tenant, run_id)
            try:
                return await work(checked)
            except ConflictError as conflict:
                if conflict.reason != "secrets_changed":
                    raise
                self._forget(tenant)

    async def checking_all(
        self,
        tenant: str,
        requests: Iterable[RememberRequest],
        work: Callable[[CheckedRuns], Awaitable[R]],
    ) -> R:
        """The same for requests of several runs, which are kept together."""
        given = tuple(requests)

        async def checked(_: Checked) -> R:
            return await work(await self.checked_all(tenant, given))

        return await self.checking(tenant, checked)

    async def checked_all(self, tenant: str, requests: Iterable[RememberRequest]) -> CheckedRuns:
        """What requests of several runs are checked with, where the commit says whether that has changed."""
        runs = {None, *(request.run_id for request in requests)}
        return CheckedRuns({run_id: await self._known(tenant, run_id) for run_id in runs})

    async def checked(self, tenant: str, run_id: str | None = None) -> Checked:
        """What texts of this tenant, and of this run, are checked with, as of this moment.

        Another process may just have registered something, and no commit tells who asks here.
        """
        known = self._guards.get(tenant)
        if known is not None and known.position != (await self._parts.ledger.guard(tenant)).position:
            self._forget(tenant)
        return await self._known(tenant, run_id)

    async def noted(self, notes: Sequence[Commit]) -> Sequence[Commit]:
        """Notes of what was read of one tenant: whoever reads may name an agent that nobody has checked."""
        agents = {note.draft.agent for note in notes if note.draft.agent is not None}
        if not agents:
            return notes
        shown: dict[str, str] = {}
        with suppress(UnverifiableError):  # without the key nobody can tell: then the note names nobody
            checked = await self.checked(notes[0].tenant)
            shown = {agent: checked.shown(agent) for agent in agents}
        return [_naming(note, shown) for note in notes]

    async def _known(self, tenant: str, run_id: str | None) -> Checked:
        guard = self._guards.get(tenant)
        if guard is None:
            guard = self._guards[tenant] = await self._parts.ledger.guard(tenant)
        if run_id is not None and not self._has_own(guard, tenant, run_id):
            run_id = None  # anybody can name runs: only those with secrets of their own are remembered here
        found = self._checks.get((tenant, run_id))
        if found is None:
            found = self._checks[tenant, run_id] = self._compiled(guard, tenant, run_id)
        return found

    def current(self, tenant: str) -> Checked | None:
        """What texts of this tenant are checked with, where that has been worked out."""
        return self._checks.get((tenant, None))

    def _has_own(self, guard: Guard, tenant: str, run_id: str) -> bool:
        return (tenant, run_id) in self._resolved or any(
            sealed.secret.run_id == run_id for sealed in guard.secrets
        )

    def _compiled(self, guard: Guard, tenant: str, run_id: str | None) -> Checked:
        """Values that cannot be unsealed stop every write: better none than one with a secret in it."""
        values = [
            (
                sealed.secret.label,
                self._sealing.unseal(sealed.value, sealed.secret).decode("utf-8"),
            )
            for sealed in guard.secrets
            if sealed.secret.run_id in (None, run_id)
        ]
        if run_id is not None:
            values.extend(self._resolved.get((tenant, run_id), {}).items())
        base = self._parts.redaction
        if values:
            matcher = registered.Registered(values, Marker(base.template))
            base = replace(base, redactors=(matcher, *base.redactors))
        return Checked(base, guard.position, self._parts.limits)

    def _forget(self, tenant: str) -> None:
        self._guards.pop(tenant, None)
        for key in [key for key in self._checks if key[0] == tenant]:
            del self._checks[key]


def _naming(note: Commit, shown: Mapping[str, str]) -> Commit:
    agent = note.draft.agent
    if agent is None or shown.get(agent) == agent:
        return note
    return replace(note, draft=replace(note.draft, agent=shown.get(agent)))
