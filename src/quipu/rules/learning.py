"""What decisions teach: held writes that are alike, and were all decided alike, suggest a rule.

Five decisions the same way within 90 days and none the other way. Never suggested: erasures, procedures, what is labelled
secret; and nothing is learnt from who decided on their own write, or changed what they let through. Who let small removals
through, or such as can be brought back, has said nothing about large ones or about forgetting.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from quipu.model.change import Proposal
from quipu.model.governance import Effect, Origin, Rule, When
from quipu.model.learning import Suggestion
from quipu.model.operations import (
    BatchRequest,
    ExpireAction,
    ExpireRequest,
    ForgetRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.model.record import MemoryType, Sensitivity
from quipu.model.value import Json
from quipu.rules.policy import BULK, BULK_REMOVAL
from quipu.rules.settling import SETTLES
from quipu.rules.staging import Waiting, operation_of

ENOUGH = 5
WINDOW_MS = LIFE_MS = 90 * 24 * 3600 * 1000
_TOLD = 20
_UNTAUGHT = frozenset({"recall", "batch"})

#: Operation, agent, writer, what the write is like, and whether it was held because so much would go.
Kind: TypeAlias = tuple[str, str, str, tuple[tuple[str, Json], ...], bool]


def traits(request: Waiting) -> dict[str, Json]:
    """What a held write is like, without a word of its text."""
    like: dict[str, Json] = {"operation": operation_of(request)}
    if isinstance(request, RememberRequest):
        privacy = request.privacy_intent
        level = (privacy.sensitivity if privacy else None) or Sensitivity.INTERNAL
        like |= {"store": request.store, "type": request.type.value, "sensitivity": level.value}
        if request.source is not None:
            like["source"] = request.source
    elif isinstance(request, ForgetRequest) and request.hard_delete:
        like["hard_delete"] = True
    elif isinstance(request, ExpireRequest):
        like["action"] = request.action.value
    elif isinstance(request, BatchRequest | RecallRequest):
        return like
    return like


def suggestions(
    decided: Iterable[Proposal], now: int, unwanted: frozenset[str] = frozenset()
) -> tuple[Suggestion, ...]:
    """What they teach; the best supported first. `unwanted`: those that were dismissed."""
    groups: dict[Kind, list[Proposal]] = {}
    for proposal in decided:
        if _teaches(proposal, now):
            groups.setdefault(_kind(proposal), []).append(proposal)
    found = [_suggested(kind, group, now) for kind, group in groups.items() if _is_clear(group)]
    found = [one for one in found if one.id not in unwanted]
    return tuple(sorted(found, key=lambda one: (-one.met, one.id)))


def _teaches(proposal: Proposal, now: int) -> bool:
    like = proposal.traits
    return (
        bool(like)
        and proposal.reviewed_at is not None
        and proposal.reviewed_at > now - WINDOW_MS
        and proposal.reviewer != proposal.writer
        and proposal.operation not in _UNTAUGHT
        and not like.get("hard_delete")
        and like.get("type") != MemoryType.PROCEDURAL.value
        and like.get("sensitivity") != Sensitivity.SECRET.value
        and not _is_lesser(proposal)
    )


def _is_lesser(proposal: Proposal) -> bool:
    """Whether a yes was to an expiry that forgets nothing: a rule about expiries would be about those that do, too."""
    is_expiry = proposal.operation == "expire" and proposal.status == "approved"
    return is_expiry and proposal.traits.get("action") != ExpireAction.FORGET.value


def _kind(proposal: Proposal) -> Kind:
    # Which memories a pass asked about is no likeness: every such write has others.
    like: Mapping[str, Json] = {name: value for name, value in proposal.traits.items() if name != SETTLES}
    is_bulk = BULK_REMOVAL in proposal.held_by
    return (proposal.operation, proposal.agent_id, proposal.writer, tuple(sorted(like.items())), is_bulk)


def _is_clear(group: list[Proposal]) -> bool:
    return len(group) >= ENOUGH and len({proposal.status for proposal in group}) == 1


def _suggested(kind: Kind, group: list[Proposal], now: int) -> Suggestion:
    newest = sorted(group, key=lambda one: -(one.reviewed_at or 0))
    moments = [one.reviewed_at or 0 for one in group]
    effect = Effect.ALLOW if group[0].status == "approved" else Effect.DENY
    *plain, is_bulk = kind
    named = kind if is_bulk else tuple(plain)  # the names of those that were accepted or dismissed go on
    name = hashlib.sha256(repr((named, effect)).encode("utf-8")).hexdigest()[:16]
    word = "approved" if effect is Effect.ALLOW else "rejected"
    rule = Rule(
        id=f"learned-{name}",
        when=_when(kind),
        effect=effect,
        reason=f"Reviewers {word} {len(group)} like it.",
        expires_at=now + LIFE_MS,
        origin=Origin.LEARNED,
    )
    return Suggestion(
        id=f"sug_{name}",
        rule=rule,
        evidence=tuple(one.id for one in newest[:_TOLD]),
        deciders=tuple(sorted({one.reviewer or "" for one in group})),
        first_at=min(moments),
        last_at=max(moments),
        met=len(group),
        missed=0,
    )


def _when(kind: Kind) -> When:
    """Writes of exactly this kind. What the evidence does not cover is not decided by it."""
    operation, agent, writer, traited, is_bulk = kind
    like = dict(traited)
    if operation != "remember":
        # Nobody learns to erase, and a rule about forgetting would be about erasing, too.
        is_hard = False if operation == "forget" else None
        return When(
            operations=(operation,),
            agents=(literal(agent),),
            principals=(literal(writer),),
            hard_delete=is_hard,
            count_above=BULK if is_bulk else None,
        )
    return When(
        operations=(operation,),
        agents=(literal(agent),),
        principals=(literal(writer),),
        stores=(str(like["store"]),),
        types=(MemoryType(str(like["type"])),),
        imported=False,
        filter={"source": like.get("source"), "record.sensitivity": like.get("sensitivity")},
    )


def placed(learnt: Rule, own: Sequence[Rule], held_by: Collection[str]) -> tuple[Rule, ...]:
    """The tenant's rules with one that was learnt: just before the first of those whose work it takes over.

    What an operator wrote before that was never asked about by the evidence, and goes on deciding first. Where none of
    these rules had held it, it comes behind all of them. Of several that were learnt the newest comes first.
    """
    others = [rule for rule in own if rule.id != learnt.id]
    place = next((place for place, rule in enumerate(others) if rule.id in held_by), len(others))
    while place and others[place - 1].origin is Origin.LEARNED:
        place -= 1
    return (*others[:place], learnt, *others[place:])


def literal(text: str) -> str:
    """A glob that matches this text and no other."""
    return re.sub(r"([*?\[])", r"[\1]", text)
