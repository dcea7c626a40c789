"""What the network does to a call, in our words. Addresses and headers stay out of it."""

from __future__ import annotations

import ssl

import httpx

from quipu.client.refusals import refusal
from quipu.errors import (
    BackendUnavailableError,
    DeadlineError,
    InternalError,
    InvalidError,
    QuipuError,
    RateLimitedError,
)

#: Nothing of the request has left this machine.
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_JSON, _PROBLEM = "application/json", "application/problem+json"


def is_unsent(error: Exception) -> bool:
    """Whether the server surely did nothing: the request never arrived, or was turned away at the door."""
    return isinstance(error, (*UNSENT, RateLimitedError))


def told(error: httpx.HTTPError) -> QuipuError:
    """The error for a failure of the network."""
    if _is_untrusted(error):
        return InvalidError(
            "The server's certificate is not trusted.",
            reason="insecure",
            hint="Set SSL_CERT_FILE to the certificate of your own authority, if it is one.",
        )
    if isinstance(error, UNSENT):
        return BackendUnavailableError(
            "The server cannot be reached.",
            reason="unreachable",
            hint="Check the address, and that `quipu serve` runs there.",
        )
    if isinstance(error, httpx.TimeoutException):
        return DeadlineError("The server did not answer in time.", reason="unreachable")
    return BackendUnavailableError("The connection to the server broke.", reason="unreachable")


def _is_untrusted(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def told_problem(problem: object) -> QuipuError:
    """The error that a stream ends with, if it is one of ours."""
    found = refusal(200, problem)
    return misunderstood() if found.reason == "bad_answer" else found


def is_json(response: httpx.Response) -> bool:
    """Whether the answer is a JSON value, and no problem."""
    return _media_type(response) == _JSON


def of_type(response: httpx.Response, media_type: str) -> httpx.Response:
    """The answer, if it is of the kind that was asked for: whoever answers everything with a page is no server of ours."""
    if _media_type(response) != media_type:
        raise misunderstood()
    return response


def _media_type(response: httpx.Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def refused(response: httpx.Response) -> QuipuError:
    """The error for an answer that is no success; its body has been read."""
    body = None
    if _media_type(response) in (_JSON, _PROBLEM):
        try:
            body = response.json()
        except ValueError:
            body = None
    return refusal(response.status_code, body, response.headers.get("retry-after"))


def closed() -> BackendUnavailableError:
    """The error for a call that was still under way, or came, when the memory was closed."""
    return BackendUnavailableError("This memory is closed.", reason="closed")


def misunderstood() -> InternalError:
    """The error for an answer that makes no sense."""
    return InternalError(
        "The server's answer cannot be understood.",
        reason="bad_answer",
        hint="Is this the address of a Quipu server?",
    )
