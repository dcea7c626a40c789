"""A memory moves from one server to another: signed, with its history's proofs, and without what was erased."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import httpx

from tests.journeys.test_briefing import Person, did_in, free_port, link_in, server
from tests.requirement import requirement
from tests.transfer.formats.shelf import unpacked

ERASED = "tangerine lighthouse"


def asked(owner: Person, method: str, path: str, **given: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {owner.settings['QUIPU_TOKEN']}", **given.pop("headers", {})}
    return httpx.request(
        method, f"{owner.settings['QUIPU_SERVER']}{path}", headers=headers, timeout=60, **given
    )


def remembered(owner: Person, text: str, *options: str) -> str:
    return str(json.loads(owner.types("remember", text, "--json", *options))["id"])


def listed(owner: Person) -> dict[str, Any]:
    found = json.loads(owner.types("list", "--all-agents", "--json"))["records"]
    return {one["id"]: one for one in found}


@requirement("oap:journey.migration")
def test_a_memory_moves_from_server_to_server(tmp_path: Path) -> None:
    here, there = free_port(), free_port()
    with server(tmp_path / "a", here, there) as old, server(tmp_path / "b", there, here) as new:
        website = remembered(old, "The website launches in May.", "--tags", "website", "--key", "launch")
        links = json.dumps({"to": website, "rel": "about"})
        meeting = remembered(old, "They met in Lisbon.", "--type", "episodic", "--links", links)
        gone = remembered(old, f"The alarm code is with the {ERASED}.")
        old.types("update", website, "--content", "The website launches in June.")
        link = link_in(
            old.types("share", did_in(new.types("did")), "--label", "website", "--purpose", "look")
        )
        assert "June" in new.types("borrow", link)
        old.types("forget", gone, "--hard-delete", "--yes")

        # in OAP's words, with everything that belongs to the owner
        body = {"include": {"receipts": True, "logs": True, "grants": True}}
        sent = asked(old, "POST", "/oap/memory/export", json=body)
        assert sent.status_code == 200, sent.text
        file = tmp_path / "moved.bundle.zip"
        file.write_bytes(sent.content)
        files = unpacked(sent.content)
        assert ERASED not in "".join(part.decode() for part in files.values())
        assert [json.loads(line)["item_id"] for line in files["tombstones.jsonl"].splitlines()] == [gone]
        assert len(files["receipts.jsonl"].splitlines()) == 2, "the grant, and what it showed"
        assert len(files["logs.jsonl"].splitlines()) == 2, "both versions of what was shown"
        assert len(files["grants.jsonl"].splitlines()) == 1

        # anybody can check it, with the owner's document
        owner = json.loads(files["manifest.json"])["owner"]
        path = owner.rpartition(":")[2]
        document = tmp_path / "did.json"
        document.write_bytes(asked(old, "GET", f"/owners/{path}/did.json").content)
        assert "holds (2 memories, 1 deletion" in new.types("verify", str(file), "--keys", str(document))
        assert "whose key is not here" in new.types("verify", str(file), code=2)

        # and the new server takes it over, after it has asked the old one for the key
        tried = asked(
            new,
            "POST",
            "/oap/memory/import?agent_id=assistant",
            content=sent.content,
            headers={"Content-Type": "application/octet-stream"},
        )
        assert tried.status_code == 200, tried.text
        report = tried.json()["output"]
        assert (report["signature"], report["owner"]) == ("valid", owner)
        done = asked(new, "POST", f"/oap/memory/import/{report['import_id']}/commit")
        assert done.json()["output"]["counts"]["accepted"] == 2, done.text
        before, after = listed(old), listed(new)
        assert set(after) == set(before) == {website, meeting}
        for record_id, record in after.items():
            was = before[record_id]
            same = ("type", "content", "tags", "key", "links", "created_at", "agent_id", "details")
            assert {name: record[name] for name in same} == {name: was[name] for name in same}
            assert (was["confidence"], record["confidence"]) == (1.0, 0.9), (
                "somebody else's word, though signed"
            )
            assert record["provenance"]["captured_at"] == was["created_at"]
            assert record["provenance"]["import_id"] == report["import_id"]
        new.types("verify")
        stored = sqlite3.connect(tmp_path / "b" / "memory.db")
        assert ERASED not in "".join(stored.iterdump())
        stored.close()
