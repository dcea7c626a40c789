"""The rules in force: those of the file, the tenant's own, and those that ship; kept, changed and tried out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from quipu.errors import ForbiddenError, InternalError, InvalidError
from quipu.model.change import Commit, KeepRules
from quipu.model.governance import Effect, Replayed, Rule, WriteFacts
from quipu.model.journal import Draft, Entry, Op
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record
from quipu.ports.parts import Parts
from quipu.rules import policy, policy_parsing
from quipu.rules.policy_classes import classes, said
from quipu.service.access import Access
from quipu.service.sight import Sight

_PAGE = 1_000
#: So many writes are judged before others have their turn.
_AT_ONCE = 20
MOST_REPLAYED = 10_000
_WRITES: Mapping[Op, str] = {
    Op.REMEMBER: "remember",
    Op.UPDATE: "remember",
    Op.IMPORT: "remember",
    Op.FORGET: "forget",
    Op.ERASE: "forget",
    Op.MERGE: "merge",
    Op.EXPIRE: "expire",
    Op.ARCHIVE: "expire",
    Op.DEMOTE: "expire",
}


class Policies:
    """One list for each tenant, read again when the ledger's guard has moved."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access
        self._sight = Sight(parts, access)
        self._kept: dict[str, tuple[int, tuple[Rule, ...]]] = {}
        #: The same with those that ship; the same tuple as long as nothing has changed.
        self._whole: dict[str, tuple[Rule, ...]] = {}
        #: The edition of the file that each tenant's journal has been told of.
        self._told: dict[str, int] = {}

    @property
    def default(self) -> Effect:
        """What becomes of a write that no rule is about."""
        return self._parts.governance_default

    def at_hand(self, tenant: str, position: int) -> tuple[Rule, ...] | None:
        """All that decide, where they are known and nothing needs to be read or told for it."""
        known = self._kept.get(tenant)
        is_known = known is not None and known[0] == position and self._parts.rules_file is None
        return self._whole[tenant] if is_known else None

    async def in_force(self, tenant: str, position: int) -> tuple[Rule, ...]:
        """All that decide, in their order, as of a position of the guard; a commit that brings it is refused when stale."""
        known = self._kept.get(tenant)
        if known is None or known[0] != position:
            known = self._kept[tenant] = position, await self._own(tenant)
            self._whole[tenant] = (*known[1], *policy.SHIPPED)
        file = self._parts.rules_file
        if file is None:
            return self._whole[tenant]
        of_file = file.rules()
        if self._told.get(tenant, 0) != file.edition:
            await self._tell(tenant, of_file, file.edition)
        return (*of_file, *known[1], *policy.SHIPPED)

    def _of_file(self) -> tuple[Rule, ...]:
        return () if self._parts.rules_file is None else self._parts.rules_file.rules()

    async def _tell(self, tenant: str, rules: tuple[Rule, ...], edition: int) -> None:
        """The journal tells which rules of the file decide from here on, where they have changed since the start."""
        before, self._told[tenant] = self._told.get(tenant, 0), edition
        draft = Draft(
            op=Op.CHANGE_RULES,
            actor="system",
            at=self._parts.clock(),
            detail={"rules": [rule.id for rule in rules], "file": True},
        )
        try:
            await self._parts.ledger.commit(Commit(tenant=tenant, draft=draft))
        except BaseException:
            self._told[tenant] = before  # the next write tells it
            raise

    async def _own(self, tenant: str) -> tuple[Rule, ...]:
        kept = await self._parts.ledger.rules(tenant)
        try:
            return policy_parsing.rules_of({"rules": list(kept)}, are_kept=True)
        except InvalidError as error:
            # Better no write than one that nobody judged.
            raise InternalError("The rules that are kept are not understood.", reason="rules") from error

    # -- looking and changing -----------------------------------------------------------------------------------

    async def list(self, principal: Principal) -> tuple[Rule, ...]:
        """All that decide: the file's, the tenant's own, those that ship."""
        self._access.authorise(principal, Permission.REVIEW)
        return (*self._of_file(), *await self._own(principal.tenant), *policy.SHIPPED)

    async def own(self, principal: Principal) -> tuple[Rule, ...]:
        """Those that `set` replaces."""
        self._access.authorise(principal, Permission.REVIEW)
        return await self._own(principal.tenant)

    async def set(
        self, principal: Principal, document: object, *, guard: int | None = None
    ) -> tuple[Rule, ...]:
        """Replace the tenant's own rules. Writes that were judged by the former ones are judged again.

        `guard` is the position at which those it replaces were read; it is refused where they have changed since.
        """
        self._access.authorise(principal, Permission.ADMIN)
        rules = policy_parsing.rules_of(document)
        taken = {rule.id for rule in self._of_file()}
        for place, rule in enumerate(rules):
            if rule.id in taken:
                raise InvalidError.at(
                    f"/rules/{place}/id", "bad_value", "A rule of the rules file has this id."
                )
        draft = Draft(
            op=Op.CHANGE_RULES,
            actor=principal.name,
            at=self._parts.clock(),
            detail={"rules": [rule.id for rule in rules]},
        )
        change = KeepRules(rules=tuple(policy_parsing.rule_body(rule) for rule in rules))
        commit = Commit(tenant=principal.tenant, draft=draft, changes=(change,))
        await self._parts.ledger.commit(commit, guard=guard)
        return await self.list(principal)

    # -- trying out ---------------------------------------------------------------------------------------------

    async def tried(
        self, principal: Principal, document: object | None = None, last: int = 1_000
    ) -> tuple[Replayed, ...]:
        """What rules would have done to the last writes, newest first. Without a document: those in force.

        The journal does not say everything: whether a source was new, whether something stood against it, and what was
        a secret then are not known, and conditions on them match nothing. What has been erased is told by its count.
        """
        self._check_trial(principal, last)
        if document is None:
            rules = await self.list(principal)
        else:
            rules = (*self._of_file(), *policy_parsing.rules_of(document), *policy.SHIPPED)
        return tuple(await self._replayed(rules, await self._past(principal, last)))

    async def decided_by_each(self, principal: Principal, drafts: Sequence[Rule], last: int) -> list[int]:
        """How many of the last writes each of these rules would have decided, first among the tenant's own."""
        self._check_trial(principal, last)
        past = await self._past(principal, last) if drafts else []
        found: list[int] = []
        for draft in drafts:
            rules = (*self._of_file(), draft, *policy.SHIPPED)
            replayed = await self._replayed(rules, past)
            found.append(sum(one.verdict.rule == draft.id for one in replayed))
        return found

    def _check_trial(self, principal: Principal, last: int) -> None:
        self._access.authorise(principal, Permission.REVIEW)
        if principal.user_id is not None:
            # The journal does not say whose memory an entry is about, so who is bound to a user is told of none.
            raise ForbiddenError("This credential is bound to one user.", reason="user_not_allowed")
        if not 1 <= last <= MOST_REPLAYED:
            raise InvalidError.at(
                "/last", "bad_value", "So many cannot be tried.", accepted=[f"1 to {MOST_REPLAYED}"]
            )

    async def _past(self, principal: Principal, last: int) -> list[tuple[Entry, WriteFacts]]:
        """The last writes, as far as rules can still see them."""
        stores = await self._parts.ledger.stores(principal.tenant)
        names = tuple((store.id, store.name) for store in stores)
        return [(entry, await self._facts(entry, names)) for entry in await self._writes(principal, last)]

    async def _writes(self, principal: Principal, last: int) -> list[Entry]:
        """The last writes that the reviewer may see, newest first."""
        end = (await self._parts.ledger.head(principal.tenant)).seq
        found: list[Entry] = []
        while end > 0 and len(found) < last:
            start = max(0, end - _PAGE)
            page = await self._parts.ledger.entries(principal.tenant, start, end - start)
            mine = [
                entry
                for entry in reversed(page)
                if entry.op in _WRITES and entry.agent is not None and principal.may_act_for(entry.agent)
            ]
            found += await self._sight.entries(principal, mine)
            end = start
        return found[:last]

    async def _facts(self, entry: Entry, names: tuple[tuple[str, str], ...]) -> WriteFacts:
        records = await self._then(entry)
        return WriteFacts(
            operation=_WRITES[entry.op],
            agent_id=entry.agent or "",
            principal=await self._writer(entry),
            records=records,
            store_names=names,
            count=max(1, len({mention.id for mention in entry.records})),
            is_hard=entry.op is Op.ERASE,
            is_forgetting=entry.op is Op.EXPIRE,
            is_imported=entry.op is Op.IMPORT,
            found=frozenset(one for record in records for one in classes(said(record))),
        )

    async def _replayed(
        self, rules: tuple[Rule, ...], past: Sequence[tuple[Entry, WriteFacts]]
    ) -> list[Replayed]:
        found: list[Replayed] = []
        for entry, facts in past:
            if len(found) % _AT_ONCE == 0:
                await asyncio.sleep(0)  # rules may be many, and others wait
            found.append(
                Replayed(
                    seq=entry.seq,
                    at=entry.at,
                    operation=facts.operation,
                    agent_id=entry.agent,
                    actor=entry.actor,
                    verdict=policy.decided(rules, facts, entry.at, default=self.default),
                )
            )
        return found

    async def _writer(self, entry: Entry) -> str:
        """Who asked for it: of what a reviewer let through, who had proposed it."""
        name = entry.detail.get("proposal")
        proposal = await self._parts.ledger.proposal(entry.tenant, str(name)) if name else None
        return entry.actor if proposal is None else proposal.writer

    async def _then(self, entry: Entry) -> tuple[Record, ...]:
        """The versions that the entry speaks of, as far as they are still there."""
        is_removal = _WRITES[entry.op] in ("forget", "expire") and entry.op is not Op.ARCHIVE
        ids = list({mention.id: None for mention in entry.records})
        at = entry.seq - 1 if is_removal else entry.seq
        found = await self._parts.ledger.read(entry.tenant, ids, at)
        return tuple(record for record in found.values() if not record.is_emptied)
