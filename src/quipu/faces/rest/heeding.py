"""Words of a query string that are heeded: what an operation's description does not name is refused.

A misspelt `dry_run` that is passed over would write, and of two different values nobody knows which one was meant.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TypeAlias, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from quipu.errors import InvalidError
from quipu.faces.rest.openapi import OPERATIONS
from quipu.faces.rest.paths import PREFIX

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

#: Method and address → every word, and whether it may be repeated.
_WORDS = {
    operation.line: {
        cast("str", word["name"]): word["schema"].get("type") == "array" for word in operation.query
    }
    for operation in OPERATIONS
}


def heeded(route: Route) -> Route:
    """The same route, with an eye on its query string."""
    path = route.path.removeprefix(PREFIX).replace(":path}", "}")
    (method,) = (route.methods or set()) - {"HEAD"}
    words = _WORDS[f"{method} {path}"]
    handle: Handler = route.endpoint

    @wraps(handle)
    async def checked(request: Request) -> Response:
        query = request.query_params
        for name in query:
            if name not in words:
                raise InvalidError.at(
                    f"/{name[:128]}", "unknown_field", "Unknown parameter.", accepted=sorted(words)
                )
            if not words[name] and len(query.getlist(name)) > 1:
                raise InvalidError.at(f"/{name}", "bad_value", f"{name} is given more than once.")
        return await handle(request)

    return Route(route.path, checked, methods=[method])
