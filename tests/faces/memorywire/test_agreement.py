"""Schemas and models agree, in both directions: what the one accepts the other accepts, and nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from quipu.faces.memorywire.schemas import names, schema
from quipu.faces.memorywire.wire import (
    BODIES,
    EmbeddingBody,
    ExpireReply,
    ForgetReply,
    HitReply,
    ImportBody,
    LinkBody,
    MergeReply,
    PolicyBody,
    PrivacyIntentBody,
    ProvenanceBody,
    RecallReply,
    RecordReply,
    RememberBatchBody,
    RememberReply,
)
from quipu.faces.memorywire.wire_parts import Body
from quipu.faces.memorywire.wire_replies import Reply
from tests.faces.memorywire.shapes import ODD, bodies, near_misses, problems
from tests.requirement import requirement

REQUESTS: dict[str, type[Body]] = {**BODIES, "remember_batch": RememberBatchBody}
REPLIES: dict[str, type[Reply]] = {
    "remember": RememberReply,
    "recall": RecallReply,
    "forget": ForgetReply,
    "merge": MergeReply,
    "expire": ExpireReply,
}
#: Objects inside requests: where their schema is, and the model that mirrors it.
REMEMBER = schema("operations/remember")
INNER: dict[str, tuple[dict[str, Any], type[Body]]] = {
    "privacy_intent": (REMEMBER["$defs"]["privacy_intent"], PrivacyIntentBody),
    "embedding": (REMEMBER["$defs"]["embedding"], EmbeddingBody),
    "link": (REMEMBER["$defs"]["link"], LinkBody),
    "policy": (schema("operations/expire")["properties"]["policy"], PolicyBody),
    "provenance": (schema("types/semantic")["properties"]["provenance"], ProvenanceBody),
}
KINDS = ["semantic", "episodic", "procedural", "emotional"]
RECORD_TYPES = [name for name in names() if name.startswith("types/")]


def accepts(model: type[Body], body: object) -> bool:
    try:
        model.model_validate(body)
    except ValidationError:
        return False
    return True


def well_spoken(body: dict[str, Any]) -> bool:
    """Whether filters and procedures inside a request are good. The wire passes them on; the rules judge them."""
    if not isinstance(body, dict):
        return True
    content, said = body.get("content"), body.get("filter")
    machine = isinstance(content, dict) and body.get("type") == "procedural"
    if machine and problems("procedure", content):
        return False
    if isinstance(said, dict) and problems("filter", said):
        return False
    items = body.get("items")
    return all(well_spoken(item) for item in items) if isinstance(items, list) else True


@requirement("memorywire:wire.mirrors-schema")
@pytest.mark.parametrize("operation", REQUESTS)
@given(data=st.data())
def test_a_body_that_the_schema_allows_is_accepted(operation: str, data: st.DataObject) -> None:
    body = data.draw(bodies(f"operations/{operation}"))
    assert problems(f"operations/{operation}", body) == []
    REQUESTS[operation].model_validate(body)


@requirement("memorywire:wire.mirrors-schema")
@pytest.mark.parametrize("operation", REQUESTS)
@given(data=st.data())
def test_a_near_miss_is_accepted_exactly_when_the_schema_allows_it(
    operation: str, data: st.DataObject
) -> None:
    body = data.draw(near_misses(f"operations/{operation}"))
    allowed = not problems(f"operations/{operation}", body)
    assert allowed == (accepts(REQUESTS[operation], body) and well_spoken(body))


def at_the_edges(node: dict[str, Any]) -> Iterator[object]:
    """Values at, just within and just beyond every bound that a schema sets."""
    for bound in ("minimum", "maximum"):
        if bound in node:
            edge = node[bound]
            yield from (edge, float(edge), edge - 1, edge + 1, edge - 0.001, edge + 0.001)
    for bound in ("minLength", "maxLength"):
        if bound in node:
            yield from ("x" * size for size in range(max(0, node[bound] - 1), node[bound] + 2))
    for bound in ("minItems", "maxItems"):
        if bound in node:
            item = {"to": "m", "rel": "r"} if "$ref" in node["items"] else "x"
            yield from ([item] * size for size in range(max(0, node[bound] - 1), node[bound] + 2))
    if isinstance(node.get("items"), dict):
        yield from ([value] for value in at_the_edges(node["items"]))
    for branch in node.get("anyOf", ()):
        yield from at_the_edges(branch)


LEAST: dict[str, dict[str, Any]] = {
    "remember": {"agent_id": "a", "type": "semantic", "content": "x"},
    "recall": {"agent_id": "a", "query": "q"},
    "forget": {"agent_id": "a", "ids": ["m"]},
    "merge": {"agent_id": "a", "canonical": "c", "duplicates": ["d"]},
    "expire": {"agent_id": "a", "policy": {"type": "semantic"}},
}


def agrees(operation: str, body: dict[str, Any]) -> bool:
    allowed = not problems(f"operations/{operation}", body)
    return allowed == (accepts(BODIES[operation], body) and well_spoken(body))


@requirement("memorywire:wire.mirrors-schema")
@pytest.mark.parametrize("operation", BODIES)
def test_each_field_has_the_bounds_of_its_schema(operation: str) -> None:
    for field, node in schema(f"operations/{operation}")["properties"].items():
        for kind in KINDS if operation == "remember" else [None]:
            for value in at_the_edges(node):
                body = LEAST[operation] | ({"type": kind} if kind else {}) | {field: value}
                assert agrees(operation, body), (field, kind, value)


@requirement("memorywire:wire.mirrors-schema")
@pytest.mark.parametrize("part", ["privacy_intent", "embedding", "link", "policy"])
def test_each_field_of_an_inner_object_has_the_bounds_of_its_schema(part: str) -> None:
    within = {"link": {"to": "m", "rel": "r"}, "embedding": {"model": "m", "vector": [1]}}
    for field, node in INNER[part][0]["properties"].items():
        for value in [*at_the_edges(node), *ODD]:
            inner = within.get(part, {}) | {field: value}
            operation = "expire" if part == "policy" else "remember"
            given_as = {"links": [inner]} if part == "link" else {part: inner}
            assert agrees(operation, LEAST[operation] | given_as), (field, value)


@requirement("memorywire:wire.mirrors-schema")
@pytest.mark.parametrize("operation", BODIES)
def test_each_field_takes_the_same_odd_values_as_its_schema(operation: str) -> None:
    for field in schema(f"operations/{operation}")["properties"]:
        for kind in KINDS if operation == "remember" else [None]:
            for value in ODD:
                body = LEAST[operation] | ({"type": kind} if kind else {}) | {field: value}
                assert agrees(operation, body), (field, kind, value)


@requirement("memorywire:wire.mirrors-schema")
@pytest.mark.parametrize("name", RECORD_TYPES)
@given(data=st.data())
def test_every_record_that_the_schema_allows_can_be_imported(name: str, data: st.DataObject) -> None:
    ImportBody.model_validate(data.draw(bodies(name)))


def fields_of(model: type[Body]) -> tuple[set[str], set[str], dict[str, Any]]:
    fields = model.model_fields
    required = {name for name, field in fields.items() if field.is_required()}
    defaults = {n: f.default for n, f in fields.items() if n not in required and f.default is not None}
    return set(fields), required, defaults


def fields_in(node: dict[str, Any]) -> tuple[set[str], set[str], dict[str, Any]]:
    properties = node["properties"]
    defaults = {name: field["default"] for name, field in properties.items() if "default" in field}
    return set(properties), set(node.get("required", ())), defaults


@requirement("memorywire:wire.fields")
@pytest.mark.parametrize("operation", REQUESTS)
def test_a_request_has_the_fields_and_defaults_of_its_schema(operation: str) -> None:
    assert fields_of(REQUESTS[operation]) == fields_in(schema(f"operations/{operation}"))


@requirement("memorywire:wire.fields")
@pytest.mark.parametrize("part", INNER)
def test_an_object_inside_a_request_has_the_fields_of_its_schema(part: str) -> None:
    node, model = INNER[part]
    assert fields_of(model) == fields_in(node)


@requirement("memorywire:wire.fields")
@pytest.mark.parametrize("operation", REPLIES)
def test_a_reply_has_the_fields_of_its_schema(operation: str) -> None:
    fields, required, _ = fields_of(REPLIES[operation])
    assert (fields, required) == fields_in(schema(f"operations/{operation}.response"))[:2]


@requirement("memorywire:wire.fields")
def test_hits_and_records_have_the_fields_of_their_schemas() -> None:
    hit = TypeAdapter(HitReply).json_schema()
    assert (
        fields_in(hit)[:2]
        == fields_in(schema("operations/recall.response")["properties"]["results"]["items"])[:2]
    )
    record = TypeAdapter(RecordReply).json_schema()
    every = {field for name in RECORD_TYPES for field in schema(name)["properties"]}
    assert (set(record["properties"]), set(record["required"])) == (
        every,
        set(schema(RECORD_TYPES[0])["required"]),
    )


@requirement("memorywire:wire.fields")
def test_an_import_line_has_the_fields_of_a_request_and_of_every_record() -> None:
    fields = {
        field for name in (*RECORD_TYPES, "operations/remember") for field in schema(name)["properties"]
    }
    assert set(ImportBody.model_fields) == fields


@requirement("memorywire:wire.null-is-absent")
@pytest.mark.parametrize("operation", REQUESTS)
@given(data=st.data())
def test_null_for_an_optional_field_changes_nothing(operation: str, data: st.DataObject) -> None:
    name, model = f"operations/{operation}", REQUESTS[operation]
    body = {field: value for field, value in data.draw(bodies(name)).items() if value is not None}
    absent = {field: None for field in schema(name)["properties"] if field not in body}
    assert model.model_validate(body | absent) == model.model_validate(body)


@requirement("memorywire:wire.null-is-absent")
@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("expire", {"agent_id": "a", "policy": {"type": "semantic", "older_than_days": None}}),
        (
            "remember",
            {"agent_id": "a", "type": "semantic", "content": "x", "privacy_intent": {"retain": None}},
        ),
        ("remember", {"agent_id": None, "type": "semantic", "content": "x"}),
    ],
    ids=["in a policy", "in a privacy intent", "for a required field"],
)
def test_null_is_refused_where_it_would_be_a_value(operation: str, body: dict[str, Any]) -> None:
    assert not accepts(BODIES[operation], body)
    assert problems(f"operations/{operation}", body)
