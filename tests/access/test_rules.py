"""Roles, gifts, lineage and what a limited credential sees."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.access import rules
from quipu.access.model import CreateTenantRequest, CreateTokenRequest, PermissionName, Token
from quipu.access.rules import Ownership, visible
from quipu.errors import ForbiddenError, InvalidError
from quipu.model.principal import Permission, Principal

READ, WRITE, DELETE, REVIEW, ADMIN, MANAGE, OPERATE = Permission


def who(*permissions: Permission, **limits: Any) -> Principal:
    return Principal(tenant="acme", name="carla", permissions=frozenset(permissions), **limits)


def token(number: int, by: int | None = None, name: str | None = None, **fields: Any) -> Token:
    return Token(
        id=f"tok_{number}",
        hash=str(number),
        name=name or f"t{number}",
        prefix="",
        permissions=fields.pop("permissions", (READ,)),
        created_at=0,
        created_by="local" if by is None else f"t{by}",
        created_by_token=None if by is None else f"tok_{by}",
        **fields,
    )


def test_permissions_on_the_wire_are_those_of_the_model() -> None:
    assert set(get_args(PermissionName)) == {permission.value for permission in Permission}


def test_who_has_limits_is_no_admin_whatever_the_credential_says() -> None:
    for limits in ({"review_stores": ("shop",)}, {"review_operations": ("remember",)}):
        limited = who(*Permission, **limits)
        assert not limited.may(ADMIN)
        assert not limited.is_whole
    assert who(ADMIN).may(MANAGE)
    assert not who(ADMIN).may(OPERATE)


def test_a_token_of_role_agent_is_never_given_review() -> None:
    for roles, permissions in (
        (("agent", "reviewer"), ()),
        (("agent", "admin"), ()),
        (("agent",), ("memory:review",)),
    ):
        with pytest.raises(InvalidError) as refused:
            rules.granted(roles, permissions)  # pyright: ignore[reportArgumentType]
        assert refused.value.faults[0].pointer == "/roles"
    assert rules.granted(("reviewer", "operator"), ("memory:write",)) == {READ, REVIEW, OPERATE, WRITE}
    with pytest.raises(InvalidError):
        rules.granted((), ())


PATTERNS = st.lists(
    st.sampled_from(["*", "ana", "bo-*", "bo-1", "bo-2", "c?", "[d]"]), min_size=1, max_size=3
)
AGENTS = ["ana", "bo-1", "bo-2", "bo-x", "c1", "d", "somebody"]


@given(
    own=st.builds(
        who,
        *[st.sampled_from(list(Permission)[:6])] * 3,
        agents=PATTERNS.map(tuple),
        user_id=st.sampled_from([None, "mara"]),
        review_stores=PATTERNS.map(tuple),
        review_operations=PATTERNS.map(tuple),
    ),
    permissions=st.sets(st.sampled_from(list(Permission))),
    agents=PATTERNS,
    user_id=st.sampled_from([None, "mara", "bo"]),
    stores=PATTERNS,
    operations=PATTERNS,
)
def test_nobody_gives_more_than_they_have(
    own: Principal,
    permissions: set[Permission],
    agents: list[str],
    user_id: str | None,
    stores: list[str],
    operations: list[str],
) -> None:
    gift: Any = {
        "agents": agents,
        "user_id": user_id,
        "review_stores": stores,
        "review_operations": operations,
    }
    try:
        rules.check_gift(own, permissions, **gift, is_other_tenant=False)
    except ForbiddenError:
        return
    given_to = who(*permissions, **{**gift, "agents": tuple(agents), "review_stores": tuple(stores)})
    assert all(own.may(permission) for permission in permissions)
    for agent in AGENTS:
        for store in AGENTS:
            for user in ("mara", "bo", None):
                owner = Ownership(agent_id=agent, user_id=user, store=store)
                assert not visible(given_to, owner) or visible(own, owner)


def test_each_limit_of_the_giver_binds_the_gift() -> None:
    own = {
        "agents": ("bo-*",),
        "user_id": "mara",
        "review_stores": ("shop-*",),
        "review_operations": ("merge",),
    }
    lead = who(READ, MANAGE, **own)
    rules.check_gift(lead, {READ}, **own, is_other_tenant=False)  # pyright: ignore[reportArgumentType]
    wider: list[dict[str, Any]] = [
        {"agents": ("*",)},
        {"agents": ("bo-*", "ana")},
        {"user_id": None},
        {"user_id": "bo"},
        {"review_stores": ("*",)},
        {"review_operations": ("merge", "forget")},
        {"is_other_tenant": True},
        {"permissions": {READ, WRITE}},
    ]
    for changed in wider:
        gift: dict[str, Any] = {"permissions": {READ}, "is_other_tenant": False, **own, **changed}
        with pytest.raises(ForbiddenError) as refused:
            rules.check_gift(lead, **gift)
        assert refused.value.reason == "missing_scope"


def test_an_exact_name_within_a_pattern_can_be_given_and_other_tenants_cannot() -> None:
    gift: Any = {"user_id": None, "review_stores": ("*",), "review_operations": ("*",)}
    lead = who(READ, MANAGE, agents=("bo-*",))
    rules.check_gift(lead, {READ}, agents=("bo-1",), is_other_tenant=False, **gift)
    rules.check_gift(who(OPERATE), {ADMIN}, agents=("*",), is_other_tenant=True, **gift)
    for giver, agents, other in ((lead, ("bo*",), False), (who(*list(Permission)[:6]), ("bo-1",), True)):
        with pytest.raises(ForbiddenError):
            rules.check_gift(giver, {READ}, agents=agents, is_other_tenant=other, **gift)


def test_the_default_agent_is_the_one_given_or_the_only_exact_name() -> None:
    assert rules.default_agent(None, ("ana", "bo-*")) == "ana"
    assert rules.default_agent("bo-1", ("ana", "bo-*")) == "bo-1"
    for agents in (("*",), ("ana", "bo"), ("bo-*",), ("an?",), ("[ab]",)):
        assert rules.default_agent(None, agents) is None


def test_who_made_a_token_is_known_through_all_that_lie_between() -> None:
    family = [token(1), token(2, by=1), token(3, by=2), token(4, by=3), token(5)]
    by_id = {one.id: one for one in family}
    assert rules.makers(by_id, "tok_4") == {"t1", "t2", "t3"}
    assert rules.makers(by_id, "tok_1") == frozenset(), "who runs the machine is nobody's maker here"
    assert rules.makers(by_id, "tok_5") == rules.makers(by_id, None) == frozenset()
    # W made R, then rotated itself: what W writes with its new token, R does not approve.
    rotated = {**by_id, "tok_6": token(6, by=1, name="t1")}
    assert rotated["tok_6"].name in rules.makers(rotated, "tok_2")


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 9), max_size=10))
def test_lineage_ends_even_where_the_database_was_bent_into_a_ring(made_by: dict[int, int]) -> None:
    tokens = {f"tok_{number}": token(number, by=by) for number, by in made_by.items()}
    for token_id in tokens:
        assert rules.makers(tokens, token_id) <= {f"t{number}" for number in range(10)}


def test_reviewers_are_good_tokens_that_may_review() -> None:
    tokens = [
        token(1, permissions=(REVIEW,)),
        token(2, permissions=(ADMIN,), revoked_at=100),
        token(3, permissions=(REVIEW,), expires_at=50),
        token(4, permissions=(WRITE,)),
    ]
    assert rules.reviewers(tokens, 10) == {"t1", "t2", "t3"}
    assert rules.reviewers(tokens, 100) == {"t1"}


# -- visible ------------------------------------------------------------------------------------------------------


OWNERS = st.builds(
    Ownership,
    agent_id=st.sampled_from([None, "ana", "bo-1"]),
    user_id=st.sampled_from([None, "mara", "bo"]),
    store=st.sampled_from([None, "main", "shop-a"]),
)


@given(OWNERS)
def test_who_has_no_limits_sees_everything(owner: Ownership) -> None:
    assert visible(who(READ), owner)


@given(OWNERS)
def test_each_limit_narrows_and_what_is_not_known_is_not_shown(owner: Ownership) -> None:
    assert visible(who(agents=("bo-*",)), owner) == (owner.agent_id == "bo-1")
    assert visible(who(user_id="mara"), owner) == (owner.user_id == "mara")
    assert visible(who(review_stores=("shop-*",)), owner) == (owner.store == "shop-a")
    all_at_once = who(agents=("bo-*",), user_id="mara", review_stores=("shop-*",))
    assert visible(all_at_once, owner) == (
        owner == Ownership(agent_id="bo-1", user_id="mara", store="shop-a")
    )


# -- names --------------------------------------------------------------------------------------------------------


def test_bad_names_of_tokens_and_tenants_are_refused() -> None:
    for name in ("", "local", "System", "oidc:mara", "a\nb", "a\n", "x" * 101, " a", "ä"):
        with pytest.raises(InvalidError) as refused:
            CreateTokenRequest.parse({"name": name, "roles": ["agent"]})
        assert refused.value.faults[0].pointer == "/name"
    for tenant in ("", "Acme", "a_b", "-a", "a" * 64, "a/b", "ä", "a\n", "a\0"):
        with pytest.raises(InvalidError):
            CreateTenantRequest.parse({"tenant": tenant})
        assert not rules.is_tenant_name(tenant)
    assert CreateTenantRequest.parse({"tenant": "acme-2"}).tenant == "acme-2"
    assert rules.is_tenant_name("acme-2")


def test_bad_grants_are_refused() -> None:
    wrong: list[dict[str, Any]] = [
        {"agents": []},
        {"agents": [""]},
        {"agents": ["a\0"]},
        {"agents": ["shop-*", "\ud800"]},
        {"agents": ["a"] * 65},
        {"rate": 0},
        {"recall_budget": -1},
        {"user_id": "\udfff"},
        {"user_id": "x" * 10_000},
        {"review_stores": []},
        {"roles": ["boss"]},
        {"permissions": ["memory:everything"]},
        {"expires_at": "soon"},
        {"scope": "x"},
    ]
    for given_fields in wrong:
        with pytest.raises(InvalidError):
            CreateTokenRequest.parse({"name": "bot", "roles": ["agent"], **given_fields})
