"""Check an exported journal without Quipu: only SHA-256, RFC 8785 and Ed25519."""

import json
from base64 import urlsafe_b64decode
from hashlib import sha256
from pathlib import Path

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from quipu.sync import Memory


def check(folder: Path) -> int:
    """How many entries hold; raises when one was altered."""
    before, hashes = "0" * 64, {}
    for line in (folder / "journal.ndjson").read_text("utf-8").splitlines():
        entry = json.loads(line)
        stated = entry.pop("hash")
        if entry["prev"] != before or sha256(rfc8785.dumps(entry)).hexdigest() != stated:
            raise SystemExit(f"entry {entry['seq']} was altered")
        before = hashes[entry["seq"]] = stated
    keys = json.loads((folder / "keys.json").read_text("utf-8"))
    for line in (folder / "checkpoints.ndjson").read_text("utf-8").splitlines():
        point = json.loads(line)
        key = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(keys[point.pop("key_id")] + "=="))
        key.verify(urlsafe_b64decode(point.pop("signature") + "=="), rfc8785.dumps(point))
        if hashes.get(point["seq"]) != point["hash"]:
            raise SystemExit(f"the journal does not pass through checkpoint {point['seq']}")
    return len(hashes)


if __name__ == "__main__":
    with Memory(agent_id="assistant", stores="memory.db") as memory:
        memory.remember("Deploys happen on Tuesdays")
        memory.export_journal(Path("proof"))
    print("entries that hold:", check(Path("proof")))
