"""Check an exported journal without Quipu, by SHA-256, RFC 8785 and Ed25519: verify_offline.py proof trusted.json"""

import json
import sys
from base64 import urlsafe_b64decode
from hashlib import sha256
from pathlib import Path

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def check(folder: Path, trusted: Path | None = None) -> int:
    """How many entries hold; raises when one was altered. Without trusted keys, those in the folder are used."""
    before, hashes, signed = "0" * 64, {}, 0
    for entry in map(json.loads, (folder / "journal.ndjson").read_bytes().splitlines()):
        stated = entry.pop("hash")
        if entry["prev"] != before or sha256(rfc8785.dumps(entry)).hexdigest() != stated:
            raise SystemExit(f"entry {entry['seq']} was altered")
        before = hashes[entry["seq"]] = stated
    keys = json.loads((trusted or folder / "keys.json").read_text("utf-8"))
    for point in map(json.loads, (folder / "checkpoints.ndjson").read_bytes().splitlines()):
        key = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(keys[point.pop("key_id")] + "=="))
        key.verify(urlsafe_b64decode(point.pop("signature") + "=="), rfc8785.dumps(point))
        if hashes.get(signed := point["seq"]) != point["hash"]:
            raise SystemExit(f"the journal does not pass through checkpoint {signed}")
    if signed != len(hashes):
        raise SystemExit(f"nobody has signed the entries behind {signed}")
    return len(hashes)


if __name__ == "__main__":
    if not sys.argv[1:]:  # nothing to check: make a proof to try it on
        from quipu.sync import Memory

        with Memory(agent_id="assistant", stores="memory.db") as memory:
            memory.remember("Deploys happen on Tuesdays")
            memory.export_journal("proof")
    print("entries that hold:", check(*map(Path, sys.argv[1:] or ["proof"])))
