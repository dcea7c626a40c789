"""What an outside conformance run does: runs workflows by HTTP, polls them, and holds every answer to the schemas."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

from quipu.faces.openwop.openapi import schemas
from quipu.model.access import Role
from quipu.model.principal import Principal, local
from quipu.testing.embedders import WordEmbedder
from tests.faces.serving import Served, served

TERMINAL = ("completed", "failed", "cancelled")
MARKER = "[REDACTED:{label}]"
PATIENCE_S = 20

REGISTRY: Registry[Any] = Registry().with_resources(
    (body["$id"], Resource.from_contents(body)) for body in schemas().values()
)
FORMATS = FormatChecker()


@FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    from datetime import datetime

    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


def checked(name: str, body: Any) -> Any:
    """The body, if it is what the schema says."""
    Draft202012Validator(schemas()[name], registry=REGISTRY, format_checker=FORMATS).validate(body)
    return body


def payload_checked(kind: str, body: Any) -> Any:
    """A payload, if it is what events of this type say."""
    reference = {"$ref": f"urn:quipu:openwop:v1:run-event-payloads#/$defs/{kind}"}
    Draft202012Validator(reference, registry=REGISTRY, format_checker=FORMATS).validate(body)
    return body


@dataclass
class Suite:
    """One tenant's client."""

    at: Served
    client: httpx.Client
    #: Clients are closed at the end.
    ending: contextlib.ExitStack
    tenant: str = "default"

    def with_token(self, token: str) -> httpx.Client:
        """A client that shows another token; "" shows none."""
        return self.ending.enter_context(self.at.client(token))

    @property
    def principal(self) -> Principal:
        return local(self.tenant)

    def get(self, path: str, name: str | None = None, status: int = 200, **given: Any) -> Any:
        return self._told(self.client.get(path, **given), name, status)

    def post(
        self, path: str, body: Any = None, name: str | None = None, status: int = 200, **given: Any
    ) -> Any:
        return self._told(self.client.post(path, json=body, **given), name, status)

    def _told(self, response: httpx.Response, name: str | None, status: int) -> Any:
        assert response.status_code == status, response.text
        body = response.json() if response.content else None
        if response.status_code >= 400:
            checked("error-envelope", body)
        return body if name is None else checked(name, body)

    def run(self, workflow_id: str, **body: Any) -> Any:
        """Open a run, wait for its end, and look at it."""
        opened = self.post("/v1/runs", {"workflowId": workflow_id, **body}, "run-created", 201)
        return self.ended(opened["runId"])

    def ended(self, run_id: str) -> Any:
        until = time.monotonic() + PATIENCE_S
        while True:
            found = self.get(f"/v1/runs/{run_id}", "run-snapshot")
            if found["status"] in TERMINAL:
                return found
            assert time.monotonic() < until, "the run does not end"
            time.sleep(0.01)

    def events(self, run_id: str, **query: Any) -> list[Any]:
        told = self.get(f"/v1/runs/{run_id}/events", "events", params=query)
        return told["events"]

    def outside(self, **body: Any) -> str:
        """A run that the test drives."""
        opened = self.post("/v1/x-host-quipu-runs", {"workflowId": "w", **body}, "run-created", 201)
        return opened["runId"]

    def memory(self, operation: str, status: int = 200, **body: Any) -> Any:
        return self.post(f"/v1/x-host-quipu-memory/{operation}", body, status=status)

    def tenant_named(self, tenant: str, **given: Any) -> Suite:
        """Another tenant's client."""

        async def token() -> str:
            service = self.at.service
            await self.at.web.running.parts.ledger.open(tenant)
            made = {"name": "suite", "roles": (Role.ADMIN,), **given}
            return (await service.tokens.issue(local(tenant), **made)).text

        return replace(self, client=self.with_token(self.at.do(token())), tenant=tenant)


@contextlib.contextmanager
def suite(store: Any = None, **settings: Any) -> Iterator[Suite]:
    """A server as a conformance run wants it."""
    known = {"openwop_seams": True, "secrets_marker": MARKER, "rate_per_minute": 0}
    with (
        served(store, embedder=WordEmbedder(), **{**known, **settings}) as at,
        contextlib.ExitStack() as ending,
    ):
        yield Suite(at, ending.enter_context(at.client()), ending)
