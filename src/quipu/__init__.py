"""One memory for every agent.

Names are imported when they are first used, so that `import quipu` and the command line start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from quipu._version import __version__

if TYPE_CHECKING:
    from quipu.api import Memory, connect
    from quipu.embed.port import Embedder
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
    from quipu.memory.memory_store import MemoryStore
    from quipu.memory.model import (
        ExpirePolicy,
        ExpireRequest,
        ExpireResponse,
        ForgetRequest,
        ForgetResponse,
        Hit,
        MergeRequest,
        MergeResponse,
        RecallRequest,
        RecallResponse,
        RememberRequest,
        RememberResponse,
    )
    from quipu.router.router import Router
    from quipu.telemetry.settings import Telemetry

#: Where the names above are at home; the light ones first.
_HOMES = (
    *("quipu.errors", "quipu.memory.model", "quipu.memory.memory_store", "quipu.embed.port"),
    *("quipu.telemetry.settings", "quipu.router.router", "quipu.api"),
)
__all__ = [
    "ApprovalRejectedError",
    "BackendUnavailableError",
    "ConflictError",
    "DeadlineError",
    "Embedder",
    "ExpirePolicy",
    "ExpireRequest",
    "ExpireResponse",
    "ForbiddenError",
    "ForgetRequest",
    "ForgetResponse",
    "Hit",
    "InternalError",
    "InvalidError",
    "Memory",
    "MemoryStore",
    "MergeRequest",
    "MergeResponse",
    "NotFoundError",
    "QuipuError",
    "QuotaExceededError",
    "RateLimitedError",
    "RecallRequest",
    "RecallResponse",
    "RememberRequest",
    "RememberResponse",
    "Router",
    "SecretLeakageError",
    "TamperedError",
    "Telemetry",
    "UnauthenticatedError",
    "UnsupportedError",
    "UnverifiableError",
    "__version__",
    "connect",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        for home in _HOMES:
            found = getattr(import_module(home), name, None)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
