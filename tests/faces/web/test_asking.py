"""The explorer's address, read as a question and written again."""

from typing import Any

import pytest
from starlette.datastructures import QueryParams

from quipu.errors import InvalidError
from quipu.faces.web.asking import FIRST, MOST, Question, metadata_filter
from quipu.model.operations import Floor
from quipu.model.record import MemoryType, State


def asked(query: str) -> Question:
    return Question.of(QueryParams(query))


def test_an_empty_address_lists_what_is_live() -> None:
    request = asked("").list(None)
    assert (request.states, request.filter, request.as_of) == ((State.LIVE,), None, None)


def test_every_field_reaches_the_search() -> None:
    request = asked("q=tea&user=mara&session=s1&store=notes&type=semantic&type=episodic&as_of=7&k=50").recall(
        "ana"
    )
    assert (request.query, request.agent_id, request.user_id, request.session_id) == (
        "tea",
        "ana",
        "mara",
        "s1",
    )
    assert (request.store, request.as_of, request.k, request.explain) == ("notes", "7", 50, True)
    assert request.types == (MemoryType.SEMANTIC, MemoryType.EPISODIC)
    assert request.min_relevance is Floor.AUTO


def test_weak_matches_are_shown_only_when_asked_for() -> None:
    assert asked("q=tea&weak=1").recall("ana").min_relevance is Floor.OFF


@pytest.mark.parametrize(
    ("query", "filter"),
    [
        ("tags=food, travel,,", {"tags": ["food", "travel"]}),
        ("filter=city = Lisbon", {"city": "Lisbon"}),
        ("filter=year%3D2025, done=true", {"year": 2025, "done": True}),
        ('filter={"year": {"$gte": 2025}}', {"year": {"$gte": 2025}}),
        ("since=2026-01-31", {"created_at": {"$gte": "2026-01-31T00:00:00.000Z"}}),
        ("until=2026-01-31", {"created_at": {"$lt": "2026-02-01T00:00:00.000Z"}}),
        ("tags=a&filter=b=1", {"$and": [{"tags": ["a"]}, {"b": 1}]}),
    ],
)
def test_tags_metadata_and_days_become_a_filter(query: str, filter: Any) -> None:
    assert asked(query).conditions() == filter


@pytest.mark.parametrize(
    "query", ["filter=nothing", "filter={", "filter=,", "filter==1", "since=yesterday", "until=2026-13-01"]
)
def test_what_cannot_be_read_is_refused_with_what_would_be(query: str) -> None:
    with pytest.raises(InvalidError) as caught:
        asked(query).conditions()
    assert caught.value.faults[0].accepted


def test_deep_json_is_refused_and_not_followed() -> None:
    with pytest.raises(InvalidError):
        metadata_filter('{"a":' * 100_000)


@pytest.mark.parametrize(
    ("query", "k"),
    [
        ("k=0", 1),
        ("k=9999", MOST),
        ("k=-1", FIRST),
        ("k=ten", FIRST),
        ("k=" + "9" * 5000, FIRST),
        ("k=٣", FIRST),
    ],
)
def test_how_many_is_bounded(query: str, k: int) -> None:
    assert asked(query).k == k


@pytest.mark.parametrize("query", ["state=pending", "state=erased2", "type=secret", "state="])
def test_unknown_choices_are_as_if_not_made(query: str) -> None:
    question = asked(query)
    assert (question.state, question.types) == ("live", ())


def test_the_slider_at_its_end_means_now_however_old_the_page_is() -> None:
    assert asked("moment=2000&latest=2000").as_of == ""
    assert asked("moment=1500&latest=2000").as_of == "1970-01-01T00:00:01.500Z"
    assert asked("moment=never&latest=2000").as_of == ""


def test_a_question_written_as_an_address_is_the_same_question() -> None:
    query = "q=a%26b&agent=x&user=u&state=archived&type=semantic&tags=t&filter=a%3D1&since=2026-01-01&as_of=9&weak=1&k=40"
    question = asked(query)
    assert Question.of(QueryParams(question.address().partition("?")[2])) == question


def test_changing_a_question_never_carries_the_cursor_along() -> None:
    assert "cursor" not in asked("cursor=abc&user=u").address(user="v")
    assert asked("user=u").address(cursor="abc") == "/memories?user=u&cursor=abc"
