"""Records out and in again: lines of an export are valid records, and an import takes them as they are."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from quipu.faces.memorywire.schemas import v0_form
from quipu.faces.memorywire.wire import RecordReply, import_line, loads, parsed, record_body
from quipu.faces.memorywire.wire_records import ImportLine
from quipu.model.record import MemoryType, PrivacyIntent, Record
from tests.faces.memorywire.answers import records
from tests.faces.memorywire.shapes import bodies, problems
from tests.requirement import requirement


@requirement("memorywire:record.schema")
@given(record=records())
def test_a_record_is_json_and_valid_against_our_type_and_v0s(record: Record) -> None:
    body, name = record_body(record, "main"), f"types/{record.type.value}"
    assert loads(json.dumps(body)) == body
    assert problems(name, body) == []
    assert list(Draft202012Validator(v0_form(name)).iter_errors(body)) == []
    TypeAdapter(RecordReply).validate_python(body)


@requirement("memorywire:record.schema")
@given(record=records())
def test_a_record_of_one_type_is_not_one_of_another(record: Record) -> None:
    body = record_body(record, "main")
    for kind in set(MemoryType) - {record.type}:
        assert problems(f"types/{kind.value}", body)


@requirement("memorywire:record.round-trip")
@given(record=records())
def test_what_an_export_writes_an_import_reads_without_loss(record: Record) -> None:
    line = import_line(loads(json.dumps(record_body(record, "shelf"))))
    asked, content = line.request, record.content
    assert (line.id, line.version, line.tier, line.state) == (
        record.id,
        record.version,
        record.tier,
        record.state,
    )
    assert (line.created_at, line.updated_at, line.provenance) == (
        record.created_at,
        record.updated_at,
        record.provenance,
    )
    assert asked.content == (json.loads(content) if record.type is MemoryType.PROCEDURAL else content)
    same = ("agent_id", "user_id", "session_id", "type", "metadata", "tags", "links", "details")
    same += ("confidence", "importance", "source", "expires_at")
    assert {name: getattr(asked, name) for name in same} == {name: getattr(record, name) for name in same}
    assert (asked.privacy_intent, asked.store, asked.id) == (record.privacy, "shelf", None)


@requirement("memorywire:record.round-trip")
@given(record=records())
def test_an_empty_privacy_intent_is_not_the_same_as_none(record: Record) -> None:
    for privacy in (None, PrivacyIntent(), PrivacyIntent(share_with=())):
        body = record_body(replace(record, privacy=privacy), "main")
        assert import_line(body).request.privacy_intent == privacy


@requirement("memorywire:record.round-trip")
@given(
    body=bodies("operations/remember"),
    times=st.dictionaries(st.sampled_from(["created_at", "updated_at"]), st.integers(0, 9)),
)
def test_a_line_may_be_a_remember_request_with_an_id_and_times(
    body: dict[str, Any], times: dict[str, int]
) -> None:
    body = body | {"update_strategy": None}
    request, _ = parsed("remember", body)
    assert import_line(body | times) == ImportLine(request=replace(request, id=None), id=request.id, **times)
