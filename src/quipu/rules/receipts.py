"""Hashes, logs, integrity blocks, receipts and their chain (OAP contract 8). Canonical bytes and signing are handed in.

1. `H(x)` is "sha256:" and the digest of the RFC 8785 bytes of x.
2. A log line names the hash of the line before it; a receipt that of the receipt before it, signatures and all.
3. Receipts and logs hold hashes, ids and counts, never content; what they hash is salted, so erasing the salt erases.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from quipu.model.disclosure import ChainEnd, KeptReceipt, LogKind, LogLine
from quipu.model.outcomes import Fault
from quipu.model.value import JsonObject
from quipu.rules.chain import Canonical
from quipu.rules.grants_times import rfc3339

GENESIS = "genesis"
#: kid, then bytes → base64url of the signature.
Sign: TypeAlias = Callable[[bytes], str]
#: Members that are no part of an item's state (F2).
_ADDED = ("integrity", "provenance_tags", "epistemic")
_ADDED_EMBEDDING = ("vector_url", "digest")


@dataclass(frozen=True, slots=True)
class Hand:
    """Somebody who signs: their key's full name, and the signing itself."""

    kid: str
    sign: Sign

    @property
    def did(self) -> str:
        return self.kid.partition("#")[0]


def b64(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def hashed(value: object, canonical: Canonical) -> str:
    """`H(value)`."""
    return hash_of(canonical(value))


def hash_of(spelt: bytes) -> str:
    """`H` of a value whose canonical bytes are at hand."""
    return "sha256:" + hashlib.sha256(spelt).hexdigest()


def spelt_member(name: str, value: bytes) -> bytes:
    """The canonical bytes of a member whose value is spelt. Its name is one of OAP's own: plain ASCII."""
    return f'"{name}":'.encode("ascii") + value


def spelt_members(value: Mapping[str, Any], canonical: Canonical) -> dict[str, bytes]:
    """The canonical bytes of each member of an object."""
    return {name: spelt_member(name, canonical(part)) for name, part in value.items()}


def spelt_object(members: Mapping[str, bytes]) -> bytes:
    """The canonical bytes of an object out of those of its members."""
    return b"{" + b",".join([members[name] for name in sorted(members)]) + b"}"


def spelt_array(parts: Iterable[bytes]) -> bytes:
    """The canonical bytes of an array out of those of its parts."""
    return b"[" + b",".join(parts) + b"]"


def signature(value: object, hand: Hand, canonical: Canonical) -> dict[str, Any]:
    """A signature over the canonical bytes of a value."""
    return {"alg": "EdDSA", "kid": hand.kid, "value": hand.sign(canonical(value))}


def without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The same object without some members."""
    return {name: part for name, part in value.items() if name not in names}


# -- items --------------------------------------------------------------------------------------------------------


def state_of(item: JsonObject) -> dict[str, Any]:
    """What of an item is hashed (F2)."""
    state = without(item, *_ADDED)
    embedding = state.get("embedding")
    if isinstance(embedding, Mapping):
        state["embedding"] = without(cast("Mapping[str, Any]", embedding), *_ADDED_EMBEDDING)
    return state


def state_hash(item: JsonObject, salt: str, canonical: Canonical) -> str:
    """The salted hash of an item's state."""
    return hashed({"item": state_of(item), "salt": salt}, canonical)


def log_line(
    previous: LogLine | None,
    *,
    record_id: str,
    item_id: str,
    log: LogKind,
    version: int,
    op: str,
    at: int,
    actor: str,
    state: str | None,
    receipt_id: str | None,
    canonical: Canonical,
) -> LogLine:
    """The next line of an item's log."""
    seq = 1 if previous is None else previous.seq + 1
    entry: dict[str, Any] = {
        "v": 1,
        "item_id": item_id,
        "seq": seq,
        "op": op,
        "at": rfc3339(at),
        "actor": actor,
        "state": state,
        "receipt_id": receipt_id,
        "prev": GENESIS if previous is None else previous.hash,
    }
    spelt = canonical(entry)
    return LogLine(
        record_id=record_id,
        log=log,
        seq=seq,
        version=version,
        entry=entry,
        hash=hash_of(spelt),
        spelt=spelt.decode("utf-8"),
    )


def log_faults(entries: Iterable[JsonObject], canonical: Canonical) -> list[Fault]:
    """What is wrong with an item's log: a line altered, removed, put in or out of its place."""
    faults: list[Fault] = []
    previous = GENESIS
    for seq, entry in enumerate(entries, 1):
        if entry.get("prev") != previous or entry.get("seq") != seq:
            faults.append(Fault(seq=seq, kind="broken_log", detail=str(entry.get("item_id", ""))))
        previous = hashed(entry, canonical)
    return faults


def integrity(
    *,
    item_id: str,
    capture_hash: str,
    state: str,
    salt: str | None,
    log_length: int,
    log_head: str,
    redacted: Sequence[str],
    is_altered: bool,
    hand: Hand,
    canonical: Canonical,
    sd_jwt: str | None = None,
) -> dict[str, Any]:
    """The block that a returned item carries (8.2). The salt goes along only where nothing was taken away."""
    block: dict[str, Any] = {"v": 1, "c14n": "RFC8785", "capture_hash": capture_hash, "state_hash": state}
    if salt is not None:
        block["salt"] = salt
    block |= {
        "log_length": log_length,
        "log_head": log_head,
        "altered_by_projection": is_altered,
        "redacted": list(redacted),
    }
    if sd_jwt is not None:
        block["sd_jwt"] = sd_jwt
    return {**block, "signature": signature({**block, "item_id": item_id}, hand, canonical)}


def integrity_signed(item: JsonObject) -> tuple[dict[str, Any], JsonObject] | None:
    """What an integrity block's signature covers, and the signature."""
    block = item.get("integrity")
    if not isinstance(block, Mapping) or not isinstance(block.get("signature"), Mapping):
        return None
    signed: Any = block["signature"]
    return {**without(block, "signature"), "item_id": item.get("item_id")}, signed


# -- receipts -----------------------------------------------------------------------------------------------------


def receipt(
    end: ChainEnd,
    *,
    id: str,
    type: str,
    at: int,
    principal: str,
    agent: str,
    hand: Hand,
    canonical: Canonical,
    grant_id: str | None = None,
    **members: Any,
) -> KeptReceipt:
    """The next receipt of a chain, signed by the host."""
    unsigned: dict[str, Any] = {
        "receipt_id": f"urn:oap:receipt:{id}",
        "type": type,
        "timestamp": rfc3339(at, fraction=True),
        "principal_did": principal,
        "agent_did": agent,
        "tool_did": hand.did,
        **members,
        "previous_receipt_hash": end.hash,
    }
    body = {
        **unsigned,
        "signatures": [{"by": hand.kid, "alg": "EdDSA", "value": hand.sign(canonical(unsigned))}],
    }
    spelt = canonical(body)
    return KeptReceipt(
        seq=end.seq + 1,
        id=unsigned["receipt_id"],
        type=type,
        agent=agent,
        grant_id=grant_id,
        at=at,
        body=body,
        hash=hash_of(spelt),
        spelt=spelt.decode("utf-8"),
    )


def after(kept: KeptReceipt) -> ChainEnd:
    """The end of the chain that a receipt makes."""
    return ChainEnd(kept.seq, kept.hash)


#: What was signed, the key's full name, the signature → is it right?
Check: TypeAlias = Callable[[bytes, str, str], bool]


def chain_faults(bodies: Iterable[JsonObject], check: Check, canonical: Canonical) -> list[Fault]:
    """What is wrong with a chain of receipts, from its first one on."""
    faults: list[Fault] = []
    previous = GENESIS
    for seq, body in enumerate(bodies, 1):
        name = str(body.get("receipt_id", ""))
        if body.get("previous_receipt_hash") != previous:
            faults.append(Fault(seq=seq, kind="broken_chain", detail=name))
        if not receipt_is_signed(body, check, canonical):
            faults.append(Fault(seq=seq, kind="bad_signature", detail=name))
        previous = hashed(body, canonical)
    return faults


def receipt_is_signed(body: JsonObject, check: Check, canonical: Canonical) -> bool:
    """Whether every signature of a receipt is right, and there is one."""
    given = body.get("signatures")
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        return False
    signed = canonical(without(body, "signatures"))
    return all(
        isinstance(one, Mapping) and check(signed, str(one.get("by")), str(one.get("value"))) for one in given
    )


def deletion_receipt(
    *,
    id: str,
    principal: str,
    scope_id: str | None,
    requested_at: int,
    completed_at: int,
    item_ids: Sequence[str],
    reason: str,
    grants: Sequence[str],
    told: Sequence[str],
    hand: Hand,
    canonical: Canonical,
) -> dict[str, Any]:
    """The closed form of 9.4: what was erased is told by count and digest."""
    body: dict[str, Any] = {
        "receipt_id": f"urn:oap:deletion:{id}",
        "tool_did": hand.did,
        "principal_did": principal,
        "request_received_at": rfc3339(requested_at),
        "completed_at": rfc3339(completed_at),
        "method": "cryptographic_erasure",
        "scope": {
            "data_classes": ["oap_memory_items", "oap_memory_embeddings"],
            "provenance_tags": [reason, *(f"grant:{grant}" for grant in grants)],
            "subprocessors_propagated_to": list(told),
            "item_ids_digest": hashed(sorted(item_ids), canonical),
            "items_deleted": len(item_ids),
            "grants_affected": list(grants),
        },
        "exceptions": [],
    }
    if scope_id is not None:
        body["scope_id"] = scope_id
    return {**body, "signature": signature(body, hand, canonical)}


def envelope(
    *,
    request_id: str,
    response_id: str,
    at: int,
    status: str,
    hand: Hand,
    canonical: Canonical,
    **members: Any,
) -> dict[str, Any]:
    """A signed Response Envelope (4.8)."""
    body: dict[str, Any] = {
        "oap_version": "1.0",
        "request_id": request_id,
        "response_id": response_id,
        "timestamp": rfc3339(at, fraction=True),
        "status": status,
        **members,
    }
    return {**body, "signature": signature(body, hand, canonical)}


def cascade_report(
    *, id: str, root: str | None, steps: Sequence[JsonObject], hand: Hand, canonical: Canonical
) -> dict[str, Any]:
    """Whom an erasure has reached, and who has not answered yet (9.3)."""
    body: dict[str, Any] = {"cascade_id": id, "root_receipt": root, "steps": list(steps)}
    return {**body, "signature": signature(body, hand, canonical)}
