"""What an embedding endpoint's answer means: vectors in order, a wait, or a refusal.

Nothing of the answer is quoted in an error: endpoints like to repeat the texts, and some the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from quipu.embed.vectors import packed
from quipu.errors import BackendUnavailableError

if TYPE_CHECKING:
    import httpx

RETRIED = frozenset({429, 500, 502, 503, 504})
#: How endpoints say that a text is too long, or that there are too many: each in its own way.
TOO_MUCH = frozenset({400, 413, 422})
#: Reasons why an endpoint said nothing at all, so that it need not be asked again at once.
UNREACHED = frozenset({"endpoint_unreachable", "endpoint_timeout"})

_FIRST_WAIT_S = 0.25
_HINTS = {
    401: "Check the embedding API key.",
    403: "Check the embedding API key and what it may use.",
    404: "Check the embedding base URL (it usually ends in /v1) and the model's name.",
    429: "The endpoint's rate limit or budget is spent; wait, or raise it there.",
}


def vectors_of(response: httpx.Response, count: int, dimensions: int | None) -> list[bytes]:
    """One unit vector per text. Raises BackendUnavailableError for an answer that cannot be trusted."""
    vectors = _in_order(_json(response), count)
    expected = dimensions or len(vectors[0])
    if any(len(vector) != expected for vector in vectors):
        raise _bad_answer(f"The embedding endpoint sent vectors that do not have {expected} numbers.")
    try:
        return [packed(np.asarray(vector, np.float64)) for vector in vectors]
    except (TypeError, ValueError):
        # The cause is left out: numpy quotes what it could not read.
        raise _bad_answer("The embedding endpoint sent vectors that are not finite numbers.") from None


def wait_s(response: httpx.Response | None, attempt: int) -> float:
    """Seconds to wait before the next attempt: what the endpoint asks for, else twice as long each time."""
    asked = response.headers.get("Retry-After", "") if response is not None else ""
    try:
        return max(0.0, float(asked))
    except ValueError:  # absent, or a date: no clock is needed for a short wait of our own
        return _FIRST_WAIT_S * 2**attempt


def refusal(response: httpx.Response | None) -> BackendUnavailableError:
    """The error for an answer that holds no vectors, or for none at all."""
    if response is None:
        return BackendUnavailableError(
            "The embedding endpoint cannot be reached.",
            reason="endpoint_unreachable",
            hint="Check that the endpoint runs and that the embedding base URL is right.",
        )
    status = response.status_code
    reason = "endpoint_rate_limited" if status == 429 else "endpoint_refused"
    return BackendUnavailableError(
        f"The embedding endpoint answered with status {status}.", reason=reason, hint=_HINTS.get(status)
    )


def _json(response: httpx.Response) -> object:
    try:
        return response.json()
    except ValueError as error:
        raise _bad_answer("The embedding endpoint did not answer with JSON.") from error


def _in_order(answer: object, count: int) -> list[list[Any]]:
    """The vectors in the order of the texts, which is what `index` says and not how they are listed."""
    data = cast(dict[str, object], answer).get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or len(cast(list[object], data)) != count:
        raise _bad_answer("The embedding endpoint did not send one vector per text.")
    found: dict[int, list[Any]] = {}
    for position, item in enumerate(cast(list[object], data)):
        fields = cast(dict[str, object], item) if isinstance(item, dict) else {}
        vector = fields.get("embedding")
        index = fields.get("index", position)
        if isinstance(index, int) and isinstance(vector, list) and vector:
            found[index] = cast(list[Any], vector)
    if found.keys() != set(range(count)):
        raise _bad_answer("The embedding endpoint did not say which vector belongs to which text.")
    return [found[number] for number in range(count)]


def _bad_answer(message: str) -> BackendUnavailableError:
    return BackendUnavailableError(
        message, reason="endpoint_answer", hint="Check that the endpoint serves this embedding model."
    )
