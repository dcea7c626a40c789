"""What the journal says of things that stand beside records, and whether they are so.

1. Each token, secret and webhook stands there because an entry says so, and is gone because one does; a store is gone
   because one does. From when entries told a digest of them, they are what was added.
2. The tenant's rules are the last that an entry names; from when entries told a digest of them, to the letter.
3. A record ranks lower when it was demoted and has not been changed since; a merge is no change.
4. What waits for a person was held and not decided, by whom the entries name, and has the yeses that they tell of; what
   was decided was decided so, then, and by whom they name.
5. An answer that is kept for a repetition was given by an entry of that time, and names what the entry is about.
6. A reason belongs to an entry about its record; from when entries told a digest of it, to the letter.

What is not told is not guessed at: an entry of an earlier release that names less is held against less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quipu.model.access import KeptSecret, Token
from quipu.model.beside import KeptAnswer
from quipu.model.change import Proposal
from quipu.model.journal import Entry, Op
from quipu.model.notices import KeptWebhook
from quipu.model.outcomes import Fault
from quipu.model.store import MAIN, Store
from quipu.model.value import Json, JsonObject
from quipu.rules.beside_runs import ToldRuns
from quipu.rules.spelling import Canonical
from quipu.rules.telling import rules_digest, secret_digest, store_digest, token_digest, webhook_digest

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


@dataclass(frozen=True, slots=True)
class Decided:
    """A proposal that was decided, by the journal."""

    seq: int
    status: str
    reviewer: str
    at: int


@dataclass(slots=True)
class Told:
    """What entries say, met in their order."""

    seq: int = 0
    #: kind → id → the entry that tells of it
    listed: dict[str, dict[str, Entry]] = field(
        default_factory=lambda: {"token": {}, "secret": {}, "webhook": {}}
    )
    #: Tokens that were ended, and when at the latest.
    ended_tokens: dict[str, int] = field(default_factory=dict[str, int])
    #: Stores that were made, and those that may be gone again.
    stores: dict[str, Entry] = field(default_factory=dict[str, Entry])
    dropped: set[str] = field(default_factory=set[str])
    rules: Entry | None = None
    suspended: int | None = None
    #: Records that rank lower, and which version did when they came to.
    demoted: dict[str, int] = field(default_factory=dict[str, int])
    held: dict[str, Held] = field(default_factory=dict[str, Held])
    decided: dict[str, Decided] = field(default_factory=dict[str, Decided])
    #: Records of which nothing is left, and when something was erased last.
    erased: set[str] = field(default_factory=set[str])
    erased_at: dict[int, int] = field(default_factory=dict[int, int])
    #: Entries with a reason, where they tell its digest.
    reasons: dict[int, Entry] = field(default_factory=dict[int, Entry])
    runs: ToldRuns = field(default_factory=ToldRuns)

    def follow(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.seq = entry.seq
            if entry.op not in _READS:
                self._lift(entry)
                if "reason" in entry.detail:
                    self.reasons[entry.seq] = entry
                if entry.run is not None:
                    self.runs.note(entry, entry.run)
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
            ends_at = detail.get("ends_at")
            if isinstance(ends_at, int):  # a token that was rotated
                self._end(str(detail.get("ended")), ends_at)
        elif op is Op.END_TOKEN:
            self._end(str(detail.get("token")), entry.at)
        elif op in (Op.GENESIS, Op.CREATE_STORE) and entry.store is not None:
            self.stores[entry.store] = entry
        elif op in (Op.DELETE_STORE, Op.ERASE):
            self.dropped.add(entry.store or "")
            if op is Op.ERASE:
                self.erased.update(mention.id for mention in entry.records)
                self.erased_at[entry.at] = entry.seq
        elif op is Op.CHANGE_RULES and not detail.get("file"):
            self.rules = entry
        elif op in (Op.SUSPEND, Op.RESUME):
            self.suspended = entry.seq if op is Op.SUSPEND else None
        elif op is Op.DEMOTE:
            self.demoted.update((mention.id, mention.version) for mention in entry.records)
        elif op in (Op.HOLD, Op.APPROVE, Op.DECIDE):
            self._decide(entry, str(detail.get("proposal")))

    def _end(self, token: str, at: int) -> None:
        self.ended_tokens[token] = min(at, self.ended_tokens.get(token, at))

    def _decide(self, entry: Entry, name: str) -> None:
        held = self.held.get(name)
        if entry.op is Op.HOLD:
            self.held[name] = Held(entry.seq, None if "was" in entry.detail else entry.actor)
        elif entry.op is Op.DECIDE:
            self.held.pop(name, None)
            status = "approved" if entry.detail.get("approved") else "rejected"
            reviewer = str(entry.detail.get("closed_by", entry.actor))
            self.decided[name] = Decided(entry.seq, status, reviewer, entry.at)
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
        elif token.revoked_at is None or token.id not in told.ended_tokens:
            wrong = _ended_otherwise(told, token, entry)
            yield from [] if wrong is None else [_altered("token", token.id, entry.seq, wrong)]
        elif token.revoked_at > told.ended_tokens[token.id]:
            yield _altered("token", token.id, entry.seq, "is good for longer than it was to be")
    for name, entry in issued.items():
        yield _altered("token", name, entry.seq, "is gone")


def _ended_otherwise(told: Told, token: Token, entry: Entry) -> str | None:
    """What is wrong with a token that has ended and was not to, or the other way round."""
    if token.revoked_at is None:
        return "was ended, and is good again" if token.id in told.ended_tokens else None
    # One of an earlier release that was rotated: its successor has its name, and does not say so.
    later = [one for one in told.listed["token"].values() if one.seq > entry.seq]
    is_rotated = any(one.detail.get("name") == token.name and "ended" not in one.detail for one in later)
    return None if is_rotated else "has ended, and no entry says so"


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


def secret_faults(told: Told, there: Iterable[tuple[KeptSecret, bytes]]) -> Iterator[Fault]:
    """Secrets, and what was sealed of each."""
    now = {secret.id: (secret, sealed) for secret, sealed in there}
    yield from _listed_faults(told, "secret", now)
    for name, entry in told.listed["secret"].items():
        if name in now:
            secret, sealed = now[name]
            digest = secret_digest(sealed)
            is_so = entry.detail.get("label", secret.label) == secret.label and entry.run == secret.run_id
            if not is_so or entry.detail.get("digest", digest) != digest:
                yield _altered("secret", name, entry.seq, "is not what was registered")


def webhook_faults(told: Told, there: Iterable[KeptWebhook], canonical: Canonical) -> Iterator[Fault]:
    now = {kept.webhook.id: kept for kept in there}
    yield from _listed_faults(told, "webhook", now)
    for name, entry in told.listed["webhook"].items():
        if name in now:
            digest = webhook_digest(now[name].webhook, now[name].sealed, canonical)
            if entry.detail.get("digest", digest) != digest:
                yield _altered("webhook", name, entry.seq, "does not send what it was to send, or elsewhere")


def _listed_faults(told: Told, kind: str, there: Collection[str]) -> Iterator[Fault]:
    """Those that stand there are those that were added and not taken away."""
    known = told.listed[kind]
    yield from (_unknown(kind, name) for name in there if name not in known)
    yield from (_altered(kind, name, known[name].seq, "is gone") for name in known if name not in there)


def store_faults(told: Told, there: Iterable[Store], canonical: Canonical) -> Iterator[Fault]:
    """None is gone or another. One that a mirror made for copies stands in no entry of its own."""
    now = {store.id: store for store in there}
    for name, entry in told.stores.items():
        store = now.get(name)
        if store is None:
            yield from [] if name in told.dropped else [_altered("store", name, entry.seq, "is gone")]
            continue
        digest = store_digest(store, canonical)
        first = Store(tenant=store.tenant, id=name, name=MAIN, created_at=store.created_at)
        was = store_digest(first, canonical) if entry.op is Op.GENESIS else entry.detail.get("digest", digest)
        if was != digest:
            yield _altered("store", name, entry.seq, "is not called, or not for, what it was made as")


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


def lost_proposal(told: Told, name: str, held: Held, proposal: Proposal | None) -> Fault | None:
    """One that should wait and does not. An erasure of what it is about takes it away, and says when."""
    if proposal is not None and proposal.status == "pending":
        return None
    is_empty = proposal is not None and proposal.status == "rejected" and not proposal.request
    if is_empty and told.erased_at.get((proposal and proposal.reviewed_at) or 0, 0) > held.seq:
        return None
    detail = "it no longer waits, and no entry says that it was decided"
    return Fault(kind="altered_proposal", seq=held.seq, id=name, detail=detail)


def decided_fault(proposal: Proposal, decided: Decided) -> Fault | None:
    """Whether one that was decided was decided so."""
    if (proposal.status, proposal.reviewer, proposal.reviewed_at) == (
        decided.status,
        decided.reviewer,
        decided.at,
    ):
        return None
    detail = "it was decided otherwise, or by somebody else"
    return Fault(kind="altered_proposal", seq=decided.seq, id=proposal.id, detail=detail)


def unknown_proposal(proposal: Proposal) -> Fault:
    detail = "it is said to have been decided, and no entry says that it was held"
    return Fault(kind="altered_proposal", id=proposal.id, detail=detail)


def gone_proposal(name: str, decided: Decided) -> Fault:
    detail = "it is gone, though it was decided"
    return Fault(kind="altered_proposal", seq=decided.seq, id=name, detail=detail)


# -- answers and reasons --------------------------------------------------------------------------------------------


def answer_fault(kept: KeptAnswer) -> Fault | None:
    """Whether an answer that is kept can be the one that was given then."""
    entry = kept.entry
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
