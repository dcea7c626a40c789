"""Signed positions of the journal: how one is made, when the next one is due, and whether each is what was signed.

A checkpoint stands in a table of its own, and the entry behind the position that it signs names it, so that one that is
taken away is missed. One is due when enough was written since the last one in the ledger, or when the last one is old:
looked at when a process first writes, after each commit, and when it closes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from quipu.audit.keys import Signer, is_signed
from quipu.audit.model import Faults, Unverifiable
from quipu.errors import ConflictError, QuipuError, UnverifiableError
from quipu.ledger.canonical import canonical_plain
from quipu.ledger.commit import Commit
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.ledger.reader import Reader
from quipu.ledger.records import UnreadableEntry
from quipu.model.journal import Checkpoint, Draft, Entry, Head
from quipu.operation import Clock

#: What the audit itself writes; nothing is due because of it.
_OWN = frozenset({"checkpoint", "anchor"})
_EVERY_ENTRIES = 1_000
#: More than what the audit itself writes behind a signed position.
_LOOK = 20
_log = logging.getLogger("quipu.audit")


def statement(tenant: str, checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint as it stands outside of the ledger."""
    return {
        "tenant": tenant,
        "seq": checkpoint.seq,
        "hash": checkpoint.hash.hex(),
        "at": checkpoint.at,
        "key_id": checkpoint.key_id,
        "signature": checkpoint.signature,
    }


def message(tenant: str, seq: int, hash_: bytes, at: int) -> bytes:
    """What a signature is over."""
    return canonical_plain({"tenant": tenant, "seq": seq, "hash": hash_.hex(), "at": at})


def signature_fault(tenant: str, checkpoint: Checkpoint, keys: Mapping[str, str]) -> str | None:
    """What is wrong with a signature, if anything is; UnverifiableError without its key."""
    signed = message(tenant, checkpoint.seq, checkpoint.hash, checkpoint.at)
    if is_signed(signed, checkpoint.key_id, checkpoint.signature, keys):
        return None
    return f"the signature of position {checkpoint.seq} is wrong"


# -- verification -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SignedPositions:
    """Follows checkpoints beside the entries of a walk."""

    tenant: str
    keys: Mapping[str, str]
    faults: Faults
    unverifiable: Unverifiable
    count: int = 0
    #: The last position whose signature is right.
    last: int = 0

    def follow(self, entries: Iterable[Entry | UnreadableEntry], checkpoints: Sequence[Checkpoint]) -> None:
        """Entries in order, and the checkpoints of the positions before each of them."""
        by_seq = {point.seq: point for point in checkpoints}
        for entry in entries:
            if isinstance(entry, UnreadableEntry) or entry.op != "checkpoint":
                continue
            point = by_seq.pop(entry.seq - 1, None)
            if point is None:
                said = f"the signature of position {entry.seq - 1} is missing"
                self.faults.add("missing_checkpoint", said, seq=entry.seq - 1)
                continue
            if entry.detail.get("key_id") != point.key_id:
                said = f"position {point.seq} was signed with another key"
                self.faults.add("bad_signature", said, seq=point.seq)
            self._check(point, entry.prev)
        for point in by_seq.values():
            said = f"no entry names the signature of position {point.seq}"
            self.faults.add("unjournaled_checkpoint", said, seq=point.seq)
            self._check(point, None)

    def beyond(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Checkpoints of positions that nothing follows: their own entry is gone, and perhaps more."""
        for point in checkpoints:
            said = f"position {point.seq} was signed, and the journal ends before what followed it"
            self.faults.add("truncated", said, seq=point.seq)
            self._check(point, None)

    def _check(self, point: Checkpoint, hash_: bytes | None) -> None:
        self.count += 1
        if hash_ is not None and point.hash != hash_:
            said = f"the journal does not pass through what was signed at position {point.seq}"
            self.faults.add("rewritten", said, seq=point.seq)
        try:
            wrong = signature_fault(self.tenant, point, self.keys)
        except UnverifiableError as error:
            self.unverifiable.setdefault(error.reason or error.code, error.message)
            return
        if wrong is not None:
            self.faults.add("bad_signature", wrong, seq=point.seq)
        else:
            self.last = max(self.last, point.seq)


# -- signing ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Unsigned:
    """A tenant that something was written to since it was signed last."""

    #: The last signed position and its time; None: the ledger was not asked yet.
    last: tuple[int, int] | None
    #: Where the journal ends, as far as this process knows, and when the first of it was seen.
    seq: int
    since: int


@dataclass(slots=True)
class Checkpoints:
    """Signs positions of one ledger: when asked, and when it is due."""

    ledger: Ledger
    signer: Signer
    clock: Clock
    every_ms: int
    every_entries: int = _EVERY_ENTRIES
    #: What else is done with each one that was due, such as publishing it.
    signed: Callable[[str, Checkpoint], Awaitable[None]] | None = None
    _unsigned: dict[str, _Unsigned] = field(default_factory=dict[str, _Unsigned])
    _written: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    async def sign(self, tenant: str, actor: str) -> Checkpoint:
        """Sign where the journal stands."""

        def signed(head: Head) -> Checkpoint:
            if not head.seq:
                raise ConflictError(
                    "Nothing has happened yet, so there is nothing to sign.", reason="empty_journal"
                )
            at = self.clock()
            return Checkpoint(
                seq=head.seq,
                hash=head.hash,
                at=at,
                key_id=self.signer.key_id,
                signature=self.signer.sign(message(tenant, head.seq, head.hash, at)),
            )

        def entry(point: Checkpoint) -> Draft:
            detail = {"checkpoint": point.seq, "key_id": point.key_id}
            return Draft(op="checkpoint", actor=actor, at=point.at, detail=detail)

        checkpoint = await self.ledger.add_checkpoint(tenant, signed, entry)
        self._unsigned.pop(tenant, None)
        return checkpoint

    async def look(self, tenant: str) -> None:
        """Sign what is due of a tenant, whoever wrote it."""

        def work(reader: Reader) -> _Unsigned | None:
            last = reader.last_checkpoint()
            seq, at = (0, 0) if last is None else (last.seq, last.at)
            entries = reader.entries(JournalQuery(after=seq, limit=_LOOK))
            first = next((entry for entry in entries if entry.op not in _OWN), None)
            return None if first is None else _Unsigned((seq, at), reader.head().seq, first.at)

        found = await self.ledger.read(tenant, work)
        if found is not None:
            self._unsigned[tenant] = found
            await self._sign_if_due(tenant)

    async def close(self) -> None:
        """Sign what is due; a failure keeps nobody from closing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for tenant in list(self._unsigned):
            await self._sign_if_due(tenant, is_closing=True)

    # -- what is due --------------------------------------------------------------------------------------------------

    def committed(self, tenant: str, seq: int, commits: Sequence[Commit] | None) -> None:
        """To be called after each commit, on the event loop. Others' commits are signed by who made them."""
        if commits is None or all(commit.draft.op in _OWN for commit in commits):
            return
        known = self._unsigned.get(tenant)
        if known is None:
            known = self._unsigned[tenant] = _Unsigned(None, seq, self.clock())
        known.seq = max(known.seq, seq)
        if known.last is None or known.seq - known.last[0] >= self.every_entries:
            self._written.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._sign_what_is_due())

    async def _sign_what_is_due(self) -> None:
        while self._unsigned:
            self._written.clear()
            for tenant in list(self._unsigned):
                await self._sign_if_due(tenant)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.every_ms / 1000):
                    await self._written.wait()

    async def _sign_if_due(self, tenant: str, *, is_closing: bool = False) -> None:
        known = self._unsigned.get(tenant)
        if known is None:
            return
        try:
            if known.last is None:
                last = await self.ledger.last_checkpoint(tenant)
                known.last = (0, 0) if last is None else (last.seq, last.at)
            if not self._is_due(known, is_closing=is_closing):
                return
            checkpoint = await self.sign(tenant, "system")
            if self.signed is not None:
                await self.signed(tenant, checkpoint)
        except QuipuError as error:  # tried again with the next commit
            _log.warning("A position of the journal could not be signed: %s", error.message)

    def _is_due(self, known: _Unsigned, *, is_closing: bool) -> bool:
        assert known.last is not None
        seq, at = known.last
        if not seq and not is_closing:
            at = known.since  # nothing was ever signed: a process that goes on waits for more
        # A signature far ahead is of a clock that was wrong: nobody waits until it is right.
        is_old = abs(self.clock() - at) >= self.every_ms
        return known.seq > seq and (known.seq - seq >= self.every_entries or is_old)
