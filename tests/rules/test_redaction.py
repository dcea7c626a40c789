"""Redaction: every string that will be kept passes, keys included; nothing else changes."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quipu.model.operations import Embedding, RememberRequest
from quipu.model.record import Link, MemoryType, PrivacyIntent
from quipu.rules.redaction import Redacted, redacted_request, redacted_text, redacted_value
from quipu.testing.strategies import json_values, texts

SECRET = "hunter2"  # noqa: S105  nobody's password, made up to be found


def masking(text: str) -> Redacted:
    found = ("password",) * len(re.findall(SECRET, text))
    return Redacted(text.replace(SECRET, "[password]"), found)


def shouting(text: str) -> Redacted:
    return Redacted(text.replace("[password]", "[PASSWORD]"))


def poisoned(value: Any) -> Any:
    """The same with the secret in every string."""
    if isinstance(value, str):
        return f"{value}{SECRET}"
    if isinstance(value, dict):
        return {poisoned(key): poisoned(item) for key, item in value.items()}
    return [poisoned(item) for item in value] if isinstance(value, list) else value


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [found for pair in value.items() for part in pair for found in strings(part)]
    return [found for part in value for found in strings(part)] if isinstance(value, list | tuple) else []


@given(json_values())
def test_no_string_escapes_at_any_depth(value: Any) -> None:
    found: list[str] = []
    clean = redacted_value(poisoned(value), [masking], found)
    assert not any(SECRET in text for text in strings(clean))
    assert found.count("password") >= len(strings(clean))


@given(json_values())
def test_a_value_without_secrets_comes_back_equal(value: Any) -> None:
    found: list[str] = []
    assert redacted_value(value, [masking], found) == value
    assert found == []


@given(texts())
def test_redactors_work_in_order_and_tell_what_they_found(text: str) -> None:
    found: list[str] = []
    assert redacted_text(f"{text}{SECRET}", [masking, shouting], found).endswith("[PASSWORD]")
    assert found == ["password"]


FULL = RememberRequest(
    agent_id="ana",
    type=MemoryType.EPISODIC,
    content=f"say {SECRET}",
    metadata={f"{SECRET}": [{"deep": SECRET}]},
    tags=(SECRET,),
    links=(Link("mem_A", SECRET),),
    source=SECRET,
    details={"location": SECRET, "participants": [SECRET]},
    reasoning=SECRET,
    confidence=0.5,
    user_id="mara",
)


def test_everything_of_a_request_that_will_be_kept_passes() -> None:
    found: list[str] = []
    clean = redacted_request(FULL, [masking], found)
    assert SECRET not in repr(clean)
    assert len(found) == 10 - 1  # nine places
    same = {field.name for field in fields(clean) if getattr(clean, field.name) == getattr(FULL, field.name)}
    assert {"agent_id", "type", "confidence", "user_id", "store"} <= same


def test_a_machine_is_redacted_inside() -> None:
    request = replace(FULL, type=MemoryType.PROCEDURAL, content={"name": SECRET, "states": [SECRET]})
    assert redacted_request(request, [masking], []).content == {
        "name": "[password]",
        "states": ["[password]"],
    }


def test_what_is_absent_stays_absent_and_without_redactors_nothing_is_touched() -> None:
    bare = RememberRequest(
        agent_id="ana",
        type=MemoryType.SEMANTIC,
        content="x",
        privacy_intent=PrivacyIntent(),
        embedding=Embedding("m", [1.0]),
    )
    assert redacted_request(bare, [masking], []) == bare
    assert redacted_request(FULL, [], []) is FULL


@given(st.lists(st.sampled_from((masking, shouting)), max_size=3))
def test_redacting_twice_changes_nothing_more(redactors: list[Any]) -> None:
    once = redacted_text(f"a {SECRET} b", redactors, [])
    if masking in redactors and redactors[-1] is masking:
        assert redacted_text(once, [masking], []) == once
