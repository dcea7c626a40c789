"""The dashboard asks for metrics that there are, by labels that they have."""

import json
import re
from pathlib import Path
from typing import Any

from quipu.telemetry import conventions as c
from quipu.telemetry.engine import INSTRUMENTS
from tests.requirement import requirement

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "examples/grafana-dashboard.json").read_text("utf-8")
)
_UNITS = {"s": "seconds", "By": "bytes"}
_LABELS = {
    *(c.OPERATION_NAME, c.PROVIDER_NAME, c.ERROR_TYPE, c.SERVER_ADDRESS, c.SERVER_PORT, c.OUTCOME),
    *(c.STORE_SCOPE, c.TIER, c.HTTP_METHOD, c.HTTP_ROUTE, c.HTTP_STATUS, c.MCP_METHOD, c.TOOL_NAME),
}


def in_prometheus() -> dict[str, bool]:
    """What OpenTelemetry's metrics are called there, and whether each is a histogram."""
    found: dict[str, bool] = {}
    for name, unit, buckets, _ in INSTRUMENTS:
        plain, suffix = name.replace(".", "_"), _UNITS.get(unit)
        found[plain if suffix is None or plain.endswith(suffix) else f"{plain}_{suffix}"] = (
            buckets is not None
        )
    return found


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


@requirement("opentelemetry:dashboard")
def test_each_panel_asks_for_metrics_that_there_are() -> None:
    known, asked = in_prometheus(), set[str]()
    for expression in expressions():
        for name in re.findall(r"\b(?:gen_ai_client|quipu|http_server|mcp_server)_[a-z_]+", expression):
            if name.replace("_", ".") in {label.replace("_", ".") for label in _LABELS}:
                continue
            base = re.sub(r"_(bucket|count|sum)$", "", name)
            assert known[base] is (base != name), name
            asked.add(base)
    assert asked == known.keys()  # and each is shown somewhere


@requirement("opentelemetry:dashboard")
def test_each_panel_tells_series_apart_by_labels_that_there_are() -> None:
    labels = {name.replace(".", "_") for name in _LABELS} | {"le"}
    for expression in expressions():
        for listed in re.findall(r"by \(([^)]*)\)", expression):
            assert {name.strip() for name in listed.split(",")} <= labels, expression
        for listed in re.findall(r"\{([^}]*)\}", expression):
            assert {part.split("=")[0].strip("!~ ") for part in listed.split(",")} <= labels, expression
