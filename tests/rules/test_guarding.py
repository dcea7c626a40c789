"""What becomes of a write that holds a secret: rewritten or refused, field by field, and never told in the error."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError, SecretLeakageError
from quipu.model.operations import Embedding, RememberRequest
from quipu.model.record import Link, MemoryType, PrivacyIntent
from quipu.rules.detectors import Detectors
from quipu.rules.marking import Marker
from quipu.rules.redaction import (
    Policy,
    Redaction,
    guarded_request,
    guarded_text,
    redacted_request,
    redacted_value,
    refuse_named_secrets,
)
from quipu.rules.registered import Registered
from quipu.testing.strategies import json_values
from tests.corpora.noise import drawn

VALUE = drawn("guarded", 20)
NUMBER = 918_273_645_546
TOKEN = f"ghp_{drawn('guarded token', 36)}"
MATCHER = Registered([("db", VALUE), ("pin", str(NUMBER))])
REWRITE = Redaction((MATCHER, Detectors()))
REJECT = replace(REWRITE, policy=Policy.REJECT)
PLAIN = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="She likes tea.")
MARK = "<REDACTED:db>"


def rewritten(**changes: Any) -> RememberRequest:
    return guarded_request(replace(PLAIN, **changes), REWRITE)[0]


def refused(request: RememberRequest, redaction: Redaction = REJECT) -> SecretLeakageError:
    with pytest.raises(SecretLeakageError) as raised:
        guarded_request(request, redaction)
    told = repr(raised.value) + str(raised.value) + repr(raised.value.faults) + str(raised.value.hint)
    assert VALUE not in told
    assert TOKEN not in told
    return raised.value


# -- fields ---------------------------------------------------------------------------------------------------------

#: A request with the value in one field → the same field as it is kept, and the pointer that names it.
REWRITTEN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "content": ({"content": f"use {VALUE}"}, {"content": f"use {MARK}"}, "/content"),
    "metadata value": (
        {"metadata": {"a": [{"b": VALUE}]}},
        {"metadata": {"a": [{"b": MARK}]}},
        "/metadata/a/0/b",
    ),
    "metadata key": ({"metadata": {"a/b": {VALUE: 1}}}, {"metadata": {"a/b": {MARK: 1}}}, "/metadata/a~1b"),
    "under a key": ({"metadata": {VALUE: VALUE}}, {"metadata": {MARK: MARK}}, "/metadata"),
    "number": ({"metadata": {"pin": NUMBER}}, {"metadata": {"pin": "<REDACTED:pin>"}}, "/metadata/pin"),
    "tag": ({"tags": ("a", VALUE)}, {"tags": ("a", MARK)}, "/tags/1"),
    "source": ({"source": VALUE}, {"source": MARK}, "/source"),
    "link": (
        {"links": (Link("mem_A", "knows"), Link("mem_B", VALUE))},
        {"links": (Link("mem_A", "knows"), Link("mem_B", MARK))},
        "/links/1/rel",
    ),
    "details": ({"details": {"location": VALUE}}, {"details": {"location": MARK}}, "/location"),
    "people": (
        {"details": {"participants": ["Bo", VALUE]}},
        {"details": {"participants": ["Bo", MARK]}},
        "/participants/1",
    ),
    "reasoning": ({"reasoning": VALUE}, {"reasoning": MARK}, "/reasoning"),
}


@pytest.mark.parametrize("field", REWRITTEN)
def test_a_secret_is_replaced_where_it_stands(field: str) -> None:
    given, kept, _ = REWRITTEN[field]
    request = replace(PLAIN, **given)
    clean, found = guarded_request(request, REWRITE)
    assert clean == replace(PLAIN, **kept)
    assert set(found) <= {"db", "pin"}
    assert found
    assert guarded_request(clean, REWRITE) == (clean, ())


@pytest.mark.parametrize("field", REWRITTEN)
def test_the_policy_can_refuse_and_names_the_field(field: str) -> None:
    given, _, pointer = REWRITTEN[field]
    error = refused(replace(PLAIN, **given))
    assert error.faults[0].pointer == pointer
    assert error.code == "secret_leakage"
    assert error.reason == error.faults[0].reason == "secret_found"
    assert "(db)" in str(error) or "(pin)" in str(error)


#: What cannot be rewritten without meaning somebody else.
NAMED: dict[str, dict[str, Any]] = {
    **{f"/{name}": {name: f"x-{VALUE}"} for name in ("agent_id", "user_id", "session_id", "store")},
    **{f"/{name}": {name: VALUE} for name in ("id", "idempotency_key", "run_id", "node_id", "memory_ref")},
    "/links/0/to": {"links": (Link(VALUE, "knows"),)},
    "/embedding/model": {"embedding": Embedding(VALUE, [0.5])},
    "/privacy_intent/consent_id": {"privacy_intent": PrivacyIntent(consent_id=VALUE)},
    "/privacy_intent/share_with/1": {"privacy_intent": PrivacyIntent(share_with=("bo", VALUE))},
}


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("pointer", NAMED)
def test_a_secret_in_a_name_refuses_the_write_under_either_policy(pointer: str, policy: Policy) -> None:
    request = replace(PLAIN, **NAMED[pointer])
    error = refused(request, replace(REWRITE, policy=policy))
    assert [fault.pointer for fault in error.faults] == [pointer]


def test_every_text_of_a_request_is_one_or_the_other() -> None:
    """A new field must be placed here, and in the rules."""
    is_no_text = {"type", "confidence", "expires_at", "approval_required", "update_strategy", "if_version"}
    is_no_text |= {"importance", "finds_similar"}
    rewritten_fields = {name for given, _, _ in REWRITTEN.values() for name in given}
    named_fields = {pointer.split("/")[1] for pointer in NAMED}
    assert rewritten_fields | named_fields | is_no_text == {field.name for field in fields(RememberRequest)}


def test_several_places_are_all_named() -> None:
    error = refused(replace(PLAIN, content=TOKEN, tags=(VALUE,), source=VALUE))
    assert [fault.pointer for fault in error.faults] == ["/content", "/tags/0", "/source"]
    assert str(error) == "content holds a secret (github_token)."


def test_a_name_among_the_details_is_not_told() -> None:
    error = refused(replace(PLAIN, details={VALUE: "x"}))
    assert error.faults[0].pointer == ""
    assert str(error) == "The request holds a secret (db)."


def test_without_secrets_the_request_itself_comes_back() -> None:
    request = replace(
        PLAIN, metadata={"a": [1, None, True, 12_345_678_901]}, tags=(), links=(), details={"x": 1}
    )
    for redaction in (REWRITE, REJECT, Redaction()):
        assert guarded_request(request, redaction) == (request, ())
        assert guarded_request(request, redaction)[0] is request


def test_a_vector_is_no_text() -> None:
    embedding = Embedding("m", VALUE.encode())
    assert rewritten(embedding=embedding).embedding is embedding


def test_a_vector_of_words_that_are_not_kept_is_not_kept_either() -> None:
    """It was made of the secret; what is made of the marked text takes its place."""
    embedding = Embedding("m", [0.5])
    assert rewritten(content=f"use {VALUE}", embedding=embedding).embedding is None
    assert rewritten(tags=(VALUE,), embedding=embedding).embedding is embedding


def test_times_stay_numbers() -> None:
    details = {"event_time": NUMBER}
    assert rewritten(type=MemoryType.EPISODIC, details=details).details == details


def test_another_template_is_used_everywhere() -> None:
    marker = Marker("[REDACTED:{label}]")
    redaction = Redaction((Registered([("db", VALUE)], marker), Detectors(marker)), template=marker.template)
    request = replace(PLAIN, content=TOKEN, tags=(VALUE[:9], VALUE[9:]), source=VALUE)
    clean, _ = guarded_request(request, redaction)
    assert (clean.content, clean.tags, clean.source) == (
        "[REDACTED:github_token]",
        ("[REDACTED:db]", "[REDACTED:db]"),
        "[REDACTED:db]",
    )


# -- texts and names ------------------------------------------------------------------------------------------------


def test_a_text_is_guarded_alike() -> None:
    assert guarded_text(f"say {VALUE}", REWRITE, "/reason") == (f"say {MARK}", ("db",))
    assert guarded_text("say nothing", REJECT, "/reason") == ("say nothing", ())
    with pytest.raises(SecretLeakageError) as raised:
        guarded_text(f"say {VALUE}", REJECT, "/reason")
    assert raised.value.faults[0].pointer == "/reason"
    assert str(raised.value) == "reason holds a secret (db)."


def test_names_are_refused_all_at_once() -> None:
    refuse_named_secrets([("/store", "main"), ("/user_id", None)], REWRITE)
    with pytest.raises(SecretLeakageError) as raised:
        refuse_named_secrets([("/store", VALUE), ("/user_id", TOKEN), ("/x", "y")], REWRITE)
    assert [fault.pointer for fault in raised.value.faults] == ["/store", "/user_id"]


def test_a_template_that_makes_no_marker_is_refused() -> None:
    with pytest.raises(InvalidError):
        guarded_request(PLAIN, replace(REWRITE, template="gone"))


# -- JSON stays JSON ------------------------------------------------------------------------------------------------


def test_two_keys_of_one_label_stay_two() -> None:
    metadata = {VALUE: 1, VALUE[::-1]: 2, "<REDACTED:db> (2)": 3, f"{VALUE}.": 4, VALUE.encode().hex(): 5}
    clean = rewritten(metadata=metadata).metadata
    assert clean is not None
    assert sorted(clean.values(), key=str) == [1, 2, 3, 4, 5]
    assert set(clean) == {MARK, "<REDACTED:db> (3)", "<REDACTED:db> (2)", f"{MARK}.", "<REDACTED:db> (4)"}


def test_a_machine_as_text_is_still_a_machine() -> None:
    text = '{"name": "deploy", "pin": %d, "states": ["idle", "\\u0067%s"], "metadata": {"k": "%s"}}'
    content = text % (NUMBER, TOKEN[1:], VALUE)
    clean, found = guarded_request(replace(PLAIN, type=MemoryType.PROCEDURAL, content=content), REWRITE)
    assert isinstance(clean.content, str)
    assert json.loads(clean.content) == {
        "name": "deploy",
        "pin": "<REDACTED:pin>",
        "states": ["idle", "<REDACTED:github_token>"],
        "metadata": {"k": MARK},
    }
    assert set(found) == {"pin", "github_token", "db"}


def test_what_a_repeated_key_said_first_is_not_kept() -> None:
    content = f'{{"name": "deploy", "note": "{VALUE}", "note": "clean"}}'
    request = replace(PLAIN, type=MemoryType.PROCEDURAL, content=content)
    assert guarded_request(request, REWRITE)[0].content == '{"name": "deploy", "note": "clean"}'


def test_a_machine_without_secrets_keeps_its_text() -> None:
    machine = replace(PLAIN, type=MemoryType.PROCEDURAL, content='{"name":  "deploy"}')
    assert guarded_request(machine, REWRITE)[0] is machine
    assert guarded_request(replace(machine, source=VALUE), REWRITE)[0].content == machine.content
    broken = replace(machine, content=f'{{"name": "{VALUE}')
    assert guarded_request(broken, REWRITE)[0].content == f'{{"name": "{MARK}'


def test_text_that_happens_to_be_json_is_text() -> None:
    assert rewritten(content=f'{{"a": "{VALUE}"}}').content == f'{{"a": "{MARK}"}}'


# -- spread over fields ---------------------------------------------------------------------------------------------

HALVES = (VALUE[:9], VALUE[9:])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"metadata": {"a": HALVES[0], "b": HALVES[1]}}, {"metadata": {"a": MARK, "b": MARK}}),
        ({"metadata": {"a": [HALVES[0], 7, HALVES[1]]}}, {"metadata": {"a": [MARK, 7, MARK]}}),
        ({"metadata": {HALVES[0]: 1, HALVES[1]: 2}}, {"metadata": {MARK: 1, f"{MARK} (2)": 2}}),
        ({"metadata": {HALVES[0]: HALVES[1]}}, {"metadata": {MARK: MARK}}),
        ({"tags": HALVES}, {"tags": (MARK, MARK)}),
        (
            {"content": f"first {HALVES[0]}", "tags": (HALVES[1],)},
            {"content": f"first {MARK}", "tags": (MARK,)},
        ),
        ({"tags": ("x", HALVES[0]), "source": f"{HALVES[1]}!"}, {"tags": ("x", MARK), "source": f"{MARK}!"}),
        (
            {"source": HALVES[0], "details": {"location": HALVES[1]}},
            {"source": MARK, "details": {"location": MARK}},
        ),
        (
            {"metadata": {"a": TOKEN[:20], "b": TOKEN[20:]}},
            {"metadata": {"a": "<REDACTED:github_token>", "b": "<REDACTED:github_token>"}},
        ),
    ],
)
def test_a_secret_cut_in_two_is_found(given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert guarded_request(replace(PLAIN, **given), REWRITE)[0] == replace(PLAIN, **kept)
    refused(replace(PLAIN, **given))


def test_halves_in_the_wrong_order_are_no_secret() -> None:
    request = replace(PLAIN, tags=HALVES[::-1])
    assert guarded_request(request, REWRITE) == (request, ())


def test_the_old_hooks_find_what_is_cut_in_two_as_well() -> None:
    found: list[str] = []
    assert redacted_value({"a": list(HALVES)}, [MATCHER], found) == {"a": [MARK, MARK]}
    assert found == ["db", "db"]
    assert redacted_request(replace(PLAIN, tags=HALVES), [MATCHER], found).tags == (MARK, MARK)


# -- under a key ----------------------------------------------------------------------------------------------------


def test_a_key_tells_that_its_value_is_a_secret() -> None:
    metadata = {"password": "BlueOcean42!", "PIN": 1, "db": {"password": 20_240_501}, "note": "BlueOcean42!"}
    assert rewritten(metadata=metadata).metadata == {
        "password": "<REDACTED:password>",
        "PIN": 1,
        "db": {"password": "<REDACTED:password>"},
        "note": "BlueOcean42!",
    }


@given(json_values(), st.sampled_from(("plain", "cut")))
def test_no_value_leaks_from_any_place_of_a_tree(tree: Any, way: str) -> None:
    planted = [VALUE[:7], tree, VALUE[7:]] if way == "cut" and not strings(tree) else [tree, {"k": VALUE}]
    clean = redacted_value(planted, [MATCHER], [])
    joined = "".join(strings(clean))
    assert VALUE not in joined
    assert redacted_value(clean, [MATCHER], []) == clean


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [found for pair in value.items() for part in pair for found in strings(part)]
    return [found for part in value for found in strings(part)] if isinstance(value, list) else []
