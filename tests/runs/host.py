"""An OpenWOP host without a socket, and whoever asks it."""

import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from quipu.access.operations import CREATE_TENANT, CREATE_TOKEN
from quipu.bootstrap import http_app
from quipu.http.app import App
from quipu.model.principal import local
from tests.governance.office import Office
from tests.http.rig import Call, until

MEMORY, OWN = "/v1/x-host-quipu-memory", "/v1/x-host-quipu-runs"
TERMINAL = ("completed", "failed", "cancelled")


@dataclass
class Client:
    """One credential."""

    host: "Host"
    token: str
    id: str = ""

    async def __call__(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        content = None if body is None else json.dumps(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        return await self.host.http.request(
            method, path, content=content, headers={**sent, **kind, **(headers or {})}
        )

    async def get(self, path: str, status: int = 200) -> Any:
        return told(await self("GET", path), status)

    async def post(
        self, path: str, body: Any = None, status: int = 200, key: str | None = None, **fields: Any
    ) -> Any:
        headers = {} if key is None else {"Idempotency-Key": key}
        return told(await self("POST", path, fields if body is None else body, headers=headers), status)

    async def run(self, **body: Any) -> str:
        """A run that the test carries out."""
        return (await self.post(OWN, {"workflowId": "orders", **body}, 201))["runId"]

    async def put(self, ref: str, content: str, status: int = 201, **fields: Any) -> Any:
        entry = {"content": content, **fields.pop("entry", {})}
        return await self.post(f"{MEMORY}/put", {"memoryRef": ref, "entry": entry, **fields}, status)

    async def list(self, ref: str, **fields: Any) -> Any:
        return (await self.post(f"{MEMORY}/list", {"memoryRef": ref, **fields}))["entries"]

    async def end(self, run_id: str, **body: Any) -> Any:
        return await self.post(f"{OWN}/{run_id}/end", body)

    async def played(self, workflow: str, **body: Any) -> Any:
        """A fixture run at its end."""
        opened = await self.post("/v1/runs", {"workflowId": workflow, **body}, 201)
        return await self.ended(opened["runId"])

    async def ended(self, run_id: str) -> Any:
        """The run, once it is over."""
        while True:
            page = await self.get(f"/v1/runs/{run_id}/events/poll?timeout=20&lastSequence=100000")
            if page["isComplete"]:
                return await self.get(f"/v1/runs/{run_id}")

    async def events(self, run_id: str, mode: str = "debug") -> Any:
        return (await self.get(f"/v1/runs/{run_id}/events?streamMode={mode}"))["events"]

    def stream(self, run_id: str, query: str = "", **headers: str) -> Call:
        """The log as server-sent events, its pieces in the hands of the test."""
        sent = {"authorization": f"Bearer {self.token}", "accept": "text/event-stream", **headers}
        return Call(self.host.app, "GET", f"/v1/runs/{run_id}/events{query}", sent)


@dataclass
class Host:
    """The installation behind its addresses."""

    office: Office
    app: App = field(init=False)
    http: httpx.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        self.app = http_app(self.office.container)
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    async def client(self, name: str, *roles: str, tenant: str = "default", **fields: Any) -> Client:
        """Whoever shows a new token; an agent acts for `agent`, unless it is said otherwise."""
        if tenant != "default":
            await self.office(CREATE_TENANT, tenant=tenant)
        more = {} if "agents" in fields else {"default_agent": "agent"}
        issued = await self.office(
            CREATE_TOKEN,
            local(tenant, agent_id="agent"),
            name=name,
            roles=roles or ("admin",),
            **{**more, **fields},
        )
        return Client(self, issued.text, issued.token.id)


def told(response: httpx.Response, status: int) -> Any:
    assert response.status_code == status, response.text
    body = response.json() if response.content else None
    if status >= 400:
        assert {"error", "message"} <= body.keys() <= {"error", "message", "details"}, body
    return body


def frames(body: bytes) -> list[tuple[int, str, Any]]:
    """Server-sent events: id, name and data of each."""
    found: list[tuple[int, str, Any]] = []
    for part in body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in part.split("\n") if line and not line.startswith(":"))
        if lines:
            found.append((int(lines["id"]), lines["event"], json.loads(lines["data"])))
    return found


__all__ = ["MEMORY", "OWN", "Client", "Host", "frames", "told", "until"]
