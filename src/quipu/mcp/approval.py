"""Approval in place: the person at the client is asked, where there is one who may decide.

Nothing is staged before the answer. The question shows what would change; the client keeps a digest of that, sealed, and
on the answer it is made again: where it differs, the person is asked again. The write is then held like any other, and
the decision names the entity tag of the diff that was shown, so that it counts for nothing else.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mcp import types as t
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from quipu.errors import ConflictError, QuipuError
from quipu.governance.decision_wait import DecisionWait
from quipu.governance.model import DecideRequest, Diff, Modified, Piece, PreviewWriteResponse
from quipu.governance.operations import PREVIEW_WRITE
from quipu.governance.review import Reviews
from quipu.mcp.caller import Caller
from quipu.memory.model import WriteResponse
from quipu.model.principal import Permission, Principal
from quipu.operation import AnyOperation, Response, dispatch
from quipu.secrets.sealing import Sealing

#: How the question is called in a request that has to be answered first.
_NAME = "approval"
_FORM: t.ElicitRequestedSchema = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "description": "Let it be carried out."},
        "reason": {"type": "string", "description": "Why; kept in the journal."},
    },
    "required": ["approve"],
}
#: So often a person is asked again because what they were shown has changed.
_MOST_TURNS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a person is shown."""

    text: str
    #: Of the write and what it would change.
    digest: str
    etag: str

    @property
    def form(self) -> t.ElicitRequestFormParams:
        return t.ElicitRequestFormParams(message=self.text, requested_schema=_FORM)

    @property
    def state(self) -> str:
        return json.dumps([self.digest, self.etag])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What they said, and of what."""

    says: Literal["yes", "no", "later"]
    reason: str | None
    etag: str


_Turn: TypeAlias = "_Answer | t.InputRequiredResult | None"


@dataclass(frozen=True, slots=True)
class Approval:
    """Carries writes out, and asks where one would be held."""

    sealing: Sealing
    reviews: Reviews
    waits: DecisionWait

    async def decided(
        self,
        caller: Caller,
        operation: AnyOperation,
        given: Mapping[str, Any],
        request: ServerRequestContext[Any, Any],
        params: t.CallToolRequestParams,
    ) -> Response | t.InputRequiredResult:
        """The answer of a write, or a question that has to be answered first."""
        turn: _Turn = None
        if _may_be_asked(caller, operation) and _can_be_asked(request):
            turn = await self._turn(caller, operation, given, request, params)
        if isinstance(turn, t.InputRequiredResult):
            return turn
        if turn is None or turn.says == "later":
            return await dispatch(caller.ctx(), operation, given)
        # A no stops the write even if nothing else would hold it by now.
        sure = given if turn.says == "yes" else {**given, "approval_required": True}
        held = await dispatch(caller.ctx(), operation, sure)
        return await self._carried_out(caller, held, turn)

    async def _turn(
        self,
        caller: Caller,
        operation: AnyOperation,
        given: Mapping[str, Any],
        request: ServerRequestContext[Any, Any],
        params: t.CallToolRequestParams,
    ) -> _Turn:
        """What a person says of it; a question, or nothing where nobody is asked."""
        asked = await self._asked(caller, operation, given)
        if asked is None:
            return None
        if request.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self._over_session(caller, operation, given, request, asked)
        answered = (params.input_responses or {}).get(_NAME)
        shown = _read(params.request_state)
        if isinstance(answered, t.ElicitResult) and shown is not None and shown[0] == asked.digest:
            return _answer(answered, shown[1])
        await self.sealing.ready(caller.principal.tenant)
        return t.InputRequiredResult(
            input_requests={_NAME: t.ElicitRequest(params=asked.form)}, request_state=asked.state
        )

    async def _over_session(
        self,
        caller: Caller,
        operation: AnyOperation,
        given: Mapping[str, Any],
        request: ServerRequestContext[Any, Any],
        asked: _Asked,
    ) -> _Answer | None:
        """The older generation is asked while its call waits."""
        for _ in range(_MOST_TURNS):
            try:
                answered = await request.session.elicit_form(asked.text, _FORM, request.request_id)
            except MCPError:  # the client cannot show it after all
                return None
            again = await self._asked(caller, operation, given)
            if again is None:
                return None
            if again.digest == asked.digest:
                return _answer(answered, asked.etag)
            asked = again
        return None

    async def _asked(
        self, caller: Caller, operation: AnyOperation, given: Mapping[str, Any]
    ) -> _Asked | None:
        """What would be held and can be shown as a whole; None where nobody need or can be asked."""
        try:
            preview = await dispatch(
                caller.ctx(), PREVIEW_WRITE, {"operation": operation.name, "request": dict(given)}
            )
        except QuipuError:  # answered, and journaled, by the write itself, which meets it again
            return None
        if not preview.would_hold or preview.approvals > 1:
            return None
        text = question(operation.name, caller.principal, given, preview)
        if text is None:
            return None
        return _Asked(text=text, digest=_digest(operation, given, preview), etag=preview.etag)

    async def _carried_out(self, caller: Caller, held: Response, turn: _Answer) -> Response:
        """What becomes of the held write. A no is an error."""
        if not isinstance(held, WriteResponse) or held.proposal_id is None:
            return held
        if not held.replayed:
            said = DecideRequest(
                id=held.proposal_id, approved=turn.says == "yes", reason=turn.reason, etag=turn.etag
            )
            try:
                await self.reviews.decide_in_place(caller.ctx(), said)
            except ConflictError:  # it has just changed: somebody looks at it again, in the queue
                return held
        return await self.waits.decided(caller.ctx(), held, 0)


def _may_be_asked(caller: Caller, operation: AnyOperation) -> bool:
    """Whether this person's yes is a decision."""
    principal = caller.principal
    return principal.may(Permission.REVIEW) and principal.reviews_operation(operation.name)


def _can_be_asked(request: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client has said that it shows forms, and can be reached. Asking another would fail the call."""
    capabilities = request.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return False
    return request.protocol_version in MODERN_PROTOCOL_VERSIONS or request.session.can_send_request


def _digest(operation: AnyOperation, given: Mapping[str, Any], preview: PreviewWriteResponse) -> str:
    """Of the write and its diff. A memory that is not there yet has another id each time."""
    diff = preview.diff.to_dict()
    diff["added"] = [{name: value for name, value in one.items() if name != "id"} for one in diff["added"]]
    text = json.dumps([operation.name, given, diff], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _read(state: str | None) -> tuple[str, str] | None:
    """Digest and etag of what was shown; it was sealed, so it is what was sent."""
    if state is None:
        return None
    digest, etag = json.loads(state)
    return digest, etag


def _answer(answered: t.ElicitResult, etag: str) -> _Answer:
    content = answered.content or {}
    reason = content.get("reason")
    said = reason if isinstance(reason, str) and reason else None
    if answered.action == "cancel":
        return _Answer(says="later", reason=None, etag=etag)
    is_yes = answered.action == "accept" and content.get("approve") is True
    return _Answer(says="yes" if is_yes else "no", reason=said, etag=etag)


# -- the question ------------------------------------------------------------------------------------------------------

#: A longer question is not asked: text is never cut and then approved.
LONGEST = 2000
_PIECES = {"same": "{}", "skipped": "{}", "new": "[+{}+]", "gone": "[-{}-]"}
#: Said in the first line, or the same for all.
_SAID = frozenset({"id", "type", "content", "agent_id", "store_id", "state"})


def question(
    operation: str, principal: Principal, given: Mapping[str, Any], preview: PreviewWriteResponse
) -> str | None:
    """What a person is asked: all that would change, in words. None where that is too much to show."""
    if preview.diff.counts:
        return None
    agent = given.get("agent_id") or principal.default_agent
    about = [f"{operation.capitalize()} for agent {agent}"]
    about += [f"{name} {given[name]}" for name in ("user_id", "store", "id", "canonical") if given.get(name)]
    if given.get("hard_delete"):
        about.append("erased for good")
    lines = [f"{', '.join(about)}?", *_lines(preview.diff)]
    if preview.because:
        lines.append(f"Why you are asked: {preview.because}")
    text = "\n".join(lines)
    return text if len(text) <= LONGEST else None


def _lines(diff: Diff) -> Iterator[str]:
    for one in diff.added:
        yield f"+ ({one.get('type')}) {_text(one.get('content'))}{_rest(one)}"
    for one in diff.modified:
        yield from _changed(one)
    for one in diff.removed:
        first = _text(one.get("content")).partition("\n")[0]
        yield f"- [{one.get('id')}] {first}"
    for one in diff.stays:
        yield f"= [{one.get('id')}] {_text(one.get('content'))}"


def _changed(one: Modified) -> Iterator[str]:
    if "content" in one.after:
        yield f"~ [{one.id}] {_compared(one)}"
    else:
        yield f"~ [{one.id}]"
    for name in one.after:
        if name != "content":
            yield f"  {name}: {_text(one.before.get(name))} → {_text(one.after[name])}"


def _compared(one: Modified) -> str:
    """Word by word; both texts where they are too long for that."""
    if one.words is not None:
        return _joined(one.words)
    return f"[-{_text(one.before.get('content'))}-] [+{_text(one.after['content'])}+]"


def _joined(pieces: Sequence[Piece]) -> str:
    return "".join(_PIECES[piece.kind].format(piece.text) for piece in pieces)


def _rest(record: Mapping[str, Any]) -> str:
    more = {name: value for name, value in record.items() if name not in _SAID}
    return f" {_text(more)}" if more else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
