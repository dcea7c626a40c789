"""The host's OpenAPI document, made from the schemas that it publishes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast

VERSION = "3.1.0"
_URN = "urn:quipu:openwop:v1:"
#: Method and path → what it does, and the schema of each answer by its status; None: an answer without a body.
_OPERATIONS: tuple[tuple[str, str, str, Mapping[int, str | None]], ...] = (
    ("get", "/.well-known/openwop", "What this host can do.", {200: "capabilities"}),
    ("get", "/v1/openapi.json", "This document.", {200: "openapi"}),
    ("post", "/v1/runs", "Open a run of a workflow; the engine executes it.", {201: "run-created"}),
    ("get", "/v1/runs/{run_id}", "A run as it stands, with its variables.", {200: "run-snapshot"}),
    ("get", "/v1/runs/{run_id}/events", "The log, as JSON or as an event stream.", {200: "events"}),
    ("get", "/v1/runs/{run_id}/events/poll", "The log behind a number; waits for news.", {200: "events"}),
    ("post", "/v1/runs/{run_id}:fork", "Replay or branch a run.", {201: "run-created"}),
    ("post", "/v1/runs/{run_id}/cancel", "Ask a run to stop.", {200: "run-state"}),
    ("get", "/v1/workflows/{workflow_id}", "The definition of a workflow.", {200: "workflow"}),
    ("get", "/v1/agents", "Agents, and what each must do without.", {200: "agent-inventory-response"}),
    ("get", "/v1/agents/{agent_id}", "One agent.", {200: "agent"}),
    ("get", "/v1/memory/{ref}", "Entries of a ref, as they are now.", {200: "entries"}),
    (
        "post",
        "/v1/x-host-quipu-memory/{operation}",
        "list, get, put or delete entries, with `runId` bound to that run; or compact a ref.",
        {200: "memory-answer", 201: "memory-put"},
    ),
    ("post", "/v1/x-host-quipu-memory-refs", "A ref for an agent's memory.", {201: "memory-ref"}),
    ("get", "/v1/x-host-quipu-runs", "Runs, the newest first.", {200: "runs"}),
    ("post", "/v1/x-host-quipu-runs", "Open a run that you drive yourself.", {201: "run-created"}),
    ("post", "/v1/x-host-quipu-runs/{run_id}/nodes", "Tell what a node does.", {200: "run-state"}),
    ("post", "/v1/x-host-quipu-runs/{run_id}/complete", "The run is done.", {200: "run-state"}),
    ("post", "/v1/x-host-quipu-runs/{run_id}/fail", "The run has failed.", {200: "run-state"}),
    ("post", "/v1/x-host-quipu-runs/{run_id}/expire", "Drop a run's history.", {200: "run-state"}),
    ("get", "/v1/x-host-quipu-runs/{run_id}/notes/{backend}", "Notes of a run at work.", {200: "notes"}),
    ("post", "/v1/x-host-quipu-runs/{run_id}/notes/{backend}", "Note something.", {200: "notes"}),
    ("delete", "/v1/x-host-quipu-runs/{run_id}/notes/{backend}", "Drop the notes.", {200: "notes"}),
    ("post", "/v1/test/memory/seed", "Test seam: entries as given.", {201: "seeded"}),
    ("post", "/v1/test/memory/compact", "Test seam: compact a ref.", {200: "compacted", 204: None}),
    ("post", "/v1/host/sample/memory/distill", "Test seam: distill a ref.", {200: "distilled"}),
    ("post", "/v1/host/sample/memory/consolidate", "Test seam: consolidate a ref.", {200: "consolidated"}),
    ("post", "/v1/host/sample/commitment/fire", "Test seam: fire a commitment.", {200: "fired"}),
)
_PUBLIC = ("/.well-known/openwop", "/v1/openapi.json")
_STREAMED = "/v1/runs/{run_id}/events"


def folder() -> Traversable:
    """Where the schemas are: inside an installed package, or at the root of a source checkout."""
    installed = files("quipu") / "schemas"
    found = installed if installed.is_dir() else Path(__file__).parents[4] / "schemas"
    return found.joinpath("openwop")


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """Every schema that the host's answers follow, by name. Shared: to be read, not changed."""
    found = [item for item in folder().iterdir() if item.name.endswith(".json")]
    return {item.name.removesuffix(".json"): json.loads(item.read_text("utf-8")) for item in found}


def document(version: str) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path, said, answers in _OPERATIONS:
        told = {
            str(status): _answer(said, schema, streams=path == _STREAMED)
            for status, schema in answers.items()
        }
        operation: dict[str, Any] = {
            "summary": said,
            "operationId": f"{method}_{_name(path)}",
            "parameters": [_parameter(name) for name in _parameters(path)],
            "responses": {**told, "default": {"$ref": "#/components/responses/error"}},
        }
        if path in _PUBLIC:
            operation["security"] = []
        paths.setdefault(path, {})[method] = operation
    return {
        "openapi": VERSION,
        "info": {
            "title": "Quipu: OpenWOP memory host",
            "summary": "Runs that see memory as it was when they began.",
            "version": version,
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {name: _local(body) for name, body in sorted(schemas().items())},
            "responses": {
                "error": {
                    "description": "What went wrong.",
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/error-envelope"}}
                    },
                }
            },
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def served(version: str) -> bytes:
    """The document as it is sent."""
    return json.dumps(document(version), ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _answer(said: str, schema: str | None, *, streams: bool) -> dict[str, Any]:
    if schema is None:
        return {"description": said}
    content: dict[str, Any] = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    if streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": said, "content": content}


def _parameters(path: str) -> list[str]:
    return [part.split("}")[0] for part in path.split("{")[1:]]


def _parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _name(path: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in path).strip("_")


def _local(body: Any) -> Any:
    """A schema inside the document: references lead to its neighbours."""
    if isinstance(body, dict):
        made = {key: _local(value) for key, value in cast("dict[str, Any]", body).items()}
        for key in ("$schema", "$id"):
            made.pop(key, None)
        reference = made.get("$ref")
        if isinstance(reference, str) and reference.startswith(_URN):
            name, _, inside = reference.removeprefix(_URN).partition("#")
            made["$ref"] = f"#/components/schemas/{name}{inside}"
        return made
    if isinstance(body, list):
        return [_local(item) for item in cast("list[Any]", body)]
    return body
