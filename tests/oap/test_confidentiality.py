"""OAP's confidentiality probe (RFC 0010 appendix A): planted words never show, and their presence does not either.

Two hosts hold the same memories, one of them with canaries beside and inside. Whatever a grant lets somebody ask, the
two answer alike.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.oap.hosts import OWNER, Host, embedder, pair
from tests.requirement import requirement

CANARY = "xqcanaryx"
NUMBERS = "77002211009"
_IDS = re.compile(
    r"(mem|mgr|pol|tok|rcp)_[0-9A-Z]+|[0-9A-HJKMNP-TV-Z]{26}|sha256:[0-9a-f]{64}|eyJ[\w.-]+|[\w-]{86}"
)

SHOWN = [
    ("Meet on Tuesdays.", {"tags": ("website_redesign",), "structured": {"day": "tue", "count": 3}}),
    ("Colours are agreed.", {"tags": ("website_redesign",), "structured": {"status": "agreed"}, "subject_entity_id": "ent_1"}),
    ("Unstructured note about the redesign.", {"tags": ("website_redesign",)}),
]  # fmt: skip

#: Planted inside the items that a grant shows, where the level hides it.
INSIDE: dict[str, Any] = {
    "text": f"{CANARY} and {NUMBERS}",
    "structure": {
        f"{CANARY} with spaces": 1,
        "note": f"{CANARY} in words",
        "phone": NUMBERS,
        "email": f"{CANARY}@example.com",
        "Email_address": CANARY,
        "url": f"https://{CANARY}.example",
        "number": int(NUMBERS),
        "home": {"address": CANARY},
    },
    "entity": {
        "entity_type": "oap.entity.contact",
        "entity_version": "1.0",
        "id": "ent_c",
        "names": {"given": "Ada", "family": "Lee", "nickname": CANARY},
        "extensions": {"x": CANARY},
        "channels": [{"type": "phone", "value": CANARY}],
    },
}


def fill(host: Host, *, with_canaries: bool) -> None:
    for text, fields in SHOWN:
        more = dict(fields)
        if with_canaries:
            text = f"{text} {INSIDE['text']}"
            if "structured" in more:
                more["structured"] = {**more["structured"], **INSIDE["structure"]}
            more["tags"] = (*more["tags"], CANARY)
        host.remember(text, **more)
    if with_canaries:
        host.remember(f"Private {CANARY}.", tags=("health",))
        host.remember(f"Other scope {CANARY}.", tags=("website_redesign",), scope_id="work")
        host.remember(f"Never out {CANARY}.", tags=("website_redesign",), exportable=False)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host, Host]]:
    folder = tmp_path_factory.mktemp("canaries")
    (folder / "x").mkdir()
    (folder / "y").mkdir()
    with (
        pair(folder / "x", embedder=embedder()) as (bare, _),
        pair(folder / "y", embedder=embedder()) as (full, c),
    ):
        fill(bare, with_canaries=False)
        fill(full, with_canaries=True)
        yield bare, full, c


GRANTS: dict[str, dict[str, Any]] = {
    **{f"level {n}": {"trust_level": n} for n in range(3)},
    "default": {},
    "contact": {"redaction_profile": "oap.profile.projection.contact.v1", "trust_level": 2},
    "calendar": {"redaction_profile": "oap.profile.projection.calendar_event.v1", "trust_level": 1},
    "task": {"redaction_profile": "oap.profile.projection.task.v1", "trust_level": 2},
    "kinds": {"filter": {"labels_any": ["website_redesign"], "kinds": ["fact"]}},
    "subject": {"filter": {"labels_any": ["website_redesign"], "subject_entity_ids": ["ent_1"]}},
    "vectors": {"scopes": ["memory.query", "memory.embeddings"], "trust_level": 2},
    "export": {"scopes": ["memory.query", "memory.export"], "trust_level": 2},
    "bearer": {"binding": "bearer"},
}  # fmt: skip
QUERIES: list[dict[str, Any]] = [
    {},
    {"query": CANARY},
    {"query": NUMBERS},
    {"query": "meet tue canary phone note"},
    {"query": "agreed", "max_results": 1},
    {"filter": {"labels_any": [CANARY]}},
    {"filter": {"labels_none": [CANARY]}},
    {"filter": {"scope_ids": ["work"]}},
    {"filter": {"min_confidence": 0.5}, "kinds": ["fact"]},
    {"filter": {"oddity": 1}},
    {"cursor": "nonsense"},
    {"query": "x" * 5000},
    {"max_results": 0},
]


def answers(host: Host, asker: Host, members: dict[str, Any]) -> list[Any]:
    """Everything that a grantee gets to see under a grant, with what differs between any two answers taken out."""
    grant_id = host.grant(asker.owner, **members)
    token = asker.token(host, grant_id)
    seen: list[Any] = []
    with_vectors = "memory.embeddings" in members.get("scopes", ())

    def sent(method: str, path: str, body: Any = None) -> httpx.Response:
        url = f"{host.url}{path}"
        scheme = "Bearer" if members.get("binding") == "bearer" else "DPoP"
        headers = {"Authorization": f"{scheme} {token}", "Accept-Encoding": "identity"}
        if scheme == "DPoP":
            headers["DPoP"] = asker.proof(method, url, token)
        return httpx.request(method, url, json=body, headers=headers, timeout=20)

    ids: list[str] = []
    for query in QUERIES:
        answer = sent(
            "POST", "/oap/memory/query", {**query, **({"include_embeddings": True} if with_vectors else {})}
        )
        seen.append((answer.status_code, answer.json()))
        if answer.status_code == 200:
            output = answer.json()["output"]
            ids += [item["item_id"] for item in output["items"] if item["item_id"] not in ids]
            if output["next_cursor"]:
                again = sent("POST", "/oap/memory/query", {**query, "cursor": output["next_cursor"]})
                seen.append((again.status_code, again.json()))
    for item_id in [*ids, "mem_00000000000000000000000000"]:
        for path in (f"/oap/memory/item/{item_id}/log", f"/oap/memory/vec/{item_id}.bin"):
            answer = sent("GET", path)
            is_bytes = answer.headers["content-type"].startswith("application/octet")
            seen.append((answer.status_code, answer.content.hex() if is_bytes else answer.json()))
    if "memory.export" in members.get("scopes", ()):
        taken = sent("POST", "/oap/memory/export", {})
        told = json.loads(taken.headers["oap-export-report"])
        with zipfile.ZipFile(io.BytesIO(taken.content)) as archive:
            files = {name: archive.read(name).decode("utf-8") for name in archive.namelist()}
        whole = "".join(files.values()).lower()
        assert (CANARY in whole or NUMBERS in whole) is (members["trust_level"] == 4)
        lines = [json.loads(line) for line in files["items.jsonl"].splitlines()]
        seen.append((taken.status_code, sorted(files), told["items"], told["loss"], lines))
    for method, path in (
        ("GET", "/oap/audit"),
        ("GET", f"/oap/memory/grant/{grant_id}"),
        ("GET", "/oap/memory/grant"),
    ):
        answer = sent(method, path)
        # The chain may hold other receipts of this grantee's; their number is no secret to it.
        seen.append(answer.status_code if path == "/oap/audit" else (answer.status_code, answer.json()))
    return seen


def plain(value: Any, host: Host) -> Any:
    """Without ids, hashes, signatures, times and addresses, which differ anyway."""
    if isinstance(value, dict):
        skip = (
            "integrity",
            "timestamp",
            "captured_at",
            "generated_at",
            "at",
            "expires_at",
            "issued_at",
            "expires",
            "as_of",
            "signature",
            "receipt",
            "next_cursor",
            "redacted_field_count",
            "input_salt",
            "output_salt",
        )
        made = {name: plain(part, host) for name, part in value.items() if name not in skip}
        if "integrity" in value:
            block = value["integrity"]
            made["integrity"] = {"log_length": block["log_length"], "salt": "salt" in block}
        return made
    if isinstance(value, list | tuple):
        return [plain(part, host) for part in value]
    if isinstance(value, str):
        return _IDS.sub(
            "*",
            value.replace(host.url.partition("//")[2].replace(":", "%3A"), "HOST").replace(host.url, "URL"),
        )
    return value


@requirement("oap:probe.confidentiality")
@pytest.mark.parametrize("name", GRANTS)
def test_no_canary_shows_under_any_grant(hosts: tuple[Host, Host, Host], name: str) -> None:
    _, full, asker = hosts
    told = str(answers(full, asker, GRANTS[name])).lower()
    # The grantee's own words come back in nothing, and neither do the planted ones.
    assert CANARY not in told
    assert NUMBERS not in told


@requirement("oap:probe.presence")
@pytest.mark.parametrize("name", ["default", "level 2", "contact", "vectors", "export"])
def test_answers_with_and_without_the_canary_are_equal(
    hosts: tuple[Host, Host, Host], name: str, tmp_path: Any
) -> None:
    bare, full, asker = hosts
    one = plain(answers(bare, _beside(bare, asker), GRANTS[name]), bare)
    other = plain(answers(full, asker, GRANTS[name]), full)
    assert one == other


def _beside(host: Host, asker: Host) -> Host:
    """Somebody whom this host can reach, too: known by the key itself."""
    allowed = host.parts.lending.peers._allowed
    host.parts.lending.peers._opened()._allowed = allowed | {asker.url}
    return asker


def test_the_probe_would_find_what_a_careless_host_shows(hosts: tuple[Host, Host, Host]) -> None:
    _, full, asker = hosts
    told = answers(full, asker, {"trust_level": 4, "scopes": ["memory.query", "memory.export"]})
    assert CANARY in str(told).lower()


@requirement("oap:disclosure.who-saw")
def test_the_owner_sees_who_saw_what_and_nobody_else_does(hosts: tuple[Host, Host, Host]) -> None:
    _, full, asker = hosts
    item_id = full.remember("Seen.", tags=("seen",), structured={"a": 1})
    grant_id = full.grant(asker.owner, filter={"labels_any": ["seen"]})
    asker.ask(full, grant_id)
    asker.ask(full, grant_id)
    told = full.at.do(full.sharing.grants.who_saw(OWNER, item_id))
    assert [(entry["op"], entry["actor"], entry["seq"]) for entry in told] == [
        ("disclosed", asker.owner, 1),
        ("disclosed", asker.owner, 2),
    ]
    with full.at.client() as owner:
        both = owner.get(f"/oap/memory/item/{item_id}/log").json()["output"]
    assert [len(both["state"]), len(both["disclosed"])] == [1, 2]
    assert httpx.get(f"{full.url}/oap/memory/item/{item_id}/log").status_code == 401
