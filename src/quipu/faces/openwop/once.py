"""Requests that happen once for each `Idempotency-Key` (contract 4.3), where a run or an entry does not keep its own.

A key belongs to the tenant and to the address that it was used at.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, cast

from starlette.requests import Request

from quipu.errors import ConflictError, InvalidError
from quipu.faces.http.authentication import principal_of
from quipu.faces.openwop import asking
from quipu.model.value import Json
from quipu.service.memory import MemoryService

_LONGEST_KEY = 128
#: Equal requests at once wait for the first of them this long, and look this often.
_PATIENCE_S, _LOOK_S = 20.0, 0.02


async def once(
    request: Request, service: MemoryService, said: Json, do: Callable[[], Awaitable[dict[str, Any]]]
) -> tuple[dict[str, Any], bool]:
    """What `do` answers, and whether that is the first answer again. What is refused may be tried again.

    The answer is kept for a day, so it holds no memory text.
    """
    key = asking.key_of(request)
    if key is None:
        return await do(), False
    if not 0 < len(key) <= _LONGEST_KEY or not key.isprintable():
        raise InvalidError.at("/Idempotency-Key", "bad_value", "The key cannot be used.")
    place = f"{request.method} {request.url.path}\0{key}"
    kept = hashlib.sha256(place.encode("utf-8", "replace")).hexdigest()
    keys, tenant = service.sharing.keys, principal_of(request).tenant
    until = asyncio.get_running_loop().time() + _PATIENCE_S
    while True:
        try:
            told, is_again = await keys.once(tenant, "openwop", "openwop", kept, said, do)
        except ConflictError as error:
            if error.reason != "idempotency_key_busy" or asyncio.get_running_loop().time() > until:
                raise
            await asyncio.sleep(_LOOK_S)
        else:
            return cast("dict[str, Any]", told), is_again
