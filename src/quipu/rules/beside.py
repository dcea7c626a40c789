"""What the journal says of things that stand beside records, and whether they are so.

1. Each token, secret and webhook stands there because an entry says so, and is gone because one does; a store is gone
   because one does.
2. The tenant's rules are the last that an entry names; from when entries told a digest of them, to the letter.
3. A record ranks lower when it was demoted and has not been changed since; a merge is no change.
4. What waits for a person was held and not decided, by whom the entries name, and has the yeses that they tell of.
5. An answer that is kept for a repetition was given by an entry of that time, and names what the entry is about.
6. A reason belongs to an entry about its record; from when entries told a digest of it, to the letter.

What is not told is not guessed at: an entry of an earlier release that names less is held against less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quipu.model.access import Token
from quipu.model.beside import KeptAnswer
from quipu.model.change import Proposal
from quipu.model.journal import Entry, Op
from quipu.model.outcomes import Fault
from quipu.model.value import Json, JsonObject
from quipu.rules.spelling import Canonical
from quipu.rules.telling import rules_digest, token_digest

#: Entries that only tell of versions.
_READS = frozenset({Op.RECALL, Op.READ, Op.EXPORT, Op.HOLD, Op.DENY})
#: What an entry adds or takes away: operation → (kind, whether it is there then).
_LISTED: Mapping[Op, tuple[str, bool]] = {
    Op.ISSUE_TOKEN: ("token", True),
    Op.KEEP_SECRET: ("secret", True),
    Op.DROP_SECRET: ("secret", False),
    Op.ADD_WEBHOOK: ("webhook", True),
    Op.DROP_WEBHOOK: ("webhook", False),
}


@dataclass(slots=True)
class Held:
    """A proposal that waits, by the journal."""

    seq: int
    #: None where it waits again, held by who took a decision back.
    writer: str | None
    given: tuple[str, ...] = ()


@dataclass(slots=True)
class Told:
    """What entries say, met in their order."""

    seq: int = 0
    #: kind → id → the entry that tells of it
    listed: dict[str, dict[str, Entry]] = field(
        default_factory=lambda: {"token": {}, "secret": {}, "webhook": {}}
    )
    ended_tokens: set[str] = field(default_factory=set[str])
    #: Stores that were made, and those that may be gone again.
    stores: dict[str, int] = field(default_factory=dict[str, int])
    dropped: set[str] = field(default_factory=set[str])
    rules: Entry | None = None
    suspended: int | None = None
    #: Records that rank lower, and which version did when they came to.
    demoted: dict[str, int] = field(default_factory=dict[str, int])
    held: dict[str, Held] = field(default_factory=dict[str, Held])
    #: Records of which nothing is left.
    erased: set[str] = field(default_factory=set[str])
    #: Entries with a reason, where they tell its digest.
    reasons: dict[int, Entry] = field(default_factory=dict[int, Entry])

    def follow(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.seq = entry.seq
            if entry.op not in _READS:
                self._lift(entry)
                if "reason" in entry.detail:
                    self.reasons[entry.seq] = entry
            self._note(entry)

    def _lift(self, entry: Entry) -> None:
        if not self.demoted:
            return
        for mention in entry.records:
            before = self.demoted.get(mention.id)
            if before is None:
                continue
            if entry.op is Op.ERASE or (entry.op is not Op.MERGE and mention.version > before):
                del self.demoted[mention.id]
            else:
                self.demoted[mention.id] = max(before, mention.version)

    def _note(self, entry: Entry) -> None:
        detail, op = entry.detail, entry.op
        if op in _LISTED:
            kind, is_there = _LISTED[op]
            name = str(detail.get(kind))
            if is_there:
                self.listed[kind][name] = entry
            else:
                self.listed[kind].pop(name, None)
        elif op is Op.END_TOKEN:
            self.ended_tokens.add(str(detail.get("token")))
        elif op in (Op.GENESIS, Op.CREATE_STORE) and entry.store is not None:
            self.stores[entry.store] = entry.seq
        elif op in (Op.DELETE_STORE, Op.ERASE):
            self.dropped.add(entry.store or "")
            if op is Op.ERASE:
                self.erased.update(mention.id for mention in entry.records)
        elif op is Op.CHANGE_RULES and not detail.get("file"):
            self.rules = entry
        elif op in (Op.SUSPEND, Op.RESUME):
            self.suspended = entry.seq if op is Op.SUSPEND else None
        elif op is Op.DEMOTE:
            self.demoted.update((mention.id, mention.version) for mention in entry.records)
        elif op in (Op.HOLD, Op.APPROVE, Op.DECIDE):
            self._decide(entry, str(detail.get("proposal")))

    def _decide(self, entry: Entry, name: str) -> None:
        held = self.held.get(name)
        if entry.op is Op.HOLD:
            self.held[name] = Held(entry.seq, None if "was" in entry.detail else entry.actor)
        elif entry.op is Op.DECIDE:
            self.held.pop(name, None)
        elif held is not None:
            counted = entry.detail.get("approvals")
            former = held.given if isinstance(counted, int) and counted > 1 else ()
            held.given = (*former, entry.actor)


# -- what is listed -------------------------------------------------------------------------------------------------


def token_faults(
    told: Told, tokens: Iterable[Token], hashes: Mapping[str, str], canonical: Canonical
) -> Iterator[Fault]:
    """`hashes` are those of the tokens' texts, by id."""
    issued = dict(told.listed["token"])
    for token in tokens:
        entry = issued.pop(token.id, None)
        if entry is None:
            yield _unknown("token", token.id)
            continue
        digest = token_digest(token, hashes.get(token.id, ""), canonical)
        if not _as_issued(token, entry.detail) or entry.detail.get("digest", digest) != digest:
            yield _altered("token", token.id, entry.seq, "does not allow what the journal says it does")
        elif token.id in told.ended_tokens and token.revoked_at is None:
            yield _altered("token", token.id, entry.seq, "was ended, and is good again")
    for name, entry in issued.items():
        yield _altered("token", name, entry.seq, "is gone")


def _as_issued(token: Token, detail: JsonObject) -> bool:
    """Whether a token allows what was told of it, as far as it was told."""
    now: dict[str, Json] = {
        "name": token.name,
        "permissions": sorted(token.permissions),
        "agents": list(token.agents),
        "review_stores": list(token.review_stores),
        "review_operations": list(token.review_operations),
    }
    unlimited: dict[str, Json] = {"review_stores": ["*"], "review_operations": ["*"]}
    was = {**unlimited, **{name: value for name, value in detail.items() if name in now}}
    return all(now[name] == value for name, value in was.items())


def listed_faults(told: Told, kind: str, there: Iterable[str]) -> Iterator[Fault]:
    """Secrets and webhooks: those that stand there are those that were added and not taken away."""
    known = dict(told.listed[kind])
    for name in there:
        if known.pop(name, None) is None:
            yield _unknown(kind, name)
    for name, entry in known.items():
        yield _altered(kind, name, entry.seq, "is gone")


def store_faults(told: Told, there: Collection[str]) -> Iterator[Fault]:
    """None is gone. One that a mirror made for copies stands in no entry of its own."""
    for name, seq in told.stores.items():
        if name not in there and name not in told.dropped:
            yield _altered("store", name, seq, "is gone")


def suspension_faults(told: Told, *, is_suspended: bool) -> Iterator[Fault]:
    if is_suspended != (told.suspended is not None):
        wrong = "is shut" if is_suspended else "is open"
        detail = f"the tenant {wrong}, and no entry says so"
        yield Fault(kind="beside_differs", seq=told.suspended, detail=detail)


# -- rules and ranks ------------------------------------------------------------------------------------------------


def rule_faults(told: Told, rules: Sequence[JsonObject], canonical: Canonical) -> Iterator[Fault]:
    detail: JsonObject = {} if told.rules is None else told.rules.detail
    named = detail.get("rules", [])
    is_so = [rule.get("id") for rule in rules] == named
    if is_so and "digest" in detail:
        is_so = rules_digest(rules, canonical) == detail["digest"]
    if not is_so:
        seq = None if told.rules is None else told.rules.seq
        wrong = "the rules that decide on writes are not those that were set"
        yield Fault(kind="beside_differs", seq=seq, detail=wrong)


def demotion_faults(told: Told, demoted: frozenset[str]) -> Iterator[Fault]:
    for name in sorted(demoted ^ told.demoted.keys()):
        wrong = "ranks lower, and" if name in demoted else "does not rank lower, as"
        end = "no entry says so" if name in demoted else "an entry says"
        yield Fault(kind="beside_differs", id=name, detail=f"it {wrong} {end}")


# -- held writes ----------------------------------------------------------------------------------------------------


def held_faults(told: Told, waiting: Iterable[Proposal]) -> Iterator[Fault]:
    """Those that wait are what the journal holds; whether their content is, `staging.is_as_held` says."""
    for proposal in waiting:
        held = told.held.get(proposal.id)
        if held is None:
            detail = "it waits again, though it was decided"
            yield Fault(kind="altered_proposal", id=proposal.id, detail=detail)
        elif held.writer not in (None, proposal.writer):
            detail = "it is said to be somebody else's"
            yield Fault(kind="altered_proposal", seq=held.seq, id=proposal.id, detail=detail)
        elif not {one.reviewer for one in proposal.given} <= set(held.given):
            detail = "a yes to it stands in no entry"
            yield Fault(kind="altered_proposal", seq=held.seq, id=proposal.id, detail=detail)


def lost_proposal(name: str, held: Held, proposal: Proposal | None) -> Fault | None:
    """One that should wait and does not. An erasure of what it is about takes it away, and says so."""
    if proposal is not None and (proposal.status == "pending" or not proposal.request):
        return None
    detail = "it no longer waits, and no entry says that it was decided"
    return Fault(kind="altered_proposal", seq=held.seq, id=name, detail=detail)


# -- answers and reasons --------------------------------------------------------------------------------------------


def answer_fault(kept: KeptAnswer, entry: Entry | None) -> Fault | None:
    """Whether an answer that is kept can be the one that was given then."""
    if entry is not None and entry.seq == kept.seq and entry.at == kept.at:
        about, named = {mention.id for mention in entry.records}, _named(kept.answer)
        if named <= about or entry.op in (Op.HOLD, Op.ISSUE_TOKEN):
            return None
        # An erasure also names what only waited to be written, of which no entry knows.
        if entry.op is Op.ERASE and (not about or about & named):
            return None
    detail = f"an answer that is kept for a repeated {kept.operation} is not the one that was given"
    return Fault(kind="beside_differs", seq=kept.seq, detail=detail)


def _named(answer: JsonObject) -> set[str]:
    """The records that an answer says were written or removed."""
    if answer.get("pending_approval"):
        return set()
    gone = answer.get("forgotten_ids")
    named = [answer.get("id"), *(gone if isinstance(gone, list) else [])]
    return {name for name in named if isinstance(name, str)}


def _unknown(kind: str, name: str) -> Fault:
    return Fault(kind="beside_differs", detail=f"{kind} {name} stands in no entry")


def _altered(kind: str, name: str, seq: int, wrong: str) -> Fault:
    return Fault(kind="beside_differs", seq=seq, detail=f"{kind} {name} {wrong}")
