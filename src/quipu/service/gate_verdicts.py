"""Verdicts that hold for whatever an agent remembers: every write asks, and mostly nothing has changed."""

from __future__ import annotations

from typing import TypeAlias

from quipu.model.governance import Rule, Verdict

#: Agent, principal, and whether it is an admin: all that rules know of a memory before they look at it.
_Writer: TypeAlias = tuple[str, str, bool]
#: Anybody can name agents, so not every name is kept.
_MOST = 1_024


class Verdicts:
    """What one list of rules says, as far as it was asked."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        #: A rule that ends makes a verdict that does.
        self._is_lasting = all(rule.expires_at is None for rule in rules)
        self._known: dict[_Writer, Verdict] = {}

    def of(self, writer: _Writer) -> Verdict | None:
        """What was said of another memory of theirs, if it holds for this one."""
        return self._known.get(writer)

    def keep(self, writer: _Writer, verdict: Verdict) -> None:
        """It holds until the rules change, because none of them looked at the memory."""
        if self._is_lasting:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[writer] = verdict


class TenantVerdicts:
    """The same for each tenant; what was said by former rules is thrown away."""

    def __init__(self) -> None:
        self._by_tenant: dict[str, Verdicts] = {}

    def by(self, tenant: str, rules: tuple[Rule, ...]) -> Verdicts:
        """What these rules have said."""
        known = self._by_tenant.get(tenant)
        if known is None or (known.rules is not rules and known.rules != rules):
            known = self._by_tenant[tenant] = Verdicts(rules)
        return known
