"""What becomes of a write: an ordered list of rules, of which the first that matches decides. Pure.

1. After the rules that somebody wrote come those that ship, then the default. The caller's own wish to have it looked
   at holds what they let through.
2. A fact that takes looking up is asked for only when everything else that a rule says is true (`Question`).
3. What was learned lets through what would be held. It says nothing where a rule that was written denies it, nor of a
   large removal, unless it was learned from large ones.
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, TypeAlias

import re2  # pyright: ignore[reportMissingTypeStubs]  it has none

from quipu.governance.model import CALLER, DEFAULT, SHIPPED_PREFIX, Effect, Rule, When
from quipu.governance.text_classes import has_instruction, has_personal_data
from quipu.memory.pipeline import Verdict
from quipu.model.record import SENSITIVITY_ORDER, TRUST_ORDER, MemoryType, Record, Sensitivity, Trust
from quipu.model.store import Store
from quipu.search.filters import matches as fits_filter
from quipu.secrets.decoded import folded

BULK = 10
BULK_REMOVAL = f"{SHIPPED_PREFIX}bulk-removal"
INSTRUCTION = f"{SHIPPED_PREFIX}instruction"
OUTSIDE_SOURCE = f"{SHIPPED_PREFIX}outside-source"
#: For everybody who is no admin.
SHIPPED = (
    Rule(
        id=BULK_REMOVAL,
        when=When(operations=("forget", "expire"), count_above=BULK, admin=False),
        effect="hold",
        reason=f"More than {BULK} memories would go at once.",
        origin="shipped",
    ),
    Rule(
        id=INSTRUCTION,
        when=When(operations=("remember",), found=("instruction",), admin=False),
        effect="hold",
        reason="It reads like an instruction to the model.",
        origin="shipped",
    ),
    Rule(
        id=OUTSIDE_SOURCE,
        when=When(operations=("remember",), trust_at_most="external", shared=True, admin=False),
        effect="hold",
        reason="It comes from outside, into a store that all agents read.",
        origin="shipped",
    ),
)
#: What is asked → what rules call it. Anything else that writes is remembering.
_OPERATIONS = frozenset({"remember", "forget", "merge", "expire", "restore", "recall"})
_STRICTNESS = ("allow", "hold", "deny")


class Question(Enum):
    """A fact that takes looking up."""

    PLAN = "plan"
    STORES = "stores"
    NEW_SOURCE = "new_source"
    CONFLICTS = "conflicts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A memory as rules see it: one that would be written; of a removal, one that would go."""

    agent_id: str
    #: Name or id of its store.
    store: str
    type: MemoryType
    tags: tuple[str, ...] = ()
    user_id: str | None = None
    source: str | None = None
    trust: Trust = "unknown"
    sensitivity: Sensitivity = "internal"
    confidence: float = 1.0
    text: str
    #: Everything it says: text, tags, metadata.
    words: str
    is_imported: bool = False
    #: Whether a secret was masked in it.
    has_secret: bool = False
    #: Its place among memories that are written together.
    place: int = 0
    #: The version itself, where it has been planned.
    record: Record | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A write as rules see it; None is what has not been looked up."""

    operation: str
    agent_id: str | None
    principal: str
    is_admin: bool = False
    is_hard: bool = False
    #: An expiry that forgets is forgetting, and no way around a rule about that.
    is_forgetting: bool = False
    subjects: tuple[Subject, ...] | None = None
    count: int | None = None
    #: Stores by name and by id.
    stores: Mapping[str, Store] | None = None
    is_new_source: bool | None = None
    has_conflict: bool | None = None

    @property
    def kind(self) -> str:
        """The operation as rules call it."""
        return self.operation if self.operation in _OPERATIONS else "remember"

    def apart(self) -> "tuple[Facts, ...]":
        """The same for each memory of many that are written together: each is judged for itself."""
        if self.operation != "remember_many" or not self.subjects:
            return (self,)
        return tuple(replace(self, agent_id=one.agent_id, subjects=(one,)) for one in self.subjects)


#: Whether something is so, or what has to be looked up to say it.
Answer: TypeAlias = bool | Question


def decided(
    rules: Sequence[Rule], facts: Facts, now: int, *, caller_asks: bool = False, default: Effect = "allow"
) -> Verdict | Question:
    """The verdict on a write, or what has to be looked up first."""
    verdict = _by_rules(rules, facts, now)
    if isinstance(verdict, Question) or (verdict is not None and verdict.effect != "allow"):
        return verdict
    if caller_asks:
        return Verdict(effect="hold", rules=(CALLER,))
    if verdict is not None:
        return verdict
    if default == "allow" or facts.kind == "recall":
        return Verdict()
    return Verdict(effect=default, rules=(DEFAULT,))


def _by_rules(rules: Sequence[Rule], facts: Facts, now: int) -> Verdict | Question | None:
    """What the first rule says that is about a write; None where none is."""
    learned: Rule | None = None
    for rule in rules:
        if rule.is_over(now) or (learned is not None and not _stands_before(rule, learned)):
            continue
        answer = matches(rule.when, facts)
        if isinstance(answer, Question):
            return answer
        if not answer:
            continue
        if learned is None and _yields(rule):
            learned = rule
            continue
        return _said(rule)
    return None if learned is None else _said(learned)


def strictest(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict for memories that are written all or not at all: the strictest of each."""
    strictest = max(verdicts, key=lambda one: _STRICTNESS.index(one.effect))
    strict = [one for one in verdicts if one.effect == strictest.effect]
    reasons = dict.fromkeys(one.because for one in strict if one.because)
    return Verdict(
        effect=strictest.effect,
        rules=tuple(dict.fromkeys(name for one in strict for name in one.rules)),
        because=" ".join(reasons) or None,
        approvals=max(one.approvals for one in strict),
    )


def _said(rule: Rule) -> Verdict:
    return Verdict(effect=rule.effect, rules=(rule.id,), because=rule.reason, approvals=rule.approvals)


def _yields(rule: Rule) -> bool:
    """Whether it lets through by habit only, which is no reason against what somebody has written."""
    return rule.origin == "learned" and rule.effect == "allow"


def _stands_before(rule: Rule, learned: Rule) -> bool:
    """Whether a rule that comes after what was learned still decides."""
    if rule.origin == "learned":
        return False
    return rule.effect == "deny" or (rule.id == BULK_REMOVAL and learned.when.count_above is None)


# -- conditions ---------------------------------------------------------------------------------------------------


def matches(when: When, facts: Facts) -> Answer:
    """Whether a rule is about this write. Conditions on a memory must all hold of one and the same."""
    if not _fits_surface(when, facts):
        return False
    looked_up = (
        _is_agent(when.agents, facts),
        _is(when.new_source, facts.is_new_source, Question.NEW_SOURCE),
        _is(when.conflicts, facts.has_conflict, Question.CONFLICTS),
        _is_above(when.count_above, facts.count),
    )
    if False in looked_up:
        return False
    tests = _tests(when, facts)
    found = _any(facts, tests) if tests else True
    if found is not True:
        return found
    return next((answer for answer in looked_up if isinstance(answer, Question)), True)


def _is_agent(patterns: Sequence[str] | None, facts: Facts) -> Answer:
    """A restore names no agent: whose memory it is has to be looked up."""
    if patterns is None:
        return True
    return Question.PLAN if facts.agent_id is None else _globbed(facts.agent_id, patterns)


def _is(wanted: bool | None, known: bool | None, question: Question) -> Answer:
    if wanted is None:
        return True
    return question if known is None else known is wanted


def _is_above(bound: int | None, count: int | None) -> Answer:
    if bound is None:
        return True
    return Question.PLAN if count is None else count > bound


def _fits_surface(when: When, facts: Facts) -> bool:
    """What is known of every write."""
    return (
        _fits_operation(when, facts)
        and (when.principals is None or _globbed(facts.principal, when.principals))
        and when.hard_delete in (None, facts.is_hard)
        and when.admin in (None, facts.is_admin)
    )


def _fits_operation(when: When, facts: Facts) -> bool:
    """A rule about nothing in particular is about every write; a recall is held by a rule that names it, only.

    What is restored is remembered again, so what keeps something from being remembered also keeps it from coming back.
    """
    named = when.operations or ()
    if facts.kind == "recall":
        return "recall" in named
    if not named or facts.kind in named:
        return True
    if facts.is_forgetting and "forget" in named:
        return True
    return facts.kind == "restore" and "remember" in named


Test: TypeAlias = Callable[[Subject], Answer]


def _tests(when: When, facts: Facts) -> list[Test]:
    """The conditions on a memory, those that cost least first."""
    tests: list[Test] = []

    def add(wanted: Any, test: Test) -> None:
        if wanted is not None:
            tests.append(test)

    add(when.types, lambda one: one.type in (when.types or ()))
    add(when.tags, lambda one: bool(set(when.tags or ()) & set(one.tags)))
    add(when.users, lambda one: one.user_id is not None and _globbed(one.user_id, when.users or ()))
    add(when.sources, lambda one: one.source is not None and _globbed(one.source, when.sources or ()))
    add(when.imported, lambda one: one.is_imported is when.imported)
    add(when.trust_at_most, lambda one: _is_at_least(one.trust, when.trust_at_most, TRUST_ORDER))
    add(
        when.sensitivity_at_least,
        lambda one: _is_at_least(one.sensitivity, when.sensitivity_at_least, SENSITIVITY_ORDER),
    )
    add(when.confidence_below, lambda one: one.confidence < (when.confidence_below or 0))
    add(when.size_above, lambda one: len(one.text.encode()) > (when.size_above or 0))
    add(when.stores, lambda one: _fits_store(facts, one, lambda store: store.name in (when.stores or ())))
    add(when.shared, lambda one: _fits_store(facts, one, lambda store: store.is_shared is when.shared))
    add(when.content_any, lambda one: _has_phrase(one.text, when.content_any or ()))
    add(when.content_regex, lambda one: _compiled(when.content_regex or "").search(one.text) is not None)
    add(when.found, lambda one: _has_class(one, when))
    add(when.filter, lambda one: _fits_filter(facts, one, when))
    return tests


def _any(facts: Facts, tests: Sequence[Test]) -> Answer:
    """Whether all tests hold of one memory."""
    if facts.subjects is None:
        return Question.PLAN
    found: Answer = False
    for subject in facts.subjects:
        answer = _all(subject, tests)
        if answer is True:
            return True
        found = found or answer
    return found


def _all(subject: Subject, tests: Sequence[Test]) -> Answer:
    question: Question | None = None
    for test in tests:
        answer = test(subject)
        if answer is False:
            return False
        if isinstance(answer, Question):
            question = question or answer
    return question or True


def _is_at_least(value: str, bound: str | None, order: Sequence[str]) -> bool:
    return bound is not None and order.index(value) >= order.index(bound)


def _fits_store(facts: Facts, subject: Subject, test: Callable[[Store], bool]) -> Answer:
    if facts.stores is None:
        return Question.STORES
    store = facts.stores.get(subject.store)
    return store is not None and test(store)


def _fits_filter(facts: Facts, subject: Subject, when: When) -> Answer:
    if subject.record is None:
        return Question.PLAN
    if facts.stores is None:
        return Question.STORES
    store = facts.stores.get(subject.record.store_id)
    return fits_filter(when.filter or {}, subject.record, "" if store is None else store.name)


def _has_class(subject: Subject, when: When) -> bool:
    wanted = when.found or ()
    return (
        ("secret" in wanted and subject.has_secret)
        or ("instruction" in wanted and has_instruction(subject.words))
        or (
            "pii" in wanted
            and any(has_personal_data(text) for text in {subject.words, folded(subject.words)})
        )
    )


def _has_phrase(text: str, phrases: Sequence[str]) -> bool:
    return any(phrase in variant for phrase, variant in _variants(text, phrases))


def _variants(text: str, phrases: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each phrase and the text, without case: as they are written, and as they look.

    An accent apart or an invisible character makes no other word; but a rule may also be about such a character.
    """
    written, seen = text.casefold(), _look(text)
    for phrase in phrases:
        yield phrase.casefold(), written
        if looks := _look(phrase):
            yield looks, seen


def _look(text: str) -> str:
    return (text if text.isascii() else unicodedata.normalize("NFC", folded(text))).casefold()


@lru_cache(maxsize=4 * 500)
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  it has no stubs


def _globbed(text: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)
