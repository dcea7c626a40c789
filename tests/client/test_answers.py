"""What a client makes of what comes back, and of what no address can carry."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.client.failures import refusal
from quipu.client.remote import rendered, segment
from quipu.client.transport import Patience
from quipu.errors import ERRORS, Fault, InternalError, InvalidError, QuipuError, UnsupportedError
from quipu.memory.operations import GET, LIST
from quipu.operation import Http, Operation
from tests.client.network import Fate, Served, plain
from tests.rendering.server import problem


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    patience = Patience(first_s=0.2, longest_s=2.0)
    assert [patience.pause_s(attempt, None, 1.0) for attempt in range(6)] == [0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


@given(attempt=st.integers(0, 60), jitter=st.floats(0, 1), wait=st.none() | st.integers(0, 1000))
def test_a_pause_is_never_shorter_than_asked_nor_without_end(
    attempt: int, jitter: float, wait: int | None
) -> None:
    pause = Patience().pause_s(attempt, wait, jitter)
    assert pause >= (wait or 0)
    assert 0 < pause <= max(Patience().longest_s, (wait or 0) + Patience().first_s)


def test_every_error_comes_back_as_what_it_was() -> None:
    for code, kind in ERRORS.items():
        sent = kind("Not this.", reason="some_reason", faults=[Fault("/k", "bad_value", "from 1 to 2")])
        found = refusal(400, problem(sent), 7).error
        assert type(found) is kind
        assert (found.code, found.reason, found.message) == (code, "some_reason", "Not this.")
        assert (found.faults, found.retry_after_s) == (sent.faults, 7)
        if kind is InternalError:
            assert found.hint == "The server's log says more under req_1."


def test_an_answer_of_something_in_between_is_told_by_its_status() -> None:
    for status, code, may_pass in (
        *((502, "backend_unavailable", True), (503, "backend_unavailable", True), (504, "timeout", True)),
        *((500, "internal_error", False), (404, "internal_error", False), (301, "internal_error", False)),
    ):
        for body in (None, "text", {"message": "nope"}, {"code": 7}, []):
            failure = refusal(status, body)
            assert (failure.error.code, failure.may_pass, failure.is_undone) == (code, may_pass, False)


def test_a_problem_that_is_malformed_is_still_an_error() -> None:
    bodies: list[dict[str, Any]] = [
        {"code": "validation_error", "errors": "no list"},
        {"code": "validation_error", "errors": [7, None, {"accepted": None}]},
        {"code": "never heard of"},
        {"code": "conflict", "detail": 7, "reason": ["x"], "hint": {}},
    ]
    for body in bodies:
        assert isinstance(refusal(400, body).error, QuipuError)


async def test_an_answer_that_lacks_what_was_asked_for_is_said_to_be_so(served: Served) -> None:
    memory = served.connect()
    for body in ("{}", "[]", "7", '{"stores": [{"id": 7}]}', '{"results": [{"index": 0}]}', "[" * 100_000):
        served.network.choose = lambda _, body=body: plain(200, body, "application/json")
        for call in (memory.list_stores, lambda: memory.recall("x"), memory.list):
            with pytest.raises(InternalError) as odd:
                await call()
            assert odd.value.reason == "bad_answer"


async def test_what_a_newer_server_says_beyond_is_passed_over(served: Served) -> None:
    memory = served.connect()
    await memory.remember("tea")
    whole = (await memory.list()).to_dict()
    whole["records"][0]["aura"] = "green"
    whole["moon"] = {"phase": "full"}
    served.network.choose = lambda _: Fate(answer=httpx.Response(200, json=whole))
    found = await memory.list()
    assert found.records[0].content == "tea"


async def test_odd_ids_reach_the_operation_as_they_are(served: Served) -> None:
    memory = served.connect()
    for name in ("..", "a/b", "ü?#%", ".", "recall"):
        with pytest.raises(QuipuError) as refused:
            await memory.get(name)
        assert refused.value.code == "not_found"
        sent = served.network.asked[-1].url.raw_path.decode()
        assert sent == f"/v1/memories/{segment(name)}"
        assert "/.." not in sent


async def test_wrong_values_are_refused_before_anything_is_sent(served: Served) -> None:
    memory = served.connect()
    with pytest.raises(InvalidError) as refused:
        await memory.recall("tea", k=0)
    assert refused.value.faults[0].pointer == "/k"
    with pytest.raises(InvalidError):
        await memory.recall("lone \ud800 surrogate")
    assert served.network.asked == []


def test_an_empty_list_that_an_address_cannot_carry_is_refused_where_it_means_something() -> None:
    assert rendered(LIST, {"types": []}).query == {"types": []}
    with pytest.raises(InvalidError) as refused:
        rendered(LIST, {"states": []})
    assert refused.value.faults[0].pointer == "/states"


def test_what_is_not_offered_over_http_is_refused_before_anything_is_sent() -> None:
    here = Operation(name="x", request=GET.request, response=GET.response, permission=None, limits="server")
    with pytest.raises(UnsupportedError):
        rendered(here, {})
    upload = Operation(
        name="x",
        request=GET.request,
        response=GET.response,
        permission=None,
        limits="server",
        http=Http(method="POST", path="/x", body="bytes"),
    )
    with pytest.raises(UnsupportedError):
        rendered(upload, {})
