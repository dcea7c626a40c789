"""The whole story once, over HTTP."""

import asyncio
from dataclasses import dataclass

import httpx
import pytest

from quipu.access.operations import CREATE_TOKEN
from quipu.bootstrap import http_app
from tests.governance.office import Office


@dataclass
class Desk:
    """A server in this process, and people who talk to it."""

    app: object
    office: Office

    async def person(self, name: str, *roles: str) -> httpx.AsyncClient:
        issued = await self.office(CREATE_TOKEN, name=name, roles=list(roles), default_agent="agent")
        transport = httpx.ASGITransport(self.app)  # type: ignore[arg-type]
        headers = {"Authorization": f"Bearer {issued.text}"}
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)


@pytest.fixture
def desk(any_office: Office) -> Desk:
    return Desk(http_app(any_office.container), any_office)


async def test_held_then_reviewed_then_approved_then_found(desk: Desk) -> None:
    async with await desk.person("bot", "agent") as bot, await desk.person("carla", "reviewer") as carla:
        held = await bot.post(
            "/v1/memories", json={"content": "Ana lives in Lisbon", "approval_required": True}
        )
        body = held.json()
        assert (held.status_code, body["pending_approval"], body["stores"]) == (202, True, [])
        assert body["approval_url"].endswith(f"/review/{body['proposal_id']}")
        query = {"query": "where does Ana live?", "min_relevance": "off"}
        assert (await bot.post("/v1/memories/recall", json=query)).json()["results"] == []

        (waiting,) = (await carla.get("/v1/proposals", params={"limit": 10})).json()["reviews"]
        address = f"/v1/proposals/{waiting['id']}"
        shown = (await carla.get(address)).json()
        assert (shown["operation"], shown["agent_id"], shown["writer"]) == ("remember", "agent", "bot")
        assert shown["diff"]["added"][0]["content"] == "Ana lives in Lisbon"
        assert (await bot.post(f"{address}/decision", json={"approved": True})).status_code == 403
        stale = await carla.post(f"{address}/decision", json={"approved": True, "etag": "0-0"})
        assert (stale.status_code, stale.json()["reason"]) == (409, "stale_proposal")
        decision = await carla.post(f"{address}/decision", json={"approved": True, "etag": shown["etag"]})
        assert (decision.status_code, decision.json()["reviewer"]) == (200, "carla")

        (hit,) = (await bot.post("/v1/memories/recall", json=query)).json()["results"]
        assert (hit["id"], hit["provenance"]["written_by"]) == (body["id"], "bot")
        assert (await carla.post(f"{address}/decision", json={"approved": False})).status_code == 409


async def test_whoever_prefers_to_wait_is_answered_with_the_decision(desk: Desk) -> None:
    async with await desk.person("bot", "agent") as bot, await desk.person("carla", "reviewer") as carla:

        async def decided(approved: bool) -> httpx.Response:
            asked = asyncio.create_task(
                bot.post(
                    "/v1/memories",
                    json={"content": "Ana lives in Lisbon", "approval_required": True},
                    headers={"Prefer": "wait=30"},
                )
            )
            found = []
            for _ in range(2_000):  # until it waits
                if found := (await carla.get("/v1/proposals")).json()["reviews"]:
                    break
            await carla.post(f"/v1/proposals/{found[0]['id']}/decision", json={"approved": approved})
            return await asked

        kept = await decided(True)
        assert (kept.status_code, kept.json()["outcome"], kept.json()["stores"] != []) == (
            200,
            "created",
            True,
        )
        refused = await decided(False)
        assert (refused.status_code, refused.json()["code"]) == (403, "approval_rejected")


async def test_rules_are_read_and_replaced_with_their_etag(desk: Desk) -> None:
    async with await desk.person("admin", "admin") as admin:
        shown = (await admin.get("/v1/rules")).json()
        rule = {"id": "tea", "effect": "hold", "when": {"content_any": ["tea"]}}
        done = await admin.put(
            "/v1/rules", json={"rules": [rule]}, headers={"If-Match": f'"{shown["etag"]}"'}
        )
        assert done.status_code == 200
        again = (await admin.put("/v1/rules", json={"rules": done.json()["rules"]})).json()
        assert [one["when"] for one in again["rules"]] == [{"content_any": ["tea"]}]
        stale = await admin.put("/v1/rules", json={"rules": []}, headers={"If-Match": f'"{shown["etag"]}"'})
        assert stale.status_code == 409
        tried = (await admin.post("/v1/rules/test", json={"rules": [rule]})).json()
        assert tried == {"replayed": [], "pending": []}
        held = await admin.post("/v1/memories", json={"content": "tea"})
        taken_back = await admin.delete(f"/v1/proposals/{held.json()['proposal_id']}")
        assert (held.status_code, taken_back.status_code) == (202, 200)
