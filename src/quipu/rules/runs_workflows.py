"""The workflows that are seeded for conformance runs, and the order in which nodes run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quipu.errors import NotFoundError
from quipu.model.value import JsonObject

#: The type of a node whose memory action is its work.
IDENTITY: Final = "core.identity"
NOOP: Final = "core.noop"
SECRET_ECHO: Final = "conformance.secret.echo"  # noqa: S105  the name of a node type
#: Test secrets, which exist only while the seams are on.
TEST_SECRETS: Mapping[str, str] = {
    "conformance-test-secret": "conformance-test-secret-value-7f3a91",
    "openwop-conformance-canary-secret": "CANARY-openwop-CONFORMANCE-NEVER-SECRET-value",
}
BUDGET: Final = 800


def _workflow(
    name: str,
    node_id: str,
    type_id: str,
    *,
    config: Mapping[str, Any] | None = None,
    agent: tuple[str, str] | None = None,
    variables: Sequence[str] = (),
    version: str = "1.0",
    inputs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": node_id,
        "typeId": type_id,
        "name": node_id,
        "position": {"x": 0, "y": 0},
        "config": dict(config or {}),
        "inputs": dict(inputs or {}),
    }
    if agent is not None:
        node["agent"] = {"agentId": agent[0], "modelClass": "chat", "memoryRef": agent[1]}
    return {
        "id": name,
        "name": name,
        "version": version,
        "description": "A workflow for conformance runs.",
        "nodes": [node],
        "edges": [],
        "triggers": [{"id": "manual", "type": "manual", "enabled": True}],
        "variables": [{"name": variable, "type": "json"} for variable in variables],
        "metadata": {"tags": ["conformance"]},
        "settings": {"timeout": 10_000},
    }


def _memory(
    short: str, node_id: str, action: str, agent: str, variables: Sequence[str], **config: Any
) -> dict[str, Any]:
    return _workflow(
        f"conformance-agent-memory-{short}",
        node_id,
        IDENTITY,
        config={"memoryAction": action, **config},
        agent=(
            f"core.conformance.{agent}",
            f"conformance/agent-memory-{'cti' if short == 'cross-tenant' else short}",
        ),
        variables=variables,
        version="1.1" if short in ("ttl", "cross-tenant") else "1.0",
    )


_BUDGETED = (
    "tokenBudget",
    "budgetedTokenTotal",
    "budgetedEntries",
    "overBudgetEntryId",
    "overBudgetEntryOmitted",
    "redactedContentSample",
    "crossTenantBudgetedProbe",
    "recencyOrder",
    "relevanceOrder",
)
_ALL = (
    _workflow("conformance-noop", "noop", NOOP),
    _memory("roundtrip", "memory-roundtrip", "write-then-read", "memory-agent", ["memoryReadback"]),
    _memory(
        "redaction",
        "memory-redaction-probe",
        "redaction-probe",
        "byok-agent",
        ["memoryReadback"],
        byokSecretId="conformance-test-secret",
    ),
    _memory("ttl", "memory-ttl-probe", "ttl-probe", "ttl-agent", ["memoryList", "freshId", "expiredId"]),
    _memory(
        "cross-tenant",
        "cross-tenant-probe",
        "cross-tenant-probe",
        "cti-agent",
        ["ownerEntryId", "ownerProbe", "crossTenantProbe"],
        probeMemoryRef="conformance/another-tenant/agent-memory",
    ),
    _memory(
        "injection-budget",
        "memory-injection-budget",
        "list-budgeted",
        "budget-agent",
        _BUDGETED,
        tokenBudget=BUDGET,
        byokSecretId="conformance-test-secret",
    ),
    _workflow(
        "conformance-identity",
        "echo",
        IDENTITY,
        inputs={"payload": {"from": "variable", "name": "payload"}},
        variables=["payload"],
    ),
    _workflow(
        "openwop-smoke-byok-roundtrip",
        "resolve-secret",
        SECRET_ECHO,
        config={"secretId": "openwop-conformance-canary-secret"},
        variables=["resolve-secret"],
    ),
)
FIXTURES: Mapping[str, JsonObject] = {workflow["id"]: workflow for workflow in _ALL}


def found(workflows: Mapping[str, JsonObject], name: object) -> JsonObject:
    """A workflow by its id; what was asked for is not repeated."""
    if isinstance(name, str) and name in workflows:
        return workflows[name]
    raise NotFoundError("There is no such workflow.", reason="workflow")


#: The workflow of the runs in which the host tells what it did by itself. There is nothing left to execute in it.
UPKEEP = "quipu.upkeep"
HOSTS_OWN: Mapping[str, JsonObject] = {UPKEEP: {"nodes": [], "edges": []}}


def in_order(workflow: JsonObject) -> list[dict[str, Any]]:
    """Nodes, each after those that its edges come from; of several that could come next, the first in the list."""
    body: dict[str, Any] = dict(workflow)
    nodes: list[dict[str, Any]] = list(body["nodes"])
    waiting = {
        node["id"]: {edge["source"] for edge in body["edges"] if edge["target"] == node["id"]}
        for node in nodes
    }
    order: list[dict[str, Any]] = []
    while len(order) < len(nodes):
        done = {node["id"] for node in order}
        ready = [node for node in nodes if node["id"] not in done and waiting[node["id"]] <= done]
        if not ready:
            raise NotFoundError("The workflow has no first node.", reason="workflow")
        order.append(ready[0])
    return order
