"""Hashes, logs, integrity blocks, receipts and their chain. Pure: whoever signs is handed in.

1. `hashed` is OAP's H: "sha256:" and the digest of the RFC 8785 bytes.
2. An entry of a log names the hash of the entry before it; a receipt that of the receipt before it, signatures and all.
3. Receipts and logs hold hashes, ids and counts, never content; what they hash is salted, so erasing the salt erases.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from quipu.jose import Signatory
from quipu.ledger.canonical import canonical
from quipu.sharing.model import ItemLogEntry, LogOp, Receipt, ReceiptType
from quipu.sharing.times import rfc3339

GENESIS = "genesis"
VERSION = "1.0"
#: The version of every action that receipts name.
ACTION_VERSION = "1.0.0"
#: Members that are no part of an item's state.
_ADDED = ("integrity", "provenance_tags", "epistemic")
_ADDED_TO_EMBEDDING = ("vector_url", "digest")
#: What was signed, the key's full name, the signature → whether it is right.
Check: TypeAlias = Callable[[bytes, str, str], bool]


def hashed(value: object) -> str:
    """OAP's H."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def salted(name: str, value: object, salt: str) -> str:
    """H of a value beside its salt, as receipts hold input and output."""
    return hashed({name: value, "salt": salt})


def signature(value: object, by: Signatory) -> dict[str, Any]:
    """A signature over the canonical bytes of a value."""
    return {"alg": "EdDSA", "kid": by.kid, "value": by.sign(canonical(value))}


def signed(value: Mapping[str, Any], by: Signatory) -> dict[str, Any]:
    """The object with a signature over itself."""
    return {**value, "signature": signature(value, by)}


def without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The same object without some members."""
    return {name: part for name, part in value.items() if name not in names}


# -- items --------------------------------------------------------------------------------------------------------


def state_hash(item: Mapping[str, Any], salt: str) -> str:
    """The salted hash of an item's state: of all that is no addition of ours on its way out."""
    state = without(item, *_ADDED)
    embedding = state.get("embedding")
    if isinstance(embedding, Mapping):
        state["embedding"] = without(cast("Mapping[str, Any]", embedding), *_ADDED_TO_EMBEDDING)
    return salted("item", state, salt)


def log_entry(
    previous: ItemLogEntry | None,
    *,
    record_id: str,
    item_id: str,
    version: int,
    op: LogOp,
    at: int,
    actor: str,
    state: str | None,
    receipt_id: str | None = None,
) -> ItemLogEntry:
    """The next entry of an item's log. `state` is none when it was deleted."""
    number = 1 if previous is None else previous.number + 1
    entry: dict[str, Any] = {
        "v": 1,
        "item_id": item_id,
        "seq": number,
        "op": op,
        "at": rfc3339(at),
        "actor": actor,
        "state": state,
        "receipt_id": receipt_id,
        "prev": GENESIS if previous is None else previous.hash,
    }
    return ItemLogEntry(record_id=record_id, number=number, version=version, entry=entry, hash=hashed(entry))


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
    by: Signatory,
) -> dict[str, Any]:
    """The block that a returned item carries. The salt goes along only where nothing was taken away."""
    block: dict[str, Any] = {"v": 1, "c14n": "RFC8785", "capture_hash": capture_hash, "state_hash": state}
    if salt is not None:
        block["salt"] = salt
    block |= {
        "log_length": log_length,
        "log_head": log_head,
        "altered_by_projection": is_altered,
        "redacted": list(redacted),
    }
    return {**block, "signature": signature({**block, "item_id": item_id}, by)}


def integrity_signed(item: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]] | None:
    """What the signature of an item's block covers, and the signature; None where there is none."""
    block = item.get("integrity")
    if not isinstance(block, Mapping):
        return None
    members = cast("Mapping[str, Any]", block)
    if not isinstance(members.get("signature"), Mapping):
        return None
    return {**without(members, "signature"), "item_id": item.get("item_id")}, members["signature"]


# -- receipts -----------------------------------------------------------------------------------------------------


def receipt(
    previous: Receipt | None,
    *,
    id: str,
    type: ReceiptType,
    at: int,
    principal: str,
    agent: str,
    by: Signatory,
    grant_id: str | None = None,
    **members: Any,
) -> Receipt:
    """The next receipt of an owner's chain, signed by the host. `id`: a ULID."""
    unsigned: dict[str, Any] = {
        "receipt_id": f"urn:oap:receipt:{id}",
        "type": type,
        "timestamp": rfc3339(at, fraction=True),
        "principal_did": principal,
        "agent_did": agent,
        "tool_did": by.did,
        **members,
        "previous_receipt_hash": GENESIS if previous is None else previous.hash,
    }
    body = {
        **unsigned,
        "signatures": [{"by": by.kid, "alg": "EdDSA", "value": by.sign(canonical(unsigned))}],
    }
    return Receipt(
        number=1 if previous is None else previous.number + 1,
        id=unsigned["receipt_id"],
        type=type,
        agent=agent,
        grant_id=grant_id,
        at=at,
        body=body,
        hash=hashed(body),
    )


def receipt_faults(
    bodies: Iterable[Mapping[str, Any]], check: Check, previous: str = GENESIS, number: int = 1
) -> list[tuple[int, str]]:
    """What is wrong with a stretch of a chain: the receipt's number, and `broken_chain` or `bad_signature`."""
    faults: list[tuple[int, str]] = []
    for place, body in enumerate(bodies, number):
        if body.get("previous_receipt_hash") != previous:
            faults.append((place, "broken_chain"))
        if not receipt_is_signed(body, check):
            faults.append((place, "bad_signature"))
        previous = hashed(body)
    return faults


def receipt_is_signed(body: Mapping[str, Any], check: Check) -> bool:
    """Whether every signature of a receipt is right, and there is one."""
    given = body.get("signatures")
    signatures: list[Any] = cast("list[Any]", given) if isinstance(given, list) else []
    message = canonical(without(body, "signatures"))
    return bool(signatures) and all(
        isinstance(one, Mapping)
        and check(message, str(cast("Any", one).get("by")), str(cast("Any", one).get("value")))
        for one in signatures
    )


def deletion_receipt(
    *,
    id: str,
    principal: str,
    scope_id: str | None,
    requested_at: int,
    completed_at: int,
    digest: str,
    count: int,
    reason: str,
    grants: Sequence[str],
    told: Sequence[str],
    by: Signatory,
) -> dict[str, Any]:
    """OAP's Deletion Receipt: what was erased is told by count, and by the digest of the sorted ids."""
    body: dict[str, Any] = {
        "receipt_id": f"urn:oap:deletion:{id}",
        "tool_did": by.did,
        "principal_did": principal,
        "request_received_at": rfc3339(requested_at),
        "completed_at": rfc3339(completed_at),
        "method": "cryptographic_erasure",
        "scope": {
            "data_classes": ["oap_memory_items", "oap_memory_embeddings"],
            "provenance_tags": [reason, *(f"grant:{grant}" for grant in grants)],
            "subprocessors_propagated_to": list(told),
            "item_ids_digest": digest,
            "items_deleted": count,
            "grants_affected": list(grants),
        },
        "exceptions": [],
    }
    if scope_id is not None:
        body["scope_id"] = scope_id
    return signed(body, by)
