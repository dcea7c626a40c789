"""The tools of the conformance kit's example server, on our server: what the kit asks of a transport is asked of ours."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp import types as t
from mcp.shared.exceptions import MCPError

from quipu.mcp.tools import Call, Result, ToolSpec

#: A picture and a sound of one point and one sample.
_PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
_TEXT = t.TextContent(text="This is a simple text response for testing.")
_IMAGE = t.ImageContent(data=_PICTURE, mime_type="image/png")
_AUDIO = t.AudioContent(data=_SOUND, mime_type="audio/wav")
_RESOURCE = t.EmbeddedResource(
    resource=t.TextResourceContents(uri="test://embedded", mime_type="text/plain", text="Embedded.")
)


def _elicit(message: str, field: str, kind: str = "string") -> t.ElicitRequest:
    schema: Any = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(text: str) -> t.CreateMessageRequest:
    said = t.SamplingMessage(role="user", content=t.TextContent(text=text))
    return t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=[said], max_tokens=100))


_NAME, _ROOTS = _elicit("What is your name?", "name"), t.ListRootsRequest()
#: Tool → what it asks, round by round.
_ROUNDS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "elicitation": ({"user_name": _NAME},),
    "sampling": ({"capital_question": _sample("What is the capital of France?")},),
    "list_roots": ({"client_roots": _ROOTS},),
    "request_state": ({"confirm": _elicit("Please confirm", "ok", "boolean")},),
    "tampered_state": ({"confirm": _elicit("Please confirm", "ok", "boolean")},),
    "multiple_inputs": (
        {"user_name": _NAME, "greeting": _sample("Generate a greeting"), "client_roots": _ROOTS},
    ),
    "multi_round": (
        {"step1": _elicit("Step 1: What is your name?", "name")},
        {"step2": _elicit("Step 2: What is your favorite color?", "color")},
    ),
    "capabilities": ({"user_name": _NAME, "greeting": _sample("Generate a greeting")},),
}


def _text(text: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=text)])


def _asking(rounds: tuple[Mapping[str, Any], ...]) -> Callable[[Call], Awaitable[Result]]:
    async def work(call: Call) -> Result:
        answered = call.params.input_responses or {}
        at = int(call.params.request_state or 0)
        if rounds[at].keys() <= answered.keys():
            at += 1
        if at == len(rounds):
            given = {name: one.model_dump(mode="json", by_alias=True) for name, one in answered.items()}
            return _text(f"Hello, state-ok: {json.dumps(given)}")
        declared = call.request.session.client_capabilities
        can_elicit = declared is not None and declared.elicitation is not None
        asked = {
            name: one
            for name, one in rounds[at].items()
            if can_elicit or len(rounds[at]) == 1 or not isinstance(one, t.ElicitRequest)
        }
        return t.InputRequiredResult(input_requests=asked, request_state=str(at))

    return work


def _giving(*content: Any) -> Callable[[Call], Awaitable[Result]]:
    async def work(_: Call) -> Result:
        return t.CallToolResult(content=list(content))

    return work


async def _fail(_: Call) -> Result:
    return t.CallToolResult(content=[t.TextContent(text="It failed on purpose.")], is_error=True)


async def _progress(call: Call) -> Result:
    for done in (0, 50, 100):
        await call.request.session.report_progress(done, 100)
    return _text("Done.")


async def _missing(call: Call) -> Result:
    declared = call.request.session.client_capabilities
    if declared is None or declared.sampling is None:
        needed = t.MissingRequiredClientCapabilityErrorData(
            required_capabilities=t.ClientCapabilities(sampling=t.SamplingCapability())
        )
        raise MCPError(
            t.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "It needs sampling.",
            needed.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
    return _text("There is sampling.")


def _form(
    schema: dict[str, Any], message: str = "Please fill this in."
) -> Callable[[Call], Awaitable[Result]]:
    """Asks while its call waits, as the older generation does."""

    async def work(call: Call) -> Result:
        wanted: Any = {"type": "object", "properties": schema}
        answer = await call.request.session.elicit_form(message, wanted, call.request.request_id)
        return _text(f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}")

    return work


async def _sampling(call: Call) -> Result:
    said = t.SamplingMessage(role="user", content=t.TextContent(text=str(call.arguments["prompt"])))
    session = call.request.session
    answer = await session.create_message([said], max_tokens=100, related_request_id=call.request.request_id)
    return _text(f"LLM response: {answer.content}")


_WAYS = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{n}", "title": title} for n, title in enumerate(("First", "Second", "Third"), 1)]
_DEFAULTS: dict[str, Any] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_ENUMS: dict[str, Any] = {
    "untitledSingle": {"type": "string", "enum": _WAYS},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _WAYS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}
#: Arguments of the tools that have some.
_ARGUMENTS: Mapping[str, dict[str, Any]] = {
    "test_elicitation": {"type": "object", "properties": {"message": {"type": "string"}}},
    "test_sampling": {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]},
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
}
_NONE: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_WORKS: Mapping[str, Callable[[Call], Awaitable[Result]]] = {
    "test_simple_text": _giving(_TEXT),
    "test_image_content": _giving(_IMAGE),
    "test_audio_content": _giving(_AUDIO),
    "test_embedded_resource": _giving(_RESOURCE),
    "test_multiple_content_types": _giving(_TEXT, _IMAGE, _RESOURCE),
    "test_error_handling": _fail,
    "test_tool_with_progress": _progress,
    "test_missing_capability": _missing,
    "test_elicitation": _form({"username": {"type": "string"}, "email": {"type": "string"}}),
    "test_elicitation_sep1034_defaults": _form(_DEFAULTS),
    "test_elicitation_sep1330_enums": _form(_ENUMS),
    "test_sampling": _sampling,
    "json_schema_2020_12_tool": _giving(_TEXT),
    **{f"test_input_required_result_{name}": _asking(rounds) for name, rounds in _ROUNDS.items()},
}


def fixture_tools() -> list[ToolSpec]:
    """Beside our own tools, for everybody."""
    return [
        ToolSpec(
            name=name,
            description=f"The kit's {name}.",
            input=_ARGUMENTS.get(name, _NONE),
            output=None,
            profiles=frozenset({"default"}),
            needs=frozenset(),
            work=work,
        )
        for name, work in _WORKS.items()
    ]
