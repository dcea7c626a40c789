"""The secrets that runs have resolved. A run's row names their labels; their values are in memory only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from quipu.errors import InvalidError
from quipu.ledger.ledger import Ledger
from quipu.memory.pipeline import Guard
from quipu.runs.model import RUNS
from quipu.runs.rules import is_run_id


class KnownSecrets(Protocol):
    """The tenants' registered values."""

    async def guard(self, tenant: str, run_id: str | None) -> Guard: ...
    async def value(self, tenant: str, label: str) -> str | None: ...
    def resolve(self, tenant: str, run_id: str, label: str, value: str) -> None: ...
    def end_run(self, tenant: str, run_id: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSecrets:
    """The redactor that also knows what a run has resolved, after a restart too."""

    ledger: Ledger
    secrets: KnownSecrets
    #: Those of the conformance mode: label → value.
    built_in: Mapping[str, str]
    #: Tenant and run → the labels whose values are in memory.
    _known: dict[tuple[str, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, str], frozenset[str]], init=False
    )

    async def guard(self, tenant: str, run_id: str | None) -> Guard:
        if run_id is not None and is_run_id(run_id):
            run = await self.ledger.get(RUNS, tenant, run_id)
            known = self._known.get((tenant, run_id), frozenset())
            for label in () if run is None else run.secrets:
                if label not in known:
                    await self.resolve(tenant, run_id, label)
        return await self.secrets.guard(tenant, run_id)

    async def resolve(self, tenant: str, run_id: str, label: str) -> str:
        """The value, which from now on is kept out of whatever the run writes."""
        value = self.built_in.get(label) or await self.secrets.value(tenant, label)
        if value is None:
            raise InvalidError("The run needs a secret that is not there.", reason="credential_unavailable")
        self.secrets.resolve(tenant, run_id, label, value)
        self._known[tenant, run_id] = self._known.get((tenant, run_id), frozenset()) | {label}
        return value

    def end_run(self, tenant: str, run_id: str) -> None:
        """The run is over: its values are forgotten, and resolved anew for what a person approves late."""
        self._known.pop((tenant, run_id), None)
        self.secrets.end_run(tenant, run_id)
