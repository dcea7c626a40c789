"""How long a client waits, which servers it speaks to, and what it understands of a refusal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu import errors
from quipu.client.address import base_url, is_loopback
from quipu.client.patience import Patience
from quipu.client.refusals import refusal
from quipu.errors import Fault, InvalidError, QuipuError
from quipu.faces.http import problems

CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, QuipuError)]


# -- pauses -------------------------------------------------------------------------------------------------------


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    patience = Patience(first_s=0.2, longest_s=2.0)
    assert [patience.pause(attempt, None, 1.0) for attempt in range(6)] == [0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


@given(attempt=st.integers(0, 60), jitter=st.floats(0, 1), wait=st.none() | st.integers(0, 1000))
def test_a_pause_is_never_shorter_than_asked_nor_without_end(
    attempt: int, jitter: float, wait: int | None
) -> None:
    pause = Patience().pause(attempt, wait, jitter)
    assert pause >= (wait or 0)
    assert 0 < pause <= max(Patience().longest_s, (wait or 0) + Patience().first_s)


def test_two_clients_do_not_come_back_at_the_same_moment() -> None:
    assert Patience().pause(3, None, 0.1) != Patience().pause(3, None, 0.9)
    assert Patience().pause(3, 5, 0.1) != Patience().pause(3, 5, 0.9)


# -- addresses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("https://memory.example.org", "https://memory.example.org"),
        ("https://memory.example.org/", "https://memory.example.org"),
        ("https://memory.example.org:8443/quipu/", "https://memory.example.org:8443/quipu"),
        ("http://127.0.0.1:8321", "http://127.0.0.1:8321"),
        ("http://localhost:8321", "http://localhost:8321"),
        ("http://[::1]:8321/", "http://[::1]:8321"),
    ],
)
def test_an_address_is_taken_without_its_last_slash(given: str, base: str) -> None:
    assert base_url(given) == base


@pytest.mark.parametrize(
    "given",
    ["memory.example.org", "ftp://x", "https://", "https://x?y=1", "https://x#y", "https://x:port", ""],
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(InvalidError) as refused:
        base_url(given)
    assert refused.value.faults[0].pointer == "/server"


def test_credentials_in_an_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidError) as refused:
        base_url("https://me:hush@memory.example.org")
    assert "hush" not in f"{refused.value} {refused.value.hint} {refused.value.faults}"


@pytest.mark.parametrize(
    "given", ["http://memory.example.org", "http://10.0.0.7:8321", "http://localhost.evil.org"]
)
def test_without_tls_only_this_machine_is_spoken_to_unless_one_insists(given: str) -> None:
    with pytest.raises(InvalidError) as refused:
        base_url(given)
    assert refused.value.reason == "insecure"
    assert base_url(given, insecure=True) == given


def test_only_names_that_surely_are_this_machine_are_loopback() -> None:
    assert all(is_loopback(host) for host in ("localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"))
    assert not any(is_loopback(host) for host in ("localhost.org", "0.0.0.0", "10.0.0.1", "example", ""))  # noqa: S104  an address to refuse


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_comes_back_as_what_it_was(kind: type[QuipuError]) -> None:
    sent = kind(
        "Not this.", reason="some_reason", faults=[Fault("/k", "bad_value", ("1", "2"))], retry_after=7
    )
    body, headers = problems.problem(sent, "req_1"), problems.headers(sent)
    told = refusal(problems.status_of(sent), body, headers.get("Retry-After"))
    if kind.code not in problems.STATUS or kind.code == "internal_error":
        # What the wire has no word for is the server's own business; the caller gets the request id.
        assert (told.code, told.reason) == ("internal_error", None)
        assert told.hint == "The server's log knows more under req_1."
        return
    assert type(told) is kind
    assert (told.code, told.reason, told.message) == (kind.code, "some_reason", "Not this.")
    assert (told.faults, told.retry_after, told.retryable) == (sent.faults, 7, kind.retryable)


@pytest.mark.parametrize("reason", sorted(errors.LASTING))
def test_what_a_person_must_mend_is_not_tried_again(reason: str) -> None:
    sent = errors.BackendUnavailableError("Broken.", reason=reason)
    body = problems.problem(sent)
    assert (sent.retryable, body["retryable"]) == (False, False)
    assert refusal(503, body).retryable is False
    assert errors.BackendUnavailableError("Gone.", reason="unreachable").retryable is True


def test_what_an_error_brings_along_comes_too() -> None:
    sent: Any = errors.NotFoundError("Merged.", reason="record")
    sent.merged_into = "mem_2"
    told: Any = refusal(404, problems.problem(sent))
    assert told.merged_into == "mem_2"


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (502, "backend_unavailable", True),
        (503, "backend_unavailable", True),
        (504, "timeout", True),
        (500, "internal_error", False),
        (404, "internal_error", False),
        (301, "internal_error", False),
    ],
)
def test_an_answer_of_something_in_between_is_told_by_its_status(
    status: int, code: str, retryable: bool
) -> None:
    for body in (None, "text", {"message": "nope"}, {"code": 7}, []):
        told = refusal(status, body)
        assert (told.code, told.retryable) == (code, retryable)


@pytest.mark.parametrize(
    "body",
    [
        {"code": "validation_error", "errors": "no list"},
        {"code": "validation_error", "errors": [7, None, {"accepted": None}]},
        {"code": "never heard of"},
        {"code": "conflict", "detail": 7, "reason": ["x"]},
    ],
)
def test_a_problem_that_is_malformed_is_still_an_error(body: dict[str, Any]) -> None:
    assert isinstance(refusal(400, body, "soon"), QuipuError)
