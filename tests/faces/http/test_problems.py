"""Errors on the wire: a status for every code, one closed shape, and nothing of ours or of others in it."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from quipu import errors
from quipu.errors import (
    BackendUnavailableError,
    ConflictError,
    DeadlineError,
    Fault,
    ForbiddenError,
    InternalError,
    InvalidError,
    QuipuError,
    QuotaExceededError,
    RateLimitedError,
    TamperedError,
    UnauthenticatedError,
)
from quipu.faces.http import problems
from quipu.faces.http.catalogue import Face
from quipu.service.memory import MemoryService
from tests.faces.http.rig import PROBLEM, SECRET, Rig, problem
from tests.faces.serving import Served, served

#: What the wire has no word for; both mean that something failed here.
OURS = {"tampered", "unverifiable"}


def tree(kind: type[QuipuError] = QuipuError) -> Iterator[type[QuipuError]]:
    """Every error there is in quipu.errors."""
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield below
            yield from tree(below)


@pytest.mark.parametrize("kind", list(tree()), ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_and_a_body_the_schema_accepts(kind: type[QuipuError]) -> None:
    error = kind(
        "What happened.", reason="record", faults=[Fault("/a", "bad_value", ("x",)), Fault("/b", "bad_value")]
    )
    body = problems.problem(error, "req_1")
    jsonschema.Draft202012Validator(PROBLEM).validate(body)
    is_ours = kind.code in OURS | {"internal_error"}
    assert body["code"] == ("internal_error" if is_ours else kind.code)
    assert body["status"] == problems.status_of(error) == problems.STATUS[body["code"]]
    assert ("detail" in body, "reason" in body, "errors" in body) == (not is_ours, not is_ours, not is_ours)
    assert not body["title"].endswith(".")


def test_the_codes_are_those_of_the_schema() -> None:
    told = set(PROBLEM["properties"]["code"]["enum"])
    here = {"tampered", "unverifiable"}  # the command line tells them; a server says internal_error
    assert set(problems.STATUS) == told - {"cancelled"} - here
    assert {kind.code for kind in tree()} == set(problems.STATUS) | OURS


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidError(reason="method"), 405),
        (InvalidError(reason="too_large"), 413),
        (InvalidError(reason="media_type"), 415),
        (InvalidError(reason="no_scope"), 400),
        (DeadlineError(reason="slow_body"), 408),
        (DeadlineError(), 504),
        (ConflictError(reason="too_large"), 409),
    ],
)
def test_some_reasons_have_a_status_of_their_own(error: QuipuError, status: int) -> None:
    assert problems.status_of(error) == status


@pytest.mark.parametrize(
    ("error", "header", "value"),
    [
        (RateLimitedError(retry_after=17), "Retry-After", "17"),
        (RateLimitedError(retry_after=0), "Retry-After", "1"),
        (QuotaExceededError(), "Retry-After", "1"),
        (BackendUnavailableError(), "Retry-After", "1"),
        (ConflictError(), "Retry-After", None),
        (UnauthenticatedError(reason="no_credential"), "WWW-Authenticate", 'Bearer realm="quipu"'),
        (
            UnauthenticatedError(reason="bad_token"),
            "WWW-Authenticate",
            'Bearer realm="quipu", error="invalid_token"',
        ),
        (ConflictError(), "WWW-Authenticate", None),
    ],
)
def test_headers_belong_to_errors(error: QuipuError, header: str, value: str | None) -> None:
    assert problems.headers(error).get(header) == value


def answer(at: Served, rig: Rig, error: Exception) -> httpx.Response:
    rig.error = error
    with at.client() as client:
        return client.get("/rig/fail")


def test_a_fault_names_the_field_and_what_is_accepted(at: Served) -> None:
    with at.client() as client:
        body = problem(client.get("/rig/items/wrong"), 400, "validation_error", "bad_value")
    assert body["errors"] == [{"pointer": "/a~1b", "reason": "bad_value", "accepted": ["x", "y"]}]
    assert body["detail"] == "Wrong."
    assert body["retryable"] is False


def test_an_error_brings_its_optional_members_along(at: Served) -> None:
    with at.client() as client:
        assert problem(client.get("/rig/items/x"), 404, "not_found", "record")["merged_into"] == "mem_2"


def test_a_retryable_error_says_when(at: Served, rig: Rig) -> None:
    response = answer(at, rig, RateLimitedError(reason="request_rate", retry_after=7))
    assert problem(response, 429, "rate_limited", "request_rate")["retryable"] is True
    assert response.headers["retry-after"] == "7"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_room_for_a_file_of_a_request_is_told_as_such(at: Served, rig: Rig, number: int) -> None:
    rig.error = OSError(number, SECRET)
    with at.client() as client:
        answer = client.get("/rig/fail")
    problem(answer, 503, "backend_unavailable", "disk_full")
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(SECRET),
        InternalError(SECRET, reason="ledger", faults=[Fault(SECRET, SECRET)]),
        TamperedError(SECRET, reason="altered_record"),
        KeyError(SECRET),
        HTTPException(500, SECRET),
        ExceptionGroup(SECRET, [ValueError(SECRET)]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_nobody_foresaw_is_told_by_its_request_id_alone(
    at: Served, rig: Rig, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        response = answer(at, rig, error)
    body = problem(response, 500, "internal_error")
    assert set(body) == {"type", "title", "status", "code", "retryable", "request_id"}
    assert SECRET not in response.text
    assert SECRET not in whole(caplog.records)


def whole(records: list[logging.LogRecord]) -> str:
    """Everything that a handler could write of some records."""
    return "".join(repr(vars(record)) + record.getMessage() for record in records)


def test_the_log_says_where_it_failed_and_not_what_was_sent(
    at: Served, rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        error = RuntimeError(SECRET)
        error.__cause__ = ValueError(SECRET)
        request_id = answer(at, rig, error).json()["request_id"]
    (record,) = [record for record in caplog.records if record.name == "quipu.http"]
    fields: dict[str, Any] = record.fields  # type: ignore[attr-defined]  what the logger puts there
    assert fields["request_id"] == request_id
    assert fields["trace"][0] == "builtins.RuntimeError"
    assert "builtins.ValueError" in fields["trace"]
    assert any("rig.py" in line and "fail" in line for line in fields["trace"])
    assert SECRET not in repr(fields)


def test_an_answer_that_breaks_in_the_middle_is_cut_off_and_logged(
    at: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), at.client() as client:
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/rig/half")
        assert client.get("/rig/public").status_code == 200
    assert "RuntimeError" in whole(caplog.records)
    assert SECRET not in whole(caplog.records)


async def as_page(_request: Request, error: QuipuError) -> Response | None:
    """A face's own way to show errors; of one kind it fails, and of another it has no page."""
    if error.code == "conflict":
        raise RuntimeError(SECRET)
    return (
        None if error.code == "forbidden" else Response(f"<h1>{error.code}</h1>", 418, media_type="text/html")
    )


def test_a_face_shows_errors_in_its_own_way_where_it_has_one(rig: Rig) -> None:
    def faces(service: MemoryService) -> list[Face]:
        own = Face(name="own", routes=[Route("/own", rig.fail)], prefix="/own", show_error=as_page)
        return [own, *rig.faces(service)]

    with served(more=faces) as at, at.client() as client:
        rig.error = RateLimitedError()
        assert client.get("/own").text == "<h1>rate_limited</h1>"
        assert client.get("/own/nowhere").text == "<h1>not_found</h1>"
        rig.error = ForbiddenError(reason="host")
        problem(client.get("/own"), 403, "forbidden", "host")
        rig.error = ConflictError()
        problem(client.get("/own"), 409, "conflict")
        problem(client.get("/rig/fail"), 409, "conflict")
