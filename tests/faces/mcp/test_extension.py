"""Mode 3: the operations and the governance channel as methods, for clients that know them."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client import advertise
from mcp.shared.exceptions import MCPError
from mcp.types import Request, RequestParams, Result
from pydantic import ConfigDict

from quipu.faces.mcp.extension import ID
from quipu.faces.mcp.operations import schemas
from quipu.model.principal import Permission
from tests.faces.mcp.conftest import Mint
from tests.faces.mcp.hosts import over_http
from tests.faces.serving import Served, served
from tests.requirement import requirement

FACT = {"type": "semantic", "content": "Mara is vegetarian"}


class Anything(RequestParams):
    """Whatever the test sends."""

    model_config = ConfigDict(extra="allow")


class Answer(Result):
    """Whatever the server says."""

    model_config = ConfigDict(extra="allow")


class Asking(Request[Anything, str]):
    """A method of the extension."""


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    request: Any = Asking(method=f"memory/{method}", params=Anything(**params))
    answer = await client.session.send_request(request, Answer)
    return dict(answer.model_extra or {})


def known(at: Served, mode: str = "2026-07-28", token: str | None = None) -> Any:
    return over_http(at, mode, token, extensions=[advertise(ID)])


@requirement("mcp:extension.advertised")
async def test_it_is_advertised_with_its_settings_only_where_it_is_on(at: Served, tmp_path: Any) -> None:
    async with over_http(at, "auto") as client:
        assert client.server_capabilities is not None
        assert (client.server_capabilities.extensions or {})[ID] == {
            "wire": "memorywire/v0",
            "operations": ["remember", "recall", "forget", "merge", "expire"],
            "types": ["semantic", "episodic", "procedural", "emotional"],
            "governance": {"operations": ["remember", "forget", "merge"], "inPlace": True, "queue": True},
        }
    with served(tmp_path / "off.db") as off:
        async with over_http(off, "auto") as client:
            assert client.server_capabilities is not None
            assert not client.server_capabilities.extensions
        async with known(off) as client:
            with pytest.raises(MCPError) as caught:
                await ask(client, "recall", query="x")
    assert caught.value.error.code == -32601


@requirement("mcp:extension.operations")
async def test_each_operation_is_a_method_with_the_tools_schemas(at: Served, agent: str) -> None:
    async with known(at) as client:
        one, two = [(await ask(client, "remember", **FACT, agent_id=agent)) for _ in range(2)]
        answers = {
            "remember": one,
            "recall": await ask(client, "recall", query="Mara", agent_id=agent),
            "merge": await ask(client, "merge", canonical=one["id"], duplicates=[two["id"]], agent_id=agent),
            "expire": await ask(client, "expire", policy={"older_than_days": 1}, agent_id=agent),
            "forget": await ask(client, "forget", ids=[one["id"]], agent_id=agent),
        }
    for name, answer in answers.items():
        told = {key: value for key, value in answer.items() if key != "resultType"}
        Draft202012Validator(schemas()[name]["output"]).validate(told)
    assert answers["forget"]["forgotten_ids"] == [one["id"]]
    assert answers["merge"]["merged_count"] == 1


@requirement("mcp:extension.reviews")
async def test_reviews_are_listed_read_and_decided(at: Served, agent: str, mint: Mint) -> None:
    async with known(at, token=mint(Permission.READ, Permission.WRITE)) as client:
        held = await ask(client, "remember", **FACT, agent_id=agent, approval_required=True)
        name = held["approval_url"].rpartition("/")[2]
        with pytest.raises(MCPError, match="memory:review"):
            await ask(client, "review/list")
    async with known(at) as client:
        listed = await ask(client, "review/list", limit=200)
        shown = await ask(client, "review/get", id=name)
        decided = await ask(client, "review", id=name, approved=False, reason="no")
        rejected = await ask(client, "review/list", status="rejected", limit=200)
        with pytest.raises(MCPError, match="There is no such status"):
            await ask(client, "review/list", status="wat")
    assert name in [row["id"] for row in listed["reviews"]]
    assert (shown["operation"], shown["request"]["content"]) == ("remember", "Mara is vegetarian")
    assert (decided["approved"], decided["reviewer"], decided["reason"]) == (False, "admin", "no")
    assert name in [row["id"] for row in rejected["reviews"]]


@requirement("mcp:extension.undeclared")
async def test_a_client_that_did_not_declare_it_is_refused(at: Served) -> None:
    async with over_http(at) as client:
        with pytest.raises(MCPError) as caught:
            await ask(client, "recall", query="x")
    assert caught.value.error.code == -32021
    assert ID in str(caught.value.error.data)


@requirement("mcp:extension.legacy")
async def test_an_older_client_does_not_find_the_methods(at: Served) -> None:
    async with known(at, "legacy") as client:
        with pytest.raises(MCPError) as caught:
            await ask(client, "recall", query="x")
    assert caught.value.error.code == -32601


@requirement("mcp:extension.errors")
async def test_wrong_params_are_named(at: Served) -> None:
    async with known(at) as client:
        for method, params in (
            ("recall", {"qury": "x"}),
            ("remember", {"type": "semantic"}),
            ("review", {"id": "x"}),
        ):
            with pytest.raises(MCPError) as caught:
                await ask(client, method, **params)
            assert caught.value.error.code == -32602
            assert caught.value.error.data["code"] == "validation_error"
