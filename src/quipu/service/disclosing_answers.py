"""What an answer under a grant is made of: items with their proofs, the output, its receipt and the lines of the logs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from quipu.model.disclosure import KeptReceipt, LogKind, Standing, Writes
from quipu.model.grants import Asked, Grant, KeptGrant, Lent
from quipu.ports.keys import LendingParts
from quipu.ports.parts import Parts
from quipu.rules import grants, grants_items, receipts
from quipu.rules import grants_decisions as decisions
from quipu.rules.grants_times import rfc3339
from quipu.rules.receipts import Hand
from quipu.service.disclosing_addresses import Addresses
from quipu.service.disclosing_coverage import Ranked, Seen
from quipu.service.disclosing_proofs import Line, Proofs
from quipu.service.lending import lending_parts

_VERSION = "1.0.0"
_POSSESSION = receipts.spelt_member("epistemic", b'"possession"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a query gives: the output, the receipt with its salts, and what has to be told."""

    output: dict[str, Any]
    receipt: dict[str, Any]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tags:
    """Under what every item of an answer was received, and the canonical bytes of that member."""

    told: list[dict[str, Any]]
    spelt: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is about to be shown to somebody, in order, and all that could be prepared for it."""

    lent: Lent
    asked: Asked
    found: Sequence[Ranked]
    cursor: str | None
    lines: Mapping[str, Sequence[Line]]
    vectors: Mapping[str, bytes]
    salts: tuple[str, str]
    now: int
    #: What the receipt calls it.
    action: str = "memory_query"


class Answers:
    """Builds them, inside the transaction that discloses."""

    def __init__(self, parts: Parts, proofs: Proofs) -> None:
        self._parts, self._proofs, self._addresses = parts, proofs, Addresses(parts)

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    def answer(self, page: Page, standing: Standing, kept: KeptGrant, writes: Writes) -> None:
        """Put the answer, its receipt and every line it owes into what is written."""
        grant = page.lent.grant
        shown, is_capped = within_cap(page.found, standing, kept, grant)
        hand = self._own.keyring.hand(None)
        told = [
            {
                "source_did": hand.did,
                "received_under": f"grant:{grant.id}",
                "purpose_limitation": grant.purpose,
                "expires": expires_of(grant),
            }
        ]
        tags = Tags(told, receipts.spelt_member("provenance_tags", self._parts.canonical(told)))
        writes.shown = [one.seen.record.id for one in shown if one.seen.record.id not in standing.disclosed]
        after = used(kept, len(writes.shown))
        pairs = [self._item(one, page, standing, writes, hand, tags) for one in shown]
        output = self._output(page, shown, [item for item, _ in pairs], after)
        spelt = self._spelt(output, [text for _, text in pairs])
        receipt = self.receipt(
            standing,
            page.lent,
            page.asked.body,
            output,
            after,
            page.salts,
            page.now,
            page.action,
            hand,
            spelt,
        )
        self._log_disclosure(shown, page, standing, writes, receipt)
        writes.grants, writes.receipts = [after], [receipt]
        warnings = self._warnings(grant, shown, is_capped=is_capped)
        writes.answer = Answered(output=output, receipt=_told(receipt, page.salts), warnings=warnings)

    def _item(
        self,
        one: Ranked,
        page: Page,
        standing: Standing,
        writes: Writes,
        hand: Hand,
        tags: Tags,
    ) -> tuple[dict[str, Any], bytes]:
        """An item as it is handed out, and its canonical bytes."""
        seen, record = one.seen, one.seen.record
        tail, first, added = self._proofs.brought_up(
            seen,
            standing.tails.get((record.id, LogKind.STATE)),
            standing.captures.get(record.id),
            page.lines.get(record.id, ()),
        )
        writes.lines.extend(added)
        item, spelt = dict(seen.projected.item), dict(self._members(seen))
        if seen.item_id in page.vectors:
            item["embedding"] = {
                **cast("dict[str, Any]", item.get("embedding", {})),
                "vector_url": self._addresses.of(page.lent, seen.item_id),
                "digest": digest_of(page.vectors[seen.item_id]),
            }
            told = self._parts.canonical(item["embedding"])
            spelt["embedding"] = receipts.spelt_member("embedding", told)
        if record.confidence < grants_items.BELIEF:
            item["epistemic"], spelt["epistemic"] = "possession", _POSSESSION
        block = self._proofs.block(seen, tail, first, hand, includes_proof=page.asked.include_proofs)
        item["provenance_tags"], spelt["provenance_tags"] = tags.told, tags.spelt
        item["integrity"], spelt["integrity"] = block.told, block.spelt
        return item, receipts.spelt_object(spelt)

    def _members(self, seen: Seen) -> Mapping[str, bytes]:
        if not seen.spelt:
            seen.spelt.update(receipts.spelt_members(seen.projected.item, self._parts.canonical))
        return seen.spelt

    def _spelt(self, output: Mapping[str, Any], items: Sequence[bytes]) -> bytes:
        """The canonical bytes of an output. Those of its items are most of it, and are at hand."""
        rest = receipts.spelt_members(receipts.without(output, "items"), self._parts.canonical)
        shown = receipts.spelt_member("items", receipts.spelt_array(items))
        return receipts.spelt_object({**rest, "items": shown})

    def _log_disclosure(
        self, shown: Sequence[Ranked], page: Page, standing: Standing, writes: Writes, receipt: KeptReceipt
    ) -> None:
        for one in shown:
            record = one.seen.record
            writes.lines.append(
                receipts.log_line(
                    standing.tails.get((record.id, LogKind.DISCLOSED)),
                    record_id=record.id,
                    item_id=one.seen.item_id,
                    log=LogKind.DISCLOSED,
                    version=record.version,
                    op="disclosed",
                    at=page.now,
                    actor=page.lent.grant.grantee,
                    state=None,
                    receipt_id=receipt.id,
                    canonical=self._parts.canonical,
                )
            )

    def _output(
        self, page: Page, shown: Sequence[Ranked], items: list[dict[str, Any]], kept: KeptGrant
    ) -> dict[str, Any]:
        grant = page.lent.grant
        return {
            "items": items,
            "ranking": [
                {"item_id": one.seen.item_id, "score": grants_items.plain(one.score)} for one in shown
            ],
            "next_cursor": page.cursor,
            "projection_applied": self.projection(grant, sum(one.seen.projected.removed for one in shown)),
            "grant": {
                "grant_id": grant.id,
                "items_disclosed": kept.disclosed,
                "items_remaining": max(0, grant.max_items - kept.disclosed),
                "expires_at": expires_of(grant),
            },
            "generated_at": rfc3339(page.now, fraction=True),
        }

    def _warnings(self, grant: Grant, shown: Sequence[Ranked], *, is_capped: bool) -> tuple[str, ...]:
        told = {warning for one in shown for warning in one.seen.projected.warnings}
        if grants.level_of(grant, self._own.limits)[1]:
            told.add("trust_level_defaulted")
        if is_capped:
            told.add("grant_item_cap_reached")
        return tuple(sorted(told))

    def projection(self, grant: Grant, removed: int) -> dict[str, Any]:
        """How much of what was found the grantee does not see."""
        told: dict[str, Any] = {
            "profile": grant.profile,
            "trust_level": grants.level_of(grant, self._own.limits)[0],
            "redacted_field_count": removed,
            "lawful_basis": grant.lawful_basis,
        }
        if grant.trust is not None and grant.trust.told:
            told["evidence"] = [dict(one) for one in grant.trust.told]
        return told

    def receipt(
        self,
        standing: Standing,
        lent: Lent,
        body: object,
        output: Mapping[str, Any],
        kept: KeptGrant,
        salts: Sequence[str],
        now: int,
        action: str,
        hand: Hand,
        spelt: bytes | None = None,
    ) -> KeptReceipt:
        """The next receipt of the owner's chain, for one use of a grant. `spelt` is the output in canonical bytes, if at hand."""
        grant, canonical = lent.grant, self._parts.canonical
        applied: Any = output.get("projection_applied") or self.projection(grant, 0)
        return receipts.receipt(
            standing.end,
            id=self._parts.mint_id("rcp").partition("_")[2],
            type="invocation",
            at=now,
            principal=grant.granter,
            agent=grant.grantee,
            hand=hand,
            canonical=canonical,
            grant_id=grant.id,
            action_id=action,
            action_version=_VERSION,
            input_hash=receipts.hashed({"input": body, "salt": salts[0]}, canonical),
            output_hash=receipts.hash_of(
                receipts.spelt_object(
                    {
                        "output": receipts.spelt_member("output", spelt or canonical(output)),
                        "salt": receipts.spelt_member("salt", canonical(salts[1])),
                    }
                )
            ),
            policy_decisions=[
                decisions.policy(
                    self._parts.mint_id("pol"),
                    decisions.CONDITIONS,
                    [*decisions.USE, *grants.narrowing(grant, self._own.limits)],
                    scope_id=grant.scope_id,
                    consumed_grant_id=grant.id,
                    consumption_index=kept.uses,
                    items_disclosed=kept.disclosed,
                    items_remaining=max(0, grant.max_items - kept.disclosed),
                    projection_applied=applied,
                    free_text=self._own.text_mode.value,
                )
            ],
            provenance_tags_out=[f"grant:{grant.id}", f"scope:{grant.scope_id}"],
        )


def used(kept: KeptGrant, new: int = 0) -> KeptGrant:
    """The grant after one more use, which showed so many items for the first time."""
    return replace(kept, uses=kept.uses + 1, disclosed=kept.disclosed + new)


def within_cap(
    page: Sequence[Ranked], standing: Standing, kept: KeptGrant, grant: Grant
) -> tuple[list[Ranked], bool]:
    """What may be shown: known items always, new ones while there is room; nothing that was erased meanwhile (D8)."""
    room = grant.max_items - kept.disclosed
    shown: list[Ranked] = []
    is_capped = False
    for one in page:
        tail = standing.tails.get((one.seen.record.id, LogKind.STATE))
        if tail is not None and tail.entry["op"] == "deleted":
            continue
        if one.seen.record.id not in standing.disclosed:
            if room <= 0:
                is_capped = True
                continue
            room -= 1
        shown.append(one)
    return shown, is_capped or room <= 0


def expires_of(grant: Grant) -> str:
    """When what was received has to be gone."""
    return str(grant.body.get("expires_at") or rfc3339(grant.expires_at))


def digest_of(data: bytes) -> str:
    """The digest of a vector's bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _told(receipt: KeptReceipt, salts: Sequence[str]) -> dict[str, Any]:
    return {
        "id": receipt.id,
        "receipt_id": receipt.id,
        "anchored_in": [],
        "input_salt": salts[0],
        "output_salt": salts[1],
    }
