"""The standard variables that keep a signal from leaving."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.faces.serving import Program
from tests.telemetry.receiver import receiving

_ROADS = {"TRACES": "/v1/traces", "METRICS": "/v1/metrics", "LOGS": "/v1/logs"}


@pytest.mark.parametrize("signal", _ROADS)
def test_a_signal_without_an_exporter_stays_here(signal: str, tmp_path: Path) -> None:
    """`none` is OpenTelemetry's word for it; others go on as they did."""
    with receiving() as receiver:
        settings = {
            "QUIPU_TELEMETRY_EVENTS": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            f"OTEL_{signal}_EXPORTER": "none",
        }
        with Program(tmp_path / "memory.db", **settings) as program:
            headers = {"Authorization": f"Bearer {program.token}"}
            with httpx.Client(base_url=program.url, headers=headers, timeout=30) as http:
                missing = {"agent_id": "ana", "query": "which oolong?", "store": "nowhere"}
                assert http.post("/memorywire/v0/recall", json=missing).status_code == 404
            assert program.stop() == 0
        came = {path for path, _ in receiver.bodies}
    assert came
    assert _ROADS[signal] not in came
