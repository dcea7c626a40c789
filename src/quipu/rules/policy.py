"""What becomes of a write: an ordered list of rules, of which the first that matches decides.

After the operator's rules come the two that ship, then the caller's own wish to have it looked at, then the default.
What was learnt lets through what would be held. It says nothing where a rule that was written denies it, nor of a large
removal, unless it was learnt from large ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from quipu.model.governance import Effect, Origin, Rule, Verdict, When, WriteFacts
from quipu.model.record import Record, Sensitivity, Trust
from quipu.rules import filters
from quipu.rules.policy_patterns import pattern
from quipu.rules.readings import folded
from quipu.rules.texts import composed

BULK = 10
BULK_REMOVAL = "shipped-bulk-removal"
#: For everybody without memory:admin.
SHIPPED = (
    Rule(
        id=BULK_REMOVAL,
        when=When(operations=("forget", "expire"), count_above=BULK, admin=False),
        effect=Effect.HOLD,
        reason=f"More than {BULK} memories would go at once.",
        origin=Origin.SHIPPED,
    ),
    Rule(
        id="shipped-import",
        when=When(operations=("remember",), imported=True, admin=False),
        effect=Effect.HOLD,
        reason="It comes from an import.",
        origin=Origin.SHIPPED,
    ),
)
_TRUST = tuple(Trust)
_SENSITIVITY = tuple(Sensitivity)
#: Conditions that look at a record.
_ABOUT_RECORDS = (
    "stores", "types", "tags", "users", "sources", "trust_at_most", "sensitivity_at_least", "confidence_below",
    "content_any", "content_regex", "filter", "size_above",
)  # fmt: skip

#: Conditions on who recalls for whom.
_OF_RECALLS = frozenset({"operations", "agents", "principals", "admin"})


class Asked(StrEnum):
    """Facts that take looking up."""

    RECORDS = "records"
    COUNT = "count"
    FOUND = "found"
    NEW_SOURCE = "new_source"
    CONFLICTS = "conflicts"


def open_questions(rules: Sequence[Rule], facts: WriteFacts, now: int) -> frozenset[Asked]:
    """What must be looked up before the rules can decide, given what is known without looking."""
    asked: set[Asked] = set()
    may_yield = False
    for rule in rules:
        if is_over(rule, now) or not _fits_surface(rule.when, facts):
            continue
        needs = _needs(rule.when)
        asked |= needs
        may_yield = may_yield or _yields(rule)
        if not needs and not (may_yield and (_yields(rule) or rule.effect is Effect.HOLD)):
            break  # this one matches, whatever the rest say
    return frozenset(asked)


def _needs(when: When) -> set[Asked]:
    needs: set[Asked] = set()
    if any(getattr(when, name) not in (None, ()) for name in _ABOUT_RECORDS):
        needs.add(Asked.RECORDS)
    if when.count_above is not None:
        needs.add(Asked.COUNT)
    if when.found:
        needs.add(Asked.FOUND)
    if when.new_source is not None:
        needs.add(Asked.NEW_SOURCE)
    if when.conflicts is not None:
        needs.add(Asked.CONFLICTS)
    return needs


def decided(
    rules: Sequence[Rule],
    facts: WriteFacts,
    now: int,
    *,
    caller_asks: bool = False,
    default: Effect = Effect.ALLOW,
) -> Verdict:
    """The verdict on a write."""
    matching = (rule for rule in rules if not is_over(rule, now) and matches(rule.when, facts))
    first = next(matching, None)
    if first is not None and _yields(first):
        written = [rule for rule in matching if rule.origin is not Origin.LEARNED]
        first = written[0] if any(_stands_before(rule, first) for rule in written) else first
    if first is not None:
        return Verdict(first.effect, first.id, first.reason, first.approvals)
    if caller_asks:
        return Verdict(Effect.HOLD, "caller")
    return Verdict(default, "default")


def matches(when: When, facts: WriteFacts) -> bool:
    """Whether a rule is about this write. Conditions on records must all hold of one and the same record."""
    if not _fits_surface(when, facts):
        return False
    if when.count_above is not None and facts.count <= when.count_above:
        return False
    if when.new_source is not None and facts.is_new_source is not when.new_source:
        return False
    if when.conflicts is not None and facts.has_conflict is not when.conflicts:
        return False
    if when.found and not facts.found & set(when.found):
        return False
    if Asked.RECORDS not in _needs(when):
        return True
    names = dict(facts.store_names)
    return any(_fits(when, record, names.get(record.store_id, "")) for record in facts.records)


def untrue_of_recalls(when: When) -> str | None:
    """The condition by which a rule that names recalls would never be about one; None where there is none."""
    if "recall" not in when.operations:
        return None
    recall = WriteFacts(operation="recall", agent_id="", principal="")
    for field in fields(When):
        if field.name not in _OF_RECALLS:
            alone = replace(When(operations=("recall",)), **{field.name: getattr(when, field.name)})
            if not matches(alone, recall):
                return field.name
    return None


def _yields(rule: Rule) -> bool:
    """Whether it lets through by habit only, which is no reason against what an operator has written."""
    return rule.origin is Origin.LEARNED and rule.effect is Effect.ALLOW


def _stands_before(rule: Rule, learnt: Rule) -> bool:
    return rule.effect is Effect.DENY or (rule.id == BULK_REMOVAL and learnt.when.count_above is None)


def is_over(rule: Rule, now: int) -> bool:
    """Whether it decides nothing any more."""
    return rule.expires_at is not None and rule.expires_at <= now


def _fits_surface(when: When, facts: WriteFacts) -> bool:
    """What is known of every write."""
    return (
        _fits_operation(when, facts)
        and (not when.agents or _globbed(facts.agent_id, when.agents))
        and (not when.principals or _globbed(facts.principal, when.principals))
        and when.hard_delete in (None, facts.is_hard)
        and when.imported in (None, facts.is_imported)
        and when.admin in (None, facts.is_admin)
    )


def _fits_operation(when: When, facts: WriteFacts) -> bool:
    """A rule about nothing in particular is about every write; a recall is held by a rule that names it, only.

    What is restored is remembered again, so what keeps something from being remembered also keeps it from coming back.
    An expiry that forgets is forgetting, and no way around a rule about that.
    """
    operation = facts.operation
    if operation == "recall":
        return "recall" in when.operations
    if not when.operations or operation in when.operations:
        return True
    if facts.is_forgetting and "forget" in when.operations:
        return True
    return operation == "restore" and "remember" in when.operations


def _fits(when: When, record: Record, store: str) -> bool:
    privacy = record.privacy
    sensitivity = (privacy.sensitivity if privacy else None) or Sensitivity.INTERNAL
    return (
        (not when.stores or store in when.stores)
        and (not when.types or record.type in when.types)
        and (not when.tags or bool(set(when.tags) & set(record.tags)))
        and (not when.users or (record.user_id is not None and _globbed(record.user_id, when.users)))
        and (not when.sources or (record.source is not None and _globbed(record.source, when.sources)))
        and (
            when.trust_at_most is None
            or _TRUST.index(record.provenance.trust) >= _TRUST.index(when.trust_at_most)
        )
        and (
            when.sensitivity_at_least is None
            or _SENSITIVITY.index(sensitivity) >= _SENSITIVITY.index(when.sensitivity_at_least)
        )
        and (when.confidence_below is None or record.confidence < when.confidence_below)
        and (when.size_above is None or len(record.content.encode("utf-8")) > when.size_above)
        and _fits_text(when, record.content)
        and (when.filter is None or filters.matches(when.filter, record, store))
    )


def _fits_text(when: When, text: str) -> bool:
    if when.content_any and not any(
        phrase and phrase in read for phrase, read in _readings(text, when.content_any)
    ):
        return False
    return when.content_regex is None or pattern(when.content_regex).is_in(text)


def _readings(text: str, phrases: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each phrase and the text, without case: as they are written, and as they look.

    An accent apart or an invisible character makes no other word; but a rule may also be about such a character.
    """
    written, seen = text.casefold(), composed(folded(text)).casefold()
    for phrase in phrases:
        yield phrase.casefold(), written
        yield composed(folded(phrase)).casefold(), seen


def _globbed(text: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)
