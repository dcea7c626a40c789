"""What a person reads at a terminal: who may see what, until when, what was seen, and how it is taken back."""

import pytest

from quipu.fields import DAY_MS
from quipu.sharing import operations as ops
from quipu.sharing import readable
from quipu.sharing.grants import operations as grant_ops
from tests.sharing.grantee import Grantee


async def test_a_grant_is_a_page_with_one_fact_on_each_line(grantee: Grantee) -> None:
    lender = grantee.lender

    async def page() -> list[str]:
        found = await lender(grant_ops.GET_GRANT, id=grantee.grant_id)
        lines = readable.grant(found.to_dict()).splitlines()
        assert max(len(line) for line in lines) <= 80
        return lines

    shared = await grantee.given(label=["website", "launch"], kind=["fact"], purpose="Brief the contractor")
    lines = await page()
    assert lines[:5] == [
        f"Grant   {shared.grant_id}, active",
        f"To      {grantee.did}",
        "For     Brief the contractor",
        "Covers  of the kind fact, tagged website or launch; of the scope personal",
        "Shows   level 1 of 4: its text, masked, and a little of people, dates and tasks",
    ]
    assert "Seen    nothing yet" in lines
    assert f"Link    {shared.link}" in lines
    assert lines[-1] == f"Take it back with `quipu grant revoke {shared.grant_id}`."
    names = {await lender.remember(f"Page {number}.", tags=["website"]) for number in range(2)}
    await grantee.sees()
    lines = await page()
    at = lines.index("Seen    2 of at most 500 memories, in 1 answer")
    assert {line.split()[-1] for line in lines[at + 1 : at + 3]} == names
    await lender(grant_ops.REVOKE_GRANT, id=grantee.grant_id)
    lines = await page()
    assert lines[0].endswith("revoked")
    assert any(line.startswith("Taken back ") for line in lines)
    assert not any(line.startswith("Link") for line in lines)
    await grantee.given(days=1)
    lender.clock.now += DAY_MS
    assert (await page())[-1] == "It has ended: it shows nothing any more."


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"all": True}, "everything"),
        ({"labels_all": ["a", "b"], "labels_none": ["c"]}, "tagged a and b, not tagged c"),
        ({"subject_entity_ids": ["ent_1"], "min_confidence": 0.5}, "about ent_1, of a confidence from 0.5"),
        ({"captured_after": "2026-01-01T00:00:00Z"}, "known after 2026-01-01T00:00:00Z"),
        ({"captured_before": "2026-01-01T00:00:00Z"}, "known before 2026-01-01T00:00:00Z"),
    ],
)
def test_what_a_grant_covers_is_said_in_words(wanted: dict[str, object], said: str) -> None:
    assert (
        readable.covers({"granter": "did:web:a.example#work", "filter": wanted})
        == f"{said}; of the scope work"
    )


async def test_an_erasure_says_who_knows_of_it(grantee: Grantee) -> None:
    lender = grantee.lender
    first = await lender.remember("Goes.")
    nobody = await lender(ops.ERASE, ids=[await lender.remember("Never shown.")])
    assert "Nobody outside was shown" in readable.erased(nobody.to_dict())
    await grantee.given()
    await grantee.sees()
    tried = readable.erased((await lender(ops.ERASE, ids=[first], dry_run=True)).to_dict())
    assert tried == f"1 memory would be erased; nothing is yet.\n{first}"
    said = readable.erased((await lender(ops.ERASE, ids=[first])).to_dict())
    assert said.splitlines()[1:] == [
        f"  {grantee.did}",
        f"    under {grantee.grant_id}, 1 item:",
        "    erased there",
    ]
    listed = readable.erasures((await lender(ops.LIST_ERASURES)).to_dict())
    assert listed.count("1 memory, gdpr-art-17") == 2


async def test_what_would_be_shared_says_with_whom_and_that_nothing_is_yet(grantee: Grantee) -> None:
    lender = grantee.lender
    for number in range(7):
        await lender.remember(f"Page {number}.")
    wanted = {"grantee": grantee.did, "purpose": "a test", "all": True}
    tried = readable.shared((await lender(grant_ops.SHARE, **wanted, dry_run=True)).to_dict())
    assert tried.startswith("Nothing is shared yet. Until ")
    assert tried.endswith(f"{grantee.did}\nwould see: 7 memories.")
    made = await lender(grant_ops.SHARE, **wanted)
    said = readable.shared(made.to_dict())
    assert "7 memories now, here the newest 5. Send this link:" in said
    assert said.endswith(str(made.link))
