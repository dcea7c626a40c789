"""`quipu telemetry check` on files as collectors write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Cli
from tests.requirement import requirement


def attribute(name: str, value: str | int) -> dict[str, Any]:
    kind = "stringValue" if isinstance(value, str) else "intValue"
    return {"key": name, "value": {kind: str(value)}}


def request(**more: str | int) -> dict[str, Any]:
    """One OTLP request with one span."""
    given: dict[str, str | int] = {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.provider.name": "quipu",
        "gen_ai.memory.store.name": "main",
        "gen_ai.memory.search.result.count": 3,
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    span = {
        "name": "search_memory main",
        "kind": 3,
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
        "spanId": "00f067aa0ba902b7",
        "attributes": [attribute(name, value) for name, value in given.items()],
    }
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "x", "version": "1"}, "spans": [span]}]}]}


@requirement("telemetry:check.command")
def test_the_command_tells_and_ends_with_its_codes(tmp_path: Path, cli: Cli) -> None:
    good = tmp_path / "good.json"
    good.write_text(json.dumps(request()))
    assert "1 span of memory, 0 findings." in cli.said("telemetry", "check", str(good))
    piped = cli.said("telemetry", "check", "-", input=json.dumps(request()) + "\n" + json.dumps(request()))
    assert "2 spans of memory" in piped
    told = json.loads(
        cli.said("telemetry", "check", str(good), "--convention", "merged", "--format", "json", code=1)
    )
    assert told["spans"] == 1
    assert [row["id"] for row in told["findings"]] == [
        "span_name",
        "recommended",
        "unknown_attribute",
        "unknown_attribute",
    ]
    assert cli.json("telemetry", "check", str(good)) == {"spans": 1, "findings": []}


@requirement("telemetry:check.command")
def test_options_change_what_is_a_finding(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(request(gen_ai__memory__query="tea", acme__shelf="top")))
    said = cli.said("telemetry", "check", str(path), code=1)
    assert "content_without_opt_in" in said
    assert "unknown_attribute" in said
    cli.said("telemetry", "check", str(path), "--allow-content", "--vendor-prefix", "acme.")
    said = cli.said(
        "telemetry",
        "check",
        str(path),
        "--allow-content",
        "--vendor-prefix",
        "acme.",
        "--assume",
        "namespaced",
        code=1,
    )
    assert "gen_ai.memory.namespace" in said


@requirement("telemetry:check.command")
def test_what_cannot_be_read_and_what_holds_no_memory_have_codes_of_their_own(
    tmp_path: Path, cli: Cli
) -> None:
    assert cli("telemetry", "check", str(tmp_path / "none.json")).exit_code == 2
    (tmp_path / "broken.json").write_text("{")
    assert cli("telemetry", "check", str(tmp_path / "broken.json")).exit_code == 2
    assert cli("telemetry", "check", "--convention", "other").exit_code == 2
    told = cli("telemetry", "check", str(tmp_path / "none.json"), "--json")
    assert (told.exit_code, json.loads(told.stderr)["reason"]) == (2, "no_file")
    (tmp_path / "empty.json").write_text('{"resourceSpans": []}')
    assert cli("telemetry", "check", str(tmp_path / "empty.json")).exit_code == 3
