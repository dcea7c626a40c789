"""The way of every write: authorise → validate → redact → govern → commit → mirror → publish.

Each write hands in how it is planned (`Write`); what belongs to other capabilities comes in by the small protocols
below, which bootstrap fills. Read `Pipeline.write` from top to bottom.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Protocol, TypeVar

from quipu.errors import ConflictError, ForbiddenError, SecretLeakageError
from quipu.ledger.commit import Commit, Committed, Once
from quipu.ledger.ledger import Ledger
from quipu.model.principal import Principal
from quipu.model.record import Record, Trust
from quipu.model.store import Store
from quipu.operation import Context, Request, Response

RequestT = TypeVar("RequestT", bound=Request)
AnyRequestT = TypeVar("AnyRequestT", bound=Request)
ResponseT = TypeVar("ResponseT", bound=Response)

#: Each time one of those who contend for a record has won, so this is how many may.
_MOST_ATTEMPTS = 256
#: Conflicts that pass when the write is redacted, judged and planned again.
PASSING = frozenset({"secrets_changed", "version_mismatch", "derived_meanwhile", "row_changed"})


class Guard(Protocol):
    """The secrets and rules of one journal position."""

    @property
    def checked_at(self) -> int: ...
    def clean(self, request: AnyRequestT) -> AnyRequestT:
        """The request without secrets, the same object if it had none; or SecretLeakageError."""
        ...

    def clean_each(self, requests: Sequence[AnyRequestT]) -> list[AnyRequestT | SecretLeakageError]:
        """The same for many requests, each for itself."""
        ...

    def clean_record(self, record: Record) -> Record:
        """The same for a version that was put together of others: each may have had a part of a secret."""
        ...


class Redactor(Protocol):
    async def guard(self, tenant: str, run_id: str | None) -> Guard: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the rules say of a write."""

    effect: Literal["allow", "hold", "deny"] = "allow"
    #: The rules that say so.
    rules: tuple[str, ...] = ()
    because: str | None = None
    #: How many different people must approve, and until when it waits.
    approvals: int = 1
    lapses_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Nothing is stored: a person decides. An outcome, not an error."""

    proposal_id: str
    #: The ids that new memories will have.
    record_ids: tuple[str, ...]
    held_by: tuple[str, ...]
    approval_url: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """What planning a write needs to know beside the request. At an approval, `author` is still who wrote it."""

    tenant: str
    author: str
    trust: Trust
    now: int
    guard: Guard
    #: Prefix → a new id; at an approval, the ids that were promised when it was held.
    new_id: Callable[[str], str]
    #: Whether the author sees a store of this name.
    reaches_store: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Generic[ResponseT]):
    """What a write would do, as things stand: no commits, nothing to do."""

    commits: tuple[Commit, ...]
    #: The answer, given what was committed; nothing yet: what a repetition or a dry run is answered.
    answer: Callable[[Sequence[Committed]], ResponseT]
    #: Versions that would end, and versions that would begin.
    before: tuple[Record, ...] = ()
    after: tuple[Record, ...] = ()
    #: Where these are, by id; only where the answer does not say it.
    stores: Mapping[str, Store] = field(default_factory=dict[str, Store])
    erases: bool = False

    @property
    def record_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(record.id for record in (*self.before, *self.after)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Write(Generic[RequestT, ResponseT]):
    """One kind of write: how it is planned, and what is answered when it is held."""

    operation: str
    request: type[RequestT]
    response: type[ResponseT]
    plan: Callable[[Planning, RequestT], Awaitable[Plan[ResponseT]]]
    held: Callable[[RequestT, Held], ResponseT]


class Governor(Protocol):
    """Rules and proposals."""

    async def judge(
        self,
        ctx: Context,
        operation: str,
        request: Request,
        guard: Guard,
        plan: Callable[[], Awaitable[Plan[Any]]],
    ) -> Verdict:
        """By the rules of `guard`'s position or a later one. `plan` is asked only by rules that need to know what the
        write would touch."""
        ...

    async def judge_each(
        self, ctx: Context, request: Any, guard: Guard, plan: Callable[[], Awaitable[Plan[Any]]]
    ) -> Sequence[Verdict]:
        """A verdict on each of the new memories of `RememberManyRequest.items`."""
        ...

    async def hold(
        self, ctx: Context, operation: str, request: Request, plan: Plan[Any], verdict: Verdict
    ) -> tuple[Commit, Held]: ...

    async def denied(self, ctx: Context, operation: str, request: Request, verdict: Verdict) -> None:
        """Journal that a rule refused it."""
        ...


class Contributor(Protocol):
    """Adds to a commit what must be durable with it: rows for mirrors, events of runs."""

    async def contributed(self, ctx: Context, commits: Sequence[Commit]) -> Sequence[Commit]:
        """Asked anew at each attempt. Changes may be added to these commits, and none taken away."""
        ...


class Mirrors(Protocol):
    async def contributed(self, tenant: str, commits: Sequence[Commit]) -> Sequence[Commit]:
        """The commits with what mirrors are owed by them: durable with the effect, whatever becomes of the process."""
        ...

    async def confirm(
        self, tenant: str, commits: Sequence[Commit], done: Sequence[Committed], answer: ResponseT
    ) -> ResponseT:
        """The answer with the mirrors that have it within the deadline. Never fails."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The steps of one installation."""

    ledger: Ledger
    redactor: Redactor
    governor: Governor
    new_id: Callable[[str], str]
    #: After an erasure: the embedder keeps nothing of what it has seen.
    forget_texts: Callable[[], None]
    contributors: tuple[Contributor, ...] = ()
    mirrors: Mirrors | None = None

    async def write(
        self,
        ctx: Context,
        write: Write[RequestT, ResponseT],
        request: RequestT,
        *,
        once: Once | None = None,
    ) -> ResponseT:
        """Carry a write through all steps. It returns when it is durable, or waits for a person.

        once: What the caller asked for under its key, where this request was made of that.
        """
        # authorise, validate: `dispatch` has checked permission, agent and user; the model has checked every field
        for attempt in range(_MOST_ATTEMPTS):
            # redact: before anything is judged, kept, logged or shown to a reviewer; secrets and rules of one position
            guard = await self.redactor.guard(ctx.tenant, getattr(request, "run_id", None))
            clean = without_foreign_vector(request, guard.clean(request))
            planned = _Once(lambda: write.plan(self.planning(ctx.principal, ctx.clock(), guard), clean))  # noqa: B023  used in this turn only
            if getattr(clean, "dry_run", False):
                return (await planned()).answer(())
            once = once or once_of(ctx.principal, write.operation, clean)
            if once is not None and (first := await self.first_answer(ctx, write, once)) is not None:
                return first

            # govern: allow, hold for a person, or deny
            verdict = await self.governor.judge(ctx, write.operation, clean, guard, planned)
            if verdict.effect == "deny":
                await self.governor.denied(ctx, write.operation, clean, verdict)
                raise ForbiddenError(
                    f"A rule forbids this: {', '.join(verdict.rules)}.", reason="denied", hint=verdict.because
                )
            plan = await planned()
            if verdict.effect == "hold" and plan.commits:
                commit, held = await self.governor.hold(ctx, write.operation, clean, plan, verdict)
                answer = write.held(clean, held)
                ctx.facts.proposal_id = held.proposal_id
                plan = Plan(commits=(commit,), answer=lambda _: answer)  # noqa: B023  used in this turn only
            elif verdict.rules:
                plan = replace(plan, commits=naming(plan.commits, "rule", verdict.rules[0]))

            try:
                return await self.commit(ctx, plan, guard, once=once)
            except ConflictError as conflict:
                is_told = (
                    conflict.reason == "version_mismatch" and getattr(clean, "if_version", None) is not None
                )
                if conflict.reason not in PASSING or is_told or attempt + 1 == _MOST_ATTEMPTS:
                    raise
        raise ConflictError  # unreachable: the last turn raises or returns

    async def carry_out(self, ctx: Context, plan: Callable[[Guard], Awaitable[Plan[ResponseT]]]) -> ResponseT:
        """A write that no rule judges: redact, plan, commit; once more where another write came in between."""
        for _ in range(_MOST_ATTEMPTS - 1):
            guard = await self.redactor.guard(ctx.tenant, None)
            try:
                return await self.commit(ctx, await plan(guard), guard)
            except ConflictError as conflict:
                if conflict.reason not in PASSING:
                    raise
        guard = await self.redactor.guard(ctx.tenant, None)
        return await self.commit(ctx, await plan(guard), guard)

    async def commit(
        self,
        ctx: Context,
        plan: Plan[ResponseT],
        guard: Guard,
        *,
        before: Sequence[Commit] = (),
        once: Once | None = None,
    ) -> ResponseT:
        """Commit, mirror, publish: also the way of decisions (`before`: the decision), imports and undo."""
        if not plan.commits and not before:
            return plan.answer(())
        commits: Sequence[Commit] = plan.commits
        if once is not None and commits:
            ids = tuple(dict.fromkeys((*once.record_ids, *plan.record_ids)))
            kept = replace(once, answer=plan.answer(()).to_dict(), record_ids=ids)
            commits = (replace(commits[0], once=kept), *commits[1:])
        try:
            done = await self._committed(ctx, commits, guard, before)
        finally:
            if plan.erases:
                self.forget_texts()  # also when the caller has gone: what was handed over is done
        effects = done[len(before) :]
        ctx.facts.seq = done[-1].seq
        ctx.facts.record_ids = plan.record_ids
        ctx.facts.before, ctx.facts.after, ctx.facts.stores = plan.before, plan.after, plan.stores
        ctx.facts.checked_at = guard.checked_at
        if effects and effects[0].replayed is not None:
            return _again(type(plan.answer(())), effects[0])
        answer = plan.answer(effects)
        # publish: followers of the journal (change feed, webhooks, streams) are woken by `Ledger.on_commit`
        # mirror: rows were written with the commit; here we only wait a moment for who is quick
        if self.mirrors is not None and effects:
            return await self.mirrors.confirm(ctx.tenant, plan.commits, effects, answer)
        return answer

    async def _committed(
        self, ctx: Context, commits: Sequence[Commit], guard: Guard, before: Sequence[Commit]
    ) -> Sequence[Committed]:
        """One transaction, acknowledged when it is durable; refused if secrets or rules have changed since.

        Where a row that was contributed has changed meanwhile, only the contribution is made anew.
        """
        for _ in range(_MOST_ATTEMPTS):
            whole = commits
            for contributor in self.contributors:
                whole = await contributor.contributed(ctx, whole)
            mirrored = await self.with_mirrors(ctx.tenant, whole)
            try:
                return await self.ledger.commit(*before, *mirrored, checked_at=guard.checked_at)
            except ConflictError as conflict:
                if conflict.reason != "row_changed" or whole is commits:
                    raise
        raise ConflictError("This keeps being changed by others.", reason="row_changed")

    async def with_mirrors(self, tenant: str, commits: Sequence[Commit]) -> Sequence[Commit]:
        """Also for what the server does by itself, outside of any call."""
        return commits if self.mirrors is None else await self.mirrors.contributed(tenant, commits)

    def planning(
        self, principal: Principal, now: int, guard: Guard, *, new_id: Callable[[str], str] | None = None
    ) -> Planning:
        return Planning(
            tenant=principal.tenant,
            author=principal.name,
            trust=principal.trust,
            now=now,
            guard=guard,
            new_id=new_id or self.new_id,
            reaches_store=principal.reaches_store,
        )

    async def first_answer(
        self, ctx: Context, write: Write[RequestT, ResponseT], once: Once
    ) -> ResponseT | None:
        """The answer to the same request under the same key, if it came before."""
        done = await self.ledger.replayed(
            ctx.tenant, once.principal, once.operation, once.key, once.fingerprint, ctx.clock()
        )
        return None if done is None else _again(write.response, done)


class _Once(Generic[ResponseT]):
    """A plan that is made when it is first asked for, and then kept."""

    def __init__(self, make: Callable[[], Awaitable[Plan[ResponseT]]]) -> None:
        self._make = make
        self._plan: Plan[ResponseT] | None = None

    async def __call__(self) -> Plan[ResponseT]:
        if self._plan is None:
            self._plan = await self._make()
        return self._plan


def without_foreign_vector(request: RequestT, clean: RequestT) -> RequestT:
    """A vector that the caller computed is one of the caller's words; where those were masked, it goes with them."""
    if clean is request or getattr(clean, "embedding", None) is None:
        return clean
    return clean.model_copy(update={"embedding": None})


def once_of(principal: Principal, operation: str, request: Request) -> Once | None:
    """Under which key a write is kept, so that it happens once; None where the caller gave none."""
    key = getattr(request, "idempotency_key", None)
    if key is None:
        return None
    asked = request.model_dump(mode="json", exclude={"idempotency_key"}, exclude_none=True)
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    return Once(principal=principal.name, operation=operation, key=key, fingerprint=fingerprint, answer={})


def _again(response: type[ResponseT], done: Committed) -> ResponseT:
    """The first answer once more."""
    body: dict[str, Any] = {**(done.replayed or {})}
    if "replayed" in body:
        body |= {"replayed": True, "seq": None if body["pending_approval"] else done.seq}
    # The answer was made by us and stands as JSON, where tuples are lists.
    return response.model_validate(body, strict=False)


def naming(commits: Sequence[Commit], what: str, name: str) -> tuple[Commit, ...]:
    """An effect names in its entry what let it through."""
    return tuple(
        replace(commit, draft=replace(commit.draft, detail={**commit.draft.detail, what: name}))
        for commit in commits
    )
