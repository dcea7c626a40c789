"""Which texts a request has, by the marks of its fields, and how it is put together again."""

from enum import StrEnum
from typing import Annotated, Any, Literal, NewType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

from quipu.fields import Redact
from quipu.memory.model import RememberManyRequest, RememberRequest
from quipu.secrets.tree import REWRITTEN, Finding, Tree, text_fields

Text = Annotated[str, Redact.REWRITE]
Name = Annotated[str, Redact.REFUSE]
RecordId = NewType("RecordId", str)
Alias = TypeAliasType("Alias", Annotated[str, Field(max_length=9), Redact.REWRITE])


class Colour(StrEnum):
    RED = "red"


class Base(BaseModel):
    model_config = ConfigDict(frozen=True)
    reason: Text | None = None


class Part(Base):
    to: Name
    rel: Text


class Whole(Base):
    content: Text | Annotated[dict[str, Any], Redact.REWRITE] = ""
    kind: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    count: int = 3
    data: bytes = b""
    cursor: Annotated[str, Redact.NONE] | None = None
    id: Annotated[RecordId, Redact.REFUSE] | None = None
    parts: Annotated[tuple[Part, ...], Field(max_length=9)] = ()
    best: Part | None = None
    names: tuple[Name, ...] | None = None
    alias: Alias | None = None
    filter: Annotated[dict[str, Any], Redact.REFUSE] | None = None
    inside: "Whole | None" = None


def test_a_model_says_which_fields_hold_text_its_own_first() -> None:
    assert text_fields(Whole) == (
        ("content", Redact.REWRITE),
        ("id", Redact.REFUSE),
        ("parts", None),
        ("best", None),
        ("names", Redact.REFUSE),
        ("alias", Redact.REWRITE),
        ("filter", Redact.REFUSE),
        ("inside", None),
        ("reason", Redact.REWRITE),
    )


def test_a_text_field_without_a_mark_or_with_two_is_an_error() -> None:
    class Without(BaseModel):
        loose: tuple[str, ...] | None = None
        free: dict[str, Any] = {}
        anything: Any = None

    class Holder(BaseModel):
        inside: Without | None = None

    class Both(BaseModel):
        text: tuple[Text, Name]

    for model in (Without(), Holder(inside=Without()), Both(text=("a", "b"))):
        with pytest.raises(TypeError):
            Tree(model)


def test_the_texts_come_in_order_and_what_cannot_be_rewritten_is_a_row_of_its_own() -> None:
    whole = Whole(
        content="main",
        cursor="skipped",
        parts=(Part(to="x", rel="knows"), Part(to="y", rel="likes")),
        names=("n", "m"),
        filter={"k": ["v", 12345678]},
        inside=Whole(content="inner"),
        reason="why",
    )
    tree = Tree(whole)
    assert [leaf.text for leaf in tree.leaves if leaf.row == REWRITTEN] == [
        "main",
        "knows",
        "likes",
        "inner",
        "why",
    ]
    assert [[leaf.text for leaf in row] for row in tree.rows()[1:]] == [
        ["x"],
        ["y"],
        ["n", "m"],
        ["k", "v", "12345678"],
    ]
    assert Tree("text", Redact.REFUSE).leaves[0].row != REWRITTEN


def test_what_is_no_text_cannot_be_searched() -> None:
    with pytest.raises(TypeError):
        Tree({"a": object()})
    assert Tree({"a": None, "b": True, "c": 1, "d": b""}).leaves[-1].text == "d"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_value_in_which_nothing_was_found_is_the_same_object(value: Any) -> None:
    findings: list[Finding] = []
    assert Tree(value).rebuilt("", findings) is value
    assert findings == []


@given(JSON, st.data())
def test_only_what_was_found_is_replaced_and_only_its_surroundings_are_new(
    value: Any, data: st.DataObject
) -> None:
    tree = Tree([value, {"stays": ["as", "it"]}, "last"])
    leaf = data.draw(st.sampled_from(tree.leaves))
    leaf.text, leaf.found = "gone", ["label"]
    findings: list[Finding] = []
    new = tree.rebuilt("/x", findings)
    assert [one.labels for one in findings] == [["label"]]
    after = [one.text for one in Tree(new).leaves]
    before = [one.text for one in tree.leaves]
    assert after == before or "gone (2)" in after  # two keys stay two
    if leaf.text not in ("stays", "as", "it") and tree.leaves.index(leaf) < len(tree.leaves) - 4:
        assert new[1] is tree.value[1]


def test_models_and_tuples_stay_what_they_are() -> None:
    request = RememberRequest(agent_id="ana", content="tea", tags=("a", "b"), metadata={"k": [1, {"x": "y"}]})
    batch = RememberManyRequest(agent_id="ana", items=(request, RememberRequest(content="milk")))
    tree = Tree(batch)
    leaf = next(leaf for leaf in tree.leaves if leaf.text == "b")
    leaf.text, leaf.found = "gone", ["label"]
    findings: list[Finding] = []
    new = tree.rebuilt("", findings)
    assert findings == [Finding("/items/0/tags/1", ["label"], REWRITTEN)]
    assert new.items[0] == request.model_copy(update={"tags": ("a", "gone")})
    assert new.items[1] is batch.items[1]
    assert new.items[0].metadata is request.metadata
