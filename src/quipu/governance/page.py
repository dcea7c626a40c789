"""The pages of review: what waits, one held write, the rules, suggestions; and webhooks, which stand on the page of access."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args
from urllib.parse import quote, urlencode

from quipu.access.model import SECOND_REVIEWER
from quipu.access.operations import WHOAMI
from quipu.errors import ConflictError, Fault, NotFoundError, QuipuError
from quipu.governance import operations as ops
from quipu.governance.model import (
    Diff,
    ListReviewsResponse,
    ProposalView,
    Review,
    Rule,
    RuleOperation,
    RulesResponse,
    TestedWrite,
)
from quipu.memory.operations import FORGET, LIST_AGENTS, MERGE
from quipu.model.principal import Permission
from quipu.operation import AnyOperation, Context, dispatch, invalid
from quipu.page import Action, Done, Fields, Page, may_use

_STATUSES = ("pending", "approved", "rejected")
_OPERATIONS = ("remember", "update", "remember_many", "forget", "merge", "expire", "restore", "recall")
_FILTERS = {
    "agent": "agent_id",
    "operation": "operation",
    "writer": "writer",
    "rule": "rule",
    "import": "import_id",
}
#: A list shows so many at once, and of each so many memories and characters. What is more is approved on its own page.
_PAGE, _MOST_LINES, _MOST_SHOWN = 25, 6, 700
#: So many are looked through for the next that waits.
_MOST_QUEUED = 200


# -- what a held write would do -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One memory that would come, go, change, or stay for others to be merged into."""

    mark: Literal["new", "gone", "changed", "stays"]
    id: str
    text: str
    #: What else differs, by name: before, if it was there, and after.
    fields: tuple[tuple[str, str | None, str], ...] = ()
    #: The change of the text word by word.
    words: Any = None

    @property
    def length(self) -> int:
        return len(self.text) + sum(len(one or "") for field in self.fields for one in field)


#: Fields of a new memory that are shown elsewhere; and values that go without saying.
_UNTOLD = frozenset({"id", "content", "state", "store_id", "created_at", "agent_id"})
_USUAL: Mapping[str, Any] = {"confidence": 1.0, "type": "semantic", "tier": "long_term", "store": "main"}


def lines(diff: Diff | None) -> list[Line]:
    """What a diff comes to, one line for each memory."""
    if diff is None:
        return []
    found = [
        Line(
            "new",
            str(one["id"]),
            _text(one.get("content", "")),
            tuple(
                (name, None, _text(value))
                for name, value in one.items()
                if name not in _UNTOLD and value != _USUAL.get(name)
            ),
        )
        for one in diff.added
    ]
    for one in diff.modified:
        after = one.after.get("content")
        found.append(
            Line(
                "changed",
                one.id,
                "" if after is None else _text(after),
                tuple(
                    (name, _text(one.before.get(name)), _text(value))
                    for name, value in one.after.items()
                    if name != "content"
                ),
                one.words,
            )
        )
    found += [Line("gone", str(one["id"]), _text(one.get("content", ""))) for one in diff.removed]
    found += [Line("stays", str(one["id"]), _text(one.get("content", ""))) for one in diff.stays]
    return found


def _text(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return "nothing"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def is_shown_whole(diff: Diff | None) -> bool:
    """Whether a list has room for all that an approval would do."""
    shown = lines(diff)
    return (
        diff is not None
        and bool(shown)
        and not diff.counts
        and len(shown) <= _MOST_LINES
        and sum(line.length for line in shown) <= _MOST_SHOWN
    )


# -- what waits ---------------------------------------------------------------------------------------------------


async def _reviews(ctx: Context, query: Fields) -> dict[str, Any]:
    status = query.text("status") or "pending"
    request = {
        "status": status if status in _STATUSES else "pending",
        "limit": _PAGE,
        "newest_first": status != "pending",
        **query.given("cursor"),
        **{to: query[name] for name, to in _FILTERS.items() if query.text(name)},
    }
    answer: ListReviewsResponse = await dispatch(ctx, ops.LIST_REVIEWS, request)
    me = await dispatch(ctx, WHOAMI, {})
    rows: list[dict[str, Any]] = []
    for one in answer.reviews:
        seen = None
        if one.status == "pending":
            seen = await dispatch(ctx, ops.REVIEW, {"id": one.id, "related": False})
        diff = None if seen is None else seen.diff
        is_whole = is_shown_whole(diff)
        rows.append(
            {
                "proposal": one,
                "lines": lines(diff)[:_MOST_LINES] if is_whole else lines(diff)[:2],
                "summary": summary(one),
                "is_whole": is_whole,
                "problem": None if seen is None else seen.problem,
                "is_own": one.writer == me.name and not (me.solo and one.approvals == 1),
                "is_of_maker": one.writer in me.makers,
                # What a tick says is what the list has shown; without it the list can only reject.
                "pick": f"{one.id}:{seen.etag if seen is not None and is_whole else ''}",
            }
        )
    kept = {name: query.text(name) for name in ("status", *_FILTERS)}
    return {
        "rows": rows,
        "status": request["status"],
        "statuses": _STATUSES,
        "operations": _OPERATIONS,
        "query": query,
        "kept": kept,
        "is_filtered": any(query.text(name) for name in _FILTERS),
        "next_cursor": answer.next_cursor,
        "solo": me.solo,
        "second_reviewer": SECOND_REVIEWER,
        "can_see_rules": may_use(ctx.principal, ops.GET_RULES),
    }


async def _decide_many(ctx: Context, form: Fields, *, approved: bool) -> Done:
    picks = [one.partition(":") for one in form.texts("pick")]
    if not picks:
        raise invalid([Fault("/pick", "missing_field", "at least one that is ticked")])
    done = waiting = changed = unseen = failed = 0
    for proposal_id, _, etag in picks:
        if approved and not etag:
            unseen += 1
            continue
        request = {"id": proposal_id, "approved": approved, "reason": form.text("reason")}
        try:
            answer = await dispatch(ctx, ops.DECIDE, {**request, "etag": etag} if approved else request)
        except QuipuError as error:
            if error.reason == "stale_proposal":
                changed += 1
            elif await _is_said_again(ctx, error, proposal_id, approved=approved):
                done += 1
            else:
                failed += 1
            continue
        done += 1
        waiting += answer.approvals_left > 0
    said = f"{'Approved' if approved else 'Rejected'} {done} of {len(picks)}."
    if waiting:
        said += f" {waiting} of them wait for others to approve as well."
    if changed:
        said += f" {changed} would now do something else than was shown: look again."
    if unseen:
        said += f" {unseen} can only be approved on {'its' if unseen == 1 else 'their'} own page, which shows all of it."
    if failed:
        said += f" {failed} could not be decided: look at {'it' if failed == 1 else 'them'} one by one."
    return Done(said=said)


async def _is_said_again(ctx: Context, error: QuipuError, proposal_id: str, *, approved: bool) -> bool:
    """The same decision sent twice is one, as by a double click."""
    if not isinstance(error, ConflictError) or error.reason != "already_decided":
        return False
    found: Review = await dispatch(ctx, ops.REVIEW, {"id": proposal_id, "related": False})
    return found.reviewer == ctx.principal.name and found.status == ("approved" if approved else "rejected")


def summary(proposal: ProposalView) -> str:
    """What was asked, in a few words."""
    request: Mapping[str, Any] = proposal.request or {}
    match proposal.operation:
        case "forget" | "import_removals":
            ids = request.get("ids") or ()
            what = _counted(len(ids)) if ids else f"what fits {_text(request.get('filter'))}"
            return f"{'Erase' if request.get('hard_delete') else 'Forget'} {what}"
        case "merge":
            return f"Merge {_counted(len(request.get('duplicates') or ()))} into another"
        case "expire":
            return f"{_text(request.get('action')).capitalize()} what fits {_text(request.get('policy'))}"
        case "restore":
            return "Bring a memory back"
        case "recall":
            return f"Search for: {_text(request.get('query'))}"
        case "remember_many" | "import":
            return f"Remember {_counted(len(request.get('items') or ()))}"
        case _:
            return _text(request.get("content")) if request.get("content") else "Change a memory"


def _counted(number: int) -> str:
    return "1 memory" if number == 1 else f"{number} memories"


# -- one held write -----------------------------------------------------------------------------------------------


async def _review(ctx: Context, query: Fields) -> dict[str, Any]:
    review: Review = await dispatch(ctx, ops.REVIEW, {"id": query["id"]})
    me = await dispatch(ctx, WHOAMI, {})
    has_lapsed = review.lapses_at is not None and review.lapses_at <= ctx.clock()
    is_own = review.writer == me.name
    can_decide = review.status == "pending" and may_use(ctx.principal, ops.DECIDE)
    request: Mapping[str, Any] = review.request or {}
    content = request.get("content")
    is_of_maker = review.writer in me.makers
    may_approve = not is_of_maker and (not is_own or (me.solo and review.approvals == 1))
    can_approve = can_decide and not has_lapsed and review.problem is None and may_approve
    is_one = review.operation in ("remember", "update") and review.approvals == 1
    return {
        "review": review,
        "lines": lines(review.diff),
        "summary": summary(review),
        "content": None if content is None else _text(content),
        "others": _others(request),
        "has_lapsed": review.status == "pending" and has_lapsed,
        "is_own": is_own,
        "is_of_maker": is_of_maker,
        "may_approve": may_approve,
        "second_reviewer": SECOND_REVIEWER,
        "can_decide": can_decide,
        "can_approve": can_approve,
        "can_edit": can_approve and is_one and content is not None,
        "can_join": can_approve and is_one,
        "is_new": not request.get("id"),
        "is_erasure": review.operation == "forget" and bool(request.get("hard_delete")),
        "in_queue": query.text("queue") == "1",
        "query": query,
        "kept": {name: query.text(name) for name in _FILTERS},
    }


#: Fields of a request that the diff shows already, or that say nothing to a reviewer.
_SHOWN_ALREADY = frozenset(
    {
        *("content", "type", "agent_id", "user_id", "session_id", "store", "tags", "metadata", "confidence"),
        *("idempotency_key", "approval_required", "dry_run", "reasoning", "items", "id", "find_similar"),
        *("importance", "source", "privacy_intent", "update_strategy", "replace", "embedding", "hard_delete"),
    }
)


def _others(request: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, _text(value))
        for name, value in request.items()
        if name not in _SHOWN_ALREADY and value not in (None, [], {}, "", False, ())
    ]


async def _decide(ctx: Context, form: Fields, approved: bool, **more: Any) -> Done:
    proposal_id = form["id"]
    request: dict[str, Any] = {
        "id": proposal_id,
        "approved": approved,
        "reason": form.text("reason"),
        **({"etag": form.text("etag")} if approved else {}),
        **more,
    }
    try:
        answer = await dispatch(ctx, ops.DECIDE, request)
        left = answer.approvals_left
    except ConflictError as error:
        if not await _is_said_again(ctx, error, proposal_id, approved=approved):
            raise
        left = 0
    said = "Approved, and carried out." if approved else "Rejected. Nothing was written."
    if left:
        said = f"Noted. {left} more must approve before it is carried out."
    if form.text("queue") == "1":
        return Done(said=said, path=await _next(ctx, form))
    return Done(said=said, path=f"/review/{quote(proposal_id, safe='')}")


async def _next(ctx: Context, form: Fields) -> str:
    """The next that waits for this reviewer, the oldest first; what was left for later comes last."""
    filters = {to: form[name] for name, to in _FILTERS.items() if form.text(name)}
    answer = await dispatch(ctx, ops.LIST_REVIEWS, {"limit": _MOST_QUEUED, **filters})
    me = await dispatch(ctx, WHOAMI, {})
    not_mine = {*me.makers} if me.solo else {me.name, *me.makers}
    waiting = [one for one in answer.reviews if one.id != form["id"] and one.writer not in not_mine]
    here = await dispatch(ctx, ops.REVIEW, {"id": form["id"], "related": False})
    later = [one for one in waiting if (one.created_at, one.id) > (here.created_at, here.id)]
    kept = {name: form[name] for name in _FILTERS if form.text(name)}
    if not waiting:
        return f"/review?{urlencode(kept)}"
    following = (later or waiting)[0]
    return f"/review/{quote(following.id, safe='')}?{urlencode({'queue': '1', **kept})}"


async def _approve_edited(ctx: Context, form: Fields) -> Done:
    return await _decide(ctx, form, True, edit={"content": form.get("content", "")})


async def _merge_into(ctx: Context, form: Fields) -> Done:
    merge = {"canonical": form.get("record", ""), "strategy": "merge_content"}
    return await _decide(ctx, form, True, merge_into=merge)


async def _replace(ctx: Context, form: Fields) -> Done:
    return await _decide(ctx, form, True, supersedes=[form.get("record", "")])


async def _withdraw(ctx: Context, form: Fields) -> Done:
    await dispatch(ctx, ops.WITHDRAW_PROPOSAL, {"id": form["id"]})
    return Done(
        said="Taken back. Nothing was written.",
        path="/review" if may_use(ctx.principal, ops.LIST_REVIEWS) else "/",
    )


async def _later(ctx: Context, form: Fields) -> Done:
    return Done(said="Left for later.", path=await _next(ctx, form))


# -- rules --------------------------------------------------------------------------------------------------------


async def _rules(ctx: Context, query: Fields) -> dict[str, Any]:
    answer: RulesResponse = await dispatch(ctx, ops.GET_RULES, {})
    suggested = (await dispatch(ctx, ops.SUGGESTED_RULES, {})).suggestions
    return {
        "rules": answer,
        "text": rules_text(answer.rules),
        "suggested": suggested,
        "can_set": may_use(ctx.principal, ops.SET_RULES),
        "conditions": conditions,
        "operations": get_args(RuleOperation),
        "found": _FOUND,
    }


def rules_text(rules: Sequence[Rule]) -> str:
    """Rules as a person edits them: JSON without what is not set."""
    plain = [rule.model_dump(mode="json", exclude_defaults=True) | {"id": rule.id} for rule in rules]
    return json.dumps(plain, ensure_ascii=False, indent=2)


_CONDITIONS: Mapping[str, str] = {
    "operations": "operation",
    "stores": "store",
    "shared": "into a shared store",
    "types": "type",
    "tags": "tag",
    "agents": "agent",
    "users": "user",
    "sources": "source",
    "principals": "written by",
    "content_any": "says",
    "content_regex": "text matches",
    "filter": "memory fits",
    "hard_delete": "erases for good",
    "count_above": "more memories than",
    "size_above": "more bytes than",
    "admin": "by an admin",
    "found": "text holds",
    "conflicts": "conflicts with a memory",
}
_FOUND: Mapping[str, str] = {
    "pii": "personal data",
    "instruction": "an instruction to the model",
    "secret": "a secret, masked by now",
}


def conditions(rule: Rule) -> list[tuple[str, str]]:
    """What a rule asks, in words."""
    given: Mapping[str, Any] = rule.when.model_dump(mode="json", exclude_none=True)
    return [(_CONDITIONS.get(name, name.replace("_", " ")), _asked(value)) for name, value in given.items()]


def _asked(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(_FOUND.get(str(one), str(one)) for one in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  JSON
        case _:
            return _text(value)


def _typed_rules(form: Fields) -> list[Any]:
    try:
        read: Any = json.loads(form.text("rules") or "[]")
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise invalid([Fault("/rules", "bad_json", f"a JSON list of rules{place}")]) from None
    if not isinstance(read, list):
        raise invalid([Fault("/rules", "bad_json", "a JSON list of rules")])
    return read  # pyright: ignore[reportUnknownVariableType]  the model checks it


async def _save_rules(ctx: Context, form: Fields) -> Done:
    request = {"rules": _typed_rules(form), "if_match": form.text("etag")}
    kept = await dispatch(ctx, ops.SET_RULES, request)
    return Done(said=f"Saved. {len(kept.rules)} rules of your own are in force.")


async def _add_rule(ctx: Context, form: Fields) -> Done:
    """One rule, behind those that there are."""
    patterns = ("agents", "sources", "principals", "content_any")
    when: dict[str, Any] = {name: words for name in patterns if (words := form.words(name))}
    when |= {name: [form[name]] for name in ("operations", "found") if form.text(name)}
    rule = {"id": form.get("rule_name", "").strip(), "when": when, **form.given("effect", "reason")}
    rules: RulesResponse = await dispatch(ctx, ops.GET_RULES, {})
    await dispatch(ctx, ops.SET_RULES, {"rules": [*rules.rules, rule], "if_match": form.text("etag")})
    return Done(said=f"Added. The rule {rule['id']} is in force now.")


async def _remove_rule(ctx: Context, form: Fields) -> Done:
    rules: RulesResponse = await dispatch(ctx, ops.GET_RULES, {})
    left = [one for one in rules.rules if one.id != form.get("rule")]
    await dispatch(ctx, ops.SET_RULES, {"rules": left, "if_match": form.text("etag")})
    return Done(said="Removed. It decides nothing any more.")


async def _test_rules(ctx: Context, form: Fields) -> Done:
    answer = await dispatch(ctx, ops.TEST_RULES, {"rules": _typed_rules(form), "last": 1000})
    return Done(
        once={
            "text": form.text("rules") or "[]",
            "replayed": _tested(answer.replayed),
            "pending": _tested(answer.pending),
        }
    )


def _tested(writes: Sequence[TestedWrite]) -> dict[str, Any]:
    """How many of each, and those that would be stopped."""
    counts = {effect: sum(one.effect == effect for one in writes) for effect in ("allow", "hold", "deny")}
    return {
        "counts": counts,
        "total": len(writes),
        "stopped": [one for one in writes if one.effect != "allow"][:50],
    }


async def _answer_rule(ctx: Context, form: Fields, *, accept: bool) -> Done:
    await dispatch(ctx, ops.ANSWER_SUGGESTED_RULE, {"id": form.get("rule", ""), "accept": accept})
    return Done(
        said="Added to your own rules. It is in force now." if accept else "It is not suggested again."
    )


# -- suggestions --------------------------------------------------------------------------------------------------

_KINDS = {
    "duplicate": "Duplicates",
    "contradiction": "Contradictions",
    "stale": "Not used",
}
_MENDS: Mapping[str, AnyOperation] = {"merge": MERGE, "forget": FORGET}


async def _suggestions(ctx: Context, query: Fields) -> dict[str, Any]:
    agents: Sequence[str] = ()
    if may_use(ctx.principal, LIST_AGENTS):
        agents = [one.agent_id for one in (await dispatch(ctx, LIST_AGENTS, {})).agents]
    agent = query.text("agent") or (agents[0] if agents else ctx.principal.default_agent)
    answer = None
    if agent is not None:
        request = {"agent_id": agent, "limit": 20, **query.given("kind", "cursor")}
        answer = await dispatch(ctx, ops.SUGGESTIONS, request)
    return {
        "agents": agents,
        "agent": agent,
        "kinds": _KINDS,
        "kind": query.text("kind"),
        "found": answer,
        "as_json": [json.dumps(one.request) for one in answer.suggestions] if answer else [],
        "can_mend": {
            "merge": ctx.principal.may(Permission.WRITE),
            "forget": ctx.principal.may(Permission.DELETE),
        },
    }


async def _propose(ctx: Context, form: Fields) -> Done:
    operation = _MENDS.get(form.get("operation", ""))
    try:
        request: Any = json.loads(form.get("request", ""))
    except (ValueError, RecursionError):
        request = None
    if operation is None or not isinstance(request, dict):
        raise invalid([Fault("/request", "bad_value", "a suggestion of this page")])
    answer = await dispatch(ctx, operation, request)  # pyright: ignore[reportUnknownArgumentType]  the model checks it
    if answer.proposal_id is None:
        raise NotFoundError("What was suggested does not fit any more.", reason="record")
    return Done(
        said="Proposed. It waits for a decision.", path=f"/review/{quote(answer.proposal_id, safe='')}"
    )


# -- webhooks, on the page of access ---------------------------------------------------------------------------------

_EVENTS: Mapping[str, str] = {
    "proposal.held": "a write is held",
    "proposal.approved": "it is approved",
    "proposal.rejected": "it is rejected",
}


async def _create(ctx: Context, form: Fields) -> Done:
    request: dict[str, Any] = {
        "url": form.get("url", "").strip(),
        "events": form.texts("events"),
        "with_content": form.is_ticked("with_content"),
    }
    if form.words("hook_agents"):
        request["agents"] = form.words("hook_agents")
    made = await dispatch(ctx, ops.CREATE_WEBHOOK, request)
    return Done(once={"webhook": made.webhook, "key": made.key})


async def _delete(ctx: Context, form: Fields) -> Done:
    await dispatch(ctx, ops.DELETE_WEBHOOK, {"id": form.get("webhook_id", "")})
    return Done(said="That address is told nothing more.")


async def _test(ctx: Context, form: Fields) -> Done:
    tested = await dispatch(ctx, ops.TEST_WEBHOOK, {"id": form.get("webhook_id", "")})
    return Done(said=f"It arrived, and was answered with {tested.status}.")


class WebhookPart:
    """A part of the page of access."""

    async def load(self, ctx: Context, query: Fields) -> dict[str, Any]:
        """`webhooks` is None where the visitor may not see them."""
        webhooks = None
        if may_use(ctx.principal, ops.LIST_WEBHOOKS):
            webhooks = (await dispatch(ctx, ops.LIST_WEBHOOKS, {})).webhooks
        return {"webhooks": webhooks, "webhook_events": _EVENTS}

    @property
    def actions(self) -> Mapping[str, Action]:
        return {"add_webhook": _create, "delete_webhook": _delete, "test_webhook": _test}


# -- the pages ----------------------------------------------------------------------------------------------------

PAGES: tuple[Page, ...] = (
    Page(
        path="/review",
        group="review",
        title="Waiting",
        template="reviews.html",
        load=_reviews,
        actions={
            "approve": partial(_decide_many, approved=True),
            "reject": partial(_decide_many, approved=False),
        },
        needs=ops.LIST_REVIEWS,
    ),
    Page(
        path="/review/{id}",
        group="review",
        title="Held write",
        template="review.html",
        load=_review,
        actions={
            "approve": partial(_decide, approved=True),
            "reject": partial(_decide, approved=False),
            "edit": _approve_edited,
            "merge": _merge_into,
            "replace": _replace,
            "withdraw": _withdraw,
            "later": _later,
        },
        parent="/review",
    ),
    Page(
        path="/rules",
        group="review",
        title="Rules",
        template="rules.html",
        load=_rules,
        actions={
            **{"add": _add_rule, "remove": _remove_rule, "save": _save_rules, "test": _test_rules},
            "accept": partial(_answer_rule, accept=True),
            "dismiss": partial(_answer_rule, accept=False),
        },
        needs=ops.GET_RULES,
    ),
    Page(
        path="/suggestions",
        group="review",
        title="Suggestions",
        template="suggestions.html",
        load=_suggestions,
        actions={"propose": _propose},
        needs=ops.SUGGESTIONS,
    ),
)
