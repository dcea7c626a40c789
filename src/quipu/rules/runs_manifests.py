"""Agents of the inventory: what a manifest must be, and which of an agent's needs this host does not serve."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from quipu.errors import InvalidError, NotFoundError
from quipu.model.runs import HostOptions
from quipu.model.value import Json, JsonObject

DIMENSIONS = (
    "read",
    "write",
    "search",
    "long-term-durability",
    "compaction",
    "attribution",
    "replay-snapshot",
    "retention",
)
_AGENT_ID = re.compile(r"(core|vendor|community|private|local)\.[a-z][a-z0-9_-]*(\.[a-z][a-zA-Z0-9_-]*)+")
_CLASSES = ("reasoning", "writing", "coding", "research", "classification", "general")
_SHAPES = ("scratchpad", "conversation", "longTerm")
_KNOWN = (
    "agentId", "persona", "modelClass", "systemPrompt", "systemPromptRef", "memoryShape", "role",
    "requiresCapabilities", "toolAllowlist", "handoff", "confidence", "label", "description", "evalSuiteRef",
    "promptLibraryRef", "promptOverrides",
)  # fmt: skip
#: The agent that is always there.
KEEPER: JsonObject = {
    "agentId": "vendor.quipu.memory-keeper",
    "persona": "Keeps what agents remember, and tells them what they knew.",
    "modelClass": "general",
    "label": "Memory keeper",
    "systemPromptRef": "vendor.quipu.memory-keeper",
    "memoryShape": {"scratchpad": True, "conversation": True, "longTerm": True},
}


def checked_manifest(given: object, pointer: str = "") -> JsonObject:
    """An AgentManifest, or InvalidError that says what is wrong with it."""
    if not isinstance(given, Mapping):
        raise _bad(pointer, "A manifest is an object.")
    manifest = cast("Mapping[str, Any]", given)
    if unknown := sorted(manifest.keys() - set(_KNOWN)):
        raise _bad(f"{pointer}/{unknown[0]}", "There is no such field.", _KNOWN)
    agent_id = manifest.get("agentId")
    if not isinstance(agent_id, str) or not 3 <= len(agent_id) <= 256 or not _AGENT_ID.fullmatch(agent_id):
        raise _bad(f"{pointer}/agentId", "This is no agentId.", ["vendor.name.agent"])
    persona = manifest.get("persona")
    if not isinstance(persona, str) or not 1 <= len(persona) <= 200:
        raise _bad(f"{pointer}/persona", "A persona has 1 to 200 characters.")
    if manifest.get("modelClass") not in _CLASSES:
        raise _bad(f"{pointer}/modelClass", "There is no such modelClass.", _CLASSES)
    if ("systemPrompt" in manifest) == ("systemPromptRef" in manifest):
        raise _bad(f"{pointer}/systemPrompt", "Give either systemPrompt or systemPromptRef.")
    _check_memory(manifest, pointer)
    needs = manifest.get("requiresCapabilities", [])
    if not _is_texts(needs) or len(set(needs)) != len(needs):
        raise _bad(f"{pointer}/requiresCapabilities", "requiresCapabilities are different texts.")
    return cast("JsonObject", manifest)


def _check_memory(manifest: Mapping[str, Any], pointer: str) -> None:
    shape = manifest.get("memoryShape", {})
    if not isinstance(shape, Mapping) or not all(
        name in _SHAPES and isinstance(wanted, bool)
        for name, wanted in cast("Mapping[str, Any]", shape).items()
    ):
        raise _bad(f"{pointer}/memoryShape", "memoryShape says yes or no to backends.", _SHAPES)
    role = manifest.get("role")
    if role not in (None, "skill", "assistant"):
        raise _bad(f"{pointer}/role", "There is no such role.", ["skill", "assistant"])
    if role == "skill":
        wanted = cast("Mapping[str, Any]", shape)
        if "handoff" not in manifest or wanted.get("conversation") or wanted.get("longTerm"):
            raise _bad(f"{pointer}/role", "A skill has a handoff and keeps no conversation and no memory.")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value))


def _bad(pointer: str, message: str, accepted: Sequence[str] = ()) -> InvalidError:
    return InvalidError.at(pointer, "bad_manifest", message, accepted=accepted)


def inventory(options: HostOptions, advertised: frozenset[str]) -> JsonObject:
    """The body of `GET /v1/agents`."""
    agents = [listed(manifest, options, advertised) for manifest in (KEEPER, *options.manifests)]
    return {"agents": agents, "total": len(agents)}


def agent(options: HostOptions, advertised: frozenset[str], agent_id: str) -> JsonObject:
    """One entry of the inventory."""
    for manifest in (KEEPER, *options.manifests):
        if manifest["agentId"] == agent_id:
            return listed(manifest, options, advertised)
    raise NotFoundError("There is no such agent.", reason="agent")


def listed(manifest: JsonObject, options: HostOptions, advertised: frozenset[str]) -> JsonObject:
    """An agent as it is shown: no prompt, and what it would have to do without."""
    given = cast("Mapping[str, Any]", manifest)
    entry: dict[str, Json] = {
        "agentId": given["agentId"],
        "persona": given["persona"],
        "label": given.get("label", given["agentId"]),
        "modelClass": given["modelClass"],
        "packName": "quipu",
        "packVersion": "1.0",
        "toolAllowlist": list(given.get("toolAllowlist", [])),
        "hasHandoffSchemas": "handoff" in given,
    }
    for name in ("description", "memoryShape"):
        if name in given:
            entry[name] = given[name]
    if "defaultThreshold" in given.get("confidence", {}):
        entry["confidenceThreshold"] = given["confidence"]["defaultThreshold"]
    if missing := [need for need in given.get("requiresCapabilities", []) if need not in advertised]:
        entry["degraded"] = cast("list[Json]", missing)
    if dimensions := degraded(given.get("memoryShape", {}), options):
        entry["memoryDegraded"] = True
        entry["degradedMemoryDimensions"] = list(dimensions)
    return entry


def degraded(shape: Mapping[str, Any], options: HostOptions) -> tuple[str, ...]:
    """The dimensions of memory that an agent asks for and does not get, in their usual order."""
    missing: set[str] = set()
    if shape.get("longTerm") and "longTerm" not in options.backends:
        missing.add("long-term-durability")
    if any(shape.get(name) and name not in options.backends for name in ("scratchpad", "conversation")):
        missing |= {"read", "write"}
    if shape.get("longTerm") and not options.tells_writes:
        missing.add("attribution")
    return tuple(dimension for dimension in DIMENSIONS if dimension in missing)
