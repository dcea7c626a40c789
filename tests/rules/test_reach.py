"""Reach: out of it is the same as not there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.record import PrivacyIntent, Record
from quipu.model.search import Scope
from quipu.rules.reach import in_reach, may_share
from quipu.testing.strategies import records

NAMES = st.sampled_from(("ana", "bo", "cy"))
MAYBE = st.none() | NAMES


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    return Scope(
        tenant=draw(st.sampled_from(("t", "u"))),
        agent_id=draw(MAYBE),
        user_id=draw(MAYBE),
        store_id=draw(MAYBE),
        reader=draw(MAYBE),
    )


ROWS = records(tenant=st.sampled_from(("t", "u")), agent_id=NAMES, user_id=MAYBE, store_id=NAMES)


@given(ROWS, scopes())
def test_whatever_is_in_reach_is_of_the_scope(record: Record, scope: Scope) -> None:
    if not in_reach(record, scope):
        return
    assert record.tenant == scope.tenant
    assert scope.agent_id in (None, record.agent_id)
    assert scope.user_id in (None, record.user_id)
    assert scope.store_id in (None, record.store_id)


@given(ROWS)
def test_an_agents_own_record_is_in_its_reach_whatever_it_may_share(record: Record) -> None:
    own = Scope(tenant=record.tenant, agent_id=record.agent_id, reader=record.agent_id)
    assert in_reach(record, own)
    shared = Scope(tenant=record.tenant, agent_id=None, store_id=record.store_id, reader=record.agent_id)
    assert in_reach(record, shared)


@given(ROWS, scopes())
def test_narrowing_a_scope_never_widens_its_reach(record: Record, scope: Scope) -> None:
    if scope.user_id is None and in_reach(record, replace(scope, user_id="ana")):
        assert in_reach(record, scope)


@pytest.mark.parametrize(
    ("share_with", "reader", "expected"),
    [
        (None, "bo", True),
        (None, None, True),
        (("*",), "bo", True),
        (("*",), None, True),
        (("bo",), "bo", True),
        (("bo",), "cy", False),
        (("bo",), None, False),
        ((), "bo", False),
        ((), None, False),
    ],
)
def test_who_may_read_somebody_elses_record(
    share_with: tuple[str, ...] | None, reader: str | None, expected: bool
) -> None:
    assert may_share(share_with, reader) is expected


@given(ROWS, NAMES)
def test_in_a_shared_store_the_writer_decides(record: Record, reader: str) -> None:
    scope = Scope(tenant=record.tenant, agent_id=None, store_id=record.store_id, reader=reader)
    hidden = replace(record, privacy=PrivacyIntent(share_with=()))
    assert in_reach(hidden, scope) == (record.agent_id == reader)
    assert in_reach(replace(record, privacy=None), scope)
