"""The one gate through which memory leaves under a grant: nothing leaves without its receipt.

In one transaction, before the first byte of an answer: the grant's row is read, the proof is used up, nothing was changed
since the items were looked at, the cap holds; the logs of the items, the receipt, the count and the journal's entry
`disclose` are written. Where something was changed, the items are looked at again.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import BeforeValidator, Field

from quipu.embed.port import Embedder
from quipu.errors import Fault, ForbiddenError, NotFoundError, RateLimitedError, UnverifiableError
from quipu.jose import b64, unb64
from quipu.ledger.canonical import canonical
from quipu.ledger.commit import Change, Commit, Keep
from quipu.ledger.index import Space
from quipu.ledger.reader import Kept, Reader
from quipu.model.journal import Draft, Mention
from quipu.model.record import Record
from quipu.operation import Context, Request, invalid
from quipu.secrets.sealing import Sealing
from quipu.sharing import dids, receipts
from quipu.sharing.grants import item_log, tokens
from quipu.sharing.grants import messages as m
from quipu.sharing.grants.filters import ItemFilter, Kinds
from quipu.sharing.grants.service import status_of
from quipu.sharing.grants.terms import EMBEDDINGS, QUERY, Grant, TokenScope
from quipu.sharing.grants.tokens import PER_MINUTE, GrantUse, Rates, check_status, refused, use_of
from quipu.sharing.grants.view import Coverage, CoveredItem, GrantViews, Ranked
from quipu.sharing.host import Host, every, kept
from quipu.sharing.items import BELIEF, plain_number
from quipu.sharing.messages import MOST_RESULTS, Question
from quipu.sharing.model import CASCADE_STEPS, ERASURES, GRANTS, SHARED_ITEMS, GrantRow, Receipt, SharedItem
from quipu.sharing.times import rfc3339

_CURSOR_MS = 900_000
#: How often an answer is made anew because something was changed meanwhile.
_TURNS = 4
#: So many erasures are reported in one answer.
_MOST_ERASURES = 100
#: What does not change what a query finds, or in which order.
_BESIDE = ("cursor", "max_results", "include_embeddings")


def _or_none(value: object) -> object:
    return value or None


class GrantQuery(Request):
    """OAP's query."""

    query: Question = ""
    max_results: Annotated[int, Field(ge=1, le=MOST_RESULTS)] = 20
    include_embeddings: bool = False
    kinds: Kinds | None = None
    filter: Annotated[ItemFilter | None, BeforeValidator(_or_none)] = None
    cursor: Annotated[str, Field(max_length=2000)] | None = None

    @property
    def filters(self) -> list[ItemFilter]:
        """They only narrow, and are judged on what the grantee sees."""
        found = [] if self.filter is None else [self.filter]
        return found if self.kinds is None else [*found, ItemFilter(kinds=self.kinds)]


@dataclass(frozen=True, slots=True)
class Room:
    """What a grant may still show for the first time. Near its end the rest is not there: neither counted nor pointed at."""

    left: int
    #: What is new to it no more; None where the end is too far to ask.
    known: frozenset[str] | None = None

    def within(self, found: Iterable[Ranked]) -> Iterator[Ranked]:
        """What may be shown, in order."""
        left = self.left
        for one in found:
            if self.known is None or one.shared.record.id in self.known:
                yield one
            elif left > 0:
                left -= 1
                yield one


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is about to be shown, and what could be prepared for it."""

    use: GrantUse
    coverage: Coverage
    room: Room
    found: Sequence[Ranked]
    #: What was asked, as receipts hash it.
    body: Mapping[str, Any]
    action: str
    cursor: str | None = None
    vectors: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    #: Whether it is shown though something else was changed meanwhile: the owner writes without a pause.
    is_last_turn: bool = False
    #: Refuse where nothing new may be shown any more.
    needs_room: bool = False
    #: Whether items carry the salts of their hashes, where nothing was taken away.
    has_salts: bool = True

    @property
    def grant(self) -> Grant:
        return self.use.grant


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantQueries:
    """Answers what grantees ask."""

    host: Host
    views: GrantViews
    rates: Rates
    sealing: Sealing
    embedder: Embedder | None

    async def query(self, ctx: Context, request: m.QueryGrantRequest) -> m.QueryGrantResponse:
        """The items that fit a query, best first."""
        use, asked = use_of(ctx), GrantQuery.parse(request.body)
        self.check(use, QUERY)
        if asked.include_embeddings:
            check_scope(use, EMBEDDINGS)
        for turn in range(_TURNS):
            page = await self._page(use, asked, request.body, is_last_turn=turn == _TURNS - 1)
            answer = await self.disclosed(page)
            if answer is not None:
                ctx.facts.record_ids = tuple(one.shared.record.id for one in page.found)
                return answer
        raise AssertionError  # the last turn always answers

    def check(self, use: GrantUse, scope: TokenScope | None = None) -> None:
        """Refuse who asks too fast, or what the token does not allow."""
        wait = self.rates.wait(use.tenant, use.grant.id)
        if wait is not None:
            raise RateLimitedError(
                "This grant is asked too fast.",
                reason="request_rate",
                hint=f"At most {PER_MINUTE} a minute.",
                retry_after_s=wait,
            )
        if scope is not None:
            check_scope(use, scope)

    async def _page(
        self, use: GrantUse, asked: GrantQuery, body: Mapping[str, Any], *, is_last_turn: bool
    ) -> Page:
        coverage = await self.views.covered(use.tenant, use.grant)
        room = await self.room(use, asked.max_results)
        found: Iterable[Ranked] = coverage.ranked(asked.query, asked.filters, self.host.clock())
        if asked.cursor is not None:
            last = await self._opened(use, asked.cursor, body)
            found = (one for one in found if one.order > last)
        listed = list(islice(room.within(found), asked.max_results + 1))
        page = listed[: asked.max_results]
        return Page(
            use=use,
            coverage=coverage,
            room=room,
            found=page,
            body=body,
            action="memory_query",
            cursor=await self._sealed(use, page[-1], body) if len(listed) > len(page) else None,
            vectors=await self.vectors(coverage.space, [one.shared for one in page])
            if asked.include_embeddings
            else {},
            is_last_turn=is_last_turn,
        )

    async def room(self, use: GrantUse, most: int) -> Room:
        """How much the grant may still show, where so many items may come near its end."""
        row = await self.host.ledger.get(GRANTS, use.tenant, use.grant.id) or use.row
        left = use.grant.terms.max_items - row.disclosed
        if left > most:
            return Room(left)
        return Room(
            left, await self.host.ledger.read(use.tenant, lambda reader: _known(reader, use.grant.id))
        )

    async def vectors(self, space: Space | None, found: Sequence[CoveredItem]) -> dict[str, bytes]:
        """Vectors of the texts as they are shown. Those of another model than the item names would fit nothing."""
        embedder = self.embedder
        if embedder is None or space != Space(embedder.model, embedder.dimensions):
            return {}
        texts = {one.id: one.shown.item["content"].get("text") for one in found}
        known = {name: text for name, text in texts.items() if isinstance(text, str) and text}
        if not known:
            return {}
        return dict(zip(known, await embedder.embed(list(known.values())), strict=True))

    # -- an item that was shown ---------------------------------------------------------------------------------------

    async def vector(self, ctx: Context, request: m.ReadSharedVectorRequest) -> m.ReadSharedVectorResponse:
        """The vector of the text as it is shown, on receipt: a scope of its own."""
        use = use_of(ctx)
        self.check(use, EMBEDDINGS)
        shared, coverage = await self.shown(use, request.id)
        data = (await self.vectors(coverage.space, [shared])).get(shared.id)
        if data is None:
            raise _absent()
        digest, body, salts = digest_of(data), {"item_id": shared.id}, (self.host.salt(), self.host.salt())

        def work(reader: Reader) -> tuple[None, list[Commit]]:
            now, record = self.host.clock(), shared.record
            row = self.still_good(reader, use, now)
            proofs = tokens.proofs_used(reader, use.proofs, now)
            if not _stands(record, reader.records([record.id])):
                raise _absent()
            after = replace(row.value, uses=row.value.uses + 1)
            output = {"digest": digest}
            receipt = self._receipt(reader, use, "memory_vector_read", body, output, after, salts, now)
            mention = Mention(record.id, record.version, record.digest)
            changes = [Keep(GRANTS, after, row.seq), kept(receipt), *proofs]
            return None, [_disclosure(use, receipt, now, (mention,), changes)]

        await self.host.ledger.locked(use.tenant, work)
        ctx.facts.record_ids = (shared.record.id,)
        return m.ReadSharedVectorResponse(vector=b64(data), digest=digest)

    async def shown(self, use: GrantUse, name: str) -> tuple[CoveredItem, Coverage]:
        """An item that the grant covers now and has shown. What was not shown is not there."""
        coverage = await self.views.covered(use.tenant, use.grant)
        now = self.host.clock()
        for shared in coverage.items.values():
            if shared.id == name and not shared.record.is_expired(now):
                row = await self.host.ledger.get(SHARED_ITEMS, use.tenant, use.grant.id, shared.record.id)
                if row is not None:
                    return shared, coverage
        raise _absent()

    # -- the transaction ----------------------------------------------------------------------------------------------

    async def disclosed(self, page: Page) -> m.QueryGrantResponse | None:
        """The answer, once it is on receipt; None where something was changed meanwhile."""

        def work(reader: Reader) -> tuple[m.QueryGrantResponse | None, Sequence[Commit]]:
            now = self.host.clock()
            row = self.still_good(reader, page.use, now)
            proofs = tokens.proofs_used(reader, page.use.proofs, now)
            left = page.grant.terms.max_items - row.value.disclosed
            if not page.is_last_turn and not page.coverage.stands(reader.head(), reader.space()):
                return None, ()
            if not page.is_last_turn and page.room.known is not None and left != page.room.left:
                return None, ()
            if page.needs_room and left <= 0:
                raise ForbiddenError("The grant has shown as many items as it may.", reason="cap_reached")
            return self._answer(reader, page, row, now, proofs)

        return await self.host.ledger.locked(page.use.tenant, work)

    def still_good(self, reader: Reader, use: GrantUse, now: int) -> Kept[GrantRow]:
        """The grant's row, in the very transaction that discloses."""
        if reader.head().suspended_at is not None:
            check_status("suspended")
        row = reader.kept(GRANTS, use.grant.id)
        if row is None or row.value.hash != use.grant.hash:
            raise refused("grant_unknown")
        is_noted = self.host.keyring.is_revoked(use.tenant, use.grant.id)
        check_status(status_of(row.value, now, is_noted=is_noted, is_signed=True))
        return row

    def _answer(
        self, reader: Reader, page: Page, row: Kept[GrantRow], now: int, proofs: Sequence[Change]
    ) -> tuple[m.QueryGrantResponse, Sequence[Commit]]:
        grant, by, space = page.grant, self.host.keyring.signatory(None), page.coverage.space
        ids = [one.shared.record.id for one in page.found]
        logs = item_log.entries_of(reader, ids)
        known = {one.value.record_id for one in reader.matching(SHARED_ITEMS, "record_id", ids)
                 if one.value.grant_id == grant.id}  # fmt: skip
        shown, is_capped = self._within_cap(reader, page, row.value, known, logs)
        changes: list[Change] = []
        items: list[dict[str, Any]] = []
        tags = [
            {
                "source_did": by.did,
                "received_under": f"grant:{grant.id}",
                "purpose_limitation": grant.terms.purpose,
                "expires": grant.terms.expires_at,
            }
        ]
        for one in shown:
            shared, record = one.shared, one.shared.record
            log = item_log.brought_up(
                reader, shared, logs.get(record.id, ()), actor=self.host.did, space=space
            )
            changes += log.changes
            if record.id not in known:
                first = SharedItem(grant_id=grant.id, record_id=record.id, item_id=shared.id, at=now)
                changes.append(Keep(SHARED_ITEMS, first, 0))
            item = dict(shared.shown.item)
            if shared.id in page.vectors and space is not None:
                item["embedding"] = self._embedding(shared.id, page.vectors[shared.id], space)
            if record.confidence < BELIEF:
                item["epistemic"] = "possession"
            items.append(
                {**item, "provenance_tags": tags, "integrity": log.block(shared, by, has_salt=page.has_salts)}
            )
        fresh = sum(1 for one in shown if one.shared.record.id not in known)
        after = replace(row.value, uses=row.value.uses + 1, disclosed=row.value.disclosed + fresh)
        output = self._output(page, shown, items, after, now)
        if page.action == "memory_query":
            output["erased"], learned = _erased(reader, grant)
            changes += learned
        salts = (self.host.salt(), self.host.salt())
        receipt = self._receipt(reader, page.use, page.action, page.body, output, after, salts, now)
        changes += [Keep(GRANTS, after, row.seq), kept(receipt), *proofs]
        mentions = tuple(
            Mention(record.id, record.version, record.digest)
            for record in (one.shared.record for one in shown)
        )
        answer = m.QueryGrantResponse(
            output=output,
            receipt=told(receipt, salts),
            warnings=_warnings(grant, shown, is_capped=is_capped),
        )
        return answer, [_disclosure(page.use, receipt, now, mentions, changes)]

    @staticmethod
    def _within_cap(
        reader: Reader,
        page: Page,
        row: GrantRow,
        known: set[str],
        logs: Mapping[str, Sequence[Any]],
    ) -> tuple[list[Ranked], bool]:
        """What may be shown: known items always, new ones while there is room; nothing that was erased meanwhile."""
        room = page.grant.terms.max_items - row.disclosed
        standing = reader.records([one.shared.record.id for one in page.found]) if page.is_last_turn else None
        shown: list[Ranked] = []
        is_capped = False
        for one in page.found:
            record = one.shared.record
            if item_log.is_deleted(logs.get(record.id, ())):
                continue
            if standing is not None and not _stands(record, standing):
                continue
            if record.id not in known:
                if room <= 0:
                    is_capped = True
                    continue
                room -= 1
            shown.append(one)
        return shown, is_capped or room <= 0

    def _output(
        self, page: Page, shown: Sequence[Ranked], items: list[dict[str, Any]], row: GrantRow, now: int
    ) -> dict[str, Any]:
        grant = page.grant
        return {
            "items": items,
            "ranking": [{"item_id": one.shared.id, "score": plain_number(one.score)} for one in shown],
            "next_cursor": page.cursor,
            "projection_applied": applied(grant, sum(one.shared.shown.removed for one in shown)),
            "grant": {
                "grant_id": grant.id,
                "items_disclosed": row.disclosed,
                "items_remaining": max(0, grant.terms.max_items - row.disclosed),
                "expires_at": grant.terms.expires_at,
            },
            "generated_at": rfc3339(now, fraction=True),
        }

    def _embedding(self, item_id: str, vector: bytes, space: Space) -> dict[str, Any]:
        return {
            "model": space.model,
            "dimensions": space.dimensions,
            "dtype": "f32le",
            "vector_url": f"{self.host.url}/oap/memory/vec/{quote(item_id, safe='')}.bin",
            "digest": digest_of(vector),
        }

    def _receipt(
        self,
        reader: Reader,
        use: GrantUse,
        action: str,
        body: Mapping[str, Any],
        output: Mapping[str, Any],
        row: GrantRow,
        salts: tuple[str, str],
        now: int,
    ) -> Receipt:
        """The next receipt of the owner's chain, for one use of a grant."""
        grant = use.grant
        decision = self.host.decision(
            "allow_with_conditions",
            "memory.grant.valid",
            "projection.applied",
            scope_id=grant.scope_id,
            consumed_grant_id=grant.id,
            consumption_index=row.uses,
            items_disclosed=row.disclosed,
            items_remaining=max(0, grant.terms.max_items - row.disclosed),
            projection_applied=output.get("projection_applied") or applied(grant, 0),
        )
        return self.host.receipt(
            reader,
            "invocation",
            at=now,
            agent=grant.grantee,
            grant_id=grant.id,
            action_id=action,
            action_version=receipts.ACTION_VERSION,
            input_hash=receipts.salted("input", body, salts[0]),
            output_hash=receipts.salted("output", output, salts[1]),
            policy_decisions=[decision],
            provenance_tags_out=[f"grant:{grant.id}", f"scope:{grant.scope_id}"],
        )

    # -- cursors --------------------------------------------------------------------------------------------------------

    async def _sealed(self, use: GrantUse, last: Ranked, body: Mapping[str, Any]) -> str:
        """Where a page ended: it says nothing to others, and is good for this grant and this query alone."""
        await self.sealing.ready(use.tenant)
        text = json.dumps({"order": list(last.order), "until": self.host.clock() + _CURSOR_MS})
        return b64(self.sealing.sealer.seal(text.encode(), _place(use, body)))

    async def _opened(self, use: GrantUse, cursor: str, body: Mapping[str, Any]) -> tuple[float, str]:
        try:
            await self.sealing.ready(use.tenant)
            told: Any = json.loads(self.sealing.sealer.unseal(unb64(cursor), _place(use, body)))
        except (ValueError, UnverifiableError):
            raise _no_cursor() from None
        if told["until"] < self.host.clock():
            raise _no_cursor()
        return float(told["order"][0]), str(told["order"][1])


def check_scope(use: GrantUse, scope: TokenScope) -> None:
    if scope not in use.scopes:
        raise ForbiddenError(f"The token does not allow {scope}.", reason="scope_missing")


def applied(grant: Grant, removed: int) -> dict[str, Any]:
    """By which profile and level it is shown, and how many values are not."""
    return {
        "profile": grant.terms.redaction_profile,
        "trust_level": grant.level,
        "redacted_field_count": removed,
        "lawful_basis": grant.terms.lawful_basis,
    }


def _disclosure(
    use: GrantUse, receipt: Receipt, now: int, mentions: tuple[Mention, ...], changes: Sequence[Change]
) -> Commit:
    """The entry that says who was shown what."""
    detail = {"grant_id": use.grant.id, "receipt_id": receipt.id, "action": str(receipt.body["action_id"])}
    draft = Draft(op="disclose", actor=use.grant.grantee, at=now, detail={**detail})
    return Commit(tenant=use.tenant, draft=draft, changes=tuple(changes), mentions=mentions)


def told(receipt: Receipt, salts: tuple[str, str]) -> dict[str, Any]:
    """What an answer says of its receipt: the salts prove that its hashes are those of question and answer."""
    return {
        "id": receipt.id,
        "receipt_id": receipt.id,
        "anchored_in": [],
        "input_salt": salts[0],
        "output_salt": salts[1],
    }


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _warnings(grant: Grant, shown: Sequence[Ranked], *, is_capped: bool) -> tuple[str, ...]:
    said = {warning for one in shown for warning in one.shared.shown.warnings}
    if grant.terms.trust_level is None:
        said.add("trust_level_defaulted")
    if is_capped:
        said.add("grant_item_cap_reached")
    return tuple(sorted(said))


def _known(reader: Reader, grant_id: str) -> frozenset[str]:
    return frozenset(row.value.record_id for row in every(reader, SHARED_ITEMS, {"grant_id": grant_id}))


def _erased(reader: Reader, grant: Grant) -> tuple[list[dict[str, Any]], list[Change]]:
    """What a grantee without an address was shown and is to erase, with the receipts; and that it learns it now."""
    wanted = {"grantee": grant.grantee, "grant_id": grant.id, "status": "no_address"}
    said: list[dict[str, Any]] = []
    changes: list[Change] = []
    for row in reader.rows(CASCADE_STEPS, wanted, limit=_MOST_ERASURES) if dids.is_key(grant.grantee) else ():
        step, erasure = row.value, reader.get(ERASURES, row.value.erasure_id)
        if erasure is not None and erasure.receipt is not None:
            said.append({"item_ids": list(step.item_ids), "receipt": dict(erasure.receipt)})
            changes.append(Keep(CASCADE_STEPS, replace(step, status="told"), row.seq))
    return said, changes


def _stands(record: Record, now: Mapping[str, Record]) -> bool:
    """Whether a memory is still what it was."""
    found = now.get(record.id)
    return found is not None and found.version == record.version and found.standing == "live"


def _place(use: GrantUse, body: Mapping[str, Any]) -> bytes:
    about = {name: value for name, value in body.items() if name not in _BESIDE}
    return b"grant-query:" + canonical([use.tenant, use.grant.id, use.grant.hash, about])


def _absent() -> NotFoundError:
    return NotFoundError("There is no such item.", reason="item")


def _no_cursor() -> Exception:
    return invalid([Fault("/cursor", "bad_value", "next_cursor of the page before, at most 15 minutes old")])
