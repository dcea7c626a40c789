"""The addresses of memorywire's REST binding."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "/memorywire/v0"

OPERATIONS: Final = ("remember", "recall", "forget", "merge", "expire")
BATCH: Final = f"{PREFIX}/remember/batch"
IMPORT: Final = f"{PREFIX}/import"
EXPORT: Final = f"{PREFIX}/export"
CHANGES: Final = f"{PREFIX}/changes"
RECORD: Final = f"{PREFIX}/records/{{id}}"
HISTORY: Final = f"{RECORD}/history"
RESTORE: Final = f"{RECORD}/restore"
STEP: Final = f"{RECORD}/step"
PROPOSALS: Final = f"{PREFIX}/proposals"
PROPOSAL: Final = f"{PROPOSALS}/{{id}}"
DECISION: Final = f"{PROPOSAL}/decision"
RULES: Final = f"{PREFIX}/rules"
RULES_TEST: Final = f"{RULES}/test"
SUGGESTED: Final = f"{RULES}/suggested"
SUGGESTION: Final = f"{SUGGESTED}/{{id}}"
AUDIT: Final = f"{PREFIX}/audit"
SCHEMAS: Final = f"{PREFIX}/schemas"
SCHEMA: Final = f"{SCHEMAS}/{{name:path}}"
HEALTH: Final = f"{PREFIX}/health"
CAPABILITIES: Final = f"{PREFIX}/capabilities"

#: Anybody may ask; of health they hear no more than whether it is well.
PUBLIC: Final = frozenset({HEALTH, SCHEMAS, SCHEMA})
#: As long as it takes.
STREAMING: Final = frozenset({IMPORT, EXPORT, CHANGES})
#: No total size limit.
UNBOUNDED: Final = frozenset({IMPORT})


def operation(name: str) -> str:
    """Where one of the five is asked for."""
    return f"{PREFIX}/{name}"
