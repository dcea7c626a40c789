"""memorywire v0 inside the wire: its forms, its requests, and what is refused on purpose."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from quipu.errors import InvalidError, NotFoundError
from quipu.faces.memorywire.schemas import names, schema, v0_form, v0_names
from quipu.faces.memorywire.wire import BODIES, parsed
from tests.faces.memorywire.shapes import valid_under
from tests.requirement import requirement

#: v0's fields, required ones first, as its own documents have them.
FIELDS = {
    "operations/remember": "agent_id type content | user_id metadata confidence source expires_at approval_required",
    "operations/recall": "agent_id query | user_id k types hops fusion filter fresher_than_days",
    "operations/forget": "agent_id | user_id ids filter hard_delete reason",
    "operations/merge": "agent_id canonical duplicates | strategy",
    "operations/expire": "agent_id | policy action",
    "operations/remember.response": "id stored_at stores pending_approval | approval_url",
    "operations/recall.response": "results fusion_used stores_queried latency_ms |",
    "operations/forget.response": "forgotten_ids stores hard_delete | pending_approval approval_url",
}
RECORD = "id agent_id type content created_at | user_id metadata confidence source updated_at expires_at"
FIELDS |= {
    "types/semantic": RECORD,
    "types/procedural": RECORD,
    "types/episodic": f"{RECORD} event_time location participants",
    "types/emotional": f"{RECORD} sentiment valence arousal emotion target",
}


def v0_problems(name: str, body: object) -> list[str]:
    """What v0's own form of a schema finds wrong with a body; of what v0 has no schema for, nothing."""
    if name not in v0_names():
        return []
    return [error.message for error in Draft202012Validator(v0_form(name)).iter_errors(body)]


def keywords(node: object) -> set[str]:
    """Every key inside a schema."""
    if isinstance(node, dict):
        return set(node).union(*map(keywords, node.values()))
    return set().union(*map(keywords, node)) if isinstance(node, list) else set()


def closed(node: object) -> bool:
    """Whether any object inside a schema is closed."""
    if isinstance(node, dict):
        return node.get("additionalProperties") is False or any(map(closed, node.values()))
    return isinstance(node, list) and any(map(closed, node))


@requirement("memorywire:v0.form")
def test_v0_has_five_requests_three_responses_and_four_types() -> None:
    assert set(v0_names()) == set(FIELDS)


@requirement("memorywire:v0.form")
@pytest.mark.parametrize("name", FIELDS)
def test_a_v0_form_has_exactly_the_fields_of_v0(name: str) -> None:
    form = v0_form(name)
    required, _, optional = FIELDS[name].partition("|")
    assert sorted(form["required"]) == sorted(required.split())
    assert sorted(form["properties"]) == sorted(required.split() + optional.split())


@requirement("memorywire:v0.form")
@pytest.mark.parametrize("name", FIELDS)
def test_a_v0_form_is_a_schema_by_itself_under_the_id_of_v0(name: str) -> None:
    form = v0_form(name)
    Draft202012Validator.check_schema(form)
    assert form["$id"] == f"https://memorywire.dev/schemas/v0/{name}"
    assert not keywords(form) & {"$ref", "$defs", "x-origin", "x-v0", "allOf", "if"}


@requirement("memorywire:v0.form")
@pytest.mark.parametrize("name", FIELDS)
def test_v0_closes_responses_and_nothing_else(name: str) -> None:
    assert closed(v0_form(name)) == name.endswith(".response")


@requirement("memorywire:v0.form")
def test_v0_knows_no_null_in_requests_and_no_guards_in_procedures() -> None:
    assert v0_form("operations/remember")["properties"]["user_id"]["type"] == "string"
    assert v0_form("operations/recall")["properties"]["fusion"]["enum"] == ["rrf", "max", "weighted"]
    assert v0_form("operations/forget")["properties"]["filter"]["type"] == "object"
    assert v0_form("operations/remember")["properties"]["content"]["type"] == "string"
    machine = v0_form("types/procedural")["properties"]["content"]
    assert sorted(machine["required"]) == ["current", "initial", "name", "states", "transitions"]
    assert sorted(machine["properties"]["transitions"]["items"]["properties"]) == [
        "dest",
        "source",
        "trigger",
    ]


@requirement("memorywire:v0.form")
def test_our_schema_is_left_as_it_is_by_taking_its_v0_form() -> None:
    v0_form("operations/remember")
    assert "store" in schema("operations/remember")["properties"]


@requirement("memorywire:v0.form")
def test_what_v0_does_not_have_has_no_v0_form() -> None:
    for name in {*names(), "operations/remind"} - set(FIELDS):
        with pytest.raises(NotFoundError):
            v0_form(name)


def excused(operation: str, body: dict[str, Any]) -> str | None:
    """The reason that this v0 request is refused for on purpose, if it is."""
    if operation == "forget" and not body.get("ids") and not body.get("filter"):
        return "no_scope"
    if operation == "expire" and not body.get("policy"):
        return "empty_policy"
    return None


@requirement("memorywire:v0.requests")
@pytest.mark.parametrize("operation", BODIES)
@given(data=st.data())
def test_a_v0_request_is_accepted_or_refused_for_a_listed_reason(operation: str, data: st.DataObject) -> None:
    form = v0_form(f"operations/{operation}")
    body = data.draw(valid_under(form, Draft202012Validator(form)))
    try:
        parsed(operation, body)
        refused = None
    except InvalidError as error:
        refused = error.reason
    assert refused == excused(operation, body)


@requirement("memorywire:v0.requests")
def test_an_unknown_policy_key_is_refused_since_dropping_it_would_widen_the_match() -> None:
    body = {"agent_id": "a", "policy": {"type": "semantic", "older_than": 3}}
    assert Draft202012Validator(v0_form("operations/expire")).is_valid(body)
    with pytest.raises(InvalidError) as refusal:
        parsed("expire", body)
    assert refusal.value.reason == "unknown_policy_key"


@requirement("memorywire:v0.requests")
@pytest.mark.parametrize("operation", BODIES)
@given(data=st.data())
def test_without_strictness_v0_requests_may_carry_anything_else(operation: str, data: st.DataObject) -> None:
    form = v0_form(f"operations/{operation}")
    body = data.draw(valid_under(form, Draft202012Validator(form)))
    if excused(operation, body) is None:
        assert parsed(operation, body | {"x_vendor": {"a": [1]}}, strict=False)[1] == ("x_vendor",)
