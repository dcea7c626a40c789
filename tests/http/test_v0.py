"""memorywire v0's own wire."""

from typing import Any

import jsonschema
import pytest

from tests.http.conftest import Server

BASE = "/memorywire/v0"


async def remembered(server: Server, **fields: Any) -> Any:
    body = {"agent_id": "agent", "type": "semantic", "content": "Ana lives in Lisbon", **fields}
    return await server.post(f"{BASE}/remember", **body)


async def test_answers_are_closed_and_valid_by_their_schemas(server: Server) -> None:
    kept = (await remembered(server, metadata={"city": "Lisbon"})).json()
    answers: dict[str, Any] = {
        "remember": kept,
        "recall": (await server.post(f"{BASE}/recall", agent_id="agent", query="Ana Lisbon")).json(),
        "merge": (
            await server.post(
                f"{BASE}/merge",
                agent_id="agent",
                canonical=kept["id"],
                duplicates=[(await remembered(server)).json()["id"]],
            )
        ).json(),
        "expire": (
            await server.post(f"{BASE}/expire", agent_id="agent", policy={"type": "emotional"})
        ).json(),
        "forget": (await server.post(f"{BASE}/forget", agent_id="agent", ids=[kept["id"]])).json(),
    }
    for name, answer in answers.items():
        schema = (await server.http.get(f"{BASE}/schemas/{name}.response")).json()
        jsonschema.validate(answer, schema)
        assert "extensions" not in answer
    hit = answers["recall"]["results"][0]
    assert {
        "id",
        "type",
        "content",
        "score",
        "metadata",
        "created_at",
        "supporting",
        "source_store",
    } <= hit.keys()


async def test_extensions_come_only_when_they_are_asked_for(server: Server) -> None:
    kept = (await remembered(server, extensions=True)).json()
    assert kept["extensions"]["quipu"]["version"] == 1


async def test_null_is_absent_also_inside_a_policy(server: Server) -> None:
    kept = await remembered(server, user_id=None, metadata=None, expires_at=None)
    assert kept.status_code == 200
    done = await server.post(
        f"{BASE}/expire",
        agent_id="agent",
        policy={"older_than_days": 1, "type": None, "confidence_below": None},
    )
    assert done.status_code == 200
    empty = await server.post(f"{BASE}/expire", agent_id="agent", policy={"older_than_days": None})
    assert empty.json()["reason"] == "empty_policy"


async def test_what_v0_requires_is_required(server: Server) -> None:
    for missing in ("agent_id", "type", "content"):
        body = {"agent_id": "agent", "type": "semantic", "content": "x"}
        del body[missing]
        answer = await server.post(f"{BASE}/remember", **body)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, f"/{missing}")


async def test_a_plain_filter_name_that_is_no_field_is_a_metadata_key(server: Server) -> None:
    await remembered(server, metadata={"city": "Lisbon"})
    await remembered(server, metadata={"city": "Porto"})
    found = await server.post(f"{BASE}/recall", agent_id="agent", query="Ana", filter={"city": "Porto"})
    assert [hit["metadata"]["city"] for hit in found.json()["results"]] == ["Porto"]
    ours = await server.post("/v1/memories/recall", query="Ana", filter={"city": "Porto"})
    assert ours.json()["reason"] == "unknown_field"


async def test_unknown_fields_are_refused_or_named_when_handling_is_lenient(server: Server) -> None:
    refused = await remembered(server, mood="good")
    assert refused.json()["reason"] == "unknown_field"
    lenient = await server.http.post(
        f"{BASE}/remember",
        json={"agent_id": "a", "type": "semantic", "content": "x", "mood": "good"},
        headers={"Prefer": "handling=lenient"},
    )
    assert (lenient.status_code, lenient.headers["quipu-ignored-fields"]) == (200, "mood")


async def test_many_are_answered_each_in_the_closed_form(server: Server) -> None:
    items = [
        {"agent_id": "a", "type": "semantic", "content": "x"},
        {"agent_id": "a", "type": "semantic", "content": "y"},
    ]
    answer = (await server.post(f"{BASE}/remember/batch", items=items)).json()
    assert [item["response"].keys() for item in answer["results"]] == [
        {"id", "stored_at", "stores", "pending_approval", "approval_url"}
    ] * 2


@pytest.mark.parametrize("path", ["health", "capabilities", "schemas"])
async def test_the_rest_of_v0_answers(server: Server, path: str) -> None:
    assert (await server.http.get(f"{BASE}/{path}")).status_code == 200
