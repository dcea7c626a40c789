"""A query that was answered before costs one transaction, and in that transaction it still sees every change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from quipu.model.operations import ForgetRequest
from tests.oap.hosts import OWNER, Host, pair
from tests.requirement import requirement


@pytest.fixture
def hosts(tmp_path: Any) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        yield both


class Counting:
    """Stands before a real part and notes what is called on it."""

    def __init__(self, inner: Any, calls: list[str], prefix: str = "") -> None:
        self._inner, self._calls, self._prefix = inner, calls, prefix

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "lending":
            return Counting(found, self._calls, "lending.")
        if callable(found):
            self._calls.append(self._prefix + name)
        return found


def told(a: Host, b: Host, token: str, query: str = "deadline") -> tuple[int, list[str], str]:
    answer = b.query(a, token, {"query": query})
    body = answer.json()
    found = [item["item_id"] for item in body.get("output", {}).get("items", [])]
    return answer.status_code, found, body.get("error", {}).get("details", {}).get("reason", "")


def lent(a: Host, b: Host) -> tuple[str, str, str]:
    name = a.remember("The deadline is in May.", tags=("website_redesign",))
    grant = a.grant(b.owner, trust_level=4)
    token = b.token(a, grant)
    assert told(a, b, token) == (200, [name], "")
    return name, grant, token


@requirement("oap:query.cost")
def test_a_query_asked_again_reads_nothing_and_commits_once(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    name, _, token = lent(a, b)
    calls: list[str] = []
    for part in (a.sharing.disclosing, a.sharing.doors, *_inside(a.sharing.disclosing)):
        part._parts = Watched(part._parts, calls)
    assert told(a, b, token) == (200, [name], "")
    assert calls == ["lending.decide"]
    assert len(a.at.do(a.parts.ledger.lending.receipts("default"))) == 3, "the grant and both answers"


def _inside(disclosing: Any) -> list[Any]:
    return [disclosing.views, disclosing._proofs]


class Watched:
    """The parts, with a ledger that counts."""

    def __init__(self, inner: Any, calls: list[str]) -> None:
        self._inner, self.ledger = inner, Counting(inner.ledger, calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@requirement("oap:query.cost")
def test_what_was_written_changed_or_forgotten_meanwhile_counts_at_once(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    name, _, token = lent(a, b)
    other = a.remember("Another deadline is in June.", tags=("website_redesign",))
    assert sorted(told(a, b, token)[1]) == sorted([name, other])
    for gone, left in ((name, [other]), (other, [])):
        a.at.do(a.at.service.forget(OWNER, ForgetRequest(agent_id="assistant", ids=(gone,))))
        assert told(a, b, token)[1] == left


@requirement("oap:query.cost")
def test_a_grant_taken_back_and_an_owner_shut_out_count_at_once(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    _, grant, token = lent(a, b)
    kept = a.grant(b.owner, trust_level=4)
    other = b.token(a, kept)
    assert told(a, b, other)[0] == 200
    a.at.do(a.sharing.grants.revoke(OWNER, grant))
    assert told(a, b, token) == (401, [], "grant_revoked")
    a.at.do(a.at.service.tenancy.suspend(OWNER, OWNER.tenant))
    assert told(a, b, other)[0] == 401
