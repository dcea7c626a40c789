"""OpenWOP's addresses: each translates and calls `dispatch`. Streams are made in `streams.py`."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from quipu.errors import Fault, ForbiddenError, InternalError, NotFoundError, QuipuError, UnsupportedError
from quipu.http.authentication import Authentication
from quipu.http.exchange import exchange_of
from quipu.http.limits import allowance_of
from quipu.http.problems import problem_response, status_of, wrong_method
from quipu.http.read import json_body
from quipu.http.streams import Pieces
from quipu.model.principal import Permission
from quipu.operation import Context, Operation, RequestT, Response, ResponseT, dispatch, invalid
from quipu.runs import operations as ops
from quipu.runs import streams, wire
from quipu.runs.conformance import FixturePlayer
from quipu.runs.messages import RunView
from quipu.runs.rules import RunOverError
from quipu.schemas import from_texts

Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
Endpoint: TypeAlias = tuple[str, str, ASGIApp]
_A_MINUTE = "public, max-age=60"
#: A poll waits no longer.
_LONGEST_POLL_S = 25
_FORK = ":fork"
_STREAM = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_OPENED = ("workflowId", "inputs", "configurable", "metadata", "tags", "agent")
_RUNS, _RUN = "/v1/runs", "/v1/runs/{run_id}"
_OWN, _OWN_RUN = "/v1/x-host-quipu-runs", "/v1/x-host-quipu-runs/{run_id}"
_MEMORY = "/v1/x-host-quipu-memory"
DISCOVERY = "/.well-known/openwop"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWopRoutes:
    """Everything that OpenWOP prescribes, and what hosts may add under `x-host-quipu`."""

    authentication: Authentication
    follower: streams.RunFollower
    player: FixturePlayer

    @property
    def endpoints(self) -> list[Endpoint]:
        """Method, path and application of each."""
        return [(method, path, _app(handler)) for method, path, _, handler in self._addresses()]

    @property
    def described(self) -> dict[str, Any]:
        """The addresses for the OpenAPI document."""
        paths: dict[str, dict[str, Any]] = {}
        for method, path, said, _ in self._addresses():
            paths.setdefault(path, {})[method.lower()] = _described(method, path, said)
        return paths

    def _addresses(self) -> list[tuple[str, str, str, Handler]]:
        return [
            ("GET", DISCOVERY, "Say what this OpenWOP host can do.", self._discovery),
            ("POST", _RUNS, "Open a run of a workflow of this server.", self._open),
            ("GET", _RUN, "Show a run and its variables.", self._show),
            ("POST", _RUN, "Fork a run: its id, and `:fork` behind it.", self._fork),
            ("POST", f"{_RUN}/cancel", "Cancel a run.", self._cancel),
            ("GET", f"{_RUN}/events", "The log of a run, as JSON or as an event stream.", self._events),
            ("GET", f"{_RUN}/events/poll", "The log behind a number; waits for news.", self._poll),
            ("GET", "/v1/workflows/{workflow_id}", "Show a workflow of this server.", self._workflow),
            ("POST", _OWN, "Open a run that you carry out yourself.", self._open_own),
            ("GET", _OWN, "List runs, the newest first.", self._list),
            ("POST", f"{_OWN_RUN}/nodes", "Record what became of a node.", self._node),
            ("POST", f"{_OWN_RUN}/end", "End a run that you carry out.", self._end),
            ("GET", f"{_OWN_RUN}/notes/{{backend}}", "The notes of a run.", self._notes),
            ("POST", f"{_OWN_RUN}/notes/{{backend}}", "Add a note.", self._add_note),
            ("DELETE", f"{_OWN_RUN}/notes/{{backend}}", "Clear the notes.", self._clear_notes),
            ("POST", f"{_MEMORY}/list", "List entries of a memory.", self._list_entries),
            ("POST", f"{_MEMORY}/get", "Read an entry.", self._get_entry),
            ("POST", f"{_MEMORY}/put", "Write an entry.", self._put_entry),
            ("POST", f"{_MEMORY}/delete", "Delete an entry.", self._delete_entry),
            ("POST", f"{_MEMORY}/refs", "Give out a memoryRef for an agent and a store.", self._mint),
        ]

    # -- discovery ----------------------------------------------------------------------------------------------------

    async def _discovery(self, http: HttpRequest) -> HttpResponse:
        body = _dumped(wire.discovery_document(list(self.player.workflows)))
        headers = {"Cache-Control": _A_MINUTE, "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'}
        known = {tag.strip().removeprefix("W/") for tag in http.headers.get("if-none-match", "").split(",")}
        if known & {headers["ETag"], "*"}:
            return HttpResponse(status_code=304, headers=headers)
        return HttpResponse(body, headers=headers, media_type="application/json")

    async def _workflow(self, http: HttpRequest) -> HttpResponse:
        return _answer((await self._done(http, ops.GET_WORKFLOW, http.path_params)).workflow)

    # -- runs ---------------------------------------------------------------------------------------------------------

    async def _open(self, http: HttpRequest) -> HttpResponse:
        """Only what this server carries out: a run of somebody else's workflow is opened at `x-host-quipu-runs`."""
        ctx, body = await self._read(http)
        if body.get("callbackUrl") is not None:
            raise UnsupportedError("Nobody is called back here.", reason="callback_url")
        name = body.get("workflowId")
        if isinstance(name, str) and name not in self.player.workflows:
            raise NotFoundError("There is no such workflow.", reason="workflow")
        return await self._opened(http, ctx, body, {})

    async def _open_own(self, http: HttpRequest) -> HttpResponse:
        ctx, body = await self._read(http)
        return await self._opened(http, ctx, body, wire.asked(body, "agentId", "userId"))

    async def _opened(
        self, http: HttpRequest, ctx: Context, body: Mapping[str, Any], given: dict[str, Any]
    ) -> HttpResponse:
        if not isinstance(body.get("scopeId", ""), str):
            raise invalid([Fault("/scopeId", "bad_value", "a text")])
        given |= wire.asked(body, *_OPENED)
        agent: Any = given.get("described_agent")
        if isinstance(agent, dict) and "agent_id" in agent:
            given = {"agent_id": agent["agent_id"], **given}
        run = await self._done(http, ops.OPEN_RUN, given, ctx)
        return _answer(wire.opened_body(run), 201, _again(run))

    async def _show(self, http: HttpRequest) -> HttpResponse:
        ctx = await self.authentication(http)
        return _answer(wire.run_body(await self._run(http, ctx), ctx.tenant))

    async def _run(self, http: HttpRequest, ctx: Context) -> RunView:
        return await self._done(http, ops.GET_RUN, http.path_params, ctx)

    async def _list(self, http: HttpRequest) -> HttpResponse:
        ctx = await self.authentication(http)
        texts = {wire.snake(name): http.query_params.getlist(name) for name in http.query_params}
        found = await self._done(http, ops.LIST_RUNS, from_texts(ops.LIST_RUNS.request, texts), ctx)
        runs = [wire.run_body(run, ctx.tenant) for run in found.runs]
        return _answer({"runs": runs, "nextCursor": found.next_cursor})

    async def _cancel(self, http: HttpRequest) -> HttpResponse:
        return _state(await self._posted(http, ops.CANCEL_RUN))

    async def _node(self, http: HttpRequest) -> HttpResponse:
        return _state(await self._posted(http, ops.RECORD_NODE, "nodeId", "status", "error", "variables"))

    async def _end(self, http: HttpRequest) -> HttpResponse:
        return _state(await self._posted(http, ops.END_RUN, "status", "error", "variables"))

    async def _fork(self, http: HttpRequest) -> HttpResponse:
        named: str = http.path_params["run_id"]
        if not named.endswith(_FORK):
            raise wrong_method("GET, HEAD")
        ctx, body = await self._read(http)
        given = wire.asked(body, "mode", "fromSeq", "runOptionsOverlay")
        if "mode" not in given:
            raise invalid([Fault("/mode", "missing_field", "replay or branch")])
        source = named.removesuffix(_FORK)
        http.state.fork = {"fromSeq": given.get("from_seq", 0), "sourceRunId": source}
        made = await self._done(http, ops.FORK_RUN, given | {"run_id": source}, ctx)
        fork = {"sourceRunId": made.source_run_id, "fromSeq": made.from_seq, "mode": made.mode}
        return _answer(wire.opened_body(made.run, fork), 201, _again(made))

    # -- notes --------------------------------------------------------------------------------------------------------

    async def _notes(self, http: HttpRequest) -> HttpResponse:
        found = await self._done(http, ops.RUN_NOTES, http.path_params)
        return _answer({"notes": [{"id": note.id, "text": note.text} for note in found.notes]})

    async def _add_note(self, http: HttpRequest) -> HttpResponse:
        done = await self._posted(http, ops.RUN_NOTES, "content", action="add")
        return _answer({"added": True}, 201, _again(done))

    async def _clear_notes(self, http: HttpRequest) -> HttpResponse:
        done = await self._done(http, ops.RUN_NOTES, {**http.path_params, "action": "clear"})
        return _answer({"cleared": True}, 200, _again(done))

    # -- the log ------------------------------------------------------------------------------------------------------

    async def _events(self, http: HttpRequest) -> HttpResponse:
        """What is wrong is said before it is looked whether JSON or a stream is wanted."""
        mode = streams.mode_of(http.query_params.get("streamMode"))
        buffer_ms = _number(http, "bufferMs", 0, streams.MOST_BUFFER_MS)
        resumed = http.headers.get("last-event-id")
        after = -1 if resumed is None else _whole(resumed, "/Last-Event-ID", 0)
        ctx, run_id = await self.authentication(http), http.path_params["run_id"]
        given = {"run_id": run_id, "after": after}
        page = await self._done(http, ops.LIST_RUN_EVENTS, given, ctx)
        if "text/event-stream" not in http.headers.get("accept", ""):
            if mode.is_values:
                last = page.events[-1].sequence if page.events else max(after, 0)
                shown = [streams.snapshot_event(await self._run(http, ctx), ctx.tenant, last)]
                return _answer({"events": shown, "isComplete": page.is_complete})
            events, is_complete = await self._all(http, ctx, page, after)
            bodies = [wire.event_body(run_id, event) for event in mode.shown(events)]
            return _answer({"events": bodies, "isComplete": is_complete})

        async def shown_run(ctx: Context) -> RunView:
            return await dispatch(ctx, ops.GET_RUN, {"run_id": run_id})

        first = b""
        if mode.is_values and resumed is not None:
            body = wire.run_body(await shown_run(ctx), ctx.tenant)
            first = streams.frame(after, "state.snapshot", body)
        news = self.follower.follow(
            run_id, after, lambda: self.authentication(http), gather_s=buffer_ms / 1000
        )
        made = streams.frames(news, run_id, mode, shown_run, first=first, is_batched=buffer_ms > 0)
        return Pieces(made, "text/event-stream", _STREAM)

    async def _all(self, http: HttpRequest, ctx: Context, page: Any, after: int) -> tuple[list[Any], bool]:
        """Everything behind a number that is there by now."""
        events = list(page.events)
        while page.events and not page.is_complete and len(page.events) == streams.PAGE:
            given = {"run_id": http.path_params["run_id"], "after": events[-1].sequence}
            page = await dispatch(ctx, ops.LIST_RUN_EVENTS, given)
            events += page.events
        return events, page.is_complete

    async def _poll(self, http: HttpRequest) -> HttpResponse:
        after = _number(http, "lastSequence", -1, default=-1)
        patience = min(_number(http, "timeout", 0), _LONGEST_POLL_S)
        ctx, run_id = await self.authentication(http), http.path_params["run_id"]
        given = {"run_id": run_id, "after": after}
        page = await self._done(http, ops.LIST_RUN_EVENTS, given, ctx)
        if patience and not page.events and not page.is_complete:
            allowance = allowance_of(http.scope)
            if allowance is not None:
                allowance.prolong(patience)
            await self.follower.news(ctx.tenant, run_id, after, patience)
            ctx = await self.authentication(http)
            page = await self._done(http, ops.LIST_RUN_EVENTS, given, ctx)
        events, is_complete = await self._all(http, ctx, page, after)
        bodies = [wire.event_body(run_id, event) for event in events]
        return _answer({"events": bodies, "isComplete": is_complete})

    # -- entries ------------------------------------------------------------------------------------------------------

    async def _list_entries(self, http: HttpRequest) -> HttpResponse:
        names = ("memoryRef", "options", "cursor", "runId")
        found = await self._posted(http, ops.LIST_ENTRIES, *names, is_closed=True)
        more = {} if found.next_cursor is None else {"nextCursor": found.next_cursor}
        return _answer({"entries": [wire.entry_body(entry) for entry in found.entries], **more})

    async def _get_entry(self, http: HttpRequest) -> HttpResponse:
        found = await self._posted(http, ops.GET_ENTRY, "memoryRef", "id", "runId", is_closed=True)
        return _answer(_entry(found))

    async def _put_entry(self, http: HttpRequest) -> HttpResponse:
        names = ("memoryRef", "entry", "runId", "nodeId")
        done = await self._posted(http, ops.PUT_ENTRY, *names, is_closed=True)
        return _answer(_entry(done) | _held(done), 202 if done.is_held else 201, _again(done))

    async def _delete_entry(self, http: HttpRequest) -> HttpResponse:
        names = ("memoryRef", "id", "runId", "nodeId")
        done = await self._posted(http, ops.DELETE_ENTRY, *names, is_closed=True)
        return _answer({"deleted": done.deleted, **_held(done)}, 202 if done.is_held else 200, _again(done))

    async def _mint(self, http: HttpRequest) -> HttpResponse:
        done = await self._posted(http, ops.MINT_MEMORY_REF, "agentId", "store", is_closed=True)
        return _answer({"memoryRef": done.memory_ref}, 201, _again(done))

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _read(self, http: HttpRequest, *known: str) -> tuple[Context, dict[str, Any]]:
        """Who asks, and the body. Where `known` names the members, no other is passed over."""
        ctx = await self.authentication(http)
        body = await json_body(http, is_required=False)
        tenant = body.get("tenantId")
        # The published suite names tenants that nobody has. The credential decides in any case.
        if tenant is not None and tenant != ctx.tenant and not self.player.workflows:
            raise ForbiddenError("The credential belongs to another tenant.", reason="tenant")
        if known:
            wire.closed(body, (*known, "tenantId"), "")
        return ctx, body

    async def _posted(
        self,
        http: HttpRequest,
        operation: Operation[RequestT, ResponseT],
        *names: str,
        is_closed: bool = False,
        **more: Any,
    ) -> ResponseT:
        """Carry out what a body asks for in these members; with `is_closed` it may have no others."""
        ctx, body = await self._read(http, *(names if is_closed else ()))
        given = {**http.path_params, **wire.asked(body, *names), **more}
        return await self._done(http, operation, given, ctx)

    async def _done(
        self,
        http: HttpRequest,
        operation: Operation[RequestT, ResponseT],
        given: Mapping[str, Any],
        ctx: Context | None = None,
    ) -> ResponseT:
        http.state.openwop_needs = operation.permission
        key = http.headers.get("idempotency-key")
        if key is not None and http.method != "GET" and "idempotency_key" in operation.request.model_fields:
            given = {**given, "idempotency_key": key}
        return await dispatch(ctx or await self.authentication(http), operation, given)


def _app(handler: Handler) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        answer = await handler(HttpRequest(scope, receive))
        await answer(scope, receive, send)

    return app


def _number(http: HttpRequest, name: str, least: int, most: int = 2**53 - 1, default: int = 0) -> int:
    given = http.query_params.get(name)
    return default if given is None else _whole(given, f"/{name}", least, most)


def _whole(given: str, pointer: str, least: int, most: int = 2**53 - 1) -> int:
    digits = given.removeprefix("-")
    value = int(given) if digits.isascii() and digits.isdigit() and len(digits) <= 16 else least - 1
    if not least <= value <= most:
        accepted = f"a whole number from {least}" + ("" if most == 2**53 - 1 else f" to {most}")
        raise invalid([Fault(pointer, "bad_value", accepted)])
    return value


# -- answering --------------------------------------------------------------------------------------------------------


def _dumped(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode("ascii")


def _answer(body: object, status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    return HttpResponse(_dumped(body), status, headers, media_type="application/json")


def _state(run: RunView) -> HttpResponse:
    return _answer({"runId": run.id, "status": run.status}, 200, _again(run))


def _again(response: Response) -> dict[str, str]:
    """That an answer was given before."""
    return {"openwop-Idempotent-Replay": "true"} if getattr(response, "replayed", False) else {}


def _entry(done: Any) -> dict[str, Any]:
    return {"entry": None if done.entry is None else wire.entry_body(done.entry)}


def _held(done: Any) -> dict[str, Any]:
    held = done.held
    if held is None:
        return {}
    return {"held": {"proposalId": held.proposal_id, "approvalUrl": held.approval_url}}


def _described(method: str, path: str, said: str) -> dict[str, Any]:
    """An address in OpenAPI's form."""
    names = [part.partition("}")[0] for part in path.split("{")[1:]]
    words = "".join(letter if letter.isalnum() else "_" for letter in path).strip("_")
    json_media = {"application/json": {"schema": {"type": "object"}}}
    item: dict[str, Any] = {
        "operationId": f"openwop_{method.lower()}_{words}",
        "tags": ["openwop"],
        "summary": said,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ],
        "responses": {
            "2XX": {"description": "Done, or held for a person.", "content": json_media},
            "default": {
                "description": "Refused.",
                "content": {"application/json": {"schema": _ENVELOPE}},
            },
        },
    }
    if method == "POST":
        item["requestBody"] = {"content": json_media}
    return item if path != DISCOVERY else item | {"security": []}


_ENVELOPE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["error", "message"],
    "properties": {
        "error": {"type": "string"},
        "message": {"type": "string"},
        "details": {"type": "object"},
    },
}


# -- errors: exactly `error`, `message` and perhaps `details` ---------------------------------------------------------

#: Our codes as OpenWOP has them; what is missing is `internal_error`.
CODES: Mapping[str, str] = {
    "validation_error": "validation_error",
    "secret_leakage": "secret_leakage",
    "unauthenticated": "unauthenticated",
    "forbidden": "forbidden",
    "approval_rejected": "forbidden",
    "not_found": "not_found",
    "conflict": "validation_error",
    "rate_limited": "rate_limited",
    "quota_exceeded": "rate_limited",
    "unsupported": "capability_not_provided",
}
#: Where the reason says which code it is.
_BY_REASON: Mapping[str, tuple[str, int]] = {
    "idempotency_key_mismatch": ("idempotency_key_mismatch", 409),
    "run_already_active": ("run_already_active", 409),
    "unsupported_stream_mode": ("unsupported_stream_mode", 400),
    "invalid_from_seq": ("invalid_from_seq", 422),
    "retention_expired": ("replay_memory_snapshot_unavailable", 422),
    "event_log_unavailable": ("replay_memory_snapshot_unavailable", 422),
    "credential_unavailable": ("credential_unavailable", 422),
    "expired_token": ("key_expired", 401),
    "revoked_token": ("key_revoked", 401),
    "too_large": ("validation_error", 400),
    "bad_content_type": ("validation_error", 400),
    "callback_url": ("capability_not_provided", 400),
}
_SCOPES = {Permission.READ: "runs:read", Permission.WRITE: "runs:create", Permission.DELETE: "runs:create"}
_PLACES = ("/v1/runs/", "/v1/workflows/", "/v1/x-host-quipu-", "/.well-known/openwop")


def openwop_refusal(scope: Scope, error: QuipuError) -> HttpResponse | None:
    """The answer to whoever asked at one of OpenWOP's addresses; None for all others."""
    path: str = scope["path"]
    if path != "/v1/runs" and not path.startswith(_PLACES):
        return None
    problem = problem_response(error, exchange_of(scope).request_id)
    names = ("retry-after", "allow", "www-authenticate")
    headers = {name: problem.headers[name] for name in names if name in problem.headers}
    code = CODES.get(error.code, InternalError.code)
    code, status = _BY_REASON.get(error.reason or "", (code, status_of(error)))
    is_ours = code == InternalError.code
    body: dict[str, Any] = {"error": code, "message": InternalError().message if is_ours else error.message}
    if details := _details(scope, error, code):
        body["details"] = details
    return _answer(body, status, headers)


def _details(scope: Scope, error: QuipuError, code: str) -> dict[str, Any]:
    if code == InternalError.code:
        return {"correlationId": exchange_of(scope).request_id}
    if code == "unsupported_stream_mode":
        return {"supported": list(streams.MODES)}
    if code == "replay_memory_snapshot_unavailable":
        return {**scope["state"].get("fork", {}), "reason": error.reason}
    if isinstance(error, RunOverError):
        return {"status": error.status}
    if error.reason == "permission":
        return {"scopeRequired": _SCOPES.get(scope["state"].get("openwop_needs"), "runs:read")}
    if error.faults and code in ("validation_error", "secret_leakage", "invalid_from_seq"):
        return {
            "faults": [
                {"pointer": fault.pointer, "reason": fault.reason, "accepted": fault.accepted}
                for fault in wire.in_wire_words(error.faults)
            ]
        }
    return {}
