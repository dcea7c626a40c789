"""MCP as others judge it: the official conformance kit, the inspector, and the memory server whose tools we offer too."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from quipu.bootstrap import Container, http_app, open_container, serving
from quipu.config import Settings
from quipu.http.server import Server, address_of, bound_socket, serve
from quipu.mcp.settings import McpParts
from tests.docs.serving import served
from tests.requirement import requirement
from tests.vendors.environments import NODE, node_modules_of
from tests.vendors.mcp_fixtures import fixture_tools

pytestmark = pytest.mark.vendor(name="mcp")
PACKAGES = "@modelcontextprotocol"


@dataclass(frozen=True)
class Running:
    """A server, and a folder for what is said of it."""

    url: str
    token: str
    folder: Path


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that asks nobody for a token, as the kit wants it."""
    folder = tmp_path_factory.mktemp("judged")
    with served(folder, "--no-auth") as (url, token):
        yield Running(url, token, folder)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server as it is started by everybody."""
    folder = tmp_path_factory.mktemp("guarded")
    with served(folder) as (url, token):
        yield Running(url, acting(url, token), folder)


def acting(url: str, token: str) -> str:
    """A token that acts for one agent."""
    asked = {"name": "judge", "roles": ["admin"], "default_agent": "a"}
    made = httpx.post(f"{url}/v1/tokens", json=asked, headers={"Authorization": f"Bearer {token}"})
    assert made.status_code == 200, made.text
    return made.json()["text"]


def program(name: str, *words: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [NODE, str(node_modules_of("mcp") / ".bin" / name), *words],
        env={"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"]},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


# -- the conformance kit --------------------------------------------------------------------------------------------

#: What of the kit does not hold, as scenario and check, with the reason. Anything else that fails, and anything here that
#: holds, fails the test.
_NAMES = "It calls a tool, prompt or resource of the kit's own example server, which a memory does not have."
_ROOM = "It needs a feature that we do not offer: completion, protocol logging, tasks or a header bound to an argument."
_BOTH: Mapping[tuple[str, str], str] = {
    ("completion-complete", "completion-complete"): _ROOM,
    ("json-schema-2020-12", "json-schema-2020-12-tool-found"): _NAMES,
    **{
        (name, name): _NAMES
        for name in (
            *("prompts-get-embedded-resource", "prompts-get-simple", "prompts-get-with-args"),
            *("prompts-get-with-image", "resources-read-binary", "resources-read-text"),
            *("resources-templates-read", "tools-call-audio", "tools-call-embedded-resource"),
            *("tools-call-image", "tools-call-mixed-content", "tools-call-with-progress"),
        )
    },
}
_MODERN: Mapping[tuple[str, str], str] = {
    ("server-stateless", "sep-2575-server-rejects-undeclared-capability"): _NAMES,
    ("server-stateless", "sep-2575-missing-capability-http-400"): _NAMES,
    **{
        (f"input-required-result-{scenario}", f"sep-2322-{check}"): _NAMES
        for scenario, check in (
            ("basic-elicitation", "elicitation-incomplete"),
            ("basic-list-roots", "list-roots-incomplete"),
            ("basic-sampling", "sampling-incomplete"),
            ("capability-check", "respect-client-capabilities"),
            ("multi-round", "multi-round-r1"),
            ("multiple-input-requests", "multiple-inputs-incomplete"),
            ("non-tool-request", "non-tool-incomplete"),
            ("request-state", "request-state-incomplete"),
            ("result-type", "result-type-included"),
            ("tampered-state", "reject-tampered-state"),
        )
    },
    **{
        ("http-custom-header-server-validation", f"sep-2243-server-{check}"): _ROOM
        for check in (
            *("no-xmcp-tool", "decode-base64", "validate-param-match"),
            *("reject-invalid-param-chars", "reject-param-mismatch"),
        )
    },
}
_LEGACY: Mapping[tuple[str, str], str] = {
    ("logging-set-level", "logging-set-level"): _ROOM,
    ("tools-call-with-logging", "tools-call-with-logging"): _ROOM,
    ("elicitation-sep1034-defaults", "elicitation-sep1034-general"): _NAMES,
    ("elicitation-sep1330-enums", "elicitation-sep1330-general"): _NAMES,
    ("server-sse-polling", "incoming-sse-event"): _NAMES,
    **{
        (name, name): _NAMES
        for name in (
            *("resources-subscribe", "resources-unsubscribe"),
            *("tools-call-elicitation", "tools-call-sampling"),
        )
    },
}
#: Revision of the protocol → what does not hold, and how many checks do.
_REVISIONS = {"2026-07-28": ({**_BOTH, **_MODERN}, 99), "2025-11-25": ({**_BOTH, **_LEGACY}, 45)}


def checks(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """Scenario, check, how it went and what was said of it; without the extension for tasks, which we do not offer."""
    for file in sorted(folder.glob("server-*/checks.json")):
        scenario = file.parent.name.removeprefix("server-").rsplit("-", 6)[0]
        if not scenario.startswith("tasks-"):
            for check in json.loads(file.read_text("utf-8")):
                yield scenario, check["id"], check["status"], check.get("errorMessage", "")


@requirement("mcp:judges.conformance")
@pytest.mark.parametrize("revision", _REVISIONS)
def test_the_conformance_kit(revision: str, judged: Running) -> None:
    wanted, holds = _REVISIONS[revision]
    folder = judged.folder / revision
    done = program(
        *("conformance", "server", "--url", f"{judged.url}/mcp", "--requirements", revision),
        *("--output-dir", str(folder)),
    )
    found = list(checks(folder))
    assert found, done.stderr[-2000:]
    failed = {(scenario, check): why for scenario, check, went, why in found if went == "FAILURE"}
    assert failed.keys() == wanted.keys(), {
        name: failed.get(name, "It holds.") for name in failed.keys() ^ wanted.keys()
    }
    assert sum(went == "SUCCESS" for _, _, went, _ in found) == holds


#: The same with the tools of the kit's example server on ours: what is left are its prompts and resources, and what we do
#: not offer. A memory has one prompt, and its resources are its own.
_LEFT: Mapping[str, tuple[frozenset[str], int]] = {
    "2026-07-28": (
        frozenset(
            {
                *("completion-complete", "http-custom-header-server-validation"),
                *(
                    "input-required-result-non-tool-request",
                    "prompts-get-embedded-resource",
                    "prompts-get-simple",
                ),
                *("prompts-get-with-args", "prompts-get-with-image", "resources-read-binary"),
                *("resources-read-text", "resources-templates-read"),
            }
        ),
        131,
    ),
    "2025-11-25": (
        frozenset(
            {
                *("completion-complete", "logging-set-level", "prompts-get-embedded-resource"),
                *("prompts-get-simple", "prompts-get-with-args", "prompts-get-with-image"),
                *("resources-read-binary", "resources-read-text", "resources-subscribe"),
                *("resources-templates-read", "resources-unsubscribe", "server-sse-polling"),
                "tools-call-with-logging",
            }
        ),
        69,
    ),
}


@requirement("mcp:judges.fixtures")
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
@pytest.mark.parametrize("revision", _LEFT)
async def test_the_conformance_kit_with_its_own_tools_on_our_server(
    revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = serving.mcp_parts

    def with_fixtures(container: Container) -> McpParts:
        made = parts(container)
        return replace(made, further_tools=lambda: (*made.further_tools(), *fixture_tools()))

    monkeypatch.setattr(serving, "mcp_parts", with_fixtures)
    container = await open_container(Settings(agent="a"), stores=[":memory:"], embedder="none")
    app, settings = http_app(container, is_open=True), Settings(port=0)
    with closing(bound_socket(settings)) as listening:
        server = Server(app, settings)
        running = asyncio.create_task(serve(app, settings, listening, server=server))
        try:
            url = f"{address_of(settings, listening)}/mcp"
            words = ("server", "--url", url, "--requirements", revision, "--output-dir", str(tmp_path))
            await asyncio.to_thread(program, "conformance", *words)
        finally:
            server.stop()
            await running
            await container.close()
    found, (left, holds) = list(checks(tmp_path)), _LEFT[revision]
    failed = {scenario: (check, why) for scenario, check, went, why in found if went == "FAILURE"}
    assert failed.keys() == left, {name: failed.get(name, "It holds.") for name in failed.keys() ^ left}
    assert sum(went == "SUCCESS" for _, _, went, _ in found) == holds


# -- the inspector --------------------------------------------------------------------------------------------------


@requirement("mcp:judges.inspector")
@pytest.mark.parametrize("profile", ["readonly", "default", "admin", "chatgpt", "graph", "anthropic"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_finds_nothing_in_any_profile(profile: str, era: str, guarded: Running) -> None:
    done = inspected(guarded, era, "tools/list", "--strict", profile=profile)
    assert json.loads(done.stdout)["tools"]
    assert done.stderr == ""


@requirement("mcp:judges.inspector")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_calls_reads_and_asks(era: str, guarded: Running) -> None:
    fact = json.dumps({"type": "semantic", "content": f"The {era} key hangs behind the door"})
    kept = json.loads(
        inspected(guarded, era, "tools/call", "--tool-name", "remember", "--tool-args-json", fact).stdout
    )["structuredContent"]
    for name, asked in (
        ("recall", {"query": f"{era} key"}),
        ("get", {"id": kept["id"]}),
        ("list", {}),
        ("forget", {"ids": [kept["id"]]}),
    ):
        told = inspected(
            guarded, era, "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(asked)
        )
        assert kept["id"] in json.dumps(json.loads(told.stdout)["structuredContent"]), name
    (stores,) = json.loads(inspected(guarded, era, "resources/read", "--uri", "memory://stores").stdout)[
        "contents"
    ]
    assert "main" in stores["text"]
    prompt = inspected(guarded, era, "prompts/get", "--prompt-name", "recall", "--prompt-args", "query=key")
    assert json.loads(prompt.stdout)["messages"]


@requirement("mcp:judges.inspector")
def test_the_inspector_is_told_when_it_has_no_token(guarded: Running) -> None:
    done = program(
        *("mcp-inspector", "--cli", f"{guarded.url}/mcp", "--method", "tools/list", "--stored-auth-only"),
        *("--format", "json"),
    )
    assert done.returncode != 0
    assert "auth_required" in done.stderr


def inspected(
    running: Running, era: str, method: str, *words: str, profile: str = "default"
) -> subprocess.CompletedProcess[str]:
    done = program(
        *("mcp-inspector", "--cli", f"{running.url}/mcp?profile={profile}", "--protocol-era", era),
        *("--header", f"Authorization: Bearer {running.token}", "--method", method, *words),
    )
    assert done.returncode == 0, done.stderr or done.stdout
    return done


# -- the memory server ----------------------------------------------------------------------------------------------

ANA = {"name": "Ana", "entityType": "person", "observations": ["plays chess"]}
ACME = {"name": "Acme", "entityType": "company", "observations": []}
WORKS = {"from": "Ana", "to": "Acme", "relationType": "works at"}
#: One session, call by call.
SESSION: tuple[tuple[str, dict[str, Any]], ...] = (
    ("read_graph", {}),
    ("create_entities", {"entities": [ANA, ACME]}),
    ("create_entities", {"entities": [ANA]}),
    ("create_relations", {"relations": [WORKS]}),
    ("create_relations", {"relations": [WORKS]}),
    ("add_observations", {"observations": [{"entityName": "Ana", "contents": ["plays chess", "is 40"]}]}),
    ("read_graph", {}),
    ("search_nodes", {"query": "CHESS"}),
    ("open_nodes", {"names": ["Acme", "nobody"]}),
    ("delete_observations", {"deletions": [{"entityName": "Ana", "observations": ["is 40"]}]}),
    ("delete_relations", {"relations": [WORKS]}),
    ("read_graph", {}),
    ("create_relations", {"relations": [WORKS]}),
    ("delete_entities", {"entityNames": ["Ana"]}),
    ("read_graph", {}),
)


@requirement("mcp:judges.server-memory")
async def test_the_memory_server_answers_as_we_do(tmp_path: Path) -> None:
    theirs = StdioServerParameters(
        command=NODE,
        args=[str(node_modules_of("mcp") / ".bin/mcp-server-memory")],
        env={"MEMORY_FILE_PATH": str(tmp_path / "graph.jsonl"), "HOME": str(tmp_path)},
    )
    ours = StdioServerParameters(
        command=str(Path(sys.executable).with_name("quipu")),
        args=["mcp", "--agent", "a", "--profile", "graph"],
        env={"QUIPU_STORE": f"sqlite:///{tmp_path}/m.db", "HOME": str(tmp_path)},
    )
    (their_tools, their_answers), (our_tools, our_answers) = [await session(one) for one in (theirs, ours)]
    assert our_tools == their_tools
    for (name, given), wanted, told in zip(SESSION, their_answers, our_answers, strict=True):
        if "success" in wanted:  # the words of a message are each server's own
            wanted, told = wanted["success"], told["success"]
        assert told == wanted, (name, given)


async def session(started: StdioServerParameters) -> tuple[dict[str, list[str]], list[Any]]:
    """Tools with what they require, and the answer to each call."""
    async with Client(stdio_client(started), mode="legacy") as client:
        tools = {
            tool.name: sorted(tool.input_schema.get("required", ()))
            for tool in (await client.list_tools()).tools
        }
        answers: list[Any] = []
        for name, given in SESSION:
            result = await client.call_tool(name, given)
            assert not result.is_error, (name, result)
            answers.append(result.structured_content)
    return tools, answers
