"""What becomes of a request that holds a secret: rewritten or refused, field by field, and never shown in the error."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError, SecretLeakageError
from quipu.fields import Redact
from quipu.memory.model import (
    ForgetRequest,
    GivenEmbedding,
    LinkTo,
    Privacy,
    RecallRequest,
    RememberManyRequest,
    RememberRequest,
    UpdateRequest,
)
from quipu.model.record import Provenance, Record
from quipu.secrets.detectors import Detectors
from quipu.secrets.marker import Marker
from quipu.secrets.redaction import Guard
from quipu.secrets.registered import RegisteredValue, compiled
from quipu.secrets.tree import text_fields
from tests.secrets.noise import drawn

VALUE = drawn("guarded", 20)
NUMBER = 918_273_645_546
TOKEN = f"ghp_{drawn('guarded token', 36)}"
VALUES = compiled([RegisteredValue("db", VALUE), RegisteredValue("pin", str(NUMBER))])
REWRITE = Guard(registered=VALUES, checked_at=7)
REJECT = replace(REWRITE, policy="reject")
PLAIN = RememberRequest(agent_id="ana", content="She likes tea.")
MARK = "<REDACTED:db>"


def given_fields(**fields: Any) -> RememberRequest:
    return PLAIN.model_copy(update=fields)


def rewritten(**fields: Any) -> RememberRequest:
    return REWRITE.clean(given_fields(**fields))


def refused(request: Any, guard: Guard = REJECT) -> SecretLeakageError:
    with pytest.raises(SecretLeakageError) as raised:
        guard.clean(request)
    error = raised.value
    shown = repr(error) + str(error) + repr(error.faults) + str(error.hint)
    assert VALUE not in shown
    assert TOKEN not in shown
    return error


# -- fields ---------------------------------------------------------------------------------------------------------

#: Fields with the value in one of them, the same as they are kept, and the pointer that names it.
REWRITTEN: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
    ({"content": f"use {VALUE}"}, {"content": f"use {MARK}"}, "/content"),
    ({"metadata": {"a": [{"b": VALUE}]}}, {"metadata": {"a": [{"b": MARK}]}}, "/metadata/a/0/b"),
    ({"metadata": {"a/b": {VALUE: 1}}}, {"metadata": {"a/b": {MARK: 1}}}, "/metadata/a~1b"),
    ({"metadata": {VALUE: VALUE}}, {"metadata": {MARK: MARK}}, "/metadata"),
    ({"metadata": {"pin": NUMBER}}, {"metadata": {"pin": "<REDACTED:pin>"}}, "/metadata/pin"),
    ({"tags": ("a", VALUE)}, {"tags": ("a", MARK)}, "/tags/1"),
    ({"source": VALUE}, {"source": MARK}, "/source"),
    (
        {"links": (LinkTo(to="mem_A", rel="knows"), LinkTo(to="mem_B", rel=VALUE))},
        {"links": (LinkTo(to="mem_A", rel="knows"), LinkTo(to="mem_B", rel=MARK))},
        "/links/1/rel",
    ),
    ({"location": VALUE}, {"location": MARK}, "/location"),
    ({"participants": ("Bo", VALUE)}, {"participants": ("Bo", MARK)}, "/participants/1"),
    ({"emotion": VALUE}, {"emotion": MARK}, "/emotion"),
    ({"target": VALUE}, {"target": MARK}, "/target"),
    ({"reasoning": VALUE}, {"reasoning": MARK}, "/reasoning"),
)
#: What cannot be rewritten without meaning something else.
NAMED: dict[str, dict[str, Any]] = {
    **{f"/{name}": {name: f"x-{VALUE}"} for name in ("agent_id", "user_id", "session_id", "store", "key")},
    **{f"/{name}": {name: VALUE} for name in ("id", "idempotency_key", "run_id", "node_id")},
    "/supersedes/1": {"supersedes": ("mem_A", VALUE)},
    "/links/0/to": {"links": (LinkTo(to=VALUE, rel="knows"),)},
    "/embedding/model": {"embedding": GivenEmbedding(model=VALUE, vector=(0.5,))},
    "/privacy_intent/consent_id": {"privacy_intent": Privacy(consent_id=VALUE)},
    "/privacy_intent/share_with/1": {"privacy_intent": Privacy(share_with=("bo", VALUE))},
}


def test_a_secret_is_replaced_where_it_stands() -> None:
    for fields, kept, _ in REWRITTEN:
        clean = rewritten(**fields)
        assert clean == given_fields(**kept)
        assert REWRITE.clean(clean) is clean


def test_the_policy_can_refuse_and_names_the_field_and_the_label() -> None:
    for fields, _, pointer in REWRITTEN:
        error = refused(given_fields(**fields))
        assert error.faults[0].pointer == pointer
        assert error.code == "secret_leakage"
        assert error.reason == error.faults[0].reason == "secret_found"
        assert "(db)" in str(error) or "(pin)" in str(error)
        assert error.faults[0].accepted in ("text without the secret db", "text without the secret pin")


def test_many_requests_are_cleaned_as_each_of_them_alone() -> None:
    """One look at all of them must not miss what stands in one, nor find what is cut between two."""
    some = [
        PLAIN,
        *(given_fields(**fields) for fields, _, _ in REWRITTEN),
        *(given_fields(**fields) for fields in NAMED.values()),
        given_fields(content=f"the token is {TOKEN}"),
        given_fields(content="Žofie má ráda čaj"),
        given_fields(content=VALUE[:10]),
        given_fields(content=VALUE[10:]),
        given_fields(content='{"initial": "a", "initial": "b"}', type="procedural"),
    ]

    def alone(guard: Guard, request: RememberRequest) -> object:
        try:
            return guard.clean(request)
        except SecretLeakageError as error:
            return error.faults

    for guard in (REWRITE, REJECT, Guard()):
        for batch in (some, [PLAIN] * 3, *([PLAIN, one] for one in some)):
            cleaned = guard.clean_each(batch)
            for request, found in zip(batch, cleaned, strict=True):
                shown = found.faults if isinstance(found, SecretLeakageError) else found
                assert shown == alone(guard, request)


def test_a_secret_in_a_name_refuses_the_request_under_either_policy() -> None:
    for guard in (REWRITE, REJECT):
        for pointer, fields in NAMED.items():
            error = refused(given_fields(**fields), guard)
            assert [fault.pointer for fault in error.faults] == [pointer]


def test_every_text_field_of_remember_is_shown_here_to_be_one_or_the_other() -> None:
    shown = {name for fields, _, _ in REWRITTEN for name in fields}
    shown |= {pointer.split("/")[1] for pointer in NAMED}
    assert shown == {field.name for field in text_fields(RememberRequest)}


def test_several_places_are_all_named() -> None:
    error = refused(given_fields(content=TOKEN, tags=(VALUE,), source=VALUE))
    assert {fault.pointer for fault in error.faults} == {"/content", "/tags/0", "/source"}
    assert str(error) == "content holds a secret (github_token)."


def test_a_filter_of_a_write_is_refused_and_a_cursor_is_not_looked_at() -> None:
    error = refused(ForgetRequest(agent_id="ana", filter={"or": [{"a": {"in": [VALUE]}}]}), REWRITE)
    assert [fault.pointer for fault in error.faults] == ["/filter/or/0/a/in/0"]
    error = refused(ForgetRequest(agent_id="ana", filter={VALUE: NUMBER}), REWRITE)
    assert [fault.pointer for fault in error.faults] == ["/filter", f"/filter/{MARK}"]
    recall = RecallRequest(agent_id="ana", query="tea", filter={"a": VALUE})
    assert REJECT.clean(recall) is recall


def test_without_secrets_the_request_itself_comes_back() -> None:
    request = given_fields(
        metadata={"a": [1, None, True, 12_345_678_901]}, tags=(), links=(), location="é \u2019 %41"
    )
    for guard in (REWRITE, REJECT, Guard(detectors=Detectors(()))):
        assert guard.clean(request) is request


def test_a_vector_of_words_that_are_not_kept_is_not_kept_either() -> None:
    """It was made of the secret; what is made of the marked text takes its place."""
    vector = GivenEmbedding(model="m", vector=(0.5,))
    marked = given_fields(content=f"use {VALUE}", embedding=vector)
    assert REWRITE.clean(marked).embedding is None
    assert rewritten(tags=(VALUE,), embedding=vector).embedding is vector
    batch = RememberManyRequest(agent_id="ana", items=(marked, given_fields(embedding=vector)))
    assert [item.embedding for item in REWRITE.clean(batch).items] == [None, vector]
    recall = RecallRequest(agent_id="ana", query=f"what opens with {VALUE}?", embedding=vector)
    assert REWRITE.clean(recall).embedding is None


def test_times_stay_numbers() -> None:
    assert rewritten(event_time=NUMBER).event_time == NUMBER


def test_another_marker_is_used_everywhere() -> None:
    guard = replace(REWRITE, marker=Marker("[REDACTED:{label}]"))
    clean = guard.clean(given_fields(content=TOKEN, tags=(VALUE[:9], VALUE[9:]), source=VALUE))
    assert (clean.content, clean.tags, clean.source) == (
        "[REDACTED:github_token]",
        ("[REDACTED:db]", "[REDACTED:db]"),
        "[REDACTED:db]",
    )
    with pytest.raises(InvalidError):
        Marker("gone")


# -- values, names and texts outside of requests --------------------------------------------------------------------


def test_a_value_is_cleaned_alike() -> None:
    assert REWRITE.clean({"with": VALUE}) == {"with": MARK}
    with pytest.raises(SecretLeakageError) as raised:
        REJECT.clean({"with": VALUE})
    assert [fault.pointer for fault in raised.value.faults] == ["/with"]


def test_a_name_can_be_checked_by_itself() -> None:
    REWRITE.check("main", "/store")
    with pytest.raises(SecretLeakageError) as raised:
        REWRITE.check(VALUE, "/file_name")
    assert [fault.pointer for fault in raised.value.faults] == ["/file_name"]
    assert str(raised.value) == "file_name holds a secret (db)."


def test_a_text_is_masked_for_a_log_whatever_the_policy_is() -> None:
    assert REJECT.masked(f"say {VALUE}") == f"say {MARK}"
    assert REJECT.finds(f"say {VALUE} and {TOKEN}") == ("db", "github_token")
    assert REJECT.finds("say nothing") == ()


# -- joined texts ---------------------------------------------------------------------------------------------------

BODY = drawn("body", 128)
#: Two texts, and what of them must not be read when they are one.
HALVES = {
    "registered": (f"it is {VALUE[:9]}", VALUE[9:], VALUE[9:]),
    "prefixed": (f"it is {TOKEN[:20]}", f"{TOKEN[20:]} there", TOKEN[20:]),
    "named": ("the password is", "BlueOcean42!", "BlueOcean42!"),
    "armoured": ("-----BEGIN PRIVATE KEY-----", f"{BODY}\n-----END PRIVATE KEY-----", BODY),
}


def record(content: str, **fields: Any) -> Record:
    standard: dict[str, Any] = {"id": "mem_A", "version": 2, "store_id": "sto_A", "agent_id": "ana"}
    standard |= {
        "type": "semantic",
        "provenance": Provenance(written_by="ana"),
        "created_at": 1,
        "updated_at": 1,
    }
    return Record(**{**standard, "content": content, **fields})


def test_what_only_two_texts_together_hold_is_marked_when_they_are_joined() -> None:
    for name, (one, other, secret) in HALVES.items():
        if name == "named":  # a line is a sentence of its own
            continue
        for text in (
            REWRITE.clean_text(f"{one}\n{other}"),
            REWRITE.clean_record(record(f"{one}\n{other}")).content,
        ):
            assert secret not in text, name
            assert "<REDACTED:" in text, name
            assert REWRITE.clean_text(text) is text, name


def test_what_holds_no_secret_is_joined_as_it_is() -> None:
    text = f"it is {VALUE[:9]} without its end\nthe key is sk-ant- and so on\nand another line"
    assert REWRITE.clean_text(text) is text
    kept = record(text, metadata={"a": 1}, details={"event_time": NUMBER}, tags=("x",))
    assert REWRITE.clean_record(kept) is kept


def test_joined_metadata_and_details_are_marked_and_times_stay() -> None:
    kept = record(
        "x",
        metadata={"a": VALUE[:9], "b": VALUE[9:]},
        tags=(TOKEN,),
        source=VALUE,
        details={"event_time": NUMBER, "participants": ["Bo", VALUE]},
        provenance=Provenance(written_by="ana", subject=VALUE),
    )
    clean = REWRITE.clean_record(kept)
    assert clean == replace(
        kept,
        metadata={"a": MARK, "b": MARK},
        tags=("<REDACTED:github_token>",),
        source=MARK,
        details={"event_time": NUMBER, "participants": ["Bo", MARK]},
        provenance=Provenance(written_by="ana", subject=MARK),
    )
    assert REWRITE.clean_record(clean) is clean


def test_a_machine_is_never_joined_so_its_text_is_left_alone() -> None:
    text = json.dumps({"name": "deploy", "pin": NUMBER})
    assert REWRITE.clean_record(record(text, type="procedural", source=VALUE)).content == text


def test_under_reject_texts_that_hold_a_secret_together_are_refused() -> None:
    one, other, _ = HALVES["registered"]
    for work in (REJECT.clean_text, lambda text: REJECT.clean_record(record(text))):
        with pytest.raises(SecretLeakageError) as raised:
            work(f"{one}\n{other}")
        assert [fault.pointer for fault in raised.value.faults] == ["/content"]
        assert other not in repr(raised.value)


# -- JSON stays JSON ------------------------------------------------------------------------------------------------


def test_two_keys_of_one_label_stay_two() -> None:
    metadata = {VALUE: 1, VALUE[::-1]: 2, "<REDACTED:db> (2)": 3, f"{VALUE}.": 4, VALUE.encode().hex(): 5}
    clean = rewritten(metadata=metadata).metadata
    assert clean is not None
    assert sorted(clean.values(), key=str) == [1, 2, 3, 4, 5]
    assert set(clean) == {MARK, "<REDACTED:db> (3)", "<REDACTED:db> (2)", f"{MARK}.", "<REDACTED:db> (4)"}


MACHINE = '{"name": "deploy", "pin": %d, "states": ["idle", "\\u0067%s"], "metadata": {"k": "%s"}}'


def test_a_machine_as_text_is_still_a_machine() -> None:
    content = MACHINE % (NUMBER, TOKEN[1:], VALUE)
    for request in (
        given_fields(type="procedural", content=content),
        UpdateRequest(id="mem_A", content=content),  # may be one for a procedure
    ):
        clean = REWRITE.clean(request)
        assert isinstance(clean.content, str)
        assert json.loads(clean.content) == {
            "name": "deploy",
            "pin": "<REDACTED:pin>",
            "states": ["idle", "<REDACTED:github_token>"],
            "metadata": {"k": MARK},
        }
        assert REWRITE.clean(clean) is clean


def test_what_a_repeated_key_said_first_is_not_kept() -> None:
    content = f'{{"name": "deploy", "note": "{VALUE}", "note": "clean"}}'
    request = given_fields(type="procedural", content=content)
    assert REWRITE.clean(request).content == '{"name": "deploy", "note": "clean"}'
    assert REJECT.clean(request).content == '{"name": "deploy", "note": "clean"}'


def test_a_machine_without_secrets_keeps_its_text() -> None:
    machine = given_fields(type="procedural", content='{"name":  "deploy"}')
    assert REWRITE.clean(machine) is machine
    assert REWRITE.clean(machine.model_copy(update={"source": VALUE})).content == machine.content
    broken = machine.model_copy(update={"content": f'{{"name": "{VALUE}'})
    assert REWRITE.clean(broken).content == f'{{"name": "{MARK}'
    deep = machine.model_copy(update={"content": '{"a":' * 100_000})
    assert REWRITE.clean(deep) is deep


def test_text_that_happens_to_be_json_is_text() -> None:
    assert rewritten(content=f'{{"a":  "{VALUE}"}}').content == f'{{"a":  "{MARK}"}}'


# -- spread over fields ---------------------------------------------------------------------------------------------

FIRST, SECOND = VALUE[:9], VALUE[9:]
GITHUB = "<REDACTED:github_token>"


def test_a_secret_cut_in_two_is_found() -> None:
    cuts: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"metadata": {"a": FIRST, "b": SECOND}}, {"metadata": {"a": MARK, "b": MARK}}),
        ({"metadata": {"a": [FIRST, 7, SECOND]}}, {"metadata": {"a": [MARK, 7, MARK]}}),
        ({"metadata": {FIRST: 1, SECOND: 2}}, {"metadata": {MARK: 1, f"{MARK} (2)": 2}}),
        ({"metadata": {FIRST: SECOND}}, {"metadata": {MARK: MARK}}),
        ({"tags": (FIRST, SECOND)}, {"tags": (MARK, MARK)}),
        ({"content": f"first {FIRST}", "tags": (SECOND,)}, {"content": f"first {MARK}", "tags": (MARK,)}),
        ({"tags": ("x", FIRST), "source": f"{SECOND}!"}, {"tags": ("x", MARK), "source": f"{MARK}!"}),
        ({"source": FIRST, "location": SECOND}, {"source": MARK, "location": MARK}),
        (
            {"source": FIRST, "key": "a name", "location": SECOND},
            {"source": MARK, "key": "a name", "location": MARK},
        ),
        ({"metadata": {"a": TOKEN[:20], "b": TOKEN[20:]}}, {"metadata": {"a": GITHUB, "b": GITHUB}}),
    ]
    for fields, kept in cuts:
        assert rewritten(**fields) == given_fields(**kept), fields
        refused(given_fields(**fields))


def test_an_encoded_secret_cut_in_the_middle_of_an_escape_is_found() -> None:
    escaped = "".join(f"%{byte:02x}" for byte in VALUE.encode())
    assert rewritten(tags=(escaped[:31], escaped[31:])).tags == (MARK, MARK)


def test_halves_in_the_wrong_order_are_no_secret() -> None:
    request = given_fields(tags=(SECOND, FIRST))
    assert REWRITE.clean(request) is request


def test_what_begins_in_a_name_goes_on_nowhere() -> None:
    request = given_fields(user_id=TOKEN[:20], session_id=TOKEN[20:], content=TOKEN[20:])
    assert REWRITE.clean(request) is request


# -- under a key ----------------------------------------------------------------------------------------------------


def test_a_key_says_that_its_value_is_a_secret() -> None:
    metadata = {"password": "BlueOcean42!", "PIN": 1, "db": {"password": 20_240_501}, "note": "BlueOcean42!"}
    assert rewritten(metadata=metadata).metadata == {
        "password": "<REDACTED:password>",
        "PIN": 1,
        "db": {"password": "<REDACTED:password>"},
        "note": "BlueOcean42!",
    }


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [found for pair in value.items() for part in pair for found in strings(part)]
    return [found for part in value for found in strings(part)] if isinstance(value, list) else []


@given(JSON, st.sampled_from(("plain", "cut")))
def test_no_value_leaks_from_any_place_of_a_tree(tree: Any, way: str) -> None:
    planted = [VALUE[:7], tree, VALUE[7:]] if way == "cut" and not strings(tree) else [tree, {"k": VALUE}]
    clean = REWRITE.clean(planted)
    assert VALUE not in "".join(strings(clean))
    assert REWRITE.clean(clean) is clean


def test_what_is_refused_is_a_mark_of_its_own_for_values_too() -> None:
    assert Redact.REFUSE is not Redact.REWRITE
    with pytest.raises(SecretLeakageError):
        REWRITE.check({"or": [FIRST, SECOND]}, "/filter")
