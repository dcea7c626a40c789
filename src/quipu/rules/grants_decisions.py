"""Decisions about memory exchange, and the record of each (OAP contract 4.8, 7.2, 8.4).

1. Whatever is decided about a use of a grant, or by an owner, stands in `policy_decisions` of its receipt, signed and chained.
2. The closed Decision Record is read out of the receipt, for the owner alone: it says nothing that the chain does not prove.
3. A record names rules, layers and reasons, never content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from quipu.model.value import JsonObject

ALLOW, CONDITIONS, BLOCK = "allow", "allow_with_conditions", "block"
GRANT, SCOPE, NEVER_SHARE = "memory.grant.valid", "scope.own", "owner.never_share"
PROJECTION, CEILING, OWNER = "projection.applied", "host.ceiling", "owner.request"
KILL, REQUESTED, EVIDENCE = "memory.kill_switch", "trust.requested", "trust.evidence"
#: What a rule that refused begins with; its reason follows.
REFUSED = "refused."
#: What a use of a grant is judged by, from the highest layer down.
USE = (GRANT, SCOPE, NEVER_SHARE, PROJECTION)
#: Rule → the layer it stands in (platform, jurisdiction and organisation, scope, grant and person), and what it means.
_RULES: Mapping[str, tuple[str, str]] = {
    CEILING: ("L1", "The host trusts nobody further than its own ceiling."),
    EVIDENCE: ("L1", "The host asks for evidence beyond the grant, and goes by what was shown."),
    SCOPE: ("L3", "Only the grant's own scope is looked at."),
    GRANT: ("L4", "A grant of the owner's that counts at this moment."),
    NEVER_SHARE: ("L4", "What the owner never shares is left out."),
    PROJECTION: ("L4", "Items are shown through the projection that the grant names."),
    REQUESTED: ("L4", "The grantee asked to be trusted less than the grant allows."),
    OWNER: ("L4", "The owner asked for it."),
    KILL: ("L4", "The owner takes every grant back."),
}


def policy(id: str, outcome: str, rules: Sequence[str], **told: Any) -> dict[str, Any]:
    """What was decided, as an entry of a receipt."""
    return {"id": id, "outcome": outcome, "rules": list(rules), **told}


def record(receipt: JsonObject) -> dict[str, Any] | None:
    """The Decision Record of a receipt; None where nothing was decided."""
    decided = _decided(receipt)
    if decided is None:
        return None
    rules = [str(rule) for rule in decided.get("rules", ())]
    made: dict[str, Any] = {
        "decision_id": str(decided.get("id")),
        "evaluated_at": str(receipt.get("timestamp")),
        "layers_evaluated": sorted({_layer(rule) for rule in rules}),
        "applied_rules": rules,
        "outcome": str(decided.get("outcome")),
        "explanation": f"{action(receipt)} for {receipt.get('agent_did')}. {why(rules)}".strip(),
    }
    conditions = _conditions(decided)
    return {**made, "conditions": conditions} if conditions else made


def records(receipts: Iterable[JsonObject]) -> list[dict[str, Any]]:
    """Those of a stretch of a chain."""
    return [made for one in receipts if (made := record(one)) is not None]


def _decided(receipt: JsonObject) -> Mapping[str, Any] | None:
    decisions = receipt.get("policy_decisions")
    if not isinstance(decisions, Sequence) or isinstance(decisions, str) or not decisions:
        return None
    return cast("Mapping[str, Any]", decisions[0])


def _layer(rule: str) -> str:
    return _RULES.get(rule, ("L4", ""))[0]


def action(receipt: JsonObject) -> str:
    """What was asked for, in OAP's words."""
    return str(receipt.get("action_id", receipt.get("type")))


def ends(receipt: JsonObject, grant_id: str) -> bool:
    """Whether this is where the owner took all grants back, and this one with them."""
    return grant_id in (_decided(receipt) or {}).get("grants_revoked", ())


def why(rules: Sequence[str]) -> str:
    """The rules that decided, as sentences."""
    return " ".join(_explained(rules))


def _explained(rules: Sequence[str]) -> Iterable[str]:
    for rule in rules:
        if rule.startswith(REFUSED):
            yield f"Refused: {rule.removeprefix(REFUSED)}."
        elif rule in _RULES:
            yield _RULES[rule][1]


def _conditions(decided: Mapping[str, Any]) -> list[str]:
    """On which terms something was shown."""
    applied: Mapping[str, Any] = decided.get("projection_applied") or {}
    told = [
        f"{name}={applied[name]}" for name in ("profile", "trust_level", "lawful_basis") if name in applied
    ]
    names = ("scope_id", "consumed_grant_id", "items_remaining", "free_text")
    told.extend(f"{name}={decided[name]}" for name in names if name in decided)
    for one in applied.get("evidence", ()):
        told.append(f"evidence={one['type']}:{one['outcome']}")
    return told if decided.get("outcome") == CONDITIONS else []
