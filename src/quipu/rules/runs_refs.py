"""Refs: opaque names of memory.

1. A named ref is relative to its tenant: the same name in two tenants is two memories. It is the name of an agent.
2. A ref that the host gave out is known by its full shape. One that is not the tenant's own is forbidden, whether or
   not it exists anywhere.
3. A ref that is no ref at all is empty for readers, not an error.
"""

from __future__ import annotations

import re
from hashlib import sha256

from quipu.errors import ForbiddenError, InvalidError
from quipu.rules.texts import is_keepable

#: Where the host writes what became of each run.
SUMMARIES = "quipu/run-summaries"
#: Where it keeps files of the workspace.
WORKSPACE = "quipu/workspace"

_LONGEST = 256
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_MINTED = re.compile(rf"mem_[{_CROCKFORD}]{{26}}")


def is_wellformed(ref: object) -> bool:
    """Whether a ref can be one at all."""
    return isinstance(ref, str) and 0 < len(ref) <= _LONGEST and ".." not in ref and is_keepable(ref)


def is_minted(ref: str) -> bool:
    """Whether it has the shape of refs that the host gives out: the prefix alone says nothing."""
    return _MINTED.fullmatch(ref) is not None


def foreign() -> ForbiddenError:
    """The same answer for somebody else's ref and for one that nobody has."""
    return ForbiddenError("This memory is not yours.", reason="memory_ref")


def malformed() -> InvalidError:
    """Writes need a ref."""
    return InvalidError.at(
        "/memoryRef",
        "bad_value",
        "This is no memoryRef.",
        accepted=[f"1 to {_LONGEST} characters without '..' and NUL"],
    )


def summary_id(run_id: str) -> str:
    """The id of a run's summary follows from the run's own, so that it cannot be written twice."""
    named = "mem_" + run_id.removeprefix("run_")
    return named if is_minted(named) else derived_id("summary", run_id)


def derived_id(*parts: str) -> str:
    """A record id that follows from names: the same names, the same id."""
    number = int.from_bytes(sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()[:17], "big")
    digits = [_CROCKFORD[(number >> (5 * place)) & 31] for place in range(26)]
    return "mem_" + "".join(digits)
