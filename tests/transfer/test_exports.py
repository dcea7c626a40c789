"""Memories as files: everything that is there, as of one position, signed, and nothing that was erased."""

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quipu.errors import ConflictError, InvalidError, NotFoundError, QuipuError
from quipu.ledger.ledger import JournalQuery
from quipu.memory.operations import CREATE_STORE, FORGET, UPDATE
from quipu.model.principal import local
from quipu.model.record import Record
from quipu.operation import dispatch_stream
from quipu.sharing.items import owners_item
from quipu.transfer import age
from quipu.transfer.formats.reading import Reading
from quipu.transfer.operations import EXPORT_FILE, EXPORT_RECORDS
from quipu.transfer.spooling import ContentsSpool
from tests.requirement import requirement
from tests.sharing.grantee import Grantee
from tests.sharing.network import Host, hosts
from tests.transfer.formats.shelf import good, new_identity, read

MACHINE = {
    "name": "door",
    "initial": "shut",
    "states": ["shut", "open"],
    "transitions": [{"trigger": "open", "source": "shut", "dest": "open"}],
}


@pytest.fixture
async def host(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    """On each engine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # keys of a database that is no file
    async with hosts(tmp_path, "memory.example", address=address) as (_, [made]):
        yield made


@pytest.fixture
async def grantee(tmp_path: Path) -> AsyncIterator[Grantee]:
    async with hosts(tmp_path, "memory.example", "contractor.example") as (_, [lender, own]):
        yield Grantee(lender, own)


class File:
    """A file, and what was said of it."""

    def __init__(self, data: bytes, first: Any) -> None:
        self.data, self.name, self.report = data, first.file_name, first.report

    def read(self, host: Host) -> Reading:
        return read(self.data, known=lambda kid: host.sharing.host.keyring.key("default", kid))


async def exported(host: Host, **given: Any) -> File:
    ctx = host.container.context(local(agent_id="agent"))
    parts = [part async for part in dispatch_stream(ctx, EXPORT_FILE, given)]
    file = File(b"".join(part.data for part in parts), parts[0])
    assert len(file.data) == parts[0].size
    return file


async def records(host: Host) -> list[Record]:
    found = [
        record
        async for record in host.container.ledger.every_version("default")
        if record.standing in ("live", "archived") and record.died is None
    ]
    return sorted(found, key=lambda record: record.id)


async def everything(host: Host) -> None:
    """A memory of each kind, with all that may belong to one."""
    await host(CREATE_STORE, name="team", scope="team", description="for all")
    first = await host.remember("Ana lives in Lisbon", tags=["home"], key="city", importance=0.4)
    await host.remember(
        "The website launches in May",
        store="team",
        user_id="ana",
        session_id="s1",
        links=[{"to": first, "rel": "about"}],
        privacy_intent={"sensitivity": "confidential", "retain": "30d"},
        structured={"entity_type": "task"},
        source="document",
    )
    await host.remember("They met", type="episodic", event_time=1_700_000_000_000, participants=["ana"])
    await host.remember(json.dumps(MACHINE), type="procedural")
    await host.remember("Ana was glad", type="emotional", sentiment="positive", valence=0.5)


@requirement("formats:export.whole")
@pytest.mark.parametrize("as_lines", [False, True])
async def test_a_bundle_holds_every_memory_with_all_that_is_known_of_it(host: Host, as_lines: bool) -> None:
    await everything(host)
    file = await exported(host, as_lines=as_lines)
    found = file.read(host)
    assert (found.format, found.signature, found.owner) == ("bundle", "valid", host.owner)
    assert file.report["signed_by"] == found.kid == f"{host.owner}#key-1"
    known = {"team": "team", "main": "main"}
    stores = await host.container.memory.read.scopes.stores("default")
    assert good(found.items()) == [
        json.loads(json.dumps(owners_item(one, host.owner, known[stores[one.store_id].name])))
        for one in await records(host)
    ]
    assert [store["name"] for store in found.stores] == ["team"]
    assert file.report["items"] == 5
    assert file.report["loss"] == {"dropped": [], "mapped": []}


@requirement("formats:export.whole")
async def test_only_what_was_asked_for_goes(host: Host) -> None:
    await everything(host)
    await host.remember("Bo lives in Bonn", agent_id="bo", tags=["home"])

    async def texts(**given: Any) -> list[str]:
        return [item["content"]["text"] for item in good((await exported(host, **given)).read(host).items())]

    assert await texts(agents=["bo"]) == ["Bo lives in Bonn"]
    assert len(await texts(agents=["bo", "agent"])) == 6
    assert await texts(agents=["nobody", "bo"]) == ["Bo lives in Bonn"]
    assert await texts(user_id="ana") == await texts(store="team") == ["The website launches in May"]
    assert await texts(types=["episodic"]) == ["They met"]
    assert await texts(filter={"tags": "home"}, agents=["agent"]) == ["Ana lives in Lisbon"]
    with pytest.raises(NotFoundError):
        await exported(host, store="nowhere")


@requirement("formats:export.position")
async def test_a_file_shows_one_position_and_the_next_one_goes_on_from_there(host: Host) -> None:
    kept, changed = await host.remember("kept"), await host.remember("first words")
    gone, erased = await host.remember("forgotten words"), await host.remember("erased words")
    first = await exported(host)
    await host(UPDATE, id=changed, content="other words")
    await host(FORGET, ids=[gone])
    await host(FORGET, ids=[erased], hard_delete=True)
    fresh = await host.remember("new")
    base = first.read(host)
    assert base.position == first.report["position"]
    after = await exported(host, since=str(base.position), base_export_id=base.export_id)
    found = after.read(host)
    assert found.is_incremental
    assert {item["item_id"] for item in good(found.items())} == {changed, fresh}
    assert {item["item_id"] for item in good(found.tombstones())} == {gone, erased}
    assert after.report["tombstones"] == 2
    whole = (await exported(host)).read(host)
    assert {item["item_id"] for item in good(whole.items())} == {kept, changed, fresh}
    then = (await exported(host, as_of=str(base.position))).read(host)
    texts = {item["content"]["text"] for item in good(then.items())}
    assert texts == {"kept", "first words", "forgotten words"}, "what was erased is gone from the past too"
    assert good(then.tombstones()) == []


@requirement("formats:export.erased")
async def test_a_deletion_is_named_without_a_word_of_what_was_said(host: Host) -> None:
    for text, hard in (("secret garden", False), ("hidden lighthouse", True)):
        await host(FORGET, ids=[await host.remember(text, item_id=f"x {text[:6]}")], hard_delete=hard)
    data = (await exported(host, as_lines=True)).data
    assert b"garden" not in data
    assert b"lighthouse" not in data
    tombstones = good(read(data, known=lambda _: None).tombstones())
    assert all({"item_id", "hash", "deleted_at"} <= one.keys() for one in tombstones)
    assert sorted(one["item_id"].startswith("x ") for one in tombstones) == [False, True]


@requirement("formats:export.erased")
async def test_what_is_erased_while_the_file_is_made_is_not_in_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    await host.remember("stays")
    goes = await host.remember("tangerine goes")
    finish, made = ContentsSpool.finish, 0

    async def erasing(spool: ContentsSpool, grants: Any) -> None:
        nonlocal made
        made += 1
        if made == 1:
            await host(FORGET, ids=[goes], hard_delete=True)
        await finish(spool, grants)

    monkeypatch.setattr(ContentsSpool, "finish", erasing)
    file = await exported(host, as_lines=True)
    assert made == 2
    assert b"tangerine" not in file.data
    assert file.report["tombstones"] == 1


@requirement("formats:export.erased")
async def test_where_something_is_erased_all_the_time_there_is_no_file(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = ContentsSpool.finish

    async def erasing(spool: ContentsSpool, grants: Any) -> None:
        await host(FORGET, ids=[await host.remember("short-lived")], hard_delete=True)
        await finish(spool, grants)

    monkeypatch.setattr(ContentsSpool, "finish", erasing)
    with pytest.raises(ConflictError) as refused:
        await exported(host)
    assert refused.value.reason == "erased_meanwhile"
    entries = await host.container.ledger.entries("default", JournalQuery(op="export"))
    assert entries == [], "nothing has left"


@requirement("formats:export.erased")
async def test_a_file_that_is_being_sent_breaks_off_when_something_is_erased(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quipu.transfer.exports._PIECE", 64)
    goes = await host.remember("tangerine goes")
    parts = dispatch_stream(host.container.context(local(agent_id="agent")), EXPORT_FILE, {})
    sent = [await anext(parts), await anext(parts)]
    await host(FORGET, ids=[goes], hard_delete=True)
    with pytest.raises(ConflictError) as refused:
        await anext(parts)
    assert refused.value.reason == "erased_meanwhile"
    assert b"".join(part.data for part in sent) != b""


async def test_an_export_has_its_entry_before_it_leaves(host: Host) -> None:
    await host.remember("Ana lives in Lisbon")
    parts = dispatch_stream(host.container.context(local(agent_id="agent")), EXPORT_FILE, {})
    first = await anext(parts)
    (entry,) = await host.container.ledger.entries("default", JournalQuery(op="export"))
    assert first.data == b""
    assert first.report is not None
    assert entry.detail["export_id"] == first.report["export_id"]
    assert (entry.detail["items"], entry.detail["sha256"]) == (1, first.sha256)
    await parts.aclose()  # type: ignore[attr-defined]
    records_ = dispatch_stream(host.container.context(local(agent_id="agent")), EXPORT_RECORDS, {})
    await anext(records_)
    assert len(await host.container.ledger.entries("default", JournalQuery(op="export"))) == 2
    await records_.aclose()  # type: ignore[attr-defined]


@requirement("formats:export.withheld")
async def test_what_is_not_exportable_stays_unless_its_owner_says_otherwise(host: Host) -> None:
    await host.remember("stays here", exportable=False)
    await host.remember("may go")
    file = await exported(host)
    assert [item["content"]["text"] for item in good(file.read(host).items())] == ["may go"]
    assert (file.report["items"], file.report["withheld"]) == (1, 1)
    whole = await exported(host, include=["non_exportable"])
    assert (whole.report["items"], whole.report["withheld"]) == (2, 0)
    for format_ in ("mem0", "letta"):
        assert b"stays here" not in (await exported(host, format=format_)).data


@requirement("formats:export.proofs")
async def test_grants_receipts_and_logs_go_along_where_they_are_asked_for(grantee: Grantee) -> None:
    lender = grantee.lender
    await lender.remember("The website is green.", tags=["website"])
    await lender.remember("The cat is called Tom.")
    await grantee.given(label=["website"])
    await grantee.query("website")
    plain = (await exported(lender)).read(lender).proofs()
    assert (plain.logs, plain.receipts) == (0, 0)
    file = await exported(lender, include=["receipts", "logs", "grants"])
    proofs = read(file.data, known=lambda kid: lender.sharing.host.keyring.key(None, kid)
                  or lender.sharing.host.keyring.key("default", kid)).proofs()  # fmt: skip
    assert (proofs.logs, proofs.unverified, proofs.faults) == (1, 0, [])
    assert proofs.receipts == 3, "of the grant, of the query, of the export before"
    lines = await exported(lender, include=["grants"], as_lines=True)
    grants = [json.loads(line)["grant"] for line in lines.data.splitlines() if line.startswith(b'{"grant":')]
    assert [(one["grant"]["grant_id"], one["status"], one["uses"]) for one in grants] == [
        (grantee.grant_id, "active", 1)
    ]


@requirement("formats:export.vectors")
async def test_vectors_go_along_under_the_ids_of_their_items(host: Host) -> None:
    ids = [await host.remember(text) for text in ("Ana lives in Lisbon", "Mara is vegetarian")]
    found = (await exported(host, include=["embeddings"])).read(host)
    vectors = found.vectors()
    assert vectors is not None
    assert len(vectors) == 2
    kept = await host.container.ledger.vectors("default", [(one, 1) for one in ids])
    assert {one: vectors.of(one) for one in ids} == {one: kept[one, 1] for one in ids}


@requirement("formats:bundle.sealed")
async def test_a_sealed_file_is_read_by_who_has_the_key_alone(host: Host) -> None:
    await host.remember("tangerine lighthouse")
    key, recipient = new_identity()
    file = await exported(host, encrypt_to=[recipient], as_lines=True)
    assert file.report["is_sealed"]
    assert file.name.endswith(".bundle.ndjson.age")
    assert b"tangerine" not in file.data
    plain = io.BytesIO()
    age.unseal(io.BytesIO(file.data), plain, identities=[key])
    (item,) = good(read(plain.getvalue()).items())
    assert item["content"]["text"] == "tangerine lighthouse"
    with pytest.raises(InvalidError) as refused:
        await exported(host, encrypt_to=["age1nobody"])
    assert refused.value.faults[0].pointer == "/encrypt_to/0"


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"format": "mem0", "as_lines": True}, "/as_lines"),
        ({"format": "letta", "since": "0"}, "/since"),
        ({"since": "0", "as_of": "0"}, "/since"),
        ({"format": "mem0", "include": ["logs"]}, "/include"),
        ({"include": ["embeddings"], "as_lines": True}, "/include"),
        ({"base_export_id": f"exp_{'0' * 26}"}, "/since"),
        ({"since": "999999"}, "/as_of"),
        ({"since": "run_x"}, None),
    ],
)
async def test_what_cannot_be_written_is_refused_with_its_field(
    host: Host, given: dict[str, Any], pointer: str | None
) -> None:
    await host.remember("something")
    with pytest.raises(QuipuError) as refused:
        await exported(host, **given)
    assert pointer in (None, *(fault.pointer for fault in refused.value.faults))


@requirement("formats:formats.mem0")
async def test_what_mem0_and_letta_have_no_room_for_is_said(host: Host) -> None:
    await everything(host)
    mem0 = await exported(host, format="mem0")
    assert mem0.name.endswith(".mem0.json")
    assert mem0.report["signed_by"] is None
    texts = [item["content"].get("text") for item in good(read(mem0.data).items())]
    assert "Ana lives in Lisbon" in texts
    lost = {one["field"] for one in mem0.report["loss"]["dropped"]}
    assert {"links", "importance", "store"} <= lost
    letta = await exported(host, format="letta")
    assert "Ana lives in Lisbon" in json.dumps(json.loads(letta.data))
    assert letta.report["loss"]["dropped"]


async def test_records_come_one_by_one_with_every_field(host: Host) -> None:
    await everything(host)
    ctx = host.container.context(local(agent_id="agent"))
    found = [one async for one in dispatch_stream(ctx, EXPORT_RECORDS, {})]
    assert [one.id for one in found][::-1] == [one.id for one in await records(host)]
    website = next(one for one in found if one.store == "team")
    assert (website.user_id, website.session_id, website.links[0].rel) == ("ana", "s1", "about")


@requirement("formats:export.erased")
async def test_a_record_that_is_erased_while_others_are_sent_is_left_out(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quipu.transfer.exports._STRETCH", 1)
    goes, last = await host.remember("goes"), await host.remember("comes first")
    ctx = host.container.context(local(agent_id="agent"))
    found = dispatch_stream(ctx, EXPORT_RECORDS, {})
    assert (await anext(found)).id == last
    await host(FORGET, ids=[goes], hard_delete=True)
    assert [one.id async for one in found] == []
