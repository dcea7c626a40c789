"""memorywire's `MemoryStore`, and requests that were made by another package's models.

A request of another package is read by its fields, and answered in that package's own response class where it has one,
so that its router, its tests and its type checks see their own values.
"""

import inspect
import sys
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast, get_args, runtime_checkable

from quipu.operation import AnyOperation, Request, Response
from quipu.schemas import fields
from quipu.search.filters import canonical

#: What memorywire lets a store promise. A `Memory` keeps all of it; without an embedder all but `vector`.
CAPABILITIES = frozenset(
    {
        *("semantic", "episodic", "procedural", "emotional"),
        *("fts", "vector", "graph", "governance", "recall_tracking"),
    }
)

#: memorywire's operations.
FIVE: Final = ("remember", "recall", "forget", "merge", "expire")


@runtime_checkable
class ForeignRequest(Protocol):
    """A request of another package: whatever can say its fields."""

    def model_dump(self) -> dict[str, Any]: ...


@runtime_checkable
class MemoryStore(Protocol):
    """Anything that speaks memorywire: each of the five takes one request."""

    async def remember(self, request: Any, /) -> Any: ...
    async def recall(self, request: Any, /) -> Any: ...
    async def forget(self, request: Any, /) -> Any: ...
    async def merge(self, request: Any, /) -> Any: ...
    async def expire(self, request: Any, /) -> Any: ...
    async def health(self) -> dict[str, Any]: ...
    @property
    def capabilities(self) -> set[str]: ...


# -- stores of other packages -----------------------------------------------------------------------------------------


def is_awaited(store: object) -> bool:
    """Whether its methods are awaited; one that blocks would hold up everybody."""
    return any(inspect.iscoroutinefunction(getattr(store, name)) for name in (*FIVE, "health"))


def request_kinds(store: object) -> dict[str, Any]:
    """The request classes that a store of another package says it takes; what is not there takes ours."""
    kinds = {name: _kind(store, name) for name in FIVE}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _kind(store: object, name: str) -> Any:
    method = getattr(store, name)
    try:
        first = next(iter(inspect.signature(method, eval_str=True).parameters.values()), None)
        said = None if first is None else first.annotation
    except Exception:  # noqa: BLE001  another package's annotations may raise anything; then it says nothing
        said = None
    arms = [arm for arm in get_args(said) or (said,) if arm not in (None, Any, inspect.Parameter.empty)]
    if arms:  # it says what it takes
        return next((arm for arm in arms if _is_foreign(arm)), None)
    # Nothing is said: what stands beside the store's class under the request's name.
    beside = getattr(sys.modules.get(type(store).__module__), f"{name.capitalize()}Request", None)
    return beside if _is_foreign(beside) else None


def _is_foreign(kind: object) -> bool:
    return (
        inspect.isclass(kind)
        and callable(getattr(kind, "model_validate", None))
        and not kind.__module__.startswith("quipu.")
    )


def fields_of(given: object) -> dict[str, Any] | None:
    """The fields of anything that can say them."""
    if isinstance(given, Mapping):
        return dict(cast("Mapping[str, Any]", given))
    dump = getattr(given, "model_dump", None)
    if not callable(dump):
        return None
    fields: Any = dump(mode="python")
    return {name: getattr(value, "value", value) for name, value in fields.items()}


# -- requests ---------------------------------------------------------------------------------------------------------


def is_request(operation: AnyOperation, first: str | None, value: object) -> bool:
    """Whether the first argument of one of the five is a whole request, and not the value of its field `first`."""
    if isinstance(value, str):
        return False
    if isinstance(value, operation.request):
        return True
    known = fields(operation.request)
    if isinstance(value, Mapping):
        names = cast("Mapping[str, Any]", value).keys()
        if first is None or "object" not in (known[first].kind, *known[first].other_kinds):
            return True
        # A policy and a procedure's machine are objects too; their names are not those of a request.
        return first in names or (bool(names) and names <= known.keys())
    # A part of a request, such as a policy, is a model of ours too; it is no request.
    return isinstance(value, ForeignRequest) and not type(value).__module__.startswith("quipu.")


def request_fields(request: object) -> dict[str, Any]:
    """The fields that a request gives. Null is absent; in a foreign filter a plain name is a metadata key, as v0 has it."""
    if isinstance(request, Request):
        return {name: getattr(request, name) for name in request.model_fields_set}
    if isinstance(request, Mapping):
        return dict(cast("Mapping[str, Any]", request))
    assert isinstance(request, ForeignRequest)
    given = {name: value for name, value in request.model_dump().items() if value is not None}
    if isinstance(given.get("filter"), dict):
        given["filter"] = canonical(given["filter"], plain_names="metadata")
    return given


def in_kind(request: object, response: Response) -> Any:
    """The answer in the class that belongs to the request: `RecallRequest` of a package → its `RecallResponse`."""
    if isinstance(request, Request | Mapping) or not isinstance(request, ForeignRequest):
        return response
    kind = type(cast("object", request))
    stem = kind.__name__.removesuffix("Request")
    theirs = getattr(sys.modules.get(kind.__module__), f"{stem}Response", None)
    if stem == kind.__name__ or not callable(getattr(theirs, "model_validate", None)):
        return response
    known: Any = theirs
    whole = known.model_json_schema()
    return known.model_validate(_fitting(response.to_dict(), whole, whole.get("$defs", {})))


def _fitting(value: Any, schema: Mapping[str, Any], shared: Mapping[str, Any]) -> Any:
    """The value without the fields that its reader does not know, unless the reader takes further ones."""
    if "$ref" in schema:
        return _fitting(value, shared[schema["$ref"].rpartition("/")[2]], shared)
    if "anyOf" in schema:
        arms = [arm for arm in schema["anyOf"] if arm.get("type") != "null"]
        return _fitting(value, arms[0], shared) if len(arms) == 1 else value
    if isinstance(value, list):
        return [_fitting(item, schema.get("items", {}), shared) for item in cast("list[Any]", value)]
    if isinstance(value, dict) and "properties" in schema:
        known, takes_more = schema["properties"], schema.get("additionalProperties", False)
        return {
            name: _fitting(item, known.get(name, {}), shared)
            for name, item in cast("dict[str, Any]", value).items()
            if name in known or takes_more
        }
    return value  # pyright: ignore[reportUnknownVariableType]  any JSON
