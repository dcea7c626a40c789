"""Manners of a library: the API only, lazily, never failing; settings that are understood; a dashboard that fits."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider

import quipu.sync
from quipu import Memory
from quipu.bootstrap.telemetry import Telemetry
from quipu.config import Config, load
from quipu.errors import NotFoundError
from quipu.telemetry.names import Convention
from quipu.telemetry.settings import member
from tests.architecture.tree import ROOT
from tests.requirement import requirement
from tests.telemetry.conftest import Opened
from tests.telemetry.shown import Shown, attributes

_ALONE = """
import asyncio, sys
import quipu
async def main():
    async with quipu.Memory("ana", "sqlite://:memory:", embedder="none") as memory:
        await memory.remember("tea")
        assert len(await memory.recall("tea")) == 1
asyncio.run(main())
found = [name for name in sys.modules if name.startswith("opentelemetry")]
assert not found, found
"""


@requirement("telemetry:library")
def test_without_anybody_who_loaded_it_opentelemetry_is_not_imported() -> None:
    done = subprocess.run([sys.executable, "-c", _ALONE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@requirement("telemetry:library")
async def test_a_provider_that_fails_fails_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(TracerProvider):
        def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
            class Tracer:
                def start_span(self, *args: Any, **kwargs: Any) -> Any:
                    raise RuntimeError("broken")

            return Tracer()

    told = Telemetry(tracer_provider=Broken(shutdown_on_exit=False))
    with caplog.at_level(logging.WARNING, "quipu.telemetry"):
        async with Memory("ana", "sqlite://:memory:", embedder="none", telemetry=told) as memory:
            await memory.remember("tea")
            assert len(await memory.recall("tea")) == 1
            with pytest.raises(NotFoundError):
                await memory.get("mem_nowhere")
    assert "RuntimeError" in caplog.text


@requirement("telemetry:library")
async def test_a_call_that_is_given_up_is_cancelled(shown: Shown, opened: Opened) -> None:
    memory = await opened()
    task = asyncio.create_task(memory.recall("tea"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (span,) = shown.spans
    assert attributes(span)["error.type"] == "cancelled"
    assert shown.findings() == []


@requirement("telemetry:library")
def test_blocking_calls_stay_in_their_callers_trace(shown: Shown) -> None:
    told = Telemetry(tracer_provider=shown.tracers)
    with quipu.sync.Memory("ana", "sqlite://:memory:", embedder="none", telemetry=told) as memory:
        shown.clear()
        with shown.tracers.get_tracer("agent").start_as_current_span("agent") as agent:
            memory.remember("tea")
    assert shown.span("update_memory main").parent == agent.get_span_context()


@requirement("telemetry:settings")
def test_unknown_words_are_warned_of_once_and_mean_the_default(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "quipu.telemetry"):
        for _ in range(2):
            assert member(Convention, "latest", Convention.PROPOSAL, "telemetry_convention") == "proposal"
    assert len(caplog.records) == 1
    assert member(Convention, "MERGED", Convention.PROPOSAL, "telemetry_convention") == "merged"


@requirement("telemetry:settings")
def test_settings_come_from_the_environment() -> None:
    given = load(
        {
            "QUIPU_TELEMETRY_CONVENTION": "both",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
            "QUIPU_TELEMETRY": "false",
            "XDG_CONFIG_HOME": "/nowhere",
        }
    )
    assert (given.telemetry_convention, given.telemetry_capture_content) == ("both", "SPAN_ONLY")
    assert (given.telemetry_endpoint, given.telemetry) == ("http://127.0.0.1:4318", False)
    assert Config().telemetry is True


@requirement("telemetry:events")
async def test_content_and_exceptions_are_events_where_that_is_set(opened: Opened, shown: Shown) -> None:
    exporter = InMemoryLogRecordExporter()
    logs = LoggerProvider(shutdown_on_exit=False)
    logs.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    memory = await opened(
        {"logger_provider": logs}, telemetry_events=True, telemetry_capture_content="EVENT_ONLY"
    )
    await memory.remember("Mara likes tea")
    with pytest.raises(NotFoundError):
        await memory.get("mem_nowhere")
    details, exception = (row.log_record for row in exporter.get_finished_logs())
    assert "tea" not in shown.text
    assert details.event_name == "quipu.memory.operation.details"
    assert details.attributes is not None
    assert "Mara likes tea" in str(details.attributes["gen_ai.memory.records"])
    assert shown.spans[0].context is not None
    assert details.span_id == shown.spans[0].context.span_id
    assert exception.event_name == "gen_ai.client.operation.exception"
    assert exception.severity_number is not None
    assert exception.severity_number.value == 13
    assert dict(exception.attributes or {})["exception.type"] == "not_found"


@requirement("telemetry:library")
def test_attribute_names_are_spelled_in_one_module_only() -> None:
    spelled = re.compile(r'"((?:gen_ai|quipu)\.memory\.[\w.]*)')
    source = ROOT / "src" / "quipu"
    found = {
        path.name
        for path in source.rglob("*.py")
        for name in spelled.findall(path.read_text("utf-8"))
        if not Path(ROOT / "src", *name.split(".")).with_suffix(".py").exists()  # a module's name
    }
    assert found == {"names.py"}
    assert Path(source, "telemetry", "names.py").exists()
