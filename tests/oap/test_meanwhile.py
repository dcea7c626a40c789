"""What happens while something is being answered or sent: what was erased, forgotten or revoked is not handed out after."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from quipu.errors import ConflictError, UnauthenticatedError
from quipu.model.operations import ForgetRequest
from quipu.rules.grants_exports import parsed_export
from quipu.rules.grants_times import rfc3339
from quipu.service.disclosing_proofs import Proofs
from quipu.service.lending_callers import Shown
from tests.oap.hosts import OWNER, Host, pair
from tests.oap.test_moves import SCOPES, bundle, filled, reason, under
from tests.requirement import requirement

Meanwhile = Callable[[], Awaitable[Any]]


@pytest.fixture
def hosts(tmp_path: Any) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        yield both


def once(monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile, at: int = 1) -> None:
    """Do something between the choice of what is shown and the transaction that shows it."""
    missing = Proofs.missing
    calls = 0

    async def interrupted(self: Proofs, *given: Any) -> Any:
        nonlocal calls
        found = await missing(self, *given)
        calls += 1
        if calls == at:
            await meanwhile()
        return found

    monkeypatch.setattr(Proofs, "missing", interrupted)


def erasing(a: Host, name: str) -> Meanwhile:
    request = {"principal_did": a.owner, "item_ids": [name], "cascade": False}
    return lambda: a.sharing.erasing.erase(OWNER, request)


def forgetting(a: Host, name: str, *, hard: bool) -> Meanwhile:
    request = ForgetRequest(agent_id="assistant", ids=(name,), hard_delete=hard)
    return lambda: a.at.service.forget(OWNER, request)


WAYS: dict[str, Callable[[Host, str], Meanwhile]] = {
    "erased": erasing,
    "forgotten for good": lambda a, name: forgetting(a, name, hard=True),
    "forgotten": lambda a, name: forgetting(a, name, hard=False),
}


@requirement("oap:erasure.running-query")
@pytest.mark.parametrize("was_asked", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("way", WAYS)
def test_what_goes_while_a_query_runs_is_not_in_its_answer(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch, way: str, was_asked: bool
) -> None:
    a, b = hosts
    names = filled(a)
    token = b.token(a, a.grant(b.owner, trust_level=4))
    if was_asked:
        assert len(b.query(a, token, {"query": "deadline"}).json()["output"]["items"]) == 3
    once(monkeypatch, WAYS[way](a, names[1]))
    answer = b.query(a, token, {"query": "deadline"})
    found = [item["item_id"] for item in answer.json()["output"]["items"]]
    assert sorted(found) == sorted([names[0], names[2]])
    assert names[1] not in answer.text
    seen = a.at.do(a.sharing.grants.who_saw(OWNER, names[1]))
    assert len(seen) == was_asked, "nothing was noted that did not happen"
    assert a.at.do(a.sharing.grants.verify(OWNER)) == []


@requirement("oap:erasure.running-query")
def test_a_memory_that_never_rests_is_lent_from_without_what_was_erased(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    names = filled(a)
    token = b.token(a, a.grant(b.owner, trust_level=4))
    missing = Proofs.missing
    left = list(names[:2])

    async def busy(self: Proofs, *given: Any) -> Any:
        found = await missing(self, *given)
        await a.at.service.remember(OWNER, _anything())
        if left:
            await erasing(a, left.pop())()
        return found

    monkeypatch.setattr(Proofs, "missing", busy)
    answer = b.query(a, token, {"query": "deadline"})
    assert [item["item_id"] for item in answer.json()["output"]["items"]] == [names[2]]


def _anything() -> Any:
    from quipu.model.operations import RememberRequest
    from quipu.model.record import MemoryType

    return RememberRequest(agent_id="assistant", content="Anything.", type=MemoryType.SEMANTIC)


@requirement("oap:erasure.running-export")
@pytest.mark.parametrize("way", WAYS)
def test_what_goes_while_a_grant_s_file_is_made_is_not_in_it(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    a, b = hosts
    monkeypatch.setattr("quipu.service.disclosing._BATCH", 2)
    names = filled(a, 5)
    token = b.token(a, a.grant(b.owner, scopes=SCOPES, trust_level=4))
    once(monkeypatch, WAYS[way](a, names[0]))  # while the first batch, the newest two, is shown
    answer = under(a, b, token)
    assert answer.status_code == 200, answer.text
    _, items = bundle(answer.content)
    assert [item["item_id"] for item in items] == sorted(names[1:])
    assert "Deadline 0" not in json.dumps(items)
    assert a.at.do(a.sharing.grants.who_saw(OWNER, names[0])) == []


@requirement("oap:revocation.running-export")
def test_a_file_that_is_being_made_or_sent_ends_with_its_grant(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    monkeypatch.setattr("quipu.service.disclosing._BATCH", 2)
    filled(a, 5)
    made, grant_id = lent_file(a, b)
    a.at.do(made.check())
    a.at.do(a.sharing.grants.revoke(OWNER, grant_id))
    with pytest.raises(UnauthenticatedError):
        a.at.do(made.check())
    made.close()
    made, _ = lent_file(a, b)
    (one, *_) = a.at.do(a.parts.ledger.lending.lent_items("default", grant_id))
    a.at.do(erasing(a, one[0])())
    with pytest.raises(ConflictError):
        a.at.do(made.check())
    made.close()
    other = a.grant(b.owner, scopes=SCOPES, trust_level=4)
    token = b.token(a, other)
    once(monkeypatch, lambda: a.sharing.grants.revoke(OWNER, other), at=2)
    assert reason(under(a, b, token)) == (401, "grant_revoked")
    assert a.at.do(a.sharing.grants.get(OWNER, other)).disclosed == 2, "what was shown before is on record"


def lent_file(a: Host, b: Host) -> tuple[Any, str]:
    grant_id = a.grant(b.owner, scopes=SCOPES, trust_level=4)
    token, url = b.token(a, grant_id), f"{a.url}/oap/memory/export"
    shown = Shown(scheme="DPoP", token=token, proof=b.proof("POST", url, token), method="POST", url=url)
    lent = a.at.do(a.sharing.doors.lent(shown, is_read_later=True))
    return a.at.do(a.at.service.moves.lent(lent, parsed_export({}))), grant_id


@pytest.mark.parametrize("is_looked_at", [True, False], ids=["looked at before", "never looked at"])
def test_what_has_left_the_scope_is_not_lent_of_an_earlier_moment_either(
    hosts: tuple[Host, Host], is_looked_at: bool
) -> None:
    a, b = hosts
    tags = ("website_redesign",)
    stays, moved = (a.remember(text, tags=tags, scope_id="personal") for text in ("Stays.", "Moves."))
    now = rfc3339(a.parts.clock() + 1)
    time.sleep(0.01)
    grant_id = a.grant(b.owner, trust_level=4, filter={"labels_any": list(tags), "as_of": now})
    if is_looked_at:
        assert {item["item_id"] for item in b.ask(a, grant_id).items} == {stays, moved}
    a.remember("Moves.", id=moved, tags=tags, scope_id="medical")
    assert {item["item_id"] for item in b.ask(a, grant_id).items} == {stays}
