"""Answers that are given once, and again under the same key (`OAP-Idempotency-Key`, D23)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.oap.answering import enveloped
from quipu.model.grants import Lent
from quipu.model.principal import Principal
from quipu.model.value import JsonObject
from quipu.service.sharing import Sharing


def caller(who: Principal | Lent) -> tuple[str, str]:
    """Whose memory it is, and who asks: a key is the caller's own."""
    return who.tenant, who.name if isinstance(who, Principal) else who.grant.grantee


async def answered(
    request: Request,
    sharing: Sharing,
    who: tuple[str, str],
    action: str,
    given: Any,
    do: Callable[[], Awaitable[tuple[dict[str, Any], int]]],
    unkept: Collection[str] = (),
) -> Response:
    """What `do` answers, with its status. Members that are `unkept` hold memory text, which is kept nowhere else."""
    key = request.headers.get("oap-idempotency-key")
    if key is None:
        output, status = await do()
        return enveloped(request, sharing, output, status)
    fresh: dict[str, Any] = {}

    async def done() -> JsonObject:
        nonlocal fresh
        fresh, status = await do()
        kept = {name: part for name, part in fresh.items() if name not in unkept}
        return cast("JsonObject", {"status": status, "output": kept})

    body = {"body": given, "of": dict(request.path_params)}
    kept, is_again = await sharing.keys.once(*who, action, key, cast("Any", body), done)
    output = cast("dict[str, Any]", kept["output"]) if is_again else fresh
    response = enveloped(request, sharing, output, cast("int", kept["status"]))
    if is_again:
        response.headers["OAP-Idempotency-Replayed"] = "true"
    return response
