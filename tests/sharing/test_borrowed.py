"""The grantee's side: what somebody shares is asked for, checked, kept apart from memory, and dropped in time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quipu.bootstrap import background_jobs
from quipu.errors import (
    ForbiddenError,
    InvalidError,
    NotFoundError,
    QuipuError,
    SecretLeakageError,
    TamperedError,
)
from quipu.jose import Signatory
from quipu.ledger.ledger import JournalQuery
from quipu.memory.operations import LIST, RECALL
from quipu.secrets.operations import ADD_SECRET
from quipu.sharing import operations as ops
from quipu.sharing import readable, receipts
from quipu.sharing.grants import operations as grant_ops
from quipu.sharing.model import BORROWED_ITEMS
from tests.requirement import requirement
from tests.sharing.network import Host, Network

DAY_MS = 86_400_000
GREEN = "The website is green and launches in May."


async def shared(lender: Host, own: Host, **fields: Any) -> str:
    """The link of a grant for everything, at the level that shows items as they are."""
    wanted = {"grantee": own.owner, "purpose": "a test", "all": True, "level": 4, **fields}
    return (await lender(grant_ops.SHARE, **wanted)).link


async def kept(own: Host) -> list[Any]:
    return list((await own(ops.LIST_BORROWED)).items)


def stands_in_files(folder: Path, words: bytes) -> bool:
    """Whether the grantee's ledger has these words anywhere."""
    files = (file for file in folder.glob("contractor.example.db*") if file.is_file())
    return any(words in file.read_bytes() for file in files)


def by(host: Host) -> Signatory:
    return host.sharing.host.keyring.signatory(None)


def signed(host: Host, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What is made of an answer, signed by the host as if it had said so."""
    return lambda body: receipts.signed(receipts.without(change(body), "signature"), by(host))


@requirement("oap:borrowed.checked-and-apart")
async def test_what_is_shared_is_shown_and_kept_apart_from_memory(lender: Host, own: Host) -> None:
    await lender.remember(GREEN, tags=["website"])
    await lender.remember("The cat is called Tom.")
    link = await shared(lender, own, label=["website"], all=False)
    found = await own(ops.BORROW, link=link, query="when does the website launch?")
    assert found.source == lender.did
    assert [item.text for item in found.items] == [GREEN]
    (item,) = await kept(own)
    assert item == found.items[0]
    assert item.item["integrity"]["signature"]["kid"].startswith(lender.did)
    listed = await lender(grant_ops.LIST_RECEIPTS)
    assert item.receipt_id == listed.receipts[-1].id
    assert (await own(LIST)).records == ()
    assert (await own(RECALL, query="website", min_relevance=0)).results == ()
    (entry,) = await own.container.ledger.entries("default", JournalQuery(op="borrow"))
    assert entry.detail == {**entry.detail, "source": lender.did, "grant_id": found.grant_id, "items": 1}
    assert GREEN not in repr(entry)


async def test_what_is_shared_is_read_page_by_page(lender: Host, own: Host) -> None:
    texts = {await lender.remember(f"Note {n} of the handover.") for n in range(5)}
    link, cursor, seen = await shared(lender, own), None, list[str]()
    while True:
        page = await own(ops.BORROW, link=link, max_results=2, **({"cursor": cursor} if cursor else {}))
        seen += [item.item_id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(seen) == sorted(texts)
    listed, cursor = list[str](), None
    while True:
        part = await own(ops.LIST_BORROWED, limit=2, **({"cursor": cursor} if cursor else {}))
        listed += [item.item_id for item in part.items]
        cursor = part.next_cursor
        if cursor is None:
            break
    assert listed == sorted(texts)
    with pytest.raises(InvalidError):
        await own(ops.LIST_BORROWED, cursor="nonsense")


async def test_a_query_says_kinds_and_nothing_that_is_secret_here(
    network: Network, lender: Host, own: Host
) -> None:
    await lender.remember(GREEN)
    await lender.remember("It rained at noon.", type="episodic")
    await own(ADD_SECRET, label="code", value="zanzibar-forty-two")
    link, asked = await shared(lender, own), list[bytes]()
    send = network.send

    async def noted(method: str, url: str, **given: Any) -> Any:
        asked.append(given.get("body", b""))
        return await send(method, url, **given)

    network.send = noted  # type: ignore[method-assign]
    found = await own(ops.BORROW, link=link, query="noon zanzibar-forty-two", kinds=["observation"])
    assert [item.kind for item in found.items] == ["observation"]
    assert any(b"noon" in body for body in asked)
    assert not any(b"zanzibar" in body for body in asked)


@requirement("oap:borrowed.dropped")
async def test_what_is_kept_is_dropped_when_the_grant_ends(lender: Host, own: Host, tmp_path: Path) -> None:
    await lender.remember(GREEN)
    await own(ops.BORROW, link=await shared(lender, own, days=2))
    (item,) = await kept(own)
    assert own.clock() < item.expires_at <= own.clock() + 2 * DAY_MS
    own.clock.now += 2 * DAY_MS
    assert await kept(own) == [], "what has expired is not shown, dropped or not"
    assert await own.container.ledger.count(BORROWED_ITEMS, "default") == 1
    sweep = next(job for job in background_jobs(own.container) if job.name == "sweep")
    await sweep.work()
    assert await own.container.ledger.count(BORROWED_ITEMS, "default") == 0
    assert not stands_in_files(tmp_path, GREEN.encode())


@requirement("oap:borrowed.dropped")
async def test_what_is_given_up_is_dropped_and_the_grant_ends_there(lender: Host, own: Host) -> None:
    await lender.remember(GREEN)
    link = await shared(lender, own)
    found = await own(ops.BORROW, link=link)
    done = await own(ops.GIVE_UP_BORROWED, source=found.source, grant_id=found.grant_id)
    assert (done.dropped, done.ended) == (1, True)
    assert await kept(own) == []
    assert (await lender(grant_ops.GET_GRANT, id=found.grant_id)).grant.status == "revoked"
    with pytest.raises(ForbiddenError) as refused:
        await own(ops.BORROW, link=link)
    assert refused.value.reason == "grant_revoked"


@requirement("oap:borrowed.dropped")
@pytest.mark.parametrize("why", ["away", "revoked"])
async def test_a_server_that_is_away_or_has_ended_the_grant_does_not_keep_anything_here(
    network: Network, lender: Host, own: Host, why: str
) -> None:
    await lender.remember(GREEN)
    found = await own(ops.BORROW, link=await shared(lender, own))
    if why == "away":
        network.away.add(lender.name)
    else:
        await lender(grant_ops.REVOKE_GRANT, id=found.grant_id)
    done = await own(ops.GIVE_UP_BORROWED, source=found.source, grant_id=found.grant_id)
    assert (done.dropped, done.ended) == (1, False)
    assert await kept(own) == []


@requirement("oap:borrowed.dropped")
@pytest.mark.parametrize("why", ["revoked", "expired"])
async def test_what_is_kept_is_dropped_when_the_other_server_says_that_the_grant_has_ended(
    lender: Host, own: Host, tmp_path: Path, why: str
) -> None:
    await lender.remember(GREEN)
    link = await shared(lender, own, days=1)
    other = await own(ops.BORROW, link=await shared(lender, own))
    found = await own(ops.BORROW, link=link)
    if why == "revoked":
        await lender(grant_ops.REVOKE_GRANT, id=found.grant_id)
    else:
        lender.clock.now += DAY_MS
    with pytest.raises(ForbiddenError) as refused:
        await own(ops.BORROW, link=link)
    assert refused.value.reason == f"grant_{why}"
    assert await own.container.ledger.count(BORROWED_ITEMS, "default", {"grant_id": found.grant_id}) == 0
    assert [item.grant_id for item in await kept(own)] == [other.grant_id]


@requirement("oap:borrowed.dropped")
@pytest.mark.parametrize("word", ["link", "grant_id", "source"])
async def test_one_word_is_enough_to_drop_what_it_names(lender: Host, own: Host, word: str) -> None:
    await lender.remember(GREEN)
    link = await shared(lender, own)
    found = await own(ops.BORROW, link=link)
    if word != "source":
        await own(ops.BORROW, link=await shared(lender, own))  # the server alone would not say which
    which = link if word == "link" else getattr(found, word)
    done = await own(ops.GIVE_UP_BORROWED, which=which)
    assert (done.source, done.grant_id) == (found.source, found.grant_id)
    assert (done.dropped, done.ended) == (1, True)
    assert found.grant_id not in {item.grant_id for item in await kept(own)}
    if word == "link":
        assert (await own(ops.GIVE_UP_BORROWED, which=link)).dropped == 0, "it says which, kept or not"
    assert readable.dropped(done.to_dict()).startswith(f"Dropped 1 item of {found.grant_id}.\nThe grant has")


async def test_what_is_to_be_dropped_is_asked_for_where_a_word_does_not_say_it(
    lender: Host, own: Host
) -> None:
    with pytest.raises(NotFoundError) as none:
        await own(ops.GIVE_UP_BORROWED, which=lender.did)
    assert none.value.hint == "Nothing is borrowed."
    await lender.remember(GREEN)
    links = [await shared(lender, own), await shared(lender, own)]
    ids = [(await own(ops.BORROW, link=link)).grant_id for link in links]
    with pytest.raises(InvalidError) as many:
        await own(ops.GIVE_UP_BORROWED, which=lender.did)
    assert [fault.pointer for fault in many.value.faults] == ["/which"]
    with pytest.raises(NotFoundError) as unknown:
        await own(ops.GIVE_UP_BORROWED, which="mgr_unknown")
    for name in ids:
        assert f"{name} of {lender.did}" in str(many.value)
        assert f"{name} of {lender.did}" in str(unknown.value.hint)
    for nothing, pointer in (({}, "/which"), ({"which": "did:x"}, "/which"), ({"source": "x"}, "/source")):
        with pytest.raises(InvalidError) as refused:
            await own(ops.GIVE_UP_BORROWED, **nothing)
        assert [fault.pointer for fault in refused.value.faults] == [pointer]
    assert len(await kept(own)) == 2


async def test_a_grant_that_is_for_somebody_else_says_who_one_is(lender: Host, own: Host) -> None:
    link = await shared(lender, lender, grantee="did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")
    with pytest.raises(ForbiddenError) as refused:
        await own(ops.BORROW, link=link)
    assert refused.value.reason == "binding_failed"
    assert own.owner in str(refused.value.hint)


async def test_a_token_is_kept_for_its_grant_and_asked_for_again_when_it_is_worth_nothing(
    network: Network, lender: Host, own: Host
) -> None:
    await lender.remember(GREEN)
    link = await shared(lender, own)

    async def minted() -> int:
        before = len(network.asked)
        assert (await own(ops.BORROW, link=link)).items
        return sum(url.endswith("/token") for _, url in network.asked[before:])

    assert await minted() == 1
    assert await minted() == 0
    own.clock.now += 3 * DAY_MS
    assert await minted() == 1
    own.clock.now -= 3 * DAY_MS
    assert await minted() == 1, "a token of a time that never was"
    await lender(ops.ROTATE_KEY, host=True, compromised=True)
    assert await minted() == 1, "the token was signed with a key that counts no more"


# -- what other servers may say -----------------------------------------------------------------------------------


def with_output(**members: Any) -> Callable[[Any], Any]:
    return lambda body: {**body, "output": {**body["output"], **members}}


def with_item(**members: Any) -> Callable[[Any], Any]:
    def changed(body: Any) -> Any:
        (item,) = body["output"]["items"]
        return with_output(items=[{**item, **members}])(body)

    return changed


ODD: dict[str, Callable[[Any], Any]] = {
    "no output": lambda body: {**body, "output": 7},
    "no items": lambda body: {**body, "output": {"items": 7}},
    "items that are none": with_output(items=["x", None]),
    "too many items": lambda body: with_output(items=body["output"]["items"] * 101)(body),
    "an item without an id": with_item(item_id=None),
    "an item of no name": with_item(item_id=""),
    "an item of a name that no ledger keeps": with_item(item_id="mem_\0"),
    "an item of a long name": with_item(item_id="m" * 5000),
    "another item's proof": with_item(item_id="mem_other"),
    "another text than was captured": with_item(content={"text": "The website is red."}),
    "an item without a proof": with_item(integrity=None),
    "an item of another grant": with_item(
        provenance_tags=[{"source_did": "did:web:memory.example", "received_under": "grant:other"}]
    ),
    "a text that no ledger keeps": with_item(content={"text": "\0"}),
    "no receipt": lambda body: {**body, "receipt": [1]},
    "a receipt of no name": lambda body: {**body, "receipt": {"receipt_id": "\0"}},
    "a cursor that is none": with_output(next_cursor=7),
    "an answer to another question": lambda body: {**body, "request_id": "01HX2QFXR0Q4S8U9V3W7X2Y0Z1"},
}


@requirement("oap:borrowed.checked-and-apart")
@pytest.mark.parametrize("name", ODD)
async def test_nothing_is_kept_of_an_answer_that_is_not_what_it_should_be(
    network: Network, lender: Host, own: Host, name: str
) -> None:
    """Though the server has signed it."""
    await lender.remember(GREEN)
    link = await shared(lender, own)
    network.changing("/memory/query", signed(lender, ODD[name]))
    with pytest.raises(TamperedError):
        await own(ops.BORROW, link=link)
    assert await kept(own) == []
    network.changes.clear()
    assert (await own(ops.BORROW, link=link)).items, "and without the change it is"


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("oap-memory.json", {"endpoints": [1]}),
        ("oap-memory.json", {"endpoints": {"query": "http://[::1", "grant": "http://[::1"}}),
        ("oap-memory.json", {"endpoints": {"query": "https://x.example/q", "grant": "https://x.example/g"}}),
        ("did.json", {"id": "did:web:somebody.example"}),
        ("/token", {"token_type": "DPoP", "access_token": "x", "expires_in": "soon"}),
        ("/token", {"token_type": "Basic", "access_token": "x", "expires_in": 1}),
        ("/memory/query", {"output": "nothing", "signature": {"kid": "key-1", "value": "x"}}),
        ("/memory/query", []),
    ],
)
async def test_a_document_or_a_token_that_is_none_is_told_as_such(
    network: Network, lender: Host, own: Host, part: str, body: Any
) -> None:
    link = await shared(lender, own)
    network.changing(part, lambda _: body)
    with pytest.raises(QuipuError) as refused:
        await own(ops.BORROW, link=link)
    assert refused.value.code in ("tampered", "unverifiable")
    assert await kept(own) == []


@requirement("oap:borrowed.checked-and-apart")
async def test_what_a_compromised_key_has_signed_is_not_believed(
    network: Network, lender: Host, own: Host
) -> None:
    await lender.remember(GREEN)
    link = await shared(lender, own)
    stolen = by(lender)
    assert (await own(ops.BORROW, link=link)).items
    await lender(ops.ROTATE_KEY, host=True, compromised=True)
    assert (await own(ops.BORROW, link=link)).items, "the new key is good at once"
    network.changing(
        "/memory/query", lambda body: receipts.signed(receipts.without(body, "signature"), stolen)
    )
    with pytest.raises(TamperedError) as refused:
        await own(ops.BORROW, link=link)
    assert refused.value.reason == "bad_signature"


async def test_nobody_answers_under_anothers_name(network: Network, lender: Host, own: Host) -> None:
    """The DID of a server is that of its address, whatever it says of itself."""
    await lender.remember(GREEN)
    link = await shared(lender, own)
    thief = network.hosts["contractor.example"]
    network.changing(
        "/memory/query", lambda body: receipts.signed(receipts.without(body, "signature"), by(thief))
    )
    with pytest.raises(TamperedError):
        await own(ops.BORROW, link=link)


async def test_a_token_goes_to_the_server_that_made_it_and_nowhere_else(
    network: Network, lender: Host, own: Host
) -> None:
    await lender.remember(GREEN)
    link = await shared(lender, own)
    await own(ops.BORROW, link=link)
    network.asked.clear()
    with pytest.raises(QuipuError):
        await own(ops.BORROW, link=link.replace("memory.example", "contractor.example"))
    assert ("POST", f"{own.url}/oap/memory/grant/{link.rpartition('/')[2]}/token") in network.asked
    assert ("POST", f"{own.url}/oap/memory/query") not in network.asked


@pytest.mark.parametrize(
    "link",
    ["", "mgr_1", "https://memory.example", "https://memory.example/oap/memory/grant/", "did:web:a.example"],
)
async def test_what_is_no_link_of_a_grant_is_refused_before_anybody_is_asked(
    network: Network, own: Host, link: str
) -> None:
    with pytest.raises(InvalidError) as refused:
        await own(ops.BORROW, link=link)
    assert [fault.pointer for fault in refused.value.faults] == ["/link"]
    assert network.asked == []


@requirement("oap:borrowed.checked-and-apart")
async def test_a_secret_of_ours_that_others_know_is_not_kept_here_either(
    lender: Host, own: Host, tmp_path: Path
) -> None:
    await lender.remember("The door opens with zanzibar-forty-two.")
    await own(ADD_SECRET, label="door", value="zanzibar-forty-two")
    link = await shared(lender, own)
    (item,) = (await own(ops.BORROW, link=link)).items
    assert "zanzibar" not in str(item)
    assert item.text.startswith("The door opens with ")
    await lender.remember("Nothing.", item_id="zanzibar-forty-two")
    with pytest.raises(SecretLeakageError):
        await own(ops.BORROW, link=link, query="nothing")
    assert not stands_in_files(tmp_path, b"zanzibar")
