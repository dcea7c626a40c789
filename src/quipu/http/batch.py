"""A list that comes as lines: each item is answered by a line of its own, before the last one was sent."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from starlette.requests import Request as HttpRequest

from quipu.errors import Fault, InvalidError, QuipuError
from quipu.http import streams
from quipu.http.limits import lift_limits
from quipu.http.read import LINE_BYTES, json_object, line_groups
from quipu.memory.model import ItemError, ItemResult, RememberManyRequest, RememberManyResponse
from quipu.operation import AnyOperation, Context, Facts, Response, dispatch, invalid

#: So many items are written together, if so many have come.
_MOST = 200


async def answered_lines(
    ctx: Context,
    operation: AnyOperation,
    http: HttpRequest,
    beside: dict[str, Any],
    dump: Callable[[Response], bytes],
) -> streams.Pieces:
    """One memory a line, one answer a line. `beside` is what stands in the query."""
    lift_limits(http.scope)
    if str(beside.get("atomic", False)) != "False":
        accepted = "no `atomic`: lines are written as they come, each for itself"
        raise invalid([Fault("/atomic", "bad_value", accepted)])
    beside.pop("atomic", None)
    items = _results(ctx, operation, http, beside)

    def one(item: Response) -> bytes:
        """As the dialect writes a whole answer, without what stands around its only item."""
        assert isinstance(item, ItemResult)
        whole = dump(RememberManyResponse(results=(item,)))
        return whole[whole.index(b"[") + 1 : whole.rindex(b"]")].strip()

    return await streams.lines(http.scope, items, one, is_reading=True)


async def _results(
    ctx: Context, operation: AnyOperation, http: HttpRequest, beside: dict[str, Any]
) -> AsyncIterator[Response]:
    key = beside.pop("idempotency_key", None)
    count = 0
    async for group in line_groups(http, most=_MOST):
        results: dict[int, ItemResult] = {}
        good: dict[int, RememberManyRequest] = {}
        for index, text in enumerate(group, count):
            try:
                good[index] = _parsed(operation, beside, text, None if key is None else f"{key}#{index}")
            except InvalidError as error:
                if any(fault.pointer and not fault.pointer.startswith("/items") for fault in error.faults):
                    raise  # it is about what stands beside the lines
                results[index] = _refused(index, error)
        count += len(group)
        if good:
            results.update(await _written(ctx, operation, good))
        for index in sorted(results):
            yield results[index]


def _parsed(
    operation: AnyOperation, beside: dict[str, Any], text: bytes | None, key: str | None
) -> RememberManyRequest:
    """A batch of one."""
    if text is None:
        raise invalid([Fault("", "too_large", f"a line of at most {LINE_BYTES:,} bytes")])
    item = json_object(text)
    if key is not None:
        item.setdefault("idempotency_key", key)
    return operation.request.parse({**beside, "items": [item]})


async def _written(
    ctx: Context, operation: AnyOperation, good: dict[int, RememberManyRequest]
) -> dict[int, ItemResult]:
    """Together, each with the place that it had among the lines."""
    first = next(iter(good.values()))
    together = first.model_copy(update={"items": tuple(one.items[0] for one in good.values())})
    answer = await dispatch(replace(ctx, facts=Facts()), operation, together)
    assert isinstance(answer, RememberManyResponse)
    return {
        index: result.model_copy(update={"index": index})
        for index, result in zip(good, answer.results, strict=True)
    }


def _refused(index: int, error: QuipuError) -> ItemResult:
    return ItemResult(
        index=index, error=ItemError(code=error.code, reason=error.reason, message=error.message)
    )
