"""Writes that wait for a person: held, listed, taken back, given up; and whether one is still what was held."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from quipu.errors import ConflictError, ForbiddenError, NotFoundError
from quipu.fields import DAY_MS
from quipu.governance.model import (
    PROPOSAL_SUBJECTS,
    PROPOSALS,
    Approval,
    ListReviewsRequest,
    ListReviewsResponse,
    Proposal,
    ProposalSubject,
    ProposalView,
    WithdrawProposalRequest,
    WithdrawProposalResponse,
)
from quipu.governance.reviewer_scope import ReviewerScope
from quipu.ledger.commit import Change, Close, Commit, Drop, Erase, Keep, Stands
from quipu.ledger.digests import row_digest
from quipu.ledger.ledger import JournalQuery, Kept, Ledger
from quipu.ledger.reader import Reader
from quipu.ledger.table import Key
from quipu.memory.drafts import made_of, sources_of
from quipu.memory.forget import Reached
from quipu.memory.model import RememberManyRequest
from quipu.memory.pipeline import Held, Plan, Verdict
from quipu.model.journal import Draft
from quipu.model.principal import Permission
from quipu.model.record import Record
from quipu.model.search import Scope
from quipu.model.value import JsonObject
from quipu.operation import Context, Request

V = TypeVar("V", bound=ProposalView)
#: Nothing waits longer than this. Nothing is ever approved by time.
LIFE_MS = 14 * DAY_MS
_PAGE = 200
#: So many of the memories that a write would touch are kept with it; of a large removal the rest is found by no erasure.
_MOST_SUBJECTS = 1_000
#: Fields of a held request that speak of memories without being one.
_WORDS = ("reason", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """The queue between a write and memory."""

    ledger: Ledger
    scope: ReviewerScope
    new_id: Callable[[str], str]
    random: Callable[[int], bytes]
    #: Where the web page is, for the links in answers.
    public_url: str | None = None
    #: Whether the text of a rejected write is kept.
    keeps_rejected: bool = False

    # -- holding ------------------------------------------------------------------------------------------------------

    def hold(
        self,
        ctx: Context,
        operation: str,
        request: Request,
        plan: Plan[Any],
        verdict: Verdict,
        more: JsonObject | None = None,
    ) -> tuple[Commit, Held]:
        """The commit that makes a write wait, apart from records and search. `more` stands among its traits."""
        now, principal = ctx.clock(), ctx.principal
        record_ids = promised_ids(request, plan)
        subject = next(iter(plan.after or plan.before), None)
        proposal = Proposal(
            id=self.new_id("prop"),
            operation=operation,
            agent_id=getattr(request, "agent_id", None) or (subject.agent_id if subject else ""),
            user_id=getattr(request, "user_id", None) or (subject.user_id if subject else None),
            store_id=subject.store_id if subject else None,
            record_id=record_ids[0] if len(record_ids) == 1 else None,
            request=_body(request),
            writer=principal.name,
            writer_token=principal.token_id,
            held_by=verdict.rules,
            created_at=now,
            lapses_at=verdict.lapses_at or now + LIFE_MS,
            approvals=verdict.approvals,
            because=verdict.because,
            nonce=self.random(8).hex(),
            traits={**_traits(ctx, operation, request, plan), **(more or {})},
        )
        versions = {record.id: record.version for record in plan.before}
        sources = [name for record in plan.after for name in sorted(sources_of(record))]
        subjects = [
            ProposalSubject(record_id=name, proposal_id=proposal.id, version=versions.get(name, 0))
            for name in list(dict.fromkeys([*record_ids, *plan.record_ids, *sources]))[:_MOST_SUBJECTS]
        ]
        draft = Draft(
            op="hold",
            actor=principal.name,
            at=now,
            store=proposal.store_id,
            agent=proposal.agent_id or None,
            run=getattr(request, "run_id", None),
            node=getattr(request, "node_id", None),
            detail={"proposal": proposal.id, "operation": operation, "held_by": list(verdict.rules)},
        )
        kept = (Keep(PROPOSALS, proposal, 0), *(Keep(PROPOSAL_SUBJECTS, one, 0) for one in subjects))
        # What is erased while this is being kept waits for nobody.
        stands = Stands(ids=tuple(dict.fromkeys([*versions, *sources])))
        commit = Commit(tenant=ctx.tenant, draft=draft, changes=(*kept, stands))
        return commit, self.held(proposal, record_ids)

    def held(self, proposal: Proposal, record_ids: tuple[str, ...] = ()) -> Held:
        return Held(
            proposal_id=proposal.id,
            record_ids=record_ids,
            held_by=proposal.held_by,
            approval_url=f"{self.public_url or ''}/review/{proposal.id}",
            at=proposal.created_at,
        )

    # -- looking ------------------------------------------------------------------------------------------------------

    async def listed(self, ctx: Context, request: ListReviewsRequest) -> ListReviewsResponse:
        after = None if request.cursor is None else (request.cursor,)
        reach = await self.scope.of(ctx.principal)
        shown: list[ProposalView] = []
        async for kept in self.walk(ctx.tenant, request, after):
            if _is_wanted(kept.value, request) and reach.sees(kept.value):
                shown.append(shown_as(ProposalView, kept.value))
            if len(shown) > request.limit:
                break
        page = shown[: request.limit]
        return ListReviewsResponse(
            reviews=tuple(page), next_cursor=page[-1].id if len(shown) > len(page) else None
        )

    async def walk(
        self, tenant: str, request: ListReviewsRequest, after: tuple[str] | None = None
    ) -> AsyncIterator[Kept[Proposal]]:
        """All of them from a place on, a page at a time."""
        names = ("agent_id", "operation", "writer")
        equal: dict[str, Any] = {} if request.status == "all" else {"status": request.status}
        equal |= {name: value for name in names if (value := getattr(request, name)) is not None}
        while True:
            page = await self.ledger.kept_page(
                PROPOSALS, tenant, equal, after, _PAGE, newest_first=request.newest_first
            )
            for kept in page:
                yield kept
            if len(page) < _PAGE:
                return
            after = (page[-1].value.id,)

    async def found(self, ctx: Context, proposal_id: str) -> Kept[Proposal]:
        """One that the caller may see: a reviewer in reach, who wrote it, who decided it."""
        kept = await self.ledger.kept(PROPOSALS, ctx.tenant, proposal_id)
        if kept is None or not (await self.scope.of(ctx.principal)).sees(kept.value):
            raise no_proposal()
        return kept

    async def as_held(self, tenant: str, proposal_id: str) -> Kept[Proposal]:
        """The same as the journal says it was held; ConflictError where it is not: else somebody would approve words
        that nobody has proposed."""

        def work(reader: Reader) -> Kept[Proposal] | None:
            row = reader.cursor.row(PROPOSALS.get, tenant=tenant, **PROPOSALS.named((proposal_id,)))
            if row is None or row[-3] is None:
                return None
            proposal, salt, seq = PROPOSALS.value(row), bytes(row[-3]), row[-1]
            digest = row_digest(PROPOSALS.row(proposal), salt).hex()
            kept, held = _entry(reader, seq), _entry(reader, proposal.held_seq)
            is_kept = [PROPOSALS.name, [proposal_id], digest] in _list(kept.get("side"))
            is_held = held.get("proposal") == proposal_id and "held_by" in held
            return Kept(proposal, seq) if is_kept and is_held else None

        found = await self.ledger.read(tenant, work)
        if found is None:
            raise ConflictError(
                "What waits here is not what was held.",
                reason="altered_proposal",
                hint="It was altered from outside. Reject it, and have it proposed again.",
            )
        return found

        return await self.ledger.read(tenant, work)

    # -- closing ------------------------------------------------------------------------------------------------------

    async def withdraw(self, ctx: Context, request: WithdrawProposalRequest) -> WithdrawProposalResponse:
        """Its writer takes it back; nothing of it is kept."""
        kept = await self.found(ctx, request.id)
        if kept.value.writer != ctx.principal.name:
            raise ForbiddenError("Only who wrote it takes it back.", reason="not_the_writer")
        if not kept.value.is_pending:
            raise already_decided()
        try:
            await self.ledger.commit(
                await self.closing(ctx.tenant, kept, ctx.clock(), ctx.principal.name, closed_by="withdrawn")
            )
        except ConflictError as conflict:
            if conflict.reason != "row_changed":
                raise
            raise already_decided() from conflict
        return WithdrawProposalResponse(id=request.id)

    async def lapse(self, tenant: str, now: int) -> int:
        """Close what nobody decided on in time; returns how many."""
        lapsed = 0
        async for kept in self.walk(tenant, ListReviewsRequest(status="pending")):
            if not kept.value.has_lapsed(now):
                continue
            commit = await self.closing(tenant, kept, now, "system", closed_by="lapsed")
            try:
                await self.ledger.commit(commit)
            except ConflictError:
                continue  # somebody decided after all
            lapsed += 1
        return lapsed

    async def closing(
        self,
        tenant: str,
        kept: Kept[Proposal],
        now: int,
        actor: str,
        *,
        approved: bool = False,
        reason: str | None = None,
        closed_by: str | None = None,
        detail: JsonObject | None = None,
    ) -> Commit:
        """The commit that closes a proposal. Its text goes, unless rejected ones are kept.

        Which memories it was about stays known: an erasure takes what was said of them along, and a no is heard once.
        """
        proposal = kept.value
        keeps = self.keeps_rejected and not approved and closed_by is None
        closed = replace(
            proposal,
            status="approved" if approved else "rejected",
            reviewer=closed_by or actor,
            reviewed_at=now,
            reason=reason,
            given=(),
        )
        if not keeps:
            closed = replace(closed, request=None, nonce=None)
        said: dict[str, Any] = {"proposal": proposal.id, "operation": proposal.operation, **(detail or {})}
        if closed_by is not None:
            said["closed_by"] = closed_by
        draft = Draft(
            op="approve" if approved else "reject",
            actor=actor,
            at=now,
            store=proposal.store_id,
            agent=proposal.agent_id or None,
            detail=said,
        )
        return Commit(tenant=tenant, draft=draft, changes=(Keep(PROPOSALS, closed, kept.seq),))

    async def _subjects(self, tenant: str, proposal_id: str) -> Sequence[tuple[str, str]]:
        rows = await self.ledger.page(
            PROPOSAL_SUBJECTS, tenant, {"proposal_id": proposal_id}, limit=_MOST_SUBJECTS
        )
        return [(row.record_id, row.proposal_id) for row in rows]

    # -- erasure ------------------------------------------------------------------------------------------------------

    async def reached(
        self, tenant: str, scope: Scope, asked: Sequence[str], erased: Sequence[str]
    ) -> Reached:
        """What waits with words of what is erased: a memory that is not there yet is erased by its id too, and with a
        whole store everything that waits to get into it."""
        names = list(dict.fromkeys([*asked, *erased]))
        gone = frozenset(erased)
        # Nobody reads it any more: the store itself goes.
        store_id = scope.store_id if scope.agent_id is None and scope.reader is None else None
        naming, entering = await self.ledger.read(
            tenant, lambda reader: (_naming(reader, names), _entering(reader, store_id))
        )
        changes: list[Change] = []
        found: dict[str, None] = {}
        for kept in naming:
            proposal = kept.value
            made = [name for name in proposal.listed("makes") if name in names]
            own = [name for name in made if name in gone or _is_owned(proposal, name, scope)]
            is_made_of = not gone.isdisjoint(_sources(proposal))
            if own or is_made_of or not made:
                found |= dict.fromkeys(own)
                has_words = bool(own) or is_made_of
                changes.append(Keep(PROPOSALS, _emptied(proposal, with_request=has_words), kept.seq))
        known = {kept.value.id for kept in naming}
        for kept in entering:
            if kept.value.id not in known:
                changes += await self._closed(tenant, kept, gone)
        return Reached(changes=tuple(changes), ids=tuple(found))

    async def emptied(
        self, tenant: str, is_meant: Callable[[Mapping[str, Any]], bool], gone: Collection[str]
    ) -> list[Change]:
        """What closes everything that is kept of writes which say something that is meant. `gone`: ids that are erased."""
        changes: list[Change] = []
        after: Key | None = None
        while page := await self.ledger.kept_page(PROPOSALS, tenant, after=after, limit=_PAGE):
            for kept in page:
                if kept.value.request is not None and any(is_meant(body) for body in _bodies(kept.value)):
                    changes += await self._closed(tenant, kept, gone)
            after = (page[-1].value.id,)
        return changes

    async def _closed(self, tenant: str, kept: Kept[Proposal], gone: Collection[str]) -> list[Change]:
        """What empties a proposal, and lets go of the memories that it is about."""
        subjects = await self._subjects(tenant, kept.value.id)
        return [
            Keep(PROPOSALS, _emptied(kept.value, with_request=True), kept.seq),
            *(Drop(PROPOSAL_SUBJECTS, key) for key in subjects if key[0] not in gone),
        ]


def no_proposal() -> NotFoundError:
    return NotFoundError(
        "There is no such proposal.", reason="proposal", hint="`quipu review list` shows what waits."
    )


def already_decided() -> ConflictError:
    return ConflictError("This proposal has been decided already.", reason="already_decided")


def promised_ids(request: Request, plan: Plan[Any]) -> tuple[str, ...]:
    """The ids of the memories that a write makes or changes, in the order of its items."""
    items = request.items if isinstance(request, RememberManyRequest) else (request,)
    fresh = (record.id for record in plan.after if record.version == 1)
    named = (getattr(item, "id", None) for item in items)
    return tuple(name for given in named if (name := given or next(fresh, None)) is not None)


def shown_as(view: type[V], proposal: Proposal) -> V:
    """It as a caller sees it."""
    fields: dict[str, Any] = {name: getattr(proposal, name) for name in ProposalView.model_fields}
    fields["given"] = tuple(Approval(reviewer=one["reviewer"], at=one["at"]) for one in proposal.given)
    if not proposal.is_pending:
        fields["lapses_at"] = None
    return view(**fields)


def _body(request: Request) -> dict[str, Any]:
    """A request as it waits: what was given, which its own model reads again. A duration counts from the approval."""
    body = request.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    for name in ("approval_required", "idempotency_key", "dry_run"):
        body.pop(name, None)
    return body


def _traits(ctx: Context, operation: str, request: Request, plan: Plan[Any]) -> dict[str, Any]:
    """What a held write is like, without its text."""
    principal = ctx.principal
    records: Sequence[Record] = (*plan.before, *plan.after)
    first = next(iter(plan.after or plan.before), None)
    makes = promised_ids(request, plan)
    owners = {record.id: [record.agent_id, record.user_id] for record in records}
    traits: dict[str, Any] = {
        "trust": principal.trust,
        "admin": principal.may(Permission.ADMIN) or None,
        "makes": list(makes),
        # Known when its text is gone: whoever erases one of them takes along what was said of it.
        "owners": [owners.get(name, [None, None]) for name in makes],
        "count": removed_count(plan) or len(plan.after),
        "agents": sorted({record.agent_id for record in records}),
        "users": sorted({record.user_id or "" for record in records}),
        "stores": sorted({record.store_id for record in records}),
        # It is about whatever fits when it is approved.
        "is_open": (operation == "expire" or bool(getattr(request, "filter", None)))
        and getattr(request, "store", None) is None,
    }
    if first is not None and operation not in ("forget", "merge", "expire"):
        traits |= {
            "type": first.type,
            "source": first.source,
            "sensitivity": None if first.privacy is None else first.privacy.sensitivity,
            "import_id": getattr(request, "import_id", None) or first.provenance.import_id,
        }
    if "*" not in principal.review_stores:
        traits["reach"] = list(principal.review_stores)
    if isinstance(getattr(request, "action", None), str):
        traits["action"] = request.action  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  an expiry
    if getattr(request, "hard_delete", False):
        traits["hard_delete"] = True
    return {name: value for name, value in traits.items() if value is not None}


def removed_count(plan: Plan[Any]) -> int:
    """How many memories it takes away."""
    changes = [change for commit in plan.commits for change in commit.changes]
    return sum(isinstance(change, Close | Erase) for change in changes)


def _is_wanted(proposal: Proposal, request: ListReviewsRequest) -> bool:
    return request.rule in (None, *proposal.held_by) and request.import_id in (
        None,
        proposal.traits.get("import_id"),
    )


def _naming(reader: Reader, names: Sequence[str]) -> list[Kept[Proposal]]:
    """What would make, change or take away these memories."""
    subjects = [
        kept.value
        for start in range(0, len(names), _PAGE)
        for kept in reader.matching(PROPOSAL_SUBJECTS, "record_id", names[start : start + _PAGE])
    ]
    ids = dict.fromkeys(one.proposal_id for one in subjects)
    return [kept for name in ids if (kept := reader.kept(PROPOSALS, name)) is not None]


def _entering(reader: Reader, store_id: str | None) -> list[Kept[Proposal]]:
    """What waits to get into a store."""
    found: list[Kept[Proposal]] = []
    after: tuple[str] | None = None
    while store_id is not None:
        page = reader.rows(PROPOSALS, {"status": "pending"}, after, _PAGE)
        found += [
            kept for kept in page if kept.value.listed("makes") and store_id in kept.value.listed("stores")
        ]
        if len(page) < _PAGE:
            break
        after = (page[-1].value.id,)
    return found


def _emptied(proposal: Proposal, *, with_request: bool) -> Proposal:
    """Without words of what is erased; what would only bring them is closed."""
    if not with_request:
        return replace(proposal, because=None, reason=None, request=_without_words(proposal.request))
    empty = replace(proposal, because=None, request=None, reason=None, nonce=None, given=())
    return replace(empty, status="rejected", reviewer="erased") if proposal.is_pending else empty


def _is_owned(proposal: Proposal, name: str, scope: Scope) -> bool:
    """Whether a memory that it would make is in the reach of who erases."""
    stores = set(proposal.listed("stores"))
    agent_id, user_id = proposal.listed("owners")[proposal.listed("makes").index(name)]
    return (
        scope.agent_id in (None, agent_id)
        and scope.user_id in (None, user_id)
        and (scope.store_id is None or scope.store_id in stores)
        and (scope.stores is None or stores <= scope.stores)
    )


def _bodies(proposal: Proposal) -> Sequence[Mapping[str, Any]]:
    """What it would write, one by one."""
    request = proposal.request or {}
    return [*_list(request.get("items"))] or [request]


def _sources(proposal: Proposal) -> frozenset[str]:
    """The memories that what it would write is made of."""
    return frozenset[str]().union(
        *(
            made_of(body.get("source"), ((link["to"], link["rel"]) for link in _list(body.get("links"))))
            for body in _bodies(proposal)
        )
    )


def _without_words(request: Any) -> dict[str, Any] | None:
    if request is None:
        return None
    return {name: value for name, value in request.items() if name not in _WORDS}


def _entry(reader: Reader, seq: int) -> JsonObject:
    """What an entry says; nothing where there is none."""
    entries = reader.entries(JournalQuery(after=seq - 1, limit=1))
    return entries[0].detail if entries and entries[0].seq == seq else {}


def _list(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
