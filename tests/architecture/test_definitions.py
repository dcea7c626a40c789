"""By walking every operation, not by cases: what a secret in each field means, and one definition for every face."""

import typing
from typing import Any

from pydantic import BaseModel, Field

from quipu.bootstrap import OPERATIONS
from quipu.fields import Name, Redact
from quipu.http.openapi import document
from quipu.memory.operations import REMEMBER
from quipu.methods import async_source
from quipu.operation import Message, Operation, Request
from quipu.schemas import fields, schema

# -- what a secret in a field means ------------------------------------------------------------------------------------


def unmarked(annotation: Any, mark: bool = False) -> bool:
    """Whether there is a text in a type that says nothing about secrets."""
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *metadata = typing.get_args(annotation)
        return unmarked(inner, mark or any(isinstance(one, Redact) for one in metadata))
    if annotation in (str, dict, Any, object):
        return not mark
    if typing.get_origin(annotation) is typing.Literal:
        return False
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return any(is_unmarked_field(annotation, name) for name in annotation.model_fields)
    if typing.get_origin(annotation) is dict:
        return not mark
    return any(unmarked(one, mark) for one in typing.get_args(annotation))


def is_unmarked_field(model: type[BaseModel], name: str) -> bool:
    return unmarked(typing.get_type_hints(model, include_extras=True)[name])


def test_every_text_field_of_every_request_says_what_a_secret_in_it_means() -> None:
    missing = [
        f"{operation.name}.{name}"
        for operation in OPERATIONS
        for name in operation.request.model_fields
        if is_unmarked_field(operation.request, name)
    ]
    assert missing == []


def test_a_text_without_a_mark_is_seen_wherever_it_is() -> None:
    class Inner(Message):
        text: str

    class Outer(Request):
        nested: tuple[Inner, ...]
        listed: list[str] | None
        free: dict[str, Any]
        anything: Any
        marked: Name
        number: int
        word: typing.Literal["a", "b"]

    unmarked_fields = [name for name in Outer.model_fields if is_unmarked_field(Outer, name)]
    assert unmarked_fields == ["nested", "listed", "free", "anything"]


# -- one definition ----------------------------------------------------------------------------------------------------


def test_a_field_that_is_added_to_a_request_is_on_every_face_without_another_line() -> None:
    class Wider(REMEMBER.request):  # type: ignore[name-defined, misc]
        """Keep one fact, with its mood."""

        mood: Name | None = Field(default=None, description="How it felt.")

    wider: Operation[Any, Any] = Operation(
        name="remember",
        request=Wider,
        response=REMEMBER.response,
        permission=REMEMBER.permission,
        limits=REMEMBER.limits,
        http=REMEMBER.http,
        cli=REMEMBER.cli,
    )
    assert "mood" in schema(Wider)["properties"]
    assert "mood" in fields(Wider)
    assert Wider.parse({"content": "x", "mood": "glad"}).mood == "glad"
    others = [one for one in OPERATIONS if one.name != "remember"]
    described = document([*others, wider])["components"]["schemas"]["Wider"]["properties"]
    assert described["mood"]["description"] == "How it felt."
    source = async_source([wider])
    assert "mood: str | None = None" in source
    assert "How it felt." in source
    assert issubclass(Wider, Request)
