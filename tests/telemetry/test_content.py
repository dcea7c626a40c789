"""Texts on spans: only for who asked, only after redaction, and cut so that they stay JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu import SecretLeakageError
from quipu.telemetry.check import Terms, record_faults
from quipu.telemetry.content import LONGEST, records_text, redacted, text_of
from tests.fixtures.spans import Shown, values
from tests.requirement import requirement
from tests.telemetry.conftest import Opened

ON = {"telemetry_capture_content": "SPAN_ONLY"}
KEY = "sk-proj-" + "abcdEFGH1234ijklMNOP5678qrstUVWX90yz"
TEXT = "gen_ai.memory.content"
QUERY = "gen_ai.memory.query"


@requirement("opentelemetry:content.off")
async def test_nothing_is_shown_unasked(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.remember("Ana likes tea.")
    await memory.recall("tea")
    assert all("tea" not in str(value) for span in shown.taken() for value in values(span).values())


@requirement("opentelemetry:content.redacted")
async def test_what_was_asked_for_is_shown_after_redaction(opened: Opened, shown: Shown) -> None:
    memory = await opened(**ON)
    await memory.remember(f"Ana likes tea; the key is {KEY}.")
    text = values(shown.one())[TEXT]
    assert text.startswith("Ana likes tea; the key is ")
    assert KEY not in text
    await memory.recall(f"tea {KEY}")
    query = values(shown.one())[QUERY]
    assert query.startswith("tea ")
    assert KEY not in query
    await memory.add_secret("jam", "plum jam")  # what is registered later is kept out too
    await memory.recall("the plum jam of Ana")
    assert "plum jam" not in values(shown.one())[QUERY]
    assert shown.findings(Terms(allows_content=True)) == []


@requirement("opentelemetry:names.redacted")
async def test_a_secret_in_a_name_is_not_shown(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    with pytest.raises(SecretLeakageError):
        await memory.remember("Ana likes tea.", user_id=KEY)
    await memory.recall("tea", user_id=KEY, store="main")
    with pytest.raises(Exception, match="no such"):
        await memory.get(KEY)
    with pytest.raises(SecretLeakageError):
        await memory.forget(ids=[KEY])
    spans = shown.taken()
    assert len(spans) == 4
    for span in spans:
        assert KEY not in f"{span.name} {span.status.description} {values(span)}"


@requirement("opentelemetry:names.redacted")
@pytest.mark.parametrize("name", ["x" * 2000, "line\nbreak", "\u202e"])
async def test_a_name_that_cannot_be_kept_is_left_off(opened: Opened, shown: Shown, name: str) -> None:
    memory = await opened()
    with pytest.raises(Exception):  # noqa: B017, PT011  too long, or not there
        await memory.get(name)
    with pytest.raises(Exception):  # noqa: B017, PT011
        await memory.remember("Ana likes tea.", store=name)
    for span in shown.taken():
        assert name not in str(values(span))


@requirement("opentelemetry:content.hook")
async def test_the_hook_has_the_last_word(opened: Opened, shown: Shown) -> None:
    def upper(records: Sequence[Mapping[str, Any]], operation: str) -> Sequence[Mapping[str, Any]]:
        return [{**record, "content": f"{operation}: {str(record['content']).upper()}"} for record in records]

    memory = await opened({"redact": upper}, **ON)
    await memory.remember("Ana likes tea.")
    assert values(shown.one())[TEXT] == "update_memory: ANA LIKES TEA."
    await memory.recall("tea")
    assert values(shown.one())[QUERY] == "search_memory: TEA"


@requirement("opentelemetry:content.hook")
@pytest.mark.parametrize("answer", [None, "text", [1], [{"content": {1, 2}}], RuntimeError()])
async def test_a_hook_that_fails_shows_nothing(
    opened: Opened, shown: Shown, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    def broken(records: Any, operation: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    memory = await opened({"redact": broken}, **ON)
    await memory.remember("Ana likes tea.")
    await memory.remember("Ana likes tea.")
    for span in shown.taken():
        assert span.name == "update_memory main"
        assert TEXT not in values(span)
    assert len([one for one in caplog.records if one.name == "quipu.telemetry"]) == (
        0 if answer is None else 1
    )


@requirement("opentelemetry:content.merged")
async def test_the_merged_convention_shows_records(opened: Opened, shown: Shown) -> None:
    memory = await opened(telemetry_convention="merged", **ON)
    done = await memory.remember("Ana likes tea.")
    assert json.loads(values(shown.one())["gen_ai.memory.records"]) == [
        {"id": done.id, "content": "Ana likes tea."}
    ]
    await memory.recall("tea")
    seen = values(shown.one())
    (hit,) = json.loads(seen["gen_ai.memory.records"])
    assert (hit["id"], hit["content"]) == (done.id, "Ana likes tea.")
    assert seen["gen_ai.memory.query.text"] == "tea"
    assert record_faults(seen["gen_ai.memory.records"]) == []


@requirement("opentelemetry:content.cut")
async def test_what_is_cut_says_so(opened: Opened, shown: Shown) -> None:
    memory = await opened(**ON)
    await memory.remember("tea " * 2000)
    seen = values(shown.one())
    assert len(seen[TEXT]) == LONGEST
    assert seen["quipu.memory.content.truncated"] is True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@requirement("opentelemetry:content.cut")
@given(JSON, st.integers(2, 200))
def test_content_stays_json_and_short(content: Any, most: int) -> None:
    text, is_cut = text_of(content, most)
    assert len(text) <= most
    if not isinstance(content, str):
        assert is_cut or json.loads(text) == content
        json.loads(text)


@requirement("opentelemetry:content.cut")
@given(
    st.lists(st.fixed_dictionaries({"id": st.text(max_size=9), "content": st.text()})), st.integers(2, 300)
)
def test_records_stay_a_list_of_records(records: list[dict[str, Any]], most: int) -> None:
    text, is_cut = records_text(records, most)
    found = json.loads(text)
    assert len(text) <= most
    assert record_faults(found) == []
    if not is_cut:
        assert found == records


def test_nothing_is_asked_of_a_hook_without_records() -> None:
    assert redacted([], "search_memory", lambda *_: pytest.fail("asked")) == []
