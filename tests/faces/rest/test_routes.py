"""Quipu's own API: who may ask what, what is refused, and what is never shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from quipu.faces.rest.paths import PREFIX, STREAMING, UNBOUNDED
from quipu.faces.rest.routes import routes
from quipu.model.access import Role
from quipu.model.principal import Permission, local
from tests.faces.serving import Served, served


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(rate_per_minute=0) as running:
        yield running


@pytest.fixture
def api(server: Served) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def token(server: Served, *permissions: Permission, roles: tuple[Role, ...] = (), **given: Any) -> str:
    """A fresh token with just these rights."""
    number = len(server.do(server.service.tokens.list(local())))
    issued = server.do(
        server.service.tokens.issue(
            local(), name=f"test {number}", roles=roles, permissions=permissions, **given
        )
    )
    return issued.text


def asked(client: httpx.Client, line: str, body: Any = None) -> httpx.Response:
    method, _, path = line.partition(" ")
    return client.request(method, PREFIX + path, json=body)


def kept(api: httpx.Client, text: str, **fields: Any) -> str:
    body = {"agent_id": "ana", "type": "semantic", "content": text, **fields}
    answer = api.post("/memorywire/v0/remember", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


#: Each route: what it needs, and a request that is allowed to ask.
READ, REVIEW, ADMIN = Permission.READ, Permission.REVIEW, Permission.ADMIN
WRITE, DELETE, MANAGE, OPERATE = Permission.WRITE, Permission.DELETE, Permission.MANAGE, Permission.OPERATE
ROUTES: dict[str, tuple[Permission | None, Any]] = {
    "GET /me": (None, None),
    "POST /flush": (None, None),
    "GET /stores": (READ, None),
    "POST /stores": (WRITE, {"name": "attic"}),
    "DELETE /stores/nowhere?confirm=nowhere": (ADMIN, None),
    "GET /records?agent_id=ana": (READ, None),
    "GET /records": (ADMIN, None),
    "POST /records/query": (READ, {"agent_id": "ana"}),
    "GET /records/mem_no?agent_id=ana": (READ, None),
    "GET /records/mem_no/history?agent_id=ana": (READ, None),
    "GET /records/mem_no/procedure?agent_id=ana": (READ, None),
    "GET /records/mem_no/neighbours?agent_id=ana": (READ, None),
    "POST /consolidate": (ADMIN, None),
    "POST /consolidations/pass_no.1/undo": (ADMIN, None),
    "POST /export": (ADMIN, {"agent_id": "ana"}),
    "GET /imports": (REVIEW, None),
    "POST /imports/imp_no/commit": (None, None),
    "POST /imports/imp_no/decision": (REVIEW, {"approved": True}),
    "POST /imports/imp_no/rollback": (ADMIN, None),
    "POST /exports": (ADMIN, {"agent_id": "ana"}),
    "GET /proposals": (REVIEW, None),
    "POST /recover": (REVIEW, {"agent_id": "ana", "sources": ["web*"]}),
    "GET /webhooks": (ADMIN, None),
    "POST /webhooks": (ADMIN, {"url": "https://example.org/hook"}),
    "DELETE /webhooks/whk_no": (ADMIN, None),
    "POST /webhooks/whk_no/ping": (ADMIN, None),
    "GET /proposals/prp_no": (None, None),
    "POST /proposals/prp_no/decision": (REVIEW, {"approved": True}),
    "GET /journal": (REVIEW, None),
    "GET /journal/head": (READ, None),
    "GET /journal/export": (ADMIN, None),
    "POST /verify": (READ, None),
    "GET /checkpoints": (READ, None),
    "POST /checkpoints": (READ, None),
    "GET /keys": (READ, None),
    "POST /sweep": (DELETE, None),
    "GET /statistics": (ADMIN, None),
    "POST /vacuum": (OPERATE, None),
    "POST /backup": (OPERATE, None),
    "GET /mirrors": (OPERATE, None),
    "POST /mirrors/nowhere/verify": (OPERATE, None),
    "POST /mirrors/nowhere/resync": (OPERATE, None),
    "GET /tokens": (MANAGE, None),
    "POST /tokens": (MANAGE, {"name": "bot", "permissions": ["tenant:manage"]}),
    "DELETE /tokens/tok_no": (MANAGE, None),
    "POST /tokens/tok_no/rotate": (MANAGE, {}),
    "GET /tenants": (OPERATE, None),
    "POST /tenants": (OPERATE, {"tenant": "acme"}),
    "POST /tenants/nobody/suspend": (OPERATE, None),
    "POST /tenants/nobody/resume": (OPERATE, None),
    "GET /secrets": (MANAGE, None),
    "POST /secrets": (MANAGE, {"label": "key", "value": "correct horse battery"}),
    "DELETE /secrets/sec_no": (MANAGE, None),
}


def test_every_route_stands_in_the_table_of_rights(server: Served) -> None:
    known = {
        (method, route.path)
        for route in routes(server.service)
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    asked_for = set()
    for line in ROUTES:
        method, _, path = line.partition(" ")
        for route in routes(server.service):
            scope = {"type": "http", "method": method, "path": PREFIX + path.partition("?")[0]}
            if isinstance(route, Route) and route.matches(scope)[0].name == "FULL":
                asked_for.add((method, route.path))
                break
    apart = {("POST", f"{PREFIX}{path}") for path in ("/import", "/imports", "/reembed")}
    rest = known - apart
    assert asked_for == rest
    assert {path for _, path in known} >= STREAMING | UNBOUNDED


@pytest.mark.parametrize("line", [*ROUTES, "POST /import", "POST /imports", "POST /reembed"])
def test_nobody_asks_without_a_credential(server: Served, line: str) -> None:
    with server.client("") as nobody:
        answer = asked(nobody, line, {})
    assert answer.status_code == 401
    assert answer.json()["reason"] == "no_credential"


@pytest.mark.parametrize("line", [line for line, (needed, _) in ROUTES.items() if needed is not None])
def test_each_route_needs_its_right_and_no_other(server: Served, line: str) -> None:
    needed, body = ROUTES[line]
    assert needed is not None
    others = {permission for permission in Permission if permission not in (needed, ADMIN)}
    if needed in (MANAGE, ADMIN):
        others -= {OPERATE}  # who runs the server manages everybody's tokens and sees its statistics
    with server.client(token(server, *others)) as without:
        refused = asked(without, line, body)
    assert (refused.status_code, refused.json()["reason"]) == (403, "missing_scope"), refused.text
    with server.client(token(server, needed)) as allowed:
        answer = asked(allowed, line, body)
    assert answer.status_code in (200, 201, 204, 404), answer.text
    if answer.status_code == 404:
        assert answer.json()["reason"] != "route"


def test_me_says_who_asks(server: Served) -> None:
    text = token(server, READ, agents=("shop-*",), user_id="mara", rate=60, recall_budget=5)
    with server.client(text) as client:
        me = asked(client, "GET /me").json()
    assert (me["tenant"], me["permissions"], me["agents"], me["user_id"]) == (
        "default",
        ["memory:read"],
        ["shop-*"],
        "mara",
    )
    assert (me["rate"], me["recall_budget"]) == (60, 5)
    assert text not in json.dumps(me)


# -- records ------------------------------------------------------------------------------------------------------


def test_a_list_is_paged_without_loss_and_narrowed_by_its_words(api: httpx.Client) -> None:
    ids = [kept(api, f"page {n}", user_id=f"u{n % 2}", metadata={"n": n}, tags=["paged"]) for n in range(7)]
    seen: list[str] = []
    query: dict[str, Any] = {"agent_id": "ana", "limit": 3, "filter": '{"tags": "paged"}'}
    while True:
        page = api.get(f"{PREFIX}/records", params=query).json()
        seen += [record["id"] for record in page["records"]]
        if "next_cursor" not in page:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == ids[::-1]
    one = api.get(
        f"{PREFIX}/records", params={"agent_id": "ana", "user_id": "u1", "filter": '{"n": {"$lt": 4}}'}
    )
    assert {record["metadata"]["n"] for record in one.json()["records"]} == {1, 3}
    same = api.post(
        f"{PREFIX}/records/query", json={"agent_id": "ana", "user_id": "u1", "filter": {"n": {"$lt": 4}}}
    )
    assert same.json() == one.json()
    states = api.get(f"{PREFIX}/records?agent_id=ana&state=forgotten&state=archived&type=episodic")
    assert states.json()["records"] == []


def test_a_record_is_shown_as_it_is_kept(api: httpx.Client) -> None:
    name = kept(api, "whole", metadata={"a": None})
    record = api.get(f"{PREFIX}/records/{name}", params={"agent_id": "ana"}).json()
    assert record["content"] == "whole"
    assert record["metadata"] == {"a": None}
    assert len(record["digest"]) == 64
    assert record["salt"]
    assert record["provenance"] == {"written_by": "admin", "trust": "user"}


def test_what_was_so_before_1970_can_be_asked_for(api: httpx.Client) -> None:
    name = kept(api, "an old one")
    for moment in (-86_400_000, 0, 1):
        answer = asked(api, f"GET /records/{name}/neighbours?agent_id=ana&valid_at={moment}")
        assert answer.status_code == 200, answer.text


BAD: dict[str, tuple[str, Any, int, str, str]] = {
    "an unknown word": ("GET /records?agent=ana", None, 400, "unknown_field", "/agent"),
    "a misspelt moment": ("GET /records/mem_no?as_off=7", None, 400, "unknown_field", "/as_off"),
    "an agent twice": ("GET /records?agent_id=ana&agent_id=bob", None, 400, "bad_value", "/agent_id"),
    "a confirmation twice": (
        "DELETE /stores/attic?confirm=attic&confirm=main",
        None,
        400,
        "bad_value",
        "/confirm",
    ),
    "a tenant that is misspelt": (
        "DELETE /tokens/tok_no?tennant=acme",
        None,
        400,
        "unknown_field",
        "/tennant",
    ),
    "a setting outside its body": (
        "POST /vacuum?keep_history_days=30",
        None,
        400,
        "unknown_field",
        "/keep_history_days",
    ),
    "a bad filter": ("GET /records?agent_id=ana&filter=%7B", None, 400, "bad_json", "/filter"),
    "a deep filter": (f"GET /records?filter={'[' * 999}", None, 400, "too_deep", "/filter"),
    "a bad limit": ("GET /records?agent_id=ana&limit=many", None, 400, "bad_value", "/limit"),
    "a huge limit": ("GET /records?agent_id=ana&limit=100000", None, 400, "bad_value", "/limit"),
    "a bad state": ("GET /records?agent_id=ana&state=asleep", None, 400, "bad_value", "/states/0"),
    "a journal from nowhere": ("GET /journal?after=-1", None, 400, "bad_value", "/after"),
    "a long journal": ("GET /journal?limit=5000", None, 400, "bad_value", "/limit"),
    "a long journal behind zeros": (
        f"GET /journal?limit={'0' * 19}1{'0' * 15}",
        None,
        400,
        "bad_value",
        "/limit",
    ),
    "a place beyond every journal": (
        f"GET /journal?after={'0' * 20}{'9' * 30}",
        None,
        400,
        "bad_value",
        "/after",
    ),
    "a place of endless digits": (f"GET /journal?after={'0' * 5_000}", None, 400, "bad_value", "/after"),
    "no moment": ("GET /records/mem_no/neighbours?valid_at=--1", None, 400, "bad_value", "/valid_at"),
    "a status": ("GET /proposals?status=maybe", None, 400, "bad_value", "/status"),
    "an unconfirmed deletion": ("DELETE /stores/attic", None, 400, "missing_field", "/confirm"),
    "a store without a name": ("POST /stores", {"scope": "team"}, 400, "missing_field", "/name"),
    "a decision without a word": ("POST /proposals/x/decision", {}, 400, "missing_field", "/approved"),
    "a decision of another kind": (
        "POST /proposals/x/decision",
        {"approved": "yes"},
        400,
        "bad_value",
        "/approved",
    ),
    "a token without a right": ("POST /tokens", {"name": "x"}, 400, "missing_field", "/roles"),
    "a token of an odd role": (
        "POST /tokens",
        {"name": "x", "roles": ["king"]},
        400,
        "bad_value",
        "/roles/0",
    ),
    "a tenant of an odd name": ("POST /tenants", {"tenant": "A B"}, 400, "bad_value", "/tenant"),
    "a list of lists": ("POST /records/query", [[]], 400, "bad_json", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_its_place(api: httpx.Client, name: str) -> None:
    line, body, status, reason, pointer = BAD[name]
    answer = asked(api, line, body)
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem["reason"]) == (status, reason), problem
    assert problem["errors"][0]["pointer"] == pointer


def test_no_route_passes_over_a_word_that_it_does_not_know(api: httpx.Client) -> None:
    for line, (_, body) in ROUTES.items():
        answer = asked(api, f"{line}{'&' if '?' in line else '?'}wrod=1", body)
        assert answer.status_code == 400, (line, answer.text)
        assert answer.json()["errors"][0]["pointer"] == "/wrod", line


def test_a_misspelt_dry_run_writes_nothing(api: httpx.Client) -> None:
    row = {"request": {"agent_id": "misspelt", "type": "semantic", "content": "only tried"}}
    headers = {"Content-Type": "application/x-ndjson"}
    for words in ("dryrun=true", "dry_run=true&dry_run=false"):
        answer = api.post(f"{PREFIX}/import?{words}", content=json.dumps(row).encode(), headers=headers)
        assert answer.status_code == 400, words
    assert api.get(f"{PREFIX}/records?agent_id=misspelt").json()["records"] == []


def test_a_body_of_another_kind_is_refused(api: httpx.Client) -> None:
    for path in ("/stores", "/import"):
        answer = api.post(PREFIX + path, content=b"x=1", headers={"Content-Type": "text/plain"})
        assert answer.status_code in (413, 415)
        assert answer.json()["reason"] == "media_type"


# -- streams ------------------------------------------------------------------------------------------------------


def lines(answer: httpx.Response) -> list[Any]:
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines() if line.strip()]


def test_long_work_tells_its_result_last(api: httpx.Client) -> None:
    *progress, last = lines(asked(api, "POST /verify"))
    assert last["result"]["faults"] == []
    assert all("progress" in line for line in progress)
    assert lines(asked(api, "POST /vacuum"))[-1] == {"result": {"emptied": 0}}


def test_an_export_holds_every_record_as_it_is_kept(api: httpx.Client) -> None:
    name = kept(api, "to be exported")
    found = {record["id"]: record for record in lines(asked(api, "POST /export", {"agent_id": "ana"}))}
    assert found[name] == api.get(f"{PREFIX}/records/{name}", params={"agent_id": "ana"}).json()


def test_the_journal_is_exported_as_files(api: httpx.Client) -> None:
    kept(api, "to be proven")
    files = {line["file"] for line in lines(asked(api, "GET /journal/export"))}
    assert files == {"journal.ndjson", "checkpoints.ndjson", "keys.json", "records.ndjson"}


def test_an_import_takes_lines_and_names_the_bad_ones(api: httpx.Client) -> None:
    request = {"agent_id": "ana", "type": "semantic", "content": "brought in"}
    body = [
        {"request": request},
        {"request": {**request, "run_id": "run_1"}},
        {"request": {**request, "content": ""}},
        {"request": request, "unknown": 1},
        {"request": request, "record_id": "mem_BROUGHT", "created_at": 5, "state": "archived"},
    ]
    content = b"\n".join(json.dumps(line).encode() for line in body) + b"\nno json\n"
    answer = api.post(f"{PREFIX}/import", content=content, headers={"Content-Type": "application/x-ndjson"})
    result = lines(answer)[-1]["result"]
    assert (result["read"], result["stored"], result["failed"]) == (6, 2, 4)
    assert [number for number, _ in result["errors"]] == [2, 3, 4, 6]
    record = api.get(f"{PREFIX}/records/mem_BROUGHT", params={"agent_id": "ana"}).json()
    assert (record["created_at"], record["state"]) == (5, "archived")


def test_a_backup_is_a_file_that_opens(api: httpx.Client, tmp_path: Path) -> None:
    answer = asked(api, "POST /backup")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.content.startswith(b"SQLite format 3\x00")


# -- what is never shown ------------------------------------------------------------------------------------------


def test_a_token_s_text_is_shown_once(server: Served, api: httpx.Client) -> None:
    made = asked(api, "POST /tokens", {"name": "once", "roles": ["agent"], "agents": ["a*"]})
    assert made.status_code == 201
    text, about = made.json()["text"], made.json()["token"]
    assert about["prefix"] == text[: len(about["prefix"])]
    rotated = asked(api, f"POST /tokens/{about['id']}/rotate", {}).json()["text"]
    ended = asked(api, f"DELETE /tokens/{about['id']}")
    shown = asked(api, "GET /tokens").text + ended.text + asked(api, "GET /journal?limit=1000").text
    for secret in (text, rotated):
        assert secret.split("_", 2)[2] not in shown
    with server.client(text) as old:
        assert asked(old, "GET /me").status_code == 401
    with server.client(rotated) as new:
        assert asked(new, "GET /me").json()["agents"] == ["a*"]


def test_a_secret_is_never_shown_and_never_kept(api: httpx.Client) -> None:
    value = "swordfish-swordfish-42"
    made = asked(api, "POST /secrets", {"label": "codeword", "value": value})
    assert made.status_code == 201
    name = kept(api, f"the codeword is {value}")
    shown = api.get(f"{PREFIX}/records/{name}", params={"agent_id": "ana"}).text
    assert value not in shown + made.text + asked(api, "GET /secrets").text
    assert asked(api, f"DELETE /secrets/{made.json()['id']}").status_code == 204
    assert asked(api, f"DELETE /secrets/{made.json()['id']}").status_code == 404


def test_tenants_do_not_meet(server: Served, api: httpx.Client) -> None:
    assert asked(api, "POST /tenants", {"tenant": "elsewhere"}).status_code == 201
    assert asked(api, "POST /tenants", {"tenant": "elsewhere"}).json()["reason"] == "name_taken"
    mine = kept(api, "mine alone")
    issued = asked(api, "POST /tokens", {"name": "them", "roles": ["admin"], "tenant": "elsewhere"}).json()
    with server.client(issued["text"]) as them:
        assert asked(them, f"GET /records/{mine}?agent_id=ana").json()["reason"] == "record"
        assert asked(them, "GET /records").json()["records"] == []
        assert asked(them, "GET /tenants").status_code == 403
        assert asked(them, "GET /tokens?tenant=default").status_code == 404
        assert asked(api, "POST /tenants/elsewhere/suspend").json()["suspended_at"]
        assert asked(them, "GET /me").json()["reason"] == "suspended_tenant"
        assert "suspended_at" not in asked(api, "POST /tenants/elsewhere/resume").json()
        assert asked(them, "GET /me").status_code == 200
    assert {tenant["id"] for tenant in asked(api, "GET /tenants").json()["tenants"]} >= {
        "default",
        "elsewhere",
    }


def test_a_held_write_is_decided_with_its_outcome(server: Served, api: httpx.Client) -> None:
    body = {"agent_id": "ana", "type": "semantic", "content": "held", "approval_required": True}
    waiting = api.post("/memorywire/v0/remember", json=body).json()["id"]
    (proposal,) = [
        row for row in asked(api, "GET /proposals").json()["proposals"] if row["record_id"] == waiting
    ]
    with server.client(token(server, roles=(Role.ADMIN,))) as reviewer:
        decided = asked(
            reviewer, f"POST /proposals/{proposal['id']}/decision", {"approved": True, "reason": "ok"}
        )
    assert decided.json()["operation"] == "remember"
    assert decided.json()["response"]["id"] == waiting
    found = asked(api, "GET /proposals?status=approved").json()["proposals"]
    assert proposal["id"] in {row["id"] for row in found}
