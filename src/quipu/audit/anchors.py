"""Places outside of the database where signed positions are published. A journal that was cut or written anew is found out
by them even where everything in the database fits together again.

Each place keeps lines of JSON, one statement each (`checkpoints.statement`): a file to which lines are added, or an HTTPS
address that takes a statement by POST and gives all of a tenant back by GET.
"""

import asyncio
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import unquote, urlsplit

from quipu.audit.checkpoints import signature_fault, statement
from quipu.audit.model import Faults, Unverifiable
from quipu.errors import BackendUnavailableError, Fault, InvalidError, QuipuError, UnverifiableError
from quipu.model.journal import Checkpoint

if TYPE_CHECKING:
    import httpx

_PATIENCE_S = 10.0
#: An answer to a statement is kept as its proof, up to so many characters.
_MOST_PROOF = 4_096
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Published:
    """What a place says."""

    checkpoints: tuple[Checkpoint, ...]
    #: How many lines were no statement.
    unreadable: int = 0


class Anchor(Protocol):
    """A place where positions are published."""

    @property
    def target(self) -> str:
        """How it is called; never a password."""
        ...

    async def publish(self, tenant: str, checkpoint: Checkpoint) -> str:
        """Publish a position; what comes back proves it."""
        ...

    async def published(self, tenant: str) -> Published:
        """Everything that was published for a tenant."""
        ...


@dataclass(frozen=True, slots=True)
class FileAnchor:
    """Adds lines to a file, best one that others can only add to."""

    path: Path

    @property
    def target(self) -> str:
        return f"file://{self.path}"

    async def publish(self, tenant: str, checkpoint: Checkpoint) -> str:
        def work() -> str:
            line = json.dumps(statement(tenant, checkpoint)).encode() + b"\n"
            try:
                with self.path.open("ab") as file:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                    return f"byte {file.tell() - len(line)}"
            except OSError as error:
                raise _unreachable(self.target) from error

        return await asyncio.to_thread(work)

    async def published(self, tenant: str) -> Published:
        def work() -> Published:
            try:
                with self.path.open("rb") as file:
                    return _read(tenant, file)
            except FileNotFoundError:
                return Published(())
            except OSError as error:
                raise _unreachable(self.target) from error

        return await asyncio.to_thread(work)


@dataclass(frozen=True, slots=True)
class HttpAnchor:
    """Posts statements to an address that the operator has named."""

    url: str

    @property
    def target(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    async def publish(self, tenant: str, checkpoint: Checkpoint) -> str:
        answer = await self._asked("POST", json=statement(tenant, checkpoint))
        return answer.text[:_MOST_PROOF].replace("\0", "")

    async def published(self, tenant: str) -> Published:
        answer = await self._asked("GET", params={"tenant": tenant})
        return _read(tenant, answer.content.splitlines())

    async def _asked(self, method: str, **given: Any) -> "httpx.Response":
        import httpx  # slow to load, and most processes publish nothing

        try:
            async with httpx.AsyncClient(timeout=_PATIENCE_S, trust_env=False) as client:
                answer = await client.request(method, self.url, **given)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unreachable(self.target) from error
        if not answer.is_success or len(answer.content) > _MOST_BYTES:
            raise _unreachable(self.target)
        return answer


def anchor_at(address: str) -> Anchor:
    """The place of an address: file:///path or https://host/path."""
    parts = urlsplit(address)
    if parts.scheme == "file" and parts.path:
        return FileAnchor(Path(unquote(parts.path)))
    is_here = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and is_here)):
        return HttpAnchor(address)
    accepted = "file:///path or https://host/path"
    raise InvalidError(
        "This is no place to publish to.", faults=[Fault("/audit_anchor", "bad_value", accepted)]
    )


def compare(
    anchor: Anchor,
    tenant: str,
    hashes: Mapping[int, bytes | None],
    published: Published,
    keys: Mapping[str, str],
    faults: Faults,
    unverifiable: Unverifiable,
) -> None:
    """Does the journal pass through everything that was published? `hashes`: what stands at these positions now."""
    for checkpoint in published.checkpoints:
        try:
            is_ours = signature_fault(tenant, checkpoint, keys) is None
        except UnverifiableError as error:
            unverifiable.setdefault(error.reason or error.code, error.message)
            continue
        if not is_ours:
            said = f"{anchor.target} has a position {checkpoint.seq} with a wrong signature"
            unverifiable.setdefault("foreign_anchor", said)
            continue
        found = hashes.get(checkpoint.seq)
        if found is None:
            said = f"position {checkpoint.seq} was published at {anchor.target} and is no longer there"
            faults.add("truncated", said, seq=checkpoint.seq)
        elif found != checkpoint.hash:
            said = f"the journal does not pass through what was published at {anchor.target}"
            faults.add("rewritten", said, seq=checkpoint.seq)
    if published.unreadable:
        unverifiable.setdefault("foreign_anchor", f"{anchor.target} has lines that are no statements")


async def read_from(anchor: Anchor, tenant: str, unverifiable: Unverifiable) -> Published | None:
    """What a place says; None where it cannot be asked."""
    try:
        return await anchor.published(tenant)
    except QuipuError as error:
        unverifiable.setdefault(error.reason or error.code, error.message)
        return None


def checkpoint_of(body: object) -> tuple[str, Checkpoint] | None:
    """A statement as it stands outside of the ledger: whose it is, and the checkpoint."""
    match body:
        case {
            "tenant": str(tenant),
            "seq": int(seq),
            "hash": str(hash_),
            "at": int(at),
            "key_id": str(key_id),
            "signature": str(signature),
        } if (
            len(cast("dict[str, Any]", body)) == 6 and not isinstance(seq, bool) and not isinstance(at, bool)
        ):
            try:
                hashed = bytes.fromhex(hash_)
            except ValueError:
                return None
            point = Checkpoint(seq=seq, hash=hashed, at=at, key_id=key_id, signature=signature)
            return (tenant, point) if hashed.hex() == hash_ else None
        case _:
            return None


def _read(tenant: str, lines: Iterable[bytes]) -> Published:
    found: list[Checkpoint] = []
    unreadable = 0
    for line in lines:
        if not line.strip():
            continue
        try:
            known = checkpoint_of(json.loads(line))
        except (ValueError, RecursionError):
            known = None
        if known is None:
            unreadable += 1
        elif known[0] == tenant:
            found.append(known[1])
    return Published(tuple(found), unreadable)


def _unreachable(target: str) -> BackendUnavailableError:
    return BackendUnavailableError(
        f"{target} does not answer, or does not take it.",
        reason="anchor_unreachable",
        hint="Look at the setting audit_anchor, and at the place that it names.",
    )
