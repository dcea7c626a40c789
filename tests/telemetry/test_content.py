"""Content: only for who asked, after redaction, never with a secret in it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from opentelemetry import trace

from quipu.errors import NotFoundError, SecretLeakageError
from quipu.telemetry import content
from quipu.telemetry.settings import Capture, capture_of
from tests.requirement import requirement
from tests.telemetry.conftest import Opened
from tests.telemetry.shown import Shown, attributes

#: Of a shape that detectors know, and one that only its registration tells.
DETECTED = "ghp_" + "R8kTq2VwX5yZ7bN4mP9sD3fG6hJ1cL0aQeUi"
REGISTERED = "correct-horse-battery-staple-9431"


@requirement("telemetry:content.off")
async def test_nothing_of_content_or_query_is_shown_unasked(opened: Opened, shown: Shown) -> None:
    memory = await opened(telemetry_convention="both")
    await memory.remember("Mara likes tea")
    await memory.recall("what does Mara like?")
    assert "tea" not in shown.text
    assert "like?" not in shown.text
    assert shown.findings("both") == []


@requirement("telemetry:content.on")
async def test_content_is_shown_to_who_asked(opened: Opened, shown: Shown) -> None:
    memory = await opened(telemetry_convention="both", telemetry_capture_content="SPAN_ONLY")
    kept = await memory.remember("Mara likes tea")
    await memory.recall("what does Mara like?", min_relevance="off")
    written, searched = (attributes(span) for span in shown.spans)
    assert written["gen_ai.memory.content"] == "Mara likes tea"
    assert json.loads(written["gen_ai.memory.records"]) == [{"id": kept.id, "content": "Mara likes tea"}]
    assert searched["gen_ai.memory.query"] == searched["gen_ai.memory.query.text"] == "what does Mara like?"
    (found,) = json.loads(searched["gen_ai.memory.records"])
    assert (found["id"], found["content"]) == (kept.id, "Mara likes tea")
    assert shown.findings("both", allows_content=True) == []
    assert {finding.id for finding in shown.findings("both")} == {"content_without_opt_in"}


@requirement("telemetry:content.secrets")
@pytest.mark.parametrize("capture", ["NO_CONTENT", "SPAN_AND_EVENT"])
@pytest.mark.parametrize("convention", ["proposal", "merged", "both"])
async def test_no_secret_is_in_anything_that_leaves(
    opened: Opened, shown: Shown, capture: str, convention: str
) -> None:
    memory = await opened(
        telemetry_convention=convention,
        telemetry_capture_content=capture,
        telemetry_namespace="plain",
        telemetry_identity="always",
    )
    early = await memory.remember(f"before it was registered: {REGISTERED}")
    await memory.add_secret("staple", REGISTERED)
    for secret in (DETECTED, REGISTERED):
        await memory.remember(f"the key is {secret}")
        await memory.remember("kept apart", metadata={"note": secret}, tags=[secret])
        await memory.recall(f"which key is {secret}?", min_relevance="off")
        await memory.recall("keys", user_id=secret, session_id=secret)
        await memory.forget(ids=[secret], reason=secret)
        for names in ({"user_id": secret}, {"session_id": secret}, {"store": secret}):
            with pytest.raises(SecretLeakageError):
                await memory.remember("fine", **names)
        with pytest.raises(SecretLeakageError):
            await memory.create_store(secret)
    await memory.get(early.id)
    assert len(shown.spans) >= 17
    assert DETECTED not in shown.text
    # What was shown before anybody said that it is a secret cannot be taken back.
    later = shown.spans[1:]
    assert not [span.name for span in later if REGISTERED in span.to_json()]
    assert (REGISTERED in shown.text) == (capture != "NO_CONTENT")


@requirement("telemetry:content.secrets")
async def test_a_secret_registered_by_another_process_is_known_at_once(
    opened: Opened, shown: Shown, tmp_path: Any
) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    memory = await opened(store_url=url, telemetry_capture_content="SPAN_ONLY")
    other = await opened(store_url=url)
    await memory.recall("warm up")
    await other.add_secret("staple", REGISTERED)
    shown.clear()
    await memory.recall("keys", user_id=REGISTERED)
    await memory.recall(f"which key is {REGISTERED}?")
    assert REGISTERED not in shown.text
    assert "which key is" in shown.text


@requirement("telemetry:content.hook")
async def test_a_hook_has_the_last_word(opened: Opened, shown: Shown) -> None:
    def hook(records: Any, operation: str) -> Any:
        return [{**record, "content": f"{operation}: hidden"} for record in records]

    memory = await opened({"redact": hook}, telemetry_capture_content="true")
    await memory.remember("Mara likes tea")
    await memory.recall("what does Mara like?")
    written, searched = (attributes(span) for span in shown.spans)
    assert written["gen_ai.memory.content"] == "update_memory: hidden"
    assert searched["gen_ai.memory.query"] == "search_memory: hidden"


@requirement("telemetry:content.hook")
async def test_a_hook_that_fails_lets_nothing_through(opened: Opened, shown: Shown) -> None:
    def hook(records: Any, operation: str) -> Any:
        raise RuntimeError(records)

    memory = await opened({"redact": hook}, telemetry_capture_content="true")
    await memory.remember("Mara likes tea")
    assert "tea" not in shown.text
    assert shown.spans[0].status.status_code.name == "UNSET"


@requirement("telemetry:content.hook")
@pytest.mark.parametrize("capture", ["span_only", "span_and_event"])
@pytest.mark.parametrize(
    "passed",
    [None, "text", 7, ["text"], {"content": "x"}, [{"content": object()}], [{"content": {1, 2}}]],
    ids=["nothing", "text", "number", "texts", "record", "object", "set"],
)
async def test_a_hook_that_gives_back_no_records_lets_nothing_through_and_loses_no_span(
    opened: Opened, shown: Shown, passed: Any, capture: str
) -> None:
    given = {"redact": lambda records, operation: passed}
    settings = {"telemetry_capture_content": capture, "telemetry_convention": "both"}
    memory = await opened(given, **settings, telemetry_events=True)
    await memory.remember("Mara likes tea")
    await memory.recall("what does Mara like?")
    assert [span.name for span in shown.spans] == ["update_memory main", "search_memory main"]
    assert [span.parent for span in shown.spans] == [None, None]
    assert "tea" not in shown.text
    assert not trace.get_current_span().get_span_context().is_valid
    assert sum(point.count for _, point in shown.points("gen_ai.client.operation.duration")) == 3


async def test_a_span_that_cannot_be_described_ends_and_stands_above_nothing(
    opened: Opened, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = await opened()

    def failing(*_: Any) -> Any:
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr("quipu.telemetry.operating.ended", failing)
        await memory.remember("Mara likes tea")
        with pytest.raises(NotFoundError):
            await memory.get("mem_nowhere")
    await memory.remember("Mara likes cake")
    first, second, third = shown.spans
    assert (first.name, second.name, third.name) == ("update_memory", "search_memory", "update_memory main")
    assert (first.parent, second.parent, third.parent) == (None, None, None)
    assert attributes(second)["error.type"] == "not_found"
    assert sum(point.count for _, point in shown.points("gen_ai.client.operation.duration")) == 4


@requirement("telemetry:content.limit")
def test_of_a_thousand_long_records_no_more_is_written_than_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    plain = json.dumps

    def counted(value: Any, **options: Any) -> str:
        text = plain(value, **options)
        written.append(len(text))
        return text

    records = [{"id": f"mem_{number}", "content": "tea " * 100} for number in range(1_000)]
    monkeypatch.setattr("quipu.telemetry.content.json.dumps", counted)
    text, is_cut = content.records_text(records, 4_096)
    assert (is_cut, len(json.loads(text))) == (True, 9)
    assert sum(written) < 3 * 4_096


@requirement("telemetry:content.limit")
async def test_long_content_is_cut_and_says_so(opened: Opened, shown: Shown) -> None:
    memory = await opened(
        telemetry_convention="both", telemetry_capture_content="1", telemetry_content_limit=100
    )
    await memory.remember("tea " * 100)
    given = attributes(shown.spans[0])
    assert len(given["gen_ai.memory.content"]) == 100
    assert len(given["gen_ai.memory.records"]) <= 100
    assert json.loads(given["gen_ai.memory.records"])[0]["content"].startswith("tea")
    assert given["quipu.memory.content.truncated"] is True


@requirement("telemetry:content.limit")
def test_what_is_cut_is_still_json() -> None:
    records = [{"id": f"mem_{number}", "content": 'quo"te\n' * 20, "score": 0.5} for number in range(5)]
    whole, _ = content.records_text(records, 10_000)
    for limit in range(2, len(whole) + 2):
        text, is_cut = content.records_text(records, limit)
        assert len(text) <= limit
        json.loads(text)
        assert is_cut == (limit < len(whole))
    text, is_cut = content.text_of({"a": 'b"' * 50}, 40)
    assert (len(text) <= 40, is_cut, isinstance(json.loads(text), str)) == (True, True, True)


@requirement("telemetry:content.words")
def test_both_generations_of_words_are_understood(caplog: pytest.LogCaptureFixture) -> None:
    for word in ("NO_CONTENT", "no_content", "false", "0", ""):
        assert capture_of(word) is Capture.NO_CONTENT
    for word in ("SPAN_ONLY", "true", "1", "True"):
        assert capture_of(word) is Capture.SPAN_ONLY
    assert capture_of("event_only") is Capture.EVENT_ONLY
    assert capture_of("SPAN_AND_EVENT") is Capture.SPAN_AND_EVENT
    with caplog.at_level(logging.WARNING):
        assert capture_of("everything") is capture_of("everything") is Capture.NO_CONTENT
    assert len(caplog.records) == 1
