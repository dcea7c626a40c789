"""What decisions teach: held writes that are alike, and were all decided alike, speak for a rule.

1. Five decisions the same way within 90 days, and none the other way.
2. Nothing is learned from what is secret, erases for good or is a procedure; from what was held for its words, since a yes
   was to those words; nor from who decided on their own write, or changed what they let through.
3. Who let small removals through, or such as can be brought back, has said nothing of large ones, or of forgetting.
4. What was learned stands just before the first of the rules that held its evidence: what was written before that was
   never asked about by the evidence, and goes on deciding first. It ends by itself.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quipu.errors import ConflictError, NotFoundError
from quipu.fields import DAY_MS
from quipu.governance import operations as ops
from quipu.governance.model import (
    DISMISSALS,
    PROPOSALS,
    AnswerSuggestedRuleRequest,
    Dismissal,
    GetRulesRequest,
    Proposal,
    Rule,
    SetRulesRequest,
    SuggestedRule,
    SuggestedRulesRequest,
    SuggestedRulesResponse,
    When,
)
from quipu.governance.rule_list import Rules
from quipu.governance.rules import BULK, BULK_REMOVAL, INSTRUCTION
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.ledger import JournalQuery, Kept, Ledger
from quipu.memory.scope import Scopes
from quipu.model.journal import Draft
from quipu.operation import AnyBinding, Binding, Context

ENOUGH = 5
WINDOW_MS = LIFE_MS = 90 * DAY_MS
#: A proposal waits no longer than this before it is decided.
_WAIT_MS = 14 * DAY_MS
_SHOWN = 20
_TAUGHT = frozenset({"remember", "forget", "merge", "expire"})
_REMOVING = frozenset({"forget", "expire"})
#: Conditions on the words of a write.
_OF_WORDS = ("content_any", "content_regex", "found", "conflicts", "filter", "size_above", "confidence_below")
#: What an approval's entry says where the reviewer did more than let it through, or decided on their own write.
_NOT_PLAIN = frozenset({"edited", "self_approved", "in_place", "merged", "supersedes"})
_PAGE, _MOST = 500, 5_000
_MOST_ATTEMPTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What makes held writes alike."""

    operation: str
    agent_id: str
    writer: str
    #: Of a memory: name of the store, type, source, sensitivity.
    traits: tuple[tuple[str, Any], ...] = ()
    #: Whether it was held because so much would go.
    is_bulk: bool = False


# -- rules, pure --------------------------------------------------------------------------------------------------


def teaches(proposal: Proposal, now: int, of_words: frozenset[str]) -> bool:
    """Whether a decision says anything of other writes. `of_words`: the rules that hold writes for their words."""
    traits = proposal.traits
    return (
        proposal.operation in _TAUGHT
        and proposal.status in ("approved", "rejected")
        and proposal.reviewed_at is not None
        and now - WINDOW_MS < proposal.reviewed_at <= now
        and proposal.reviewer not in (None, proposal.writer, "withdrawn", "lapsed", "erased")
        and not traits.get("hard_delete")
        and not traits.get("import_id")
        and traits.get("type") != "procedural"
        and traits.get("sensitivity") != "secret"
        and (proposal.status == "rejected" or _is_general(proposal, of_words))
    )


def _is_general(proposal: Proposal, of_words: frozenset[str]) -> bool:
    """Whether a yes was to the kind of write, not to this one."""
    if not of_words.isdisjoint(proposal.held_by):
        return False
    if proposal.operation in _REMOVING and proposal.traits.get("trust") not in (
        "agent",
        "external",
        "unknown",
    ):
        return False  # admins: the rule about large removals does not hold theirs
    # An expiry that forgets nothing: a rule about expiries would be about those that do, too.
    return proposal.operation != "expire" or proposal.traits.get("action") == "forget"


def kind_of(proposal: Proposal, stores: Mapping[str, str]) -> Kind | None:
    """What a held write is like; None where no rule can say it. `stores`: names by id."""
    like: tuple[tuple[str, Any], ...] = ()
    if proposal.operation == "remember":
        # Where it would be kept; what it is made of may be kept elsewhere.
        store = stores.get(proposal.store_id or "")
        if store is None:
            return None
        traits = proposal.traits
        like = (
            ("store", store),
            ("type", traits.get("type")),
            ("source", traits.get("source")),
            ("sensitivity", traits.get("sensitivity") or "internal"),
        )
    return Kind(
        operation=proposal.operation,
        agent_id=proposal.agent_id,
        writer=proposal.writer,
        traits=like,
        is_bulk=BULK_REMOVAL in proposal.held_by,
    )


def suggested(kind: Kind, group: Sequence[Proposal], now: int) -> SuggestedRule | None:
    """The rule that decisions on one kind of write speak for; None: they are too few, or not of one mind."""
    if len(group) < ENOUGH or len({one.status for one in group}) > 1:
        return None
    effect, word = ("allow", "approved") if group[0].status == "approved" else ("deny", "rejected")
    moments = [one.reviewed_at or 0 for one in group]
    said = [kind.operation, kind.agent_id, kind.writer, kind.traits, kind.is_bulk, effect]
    name = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
    return SuggestedRule(
        id=f"sug_{name}",
        rule=Rule(
            id=f"learned-{name}",
            when=_when(kind),
            effect=effect,
            reason=f"Reviewers {word} {len(group)} like it.",
            expires_at=now + LIFE_MS,
            origin="learned",
        ),
        decisions=len(group),
        deciders=tuple(sorted({one.reviewer or "" for one in group})),
        evidence=tuple(
            one.id for one in sorted(group, key=lambda one: (-(one.reviewed_at or 0), one.id))[:_SHOWN]
        ),
        first_at=min(moments),
        last_at=max(moments),
    )


def _when(kind: Kind) -> When:
    """Writes of exactly this kind. What the evidence does not cover is not decided by it."""
    who: dict[str, Any] = {
        "operations": (kind.operation,),
        "agents": (literal(kind.agent_id),),
        "principals": (literal(kind.writer),),
    }
    if kind.operation != "remember":
        # A rule about forgetting would be about erasing, too.
        if kind.operation == "forget":
            who["hard_delete"] = False
        return When(**who, count_above=BULK if kind.is_bulk else None)
    like = dict(kind.traits)
    return When(
        **who,
        stores=(like["store"],),
        types=(like["type"],),
        imported=False,
        filter={"source": like["source"], "sensitivity": like["sensitivity"]},
    )


def placed(learned: Rule, own: Sequence[Rule], held_by: Collection[str]) -> tuple[Rule, ...]:
    """The tenant's rules with one that was learned, just before the first of those whose work it takes over.

    Where none of these had held it, it comes behind all of them. Of several that were learned the newest comes first.
    """
    others = [rule for rule in own if rule.id != learned.id]
    place = next((place for place, rule in enumerate(others) if rule.id in held_by), len(others))
    while place and others[place - 1].origin == "learned":
        place -= 1
    return (*others[:place], learned, *others[place:])


def rules_of_words(rules: Iterable[Rule]) -> frozenset[str]:
    """The rules that hold writes for what they say."""
    return frozenset(
        {INSTRUCTION, *(rule.id for rule in rules if rule.when.model_fields_set.intersection(_OF_WORDS))}
    )


def literal(text: str) -> str:
    """A pattern that takes this text and no other."""
    return re.sub(r"([*?\[])", r"[\1]", text)


# -- service ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRules:
    """Over the proposals that were decided."""

    ledger: Ledger
    rules: Rules
    scopes: Scopes

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.SUGGESTED_RULES, self.listed),
            Binding(ops.ANSWER_SUGGESTED_RULE, self.answer),
        )

    async def listed(self, ctx: Context, request: SuggestedRulesRequest) -> SuggestedRulesResponse:
        return SuggestedRulesResponse(suggestions=tuple(one for one, _ in await self._found(ctx)))

    async def answer(self, ctx: Context, request: AnswerSuggestedRuleRequest) -> SuggestedRulesResponse:
        """Accept it as a rule of the tenant's own, or dismiss it. The answer is what is left."""
        chosen = next((pair for pair in await self._found(ctx) if pair[0].id == request.id), None)
        if chosen is None:
            raise NotFoundError(
                "There is no such suggestion.",
                reason="suggestion",
                hint="`quipu rules suggested` shows them.",
            )
        if request.accept:
            await self._accept(ctx, *chosen)
        else:
            await self._dismiss(ctx, chosen[0])
        return await self.listed(ctx, SuggestedRulesRequest())

    async def _accept(self, ctx: Context, chosen: SuggestedRule, held_by: frozenset[str]) -> None:
        for attempt in range(_MOST_ATTEMPTS):
            current = await self.rules.get(ctx, GetRulesRequest())
            wanted = SetRulesRequest(rules=placed(chosen.rule, current.rules, held_by), if_match=current.etag)
            try:
                await self.rules.set(ctx, wanted)
            except ConflictError as conflict:
                # Somebody else has changed the rules, or the secrets, and what they wrote stays.
                if (
                    conflict.reason not in ("rules_changed", "secrets_changed")
                    or attempt + 1 == _MOST_ATTEMPTS
                ):
                    raise
            else:
                return

    async def _dismiss(self, ctx: Context, chosen: SuggestedRule) -> None:
        now = ctx.clock()
        draft = Draft(
            op="dismiss_rule",
            actor=ctx.principal.name,
            at=now,
            detail={"suggestion": chosen.id, "rule": chosen.rule.id},
        )
        row = Dismissal(id=chosen.id, at=now, reviewer=ctx.principal.name)
        await self.ledger.commit(Commit(tenant=ctx.tenant, draft=draft, changes=(Keep(DISMISSALS, row),)))

    async def _found(self, ctx: Context) -> list[tuple[SuggestedRule, frozenset[str]]]:
        """Suggestions, each with the rules that held its evidence."""
        now = ctx.clock()
        current = await self.rules.get(ctx, GetRulesRequest())
        rules = (*current.of_file, *current.rules, *current.shipped)
        known = {rule.id for rule in rules if not rule.is_over(now)}
        of_words, has_bulk_rule = rules_of_words(rules), BULK_REMOVAL in known
        stores = {store.id: store.name for store in (await self.scopes.stores(ctx.tenant)).values()}
        groups: dict[Kind, list[Kept[Proposal]]] = {}
        for kept in await self._decided(ctx.tenant, now):
            if not teaches(kept.value, now, of_words):
                continue
            kind = kind_of(kept.value, stores)
            # Without the rule about large removals, one about removals would let large ones through.
            if kind is not None and (has_bulk_rule or kind.operation not in _REMOVING):
                groups.setdefault(kind, []).append(kept)
        found: list[tuple[SuggestedRule, frozenset[str]]] = []
        for kind, group in groups.items():
            if len(group) < ENOUGH:
                continue
            plain = await self._plain(ctx.tenant, group)
            one = suggested(kind, plain, now)
            if one is not None and one.rule.id not in known:
                found.append((one, frozenset(name for proposal in plain for name in proposal.held_by)))
        unwanted = (
            await self.ledger.matching(DISMISSALS, ctx.tenant, "id", [one.id for one, _ in found])
            if found
            else ()
        )
        dismissed = {one.id for one in unwanted}
        return sorted(
            (pair for pair in found if pair[0].id not in dismissed),
            key=lambda pair: (-pair[0].decisions, pair[0].id),
        )

    async def _plain(self, tenant: str, group: Sequence[Kept[Proposal]]) -> list[Proposal]:
        """Those that were let through as they were; and every no."""
        plain: list[Proposal] = []
        for kept in group:
            (entry,) = await self.ledger.entries(tenant, JournalQuery(after=kept.seq - 1, limit=1))
            is_plain = entry.op == "approve" and _NOT_PLAIN.isdisjoint(entry.detail)
            if kept.value.status == "rejected" or is_plain:
                plain.append(kept.value)
        return plain

    async def _decided(self, tenant: str, now: int) -> list[Kept[Proposal]]:
        """The decisions of the last while.

        Of one status there may be more than are looked at. Then the others are not looked at further back either: where
        only the approvals of a time are known, it looks as if nobody had said no.
        """
        since = now - WINDOW_MS - _WAIT_MS
        found: list[Kept[Proposal]] = []
        for status in ("approved", "rejected"):
            rows, reached = await self._decided_as(tenant, status, since)
            found, since = [*found, *rows], max(since, reached)
        return [kept for kept in found if kept.value.created_at >= since]

    async def _decided_as(self, tenant: str, status: str, since: int) -> tuple[list[Kept[Proposal]], int]:
        """The newest of them, and back to when they are all there."""
        found: list[Kept[Proposal]] = []
        while len(found) < _MOST:
            page = await self.ledger.kept_page(
                PROPOSALS,
                tenant,
                {"status": status},
                (found[-1].value.id,) if found else None,
                _PAGE,
                newest_first=True,
            )
            found.extend(page)
            if len(page) < _PAGE or page[-1].value.created_at < since:
                return found, since
        return found, found[-1].value.created_at + 1  # others may have come at the same moment
