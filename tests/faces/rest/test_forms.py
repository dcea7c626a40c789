"""What is written as JSON is read back as the same value; what is not one is refused with its place."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.faces.rest.forms import dumped, formed, plain
from quipu.model.access import IssuedToken, KeptSecret, Tenant, Token
from quipu.model.change import Proposal
from quipu.model.feed import ChangedRecord, FeedEvent, Happening
from quipu.model.journal import Checkpoint, Entry, Head, Mention, Op
from quipu.model.operations import (
    CreateStoreRequest,
    Embedding,
    Line,
    ListRequest,
    RememberRequest,
    UpdateStrategy,
)
from quipu.model.outcomes import (
    ExpireResponse,
    Fault,
    ForgetResponse,
    ForgetRow,
    ImportSummary,
    MergeResponse,
    Page,
    RememberResponse,
    Verification,
    Version,
)
from quipu.model.principal import Permission, Principal
from quipu.model.record import Link, MemoryType, PrivacyIntent, Record, State, Trust
from quipu.model.store import Store, StoreScope
from quipu.testing.strategies import json_objects, provenances, records

#: Every kind that crosses the wire in this form.
KINDS: list[type] = [
    *(Record, Page, Version, Store, Proposal, Entry, Head, Checkpoint, Verification, ImportSummary),
    *(RememberResponse, ForgetResponse, MergeResponse, ExpireResponse, FeedEvent),
    *(Principal, Token, IssuedToken, Tenant, KeptSecret, ListRequest, CreateStoreRequest, Line),
]


def through_json(kind: type[Any], value: Any) -> Any:
    return formed(kind, json.loads(dumped(plain(value))))


@given(records(), provenances(), st.none() | st.text())
def test_a_record_comes_back_as_it_was(record: Record, provenance: Any, reason: str | None) -> None:
    assert through_json(Record, record) == record
    assert through_json(Version, Version(record, reason)) == Version(record, reason)
    page = Page(records=(record, record), next_cursor=reason, store_names={"ms_1": "main"})
    assert through_json(Page, page) == page
    assert through_json(type(provenance), provenance) == provenance


@given(json_objects())
def test_free_form_data_is_taken_as_it_is(data: Any) -> None:
    proposal = Proposal(
        id="prp_1",
        tenant="t",
        operation="remember",
        agent_id="a",
        request=data,
        writer="w",
        held_by=("caller",),
        status="pending",
        created_at=1,
        lapses_at=None,
    )
    assert through_json(Proposal, proposal) == proposal


ENTRY = Entry(
    tenant="t",
    seq=3,
    at=1,
    actor="a",
    op=Op.REMEMBER,
    store=None,
    agent="ana",
    run=None,
    node=None,
    records=(Mention("mem_1", 1, "ab"),),
    detail={"k": 5, "nothing": None},
    prev="0",
    hash="1",
)
POINT = Checkpoint(tenant="t", seq=3, hash="1", at=2, key_id="k", signature="s")
TOKEN = Token(
    tenant="t",
    id="tok_1",
    name="bot",
    prefix="qp_t_abc",
    permissions=frozenset(Permission),
    created_at=1,
    created_by="me",
    agents=("a*", "b"),
    expires_at=9,
)
VALUES: list[Any] = [
    ENTRY,
    POINT,
    TOKEN,
    IssuedToken(TOKEN, "qp_t_abcdef"),
    Tenant(id="t", created_at=1, suspended_at=2),
    KeptSecret(tenant="t", id="sec_1", label="key", created_at=1, created_by="me", run_id="r"),
    Head(3, "ab", 1, 2),
    Store(tenant="t", id="ms_1", name="attic", scope=StoreScope.TEAM, description="d", created_at=1),
    Principal(
        tenant="t", name="n", permissions=frozenset({Permission.READ}), trust=Trust.USER, is_local=True
    ),
    Verification(
        entries=1,
        records=2,
        checkpoints=3,
        head_seq=4,
        head_hash="h",
        faults=(Fault(kind="gap", detail="d", seq=1),),
        unverifiable=("x",),
        last_checkpoint=POINT,
    ),
    ImportSummary(import_id="imp_1", read=3, stored=1, held=1, failed=1, errors=((2, "bad"),)),
    ForgetResponse(
        forgotten_ids=("a",), hard_delete=True, stores=(ForgetRow(store="s", count=1, error="queued"),)
    ),
    RememberResponse(id="m", stored_at=1, stores=(), extensions={"seq": None, "list": [1, {"a": None}]}),
    FeedEvent(
        seq=1,
        at=2,
        op=Happening.MERGED,
        agent_id=None,
        store="main",
        records=(ChangedRecord("m", 1, MemoryType.SEMANTIC),),
        cause=None,
    ),
    ListRequest(
        agent_id="a", types=(MemoryType.EPISODIC,), states=(State.ARCHIVED,), filter={"a": {"$in": [1]}}
    ),
    Line(
        RememberRequest(
            agent_id="a",
            type=MemoryType.PROCEDURAL,
            content={"states": ["a"]},
            update_strategy=UpdateStrategy.APPEND,
            privacy_intent=PrivacyIntent(share_with=()),
            embedding=Embedding("m", b"\x00\x01"),
            links=(Link("x", "y"),),
            tags=(),
            metadata={},
        ),
        record_id="mem_1",
        state=State.ARCHIVED,
    ),
    Line(
        RememberRequest(
            agent_id="a", type=MemoryType.SEMANTIC, content="t", embedding=Embedding("m", (0.5, 1.0))
        )
    ),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_other_value_comes_back_as_it_was(value: Any) -> None:
    assert through_json(type(value), value) == value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_field_that_is_left_out_is_read_as_none(kind: type) -> None:
    """So no field may have another default beside None: it would come back as that."""
    hints = get_type_hints(kind, localns={"Json": object, "JsonObject": dict})
    for field in fields(kind):
        if NoneType in get_args(hints[field.name]):
            assert field.default in (None, MISSING), field.name


@pytest.mark.parametrize(
    ("kind", "data", "pointer", "reason"),
    [
        (CreateStoreRequest, {"name": 5}, "/name", "bad_value"),
        (CreateStoreRequest, {}, "/name", "missing_field"),
        (CreateStoreRequest, {"name": None}, "/name", "missing_field"),
        (CreateStoreRequest, {"name": "a", "scope": "nobody"}, "/scope", "bad_value"),
        (CreateStoreRequest, {"name": "a", "color": 1}, "/color", "unknown_field"),
        (CreateStoreRequest, [], "", "bad_value"),
        (ListRequest, {"types": "semantic"}, "/types", "bad_value"),
        (ListRequest, {"types": ["semantic", "odd"]}, "/types/1", "bad_value"),
        (ListRequest, {"limit": True}, "/limit", "bad_value"),
        (ListRequest, {"limit": 1.5}, "/limit", "bad_value"),
        (ListRequest, {"limit": "1"}, "/limit", "bad_value"),
        (ListRequest, {"filter": [1]}, "/filter", "bad_value"),
        (
            Line,
            {"request": {"agent_id": "a", "type": "semantic", "content": 5}},
            "/request/content",
            "bad_value",
        ),
        (
            Line,
            {
                "request": {
                    "agent_id": "a",
                    "type": "semantic",
                    "content": "x",
                    "embedding": {"model": "m", "vector": "zz"},
                }
            },
            "/request/embedding/vector",
            "bad_value",
        ),
        (
            ImportSummary,
            {"import_id": "i", "read": 0, "stored": 0, "held": 0, "failed": 0, "errors": [[1]]},
            "/errors/0",
            "bad_value",
        ),
    ],
)
def test_what_is_no_value_is_refused_with_its_place(kind: type, data: Any, pointer: str, reason: str) -> None:
    with pytest.raises(InvalidError) as refused:
        formed(kind, data)
    assert (refused.value.faults[0].pointer, refused.value.reason) == (pointer, reason)


def test_a_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(InvalidError) as refused:
        formed(CreateStoreRequest, {"name": ["hush hush"]})
    assert "hush" not in f"{refused.value} {refused.value.faults} {refused.value.hint}"


def test_a_newer_server_s_field_is_passed_over_where_that_is_asked_for() -> None:
    body = {**plain(POINT), "colour": "blue"}
    assert formed(Checkpoint, body, strict=False) == POINT
    with pytest.raises(InvalidError):
        formed(Checkpoint, body)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert formed(ListRequest, {"limit": 5.0}).limit == 5
