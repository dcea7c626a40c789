"""What this host can do, as OpenWOP's discovery document says it. Nothing is claimed that is not there."""

from collections.abc import Sequence
from typing import Any

from quipu.runs.rules import ENTRY_BYTES


def discovery_document(fixtures: Sequence[str]) -> dict[str, Any]:
    """Families stand at the root, and again under `capabilities` in the RFC's own form.

    `fixtures` are the workflows of the conformance mode; outside of it there are none, and none are named.
    """
    memory: dict[str, Any] = {
        "supported": True,
        "maxEntrySizeBytes": ENTRY_BYTES,
        "ttlSupported": True,
        "attribution": {"supported": True, "emitsWriteEvents": True},
    }
    found: dict[str, Any] = {
        "protocolVersion": "1.0",
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "limits": {"clarificationRounds": 0, "schemaRounds": 0, "envelopesPerTurn": 0},
        "replay": {"supported": True, "modes": ["replay", "branch"]},
        "secrets": {"supported": True, "scopes": ["tenant"], "resolution": "host-managed"},
        # The published list of backends has this one name.
        "agents": {"supported": True, "memoryBackends": ["long-term"]},
        "memory": memory
        | {
            "writable": True,
            "search": {"supported": True, "modes": ["filter"]},
            "retention": {"ttl": True, "forget": True},
        },
        "capabilities": {
            "agents": {"memoryBackends": ["scratchpad", "conversation", "longTerm"]},
            "memory": memory,
        },
    }
    return found | ({"fixtures": list(fixtures)} if fixtures else {})
