"""`POST /oap/invoke`: the actions of the manifest, through the very handlers that the routes have (contract 5.7).

An envelope is turned into the request that the action's own route would have got: the same credential, the same proof, the
same checks. Nothing is decided here but who signed the envelope, and that it is fresh.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from quipu.errors import InvalidError, NotFoundError
from quipu.faces.oap.admitting import check_scope
from quipu.faces.oap.answering import enveloped
from quipu.faces.oap.asking import body, principal
from quipu.faces.oap.discovery import Discovery
from quipu.faces.oap.grants import Grants
from quipu.faces.oap.headers import Handler
from quipu.faces.oap.memory import Memory
from quipu.faces.oap.moves import Moving, text
from quipu.rules import grants_invocations
from quipu.rules.grants_invocations import Invocation
from quipu.service.sharing import Sharing

#: Headers that speak of the envelope, not of what is in it.
_OUTER = (b"oap-signature", b"oap-request-id", b"oap-idempotency-key", b"content-length", b"content-type")
_FIELDS = frozenset({"agent_id", "foreign_owner", "format", "store"})
Action = Callable[[Request, Invocation], Awaitable[Response]]


class Invoking:
    """One door to all actions."""

    def __init__(
        self, sharing: Sharing, discovery: Discovery, grants: Grants, memory: Memory, moving: Moving
    ) -> None:
        self._sharing, self._discovery = sharing, discovery
        self._grants, self._memory, self._moving = grants, memory, moving
        self._actions: Mapping[str, Action] = {
            "memory_query": _plainly(memory.query),
            "memory_grant_create": _plainly(grants.create),
            "memory_grant_revoke": self._revoke,
            "memory_vector_read": self._vector,
            "memory_export": _plainly(moving.export),
            "memory_import": self._import,
            "memory_delete": _plainly(memory.delete),
        }

    async def invoke(self, request: Request) -> Response:
        """What the host is may be asked by anybody; everything else takes an envelope and a credential."""
        asked = await body(request)
        name = asked.get("action")
        if name == "describe_service":
            return await self._discovery.described(request)
        action = self._actions.get(name) if isinstance(name, str) else None
        if action is None:
            raise NotFoundError("There is no such action here.", reason="action")
        check_scope(request, str(name))
        invocation = grants_invocations.parsed(asked)
        await self._sharing.invocations.check(asked, invocation, principal(request))
        request.state.oap_named, request.state.oap_action = invocation, invocation.action
        request.state.oap_request_id = invocation.request_id
        return await action(request, invocation)

    async def _revoke(self, request: Request, asked: Invocation) -> Response:
        return await self._grants.revoke(_inner(request, asked, {}, id=_named(asked, "grant_id")))

    async def _vector(self, request: Request, asked: Invocation) -> Response:
        shown = {"shown": str(asked.input["shown"])} if "shown" in asked.input else {}
        item_id = _named(asked, "item_id", *shown)
        found = await self._memory.vector(_inner(request, asked, {}, urlencode(shown), id=item_id))
        vector = base64.b64encode(bytes(found.body)).decode("ascii")
        told = {"item_id": item_id, "dtype": "f32le", "vector": vector}
        return enveloped(request, self._sharing, {**told, "content_digest": found.headers["content-digest"]})

    async def _import(self, request: Request, asked: Invocation) -> Response:
        """A file is tried; what was tried is carried out or undone by its id."""
        if "import_id" in asked.input:
            rest = {name: part for name, part in asked.input.items() if name not in ("import_id", "step")}
            inner = _inner(request, asked, rest, id=str(asked.input["import_id"]))
            match asked.input.get("step"):
                case "commit" if not rest:
                    return await self._moving.commit(inner)
                case "rollback":
                    return await self._moving.roll_back(inner)
                case _:
                    accepted = ["commit", "rollback"]
                    raise InvalidError.at(
                        "/input/step", "bad_value", "There is no such step.", accepted=accepted
                    )
        fields = {name: text(part) for name, part in asked.input.items() if name != "file"}
        if unknown := sorted(fields.keys() - _FIELDS):
            raise InvalidError.at(
                f"/input/{unknown[0][:64]}", "unknown_member", "An import has no such member."
            )
        try:
            file = base64.b64decode(str(asked.input.get("file", "")), validate=True)
        except (ValueError, binascii.Error):
            file = b""
        if not file:
            raise InvalidError.at("/input/file", "required", "Send a file, in base64.")
        return await self._moving.tried(_inner(request, asked, file, urlencode(fields)))


def _plainly(handler: Handler) -> Action:
    """An action whose input is the body of its route."""

    async def done(request: Request, asked: Invocation) -> Response:
        return await handler(_inner(request, asked, asked.input))

    return done


def _named(asked: Invocation, member: str, *beside: str) -> str:
    """The one member that an action takes, beside others that are there."""
    value = asked.input.get(member)
    if not isinstance(value, str) or not value or len(asked.input) != 1 + len(beside):
        raise InvalidError.at(f"/input/{member}", "required", f"The input is {member}, and nothing else.")
    return value


def _inner(
    request: Request, asked: Invocation, content: Mapping[str, Any] | bytes, query: str = "", **path: str
) -> Request:
    """The request that the action's own route would have got. A proof of a key is still one for this address."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode("utf-8")
    kind = b"application/octet-stream" if isinstance(content, bytes) else b"application/json"
    kept = [(name, value) for name, value in request.scope["headers"] if name.lower() not in _OUTER]
    headers = [*kept, (b"oap-request-id", asked.request_id.encode("ascii")), (b"content-type", kind)]
    if asked.key is not None:
        headers.append((b"oap-idempotency-key", asked.key.encode("latin-1", "replace")))
    is_sent = False

    async def receive() -> Message:
        nonlocal is_sent
        sent, is_sent = is_sent, True
        return {"type": "http.request", "body": b"" if sent else data, "more_body": False}

    scope = {**request.scope, "headers": headers, "path_params": path, "query_string": query.encode("ascii")}
    return Request(scope, receive)
