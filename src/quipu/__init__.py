"""Quipu: one memory for every agent.

Names are imported when they are first used, so that `import quipu` and the command line start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from quipu._version import __version__

if TYPE_CHECKING:
    from quipu.errors import (
        ApprovalRejectedError,
        BackendUnavailableError,
        ConflictError,
        DeadlineError,
        ForbiddenError,
        InternalError,
        InvalidError,
        NotFoundError,
        QuipuError,
        QuotaExceededError,
        RateLimitedError,
        SecretLeakageError,
        TamperedError,
        UnauthenticatedError,
        UnsupportedError,
        UnverifiableError,
    )
    from quipu.errors import InvalidError as ValidationError
    from quipu.memory import Memory, connect
    from quipu.memory.routing import Router
    from quipu.model.governance import Edit
    from quipu.model.operations import (
        Embedding,
        ExpireAction,
        ExpirePolicy,
        ExpireRequest,
        Floor,
        ForgetRequest,
        Fusion,
        MergeRequest,
        MergeStrategy,
        RecallRequest,
        RememberRequest,
        UpdateStrategy,
    )
    from quipu.model.outcomes import (
        ExpireResponse,
        ForgetResponse,
        Hit,
        MergeResponse,
        RecallResponse,
        RememberResponse,
        Verification,
    )
    from quipu.model.record import (
        Link,
        MemoryType,
        PrivacyIntent,
        Provenance,
        Record,
        Sensitivity,
        State,
        Tier,
        Trust,
    )
    from quipu.model.store import Store, StoreScope
    from quipu.ports.embedder import Embedder
    from quipu.ports.memory_store import MemoryStore
    from quipu.telemetry.settings import Telemetry

_HOMES = {
    "quipu.errors": (
        "ApprovalRejectedError",
        "BackendUnavailableError",
        "ConflictError",
        "DeadlineError",
        "ForbiddenError",
        "InternalError",
        "InvalidError",
        "NotFoundError",
        "QuipuError",
        "QuotaExceededError",
        "RateLimitedError",
        "SecretLeakageError",
        "TamperedError",
        "UnauthenticatedError",
        "UnsupportedError",
        "UnverifiableError",
    ),
    "quipu.memory": ("Memory", "connect"),
    "quipu.model.governance": ("Edit",),
    "quipu.model.operations": (
        "Embedding",
        "ExpireAction",
        "ExpirePolicy",
        "ExpireRequest",
        "Floor",
        "ForgetRequest",
        "Fusion",
        "MergeRequest",
        "MergeStrategy",
        "RecallRequest",
        "RememberRequest",
        "UpdateStrategy",
    ),
    "quipu.model.outcomes": (
        "ExpireResponse",
        "ForgetResponse",
        "Hit",
        "MergeResponse",
        "RecallResponse",
        "RememberResponse",
        "Verification",
    ),
    "quipu.model.record": (
        "Link",
        "MemoryType",
        "PrivacyIntent",
        "Provenance",
        "Record",
        "Sensitivity",
        "State",
        "Tier",
        "Trust",
    ),
    "quipu.model.store": (
        "Store",
        "StoreScope",
    ),
    "quipu.ports.embedder": ("Embedder",),
    "quipu.ports.memory_store": ("MemoryStore",),
    "quipu.memory.routing": ("Router",),
    "quipu.telemetry.settings": ("Telemetry",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ApprovalRejectedError",
    "BackendUnavailableError",
    "ConflictError",
    "DeadlineError",
    "Edit",
    "Embedder",
    "Embedding",
    "ExpireAction",
    "ExpirePolicy",
    "ExpireRequest",
    "ExpireResponse",
    "Floor",
    "ForbiddenError",
    "ForgetRequest",
    "ForgetResponse",
    "Fusion",
    "Hit",
    "InternalError",
    "InvalidError",
    "Link",
    "Memory",
    "MemoryStore",
    "MemoryType",
    "MergeRequest",
    "MergeResponse",
    "MergeStrategy",
    "NotFoundError",
    "PrivacyIntent",
    "Provenance",
    "QuipuError",
    "QuotaExceededError",
    "RateLimitedError",
    "RecallRequest",
    "RecallResponse",
    "Record",
    "RememberRequest",
    "RememberResponse",
    "Router",
    "SecretLeakageError",
    "Sensitivity",
    "State",
    "Store",
    "StoreScope",
    "TamperedError",
    "Telemetry",
    "Tier",
    "Trust",
    "UnauthenticatedError",
    "UnsupportedError",
    "UnverifiableError",
    "UpdateStrategy",
    "ValidationError",
    "Verification",
    "__version__",
    "connect",
]


def __getattr__(name: str) -> object:
    # ValidationError is memorywire's name for InvalidError.
    home = _HOME_OF.get("InvalidError" if name == "ValidationError" else name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), "InvalidError" if name == "ValidationError" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
