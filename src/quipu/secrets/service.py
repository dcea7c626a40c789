"""The registered values of each tenant, unsealed and compiled once per position, and the guard made of them.

Values that cannot be unsealed stop every write: better none than one with a secret in it. Reads go on.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import ConflictError, NotFoundError, UnverifiableError
from quipu.ledger.commit import Commit, Drop, Keep
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.ledger.table import Table
from quipu.model.journal import Draft
from quipu.operation import AnyBinding, Binding, Context
from quipu.secrets import operations as ops
from quipu.secrets.model import (
    SECRETS,
    AddSecretRequest,
    ListSecretsRequest,
    ListSecretsResponse,
    RemoveSecretRequest,
    RemoveSecretResponse,
    Secret,
    SecretView,
)
from quipu.secrets.redaction import Guard
from quipu.secrets.registered import RegisteredValue, checked_label, checked_value, compiled
from quipu.secrets.sealing import Sealer, Sealing

_MOST = 100_000
#: Each time somebody else has registered a value meanwhile, the label is checked again.
_MOST_ATTEMPTS = 64


@dataclass(frozen=True, slots=True)
class _Known:
    """The list as of a position, and the guards made of it: one for all, and one for each run with values of its own."""

    guarded: int
    secrets: tuple[Secret, ...]
    guards: dict[str | None, Guard]


class Secrets:
    """One list for each tenant."""

    def __init__(
        self,
        ledger: Ledger,
        sealer: Sealer,
        base: Guard,
        new_id: Callable[[str], str],
        *,
        sealed: Sequence[Table[Any]] = (),
    ) -> None:
        """`base` is the guard without registered values: detectors, policy, marker. `sealed`: other capabilities' tables
        that keep something under the same key."""
        self._ledger, self._base, self._new_id = ledger, base, new_id
        #: For whoever else seals with the key.
        self.sealing = Sealing(ledger, sealer, sealed)
        self._known: dict[str, _Known] = {}
        #: What runs at work have resolved: tenant and run → values by label. Nowhere else, and gone with the run.
        self._resolved: dict[tuple[str, str], dict[str, str]] = {}

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.ADD_SECRET, self.add),
            Binding(ops.LIST_SECRETS, self.listed),
            Binding(ops.REMOVE_SECRET, self.remove),
        )

    # -- the guard ----------------------------------------------------------------------------------------------------

    async def guard(self, tenant: str, run_id: str | None) -> Guard:
        """What texts of a tenant, and of a run, are checked with, as of this moment."""
        head = await self._ledger.head(tenant)
        known = self._known.get(tenant)
        if known is None or known.guarded != head.guarded:
            known = self._known[tenant] = await self._read(tenant)
        own = run_id if run_id is not None and self._has_own(known, tenant, run_id) else None
        found = known.guards.get(own)
        if found is None:
            found = known.guards[own] = self._compiled(known, tenant, own)
        return found

    def known(self, tenant: str, checked_at: int | None) -> Callable[[str], str] | None:
        """What masks secrets in texts that telemetry shows, without asking the ledger.

        None: the list was never read here, or not as of the position that the texts were checked at.
        """
        known = self._known.get(tenant)
        guard = None if known is None else known.guards.get(None)
        if guard is None or (checked_at is not None and guard.checked_at < checked_at):
            return None
        return guard.masked

    async def load(self, tenant: str) -> None:
        """Read the list, so that it is known from now on."""
        await self.guard(tenant, None)

    async def _read(self, tenant: str) -> _Known:
        def work(reader: Reader) -> _Known:
            rows = reader.rows(SECRETS, limit=_MOST)
            return _Known(reader.head().guarded, tuple(row.value for row in rows), {})

        return await self._ledger.read(tenant, work)

    def _has_own(self, known: _Known, tenant: str, run_id: str) -> bool:
        """Anybody can name runs: only those with values of their own are kept apart."""
        return (tenant, run_id) in self._resolved or any(one.run_id == run_id for one in known.secrets)

    def _compiled(self, known: _Known, tenant: str, run_id: str | None) -> Guard:
        values = [
            RegisteredValue(one.label, self.sealing.unseal(one.sealed, tenant, one.id).decode())
            for one in known.secrets
            if one.run_id in (None, run_id)
        ]
        if run_id is not None:
            resolved = self._resolved.get((tenant, run_id), {})
            values.extend(RegisteredValue(label, value) for label, value in resolved.items())
        return replace(self._base, registered=compiled(values), checked_at=known.guarded)

    async def without_secret_names(self, commits: Sequence[Commit]) -> Sequence[Commit]:
        """Entries of reads of one tenant: whoever reads may name an agent that nobody has checked."""
        agents = {commit.draft.agent for commit in commits if commit.draft.agent is not None}
        if not agents:
            return commits
        clean: set[str] = set()
        with suppress(UnverifiableError):  # without the key nobody can tell: then the entry names nobody
            guard = await self.guard(commits[0].tenant, None)
            clean = {agent for agent in agents if not guard.finds(agent)}
        return [
            commit
            if commit.draft.agent is None or commit.draft.agent in clean
            else replace(commit, draft=replace(commit.draft, agent=None))
            for commit in commits
        ]

    # -- runs -----------------------------------------------------------------------------------------------------------

    async def value(self, tenant: str, label: str) -> str | None:
        """The value of a registered secret, for a run that may resolve it."""
        for one in (await self._read(tenant)).secrets:
            if one.label == label and one.run_id is None:
                return self.sealing.unseal(one.sealed, tenant, one.id).decode()
        return None

    def resolve(self, tenant: str, run_id: str, label: str, value: str) -> None:
        """Keep a value out of everything that the run writes from now on."""
        self._resolved.setdefault((tenant, run_id), {})[label] = value
        self._known.pop(tenant, None)

    def end_run(self, tenant: str, run_id: str) -> None:
        """The run is over: what it resolved is thrown away."""
        if self._resolved.pop((tenant, run_id), None) is not None:
            self._known.pop(tenant, None)

    # -- the list -------------------------------------------------------------------------------------------------------

    async def add(self, ctx: Context, request: AddSecretRequest) -> SecretView:
        value = checked_value(request.value)
        checked_label(request.label, value)
        secret_id = self._new_id("sec")
        secret = Secret(
            id=secret_id,
            label=request.label,
            run_id=request.run_id,
            created_at=ctx.clock(),
            created_by=ctx.principal.name,
            sealed=await self.sealing.seal(value.encode(), ctx.tenant, secret_id),
        )
        draft = self._draft(ctx, "add_secret", secret)
        commit = Commit(tenant=ctx.tenant, draft=draft, changes=(Keep(SECRETS, secret, 0),))
        for _ in range(_MOST_ATTEMPTS):
            # Label and run stand in the journal, where nothing goes again: no secret that was there before is in them.
            guard = await self.guard(ctx.tenant, None)
            guard.clean(request)
            try:
                await self._ledger.commit(commit, checked_at=guard.checked_at)
            except ConflictError as conflict:
                if conflict.reason != "secrets_changed":
                    raise
            else:
                await self.guard(ctx.tenant, None)  # from now on it is known here
                return _view(secret)
        raise ConflictError("The secrets of the tenant keep changing.", reason="secrets_changed")

    async def listed(self, ctx: Context, request: ListSecretsRequest) -> ListSecretsResponse:
        secrets = await self._ledger.page(SECRETS, ctx.tenant, limit=_MOST)
        return ListSecretsResponse(secrets=tuple(_view(one) for one in secrets))

    async def remove(self, ctx: Context, request: RemoveSecretRequest) -> RemoveSecretResponse:
        secret = await self._ledger.get(SECRETS, ctx.tenant, request.id)
        if secret is None:
            raise NotFoundError(
                "There is no such secret.", reason="secret", hint="`quipu secret list` shows them."
            )
        draft = self._draft(ctx, "remove_secret", secret)
        await self._ledger.commit(
            Commit(tenant=ctx.tenant, draft=draft, changes=(Drop(SECRETS, (secret.id,)),))
        )
        return RemoveSecretResponse(id=secret.id)

    @staticmethod
    def _draft(ctx: Context, op: str, secret: Secret) -> Draft:
        return Draft(
            op=op,
            actor=ctx.principal.name,
            at=ctx.clock(),
            run=secret.run_id,
            detail={"secret": secret.id, "label": secret.label},
        )


def _view(secret: Secret) -> SecretView:
    return SecretView(
        id=secret.id,
        label=secret.label,
        run_id=secret.run_id,
        created_at=secret.created_at,
        created_by=secret.created_by,
    )
