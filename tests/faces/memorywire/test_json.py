"""JSON text at the door: what is not JSON, and what no ledger can keep alike, does not come in."""

import json

import pytest
from hypothesis import given

from quipu.errors import InvalidError
from quipu.faces.memorywire.wire import loads
from tests.faces.memorywire.shapes import JSON
from tests.requirement import requirement

#: text, reason, pointer
REFUSED: dict[str, tuple[bytes | str, str, str]] = {
    "nothing": (b"", "bad_json", ""),
    "half an object": (b'{"a": 1', "bad_json", ""),
    "two values": (b"{} {}", "bad_json", ""),
    "a trailing comma": (b'{"a": 1,}', "bad_json", ""),
    "single quotes": (b"{'a': 1}", "bad_json", ""),
    "a raw newline in a text": (b'{"a": "x\ny"}', "bad_json", ""),
    "a byte order mark": (b"\xef\xbb\xbf{}", "bad_json", ""),
    "Latin-1": ('{"a": "é"}'.encode("latin-1"), "bad_json", ""),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "bad_json", ""),
    "a surrogate in UTF-8 bytes": (b'"\xed\xa0\x80"', "bad_json", ""),
    "a name twice": (b'{"a": 1, "a": 2}', "bad_json", ""),
    "a name twice by an escape": (b'{"a": 1, "\\u0061": 2}', "bad_json", ""),
    "a name twice deep inside": (b'[{"b": [{"a": 1, "a": 1}]}]', "bad_json", ""),
    "NaN": (b'{"a": NaN}', "bad_json", ""),
    "Infinity": (b'{"a": Infinity}', "bad_json", ""),
    "minus Infinity": (b'{"a": [-Infinity]}', "bad_json", ""),
    "U+0000 in a text": (b'{"a": {"b": ["x", "y\\u0000"]}}', "bad_value", "/a/b/1"),
    "U+0000 in a name": (b'{"a": {"\\u0000": 1}}', "bad_value", "/a"),
    "a lone high surrogate": (b'{"a": "\\ud83d"}', "bad_value", "/a"),
    "a lone low surrogate": (b'{"a": "\\uDE00x"}', "bad_value", "/a"),
    "surrogates the wrong way round": (b'{"a": "\\ude00\\ud83d"}', "bad_value", "/a"),
    "a surrogate in a Python text": ('{"a": "\ud83d"}', "bad_value", ""),
    "an integer of 2^63": (b'{"a": 9223372036854775808}', "bad_value", "/a"),
    "an integer below -2^63": (b'{"a": [-9223372036854775809]}', "bad_value", "/a/0"),
    "an integer of 5000 digits": (b'{"a": ' + b"9" * 5000 + b"}", "bad_value", "/a"),
    "a large integer and then no JSON": (b"[9223372036854775808, oops]", "bad_json", ""),
    "a large integer and then a name twice": (b'[1e999, {"a": 1, "a": 2}]', "bad_json", ""),
    "a large integer and then 100,000 lists": (b"[9223372036854775808, " + b"[" * 100_000, "too_deep", ""),
    "a number too large": (b'{"a": 1e400}', "bad_value", "/a"),
    "a long number too large": (b'{"a": ' + b"9" * 400 + b".5}", "bad_value", "/a"),
    "65 lists": (b"[" * 65 + b"]" * 65, "too_deep", ""),
    "65 lists beside an escaped character": (
        b'["\\ud83e\\uddf6", ' + b"[" * 64 + b"]" * 64 + b"]",
        "too_deep",
        "",
    ),
    "65 objects": (b'{"a": ' * 65 + b"1" + b"}" * 65, "too_deep", ""),
    "100,000 lists": (b"[" * 100_000 + b"]" * 100_000, "too_deep", ""),
    "100,000 open lists": (b"[" * 100_000, "too_deep", ""),
    "100,000 objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "too_deep", ""),
}

ACCEPTED: dict[str, tuple[bytes | str, object]] = {
    "an object": (b'{"a": [1, 2.5, "x", true, null, {}]}', {"a": [1, 2.5, "x", True, None, {}]}),
    "white space around": (b" \r\n\t{} ", {}),
    "text of any script": ('{"kh\u016fpu": "\U0001f9f6"}', {"kh\u016fpu": "\U0001f9f6"}),
    "a pair of surrogate escapes": (b'"\\ud83e\\uddf6"', "\U0001f9f6"),
    "an escaped backslash before u0000": (b'"\\\\u0000"', "\\u0000"),
    "the largest integers": (b"[9223372036854775807, -9223372036854775808]", [2**63 - 1, -(2**63)]),
    "many digits": (b"0.1234567890123456789012345", 0.1234567890123456789012345),
    "digits inside a text": (b'"99999999999999999999999"', "9" * 23),
    "the largest float": (b"1.7976931348623157e308", 1.7976931348623157e308),
    "64 lists beside an escaped character": (
        b'["\\ud83e\\uddf6", ' + b"[" * 63 + b"]" * 63 + b"]",
        ["\U0001f9f6", json.loads("[" * 63 + "]" * 63)],
    ),
    "64 lists": (b"[" * 64 + b"]" * 64, json.loads("[" * 64 + "]" * 64)),
    "many shallow lists": (b"[" + b"[]," * 500 + b"[]]", [[]] * 501),
    "brackets inside a text": (b'"' + b"[" * 500 + b'"', "[" * 500),
    "equal names in different objects": (b'[{"a": 1}, {"a": 1}]', [{"a": 1}, {"a": 1}]),
}


@requirement("memorywire:json.refused")
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_bad_text_is_refused_with_its_reason(case: tuple[bytes | str, str, str]) -> None:
    text, reason, pointer = case
    with pytest.raises(InvalidError) as refusal:
        loads(text)
    (fault,) = refusal.value.faults
    assert (refusal.value.reason, fault.reason, fault.pointer) == (reason, reason, pointer)


@requirement("memorywire:json.refused")
def test_bad_text_is_not_repeated_in_the_message() -> None:
    for text in (
        b'{"zqmark": zqmark}',
        b'{"zqmark": 1, "zqmark": 2}',
        b'{"a": "zqmark\\u0000"}',
        b'"zqmark\xff"',
    ):
        with pytest.raises(InvalidError) as refusal:
            loads(text)
        assert "zqmark" not in repr((refusal.value.args, refusal.value.faults))
        assert refusal.value.__cause__ is None


@requirement("memorywire:json.accepted")
@pytest.mark.parametrize("case", ACCEPTED.values(), ids=ACCEPTED)
def test_good_text_gives_its_value(case: tuple[bytes | str, object]) -> None:
    text, value = case
    assert repr(loads(text)) == repr(value)


@requirement("memorywire:json.accepted")
@given(value=JSON)
def test_any_value_comes_back_from_its_text(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert repr(loads(text)) == repr(loads(text.encode())) == repr(value)
