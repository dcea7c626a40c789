"""Operations as methods of Python classes: the text of api.py (async) and sync.py (blocking), and of catalogue.py.

Written out as files, and not made at run time, so that editors and type checkers see every argument and its meaning.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from quipu.operation import AnyOperation, Request
from quipu.schemas import Field, Operations, fields, schema

#: Operations that are methods of `Memory`; all others are reached with `call`.
METHODS = frozenset(
    {
        *("remember", "update", "remember_many", "add", "recall", "context", "forget", "merge", "expire"),
        *("get", "list", "history", "restore", "related", "note_recalled", "changes"),
        *("create_store", "list_stores", "delete_store"),
        *("list_reviews", "review", "decide", "get_rules", "set_rules", "test_rules", "undo"),
        *("commit_import", "decide_import", "get_import", "list_imports"),
        *("step", "consolidate", "verify", "journal"),
        *("whoami", "create_token", "list_tokens", "revoke_token"),
        *("add_secret", "list_secrets", "remove_secret", "list_mirrors", "resync_mirror"),
    }
)
#: memorywire's five: the first argument may be a whole request. The field that it stands for otherwise, if any.
FIRST: Mapping[str, str | None] = {
    "remember": "content",
    "recall": "query",
    "forget": None,
    "merge": "canonical",
    "expire": "policy",
}
_KINDS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_MOMENTS = ("_at", "_time", "_from", "_until")


def in_reading_order(request: type[Request]) -> list[Field]:
    """What the operation is about first, then what it shares with others: the class before those that it extends."""
    order: dict[str, None] = {}
    for owner in request.__mro__:
        order.update(dict.fromkeys(vars(owner).get("__annotations__", ())))
    known = fields(request)
    return [known[name] for name in order if name in known]


def is_moment(field: Field) -> bool:
    """Whether it is a time in milliseconds, which people write as a date."""
    return field.kind == "integer" and field.name.endswith(_MOMENTS)


def async_source(operations: Operations) -> str:
    return _source(operations, _ASYNC, is_async=True)


def blocking_source(operations: Operations) -> str:
    return _source(operations, _BLOCKING, is_async=False)


def catalogue_source(operations: Operations) -> str:
    """Where each operation is declared, and its command: read without loading any of them."""
    places = {operation.name: _place(operation) for operation in operations}
    commands = {
        operation.cli.name or operation.name.replace("_", " "): (operation.name, operation.summary)
        for operation in operations
        if operation.cli
    }
    return _CATALOGUE.format(places=_mapping(places), commands=_mapping(commands))


def _mapping(items: Mapping[str, Any]) -> str:
    lines = (f"{json.dumps(name)}: {_literal(value)}," for name, value in items.items())
    return "{" + "\n".join(lines) + "}"


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(json.dumps(item, ensure_ascii=False) for item in value) + ")"  # pyright: ignore[reportUnknownVariableType]  texts
    return json.dumps(value, ensure_ascii=False)


def _place(operation: AnyOperation) -> str:
    """`module:NAME` of the line that declares it: in the capability's operations.py, or next to its request."""
    package = operation.request.__module__.rpartition(".")[0]
    for module in (f"{package}.operations", operation.request.__module__):
        for name, value in vars(sys.modules.get(module, object)).items():
            if value is operation:
                return f"{module}:{name}"
    raise LookupError(f"{operation.name} stands neither in an operations.py nor next to its request")


def _source(operations: Operations, template: str, *, is_async: bool) -> str:
    chosen = [operation for operation in operations if operation.name in METHODS]
    modules = {operation.response.__module__ for operation in chosen}
    modules |= {operation.request.__module__ for operation in chosen}
    imports = (_import(module) for module in sorted(modules))
    return template.format(
        imports="\n".join(imports),
        methods="".join(_method(operation, is_async=is_async) for operation in chosen),
    )


def _import(module: str) -> str:
    package, _, name = module.rpartition(".")
    return f"from {package} import {name} as {_alias(module)}"


def _alias(module: str) -> str:
    return "_".join(module.split(".")[-2:])


def _class(model: type[Any]) -> str:
    return f"{_alias(model.__module__)}.{model.__name__}"


def _method(operation: AnyOperation, *, is_async: bool) -> str:
    found = in_reading_order(operation.request)
    first = FIRST.get(operation.name)
    # A first argument that may be the whole request leaves nothing that is required beside it.
    is_request = operation.name in FIRST
    leading = [field for field in found if field.is_required or field.name == first]
    leading.sort(key=lambda field: field.name != first)
    further = [field for field in found if field not in leading]
    parameters = [_parameter(operation, field, is_request=is_request, first=first) for field in leading]
    if is_request and first is None:
        parameters.insert(0, f"request: {_request_type(operation)} | None = None, /")
    if further:
        parameters += ["*", *(_parameter(operation, field) for field in further)]
    given = ", ".join(f'"{field.name}": {field.name}' for field in leading + further)
    request = ""
    if is_request:
        request = f', first="{first}"' if first else ", request=request"
    answer = _class(operation.response)
    start, run = ("async def", "await self._run") if is_async else ("def", "self._run")
    if operation.is_stream:
        start, run = "def", "self._stream"
        answer = f"AsyncGenerator[{answer}]" if is_async else f"Iterator[{answer}]"
    return _METHOD.format(
        start=start,
        name=operation.name,
        parameters=", ".join(["self", *parameters]),
        answer=answer,
        description=_indented(operation.description),
        meanings="\n".join(_meanings(operation, leading + further)),
        call=f'{run}("{operation.name}", {{{given}}}{request})',
    )


def _meanings(operation: AnyOperation, found: Iterable[Field]) -> Iterable[str]:
    if operation.name in FIRST and FIRST[operation.name] is None:
        yield "        request: A whole request instead of the arguments."
    for field in found:
        more = ""
        if field.name == FIRST.get(operation.name):
            more = " Or a whole request, instead of all arguments."
        yield f"        {field.name}: {field.description}{more}"


def _indented(text: str) -> str:
    return "\n".join(f"        {line}".rstrip() for line in text.splitlines()).lstrip()


def _parameter(
    operation: AnyOperation, field: Field, *, is_request: bool = False, first: str | None = None
) -> str:
    kind = _type(operation, field)
    if is_request and field.name == first:
        return f"{field.name}: {_united(kind, _request_type(operation))}"
    if field.is_required and not is_request:
        return f"{field.name}: {kind}"
    if field.is_required:
        return f"{field.name}: {_united(kind, 'None')} = None"
    if field.is_nullable or field.kind == "object":  # an empty object is no safe default in Python
        return f"{field.name}: {_united(kind, 'None')} = None"
    default = tuple(field.default or ()) if field.kind == "array" else field.default
    return f"{field.name}: {kind} = {default!r}"


def _request_type(operation: AnyOperation) -> str:
    return f"{_class(operation.request)} | Mapping[str, Any] | ForeignRequest"


def _united(*kinds: str) -> str:
    """A union that names each of its arms once, None last."""
    arms = list(dict.fromkeys(arm for kind in kinds for arm in _arms(kind)))
    return " | ".join(sorted(arms, key=lambda arm: arm == "None"))


def _arms(kind: str) -> Iterable[str]:
    depth, start = 0, 0
    for place, character in enumerate(kind):
        depth += (character == "[") - (character == "]")
        if character == "|" and depth == 0:
            yield kind[start:place].strip()
            start = place + 1
    yield kind[start:].strip()


def _type(operation: AnyOperation, field: Field) -> str:
    kind = _word(operation, schema(operation.request)["properties"][field.name])
    if is_moment(field):
        # A duration may stand where a text may: `expires_at`.
        kind = _united(kind, "datetime", *(["timedelta"] if "string" in field.other_kinds else []))
    return kind


def _word(operation: AnyOperation, part: Mapping[str, Any]) -> str:
    if "anyOf" in part:
        return _united(*(_word(operation, arm) for arm in part["anyOf"]))
    if "$ref" in part:
        return _united(*_reference(operation, part["$ref"].rpartition("/")[2]))
    if "enum" in part or "const" in part:
        words = ", ".join(json.dumps(word) for word in part.get("enum", [part.get("const")]))
        return f"Literal[{words}]"
    if part.get("type") == "array":
        return f"Sequence[{_word(operation, part['items'])}]"
    return _KINDS.get(part.get("type", "object"), "Mapping[str, Any]")


def _reference(operation: AnyOperation, name: str) -> Iterable[str]:
    """A part of a request is given as an object or as its class, where the request's own module has that."""
    module = operation.request.__module__
    if hasattr(sys.modules[module], name):
        yield f"{_alias(module)}.{name}"
    yield "Mapping[str, Any]"


_HEAD = '''"""{title} Generated by `python scripts/generate.py`: do not edit."""

from collections.abc import {collections}, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

{{imports}}
from quipu.memory.memory_store import ForeignRequest, MemoryStore
from quipu.model.principal import Principal
from quipu.config import Settings, load
from quipu.{module} import {base}
from quipu.opening import Fusion, OpenConnection, Runner, chosen_agent, remote, runner


class Memory({base}):
    """{about}"""

    def __init__(
        self,
        agent_id: str | None = None,
        stores: str | Path | MemoryStore | Sequence[str | Path | MemoryStore] | None = None,
        *,
        fusion: Fusion = "rrf",
        governance: Any = None,
        write_policy: Literal["all", "primary_only"] = "all",
        embedder: Any = None,
        config: Settings | None = None,
        principal: Principal | None = None,
        clock: Callable[[], int] | None = None,
        telemetry: Any = None,
    ) -> None:
        """Nothing is opened before the first call.

        agent_id: The agent that calls are for. Left out, the setting QUIPU_AGENT.
        stores: A file, a store URL such as `sqlite:///data/memory.db`, or `quipu+https://host`; in a list the first
            ledger is the ledger and all others mirror it, also objects that speak memorywire. Left out, QUIPU_STORE.
        fusion: How rankings of several backends become one, unless a recall says otherwise.
        governance: Who decides on held writes: an object with `async review(review)`.
        write_policy: `all`, or `primary_only`: mirrors are searched and not written to.
        embedder: What makes vectors: a name, or an object that embeds; `none` searches by words only.
        config: Settings, instead of those of the environment.
        principal: Who asks. Left out, the person at this machine, who may do everything.
        clock: Milliseconds since 1970; for tests.
        telemetry: OpenTelemetry providers, instead of those of the process.
        """
        made = runner(
            agent_id,
            stores,
            fusion=fusion,
            governance=governance,
            write_policy=write_policy,
            embedder=embedder,
            config=config,
            principal=principal,
            clock=clock,
            telemetry=telemetry,
        )
        super().__init__(made)

    @classmethod
    def over(cls, opener: OpenConnection, *, agent_id: str | None = None, fusion: Fusion = "rrf") -> Self:
        """A memory over a connection of your own."""
        made = cls.__new__(cls)
        {base}.__init__(made, Runner(opener, agent_id=agent_id, fusion=fusion))
        return made

    {start} import_file(
        self,
        file: str | Path | bytes | BinaryIO,
        *,
        format: str | None = None,
        store: str | None = None,
        agent_id: str | None = None,
        user_id: str | None = None,
        foreign_owner: bool = False,
        file_name: str | None = None,
    ) -> transfer_model.ImportReport:
        """Try a file: say what would come in. Nothing is written before `commit_import` is called with its id.

        file: Its path, its bytes, or an open file.
        format: What kind of file it is. Left out, it is found out.
        store: The store that everything goes to. Left out, the one that the file names.
        agent_id: Whose memories they become where the file does not say.
        user_id: Whom they are about where the file does not say.
        foreign_owner: Also take a bundle that was signed with a key that cannot be had.
        file_name: The name of the file, where that is not its path's.
        """
        return {run}self._import_file(
            file,
            file_name=file_name,
            foreign_owner=foreign_owner,
            format=format,
            store=store,
            agent_id=agent_id,
            user_id=user_id,
        )
{{methods}}

def connect(
    server: str | None = None,
    *,
    token: str | None = None,
    agent_id: str | None = None,
    fusion: Fusion = "rrf",
    timeout: float | None = None,
    retries: int | None = None,
    insecure: bool | None = None,
    config: Settings | None = None,
    telemetry: Any = None,
) -> Memory:
    """The memory on a server. Nothing is sent before the first call.

    server: Its address, such as https://memory.example.org. Left out, the setting QUIPU_SERVER.
    token: The credential. Left out, the setting QUIPU_TOKEN, if it belongs to that server.
    agent_id: The agent that calls are for. Left out, the setting QUIPU_AGENT, else the credential's own.
    fusion: How rankings of several backends become one, unless a recall says otherwise.
    timeout: Seconds for a call with all its repetitions.
    retries: How often a call is repeated at most, where that does no harm.
    insecure: Allow plain HTTP to other machines.
    config: Settings, instead of those of the environment.
    telemetry: What puts the trace that a call belongs to into its headers.
    """
    settings = config if config is not None else load().settings
    opener = remote(
        server,
        token=token,
        timeout=timeout,
        retries=retries,
        insecure=insecure,
        config=settings,
        telemetry=telemetry,
    )
    agent = agent_id if agent_id is not None else chosen_agent(settings)
    return Memory.over(opener, agent_id=agent, fusion=fusion)
'''

_ASYNC = _HEAD.format(
    title="Memory, with every argument typed.",
    collections="AsyncGenerator",
    module="opening",
    base="OpenMemory",
    start="async def",
    run="await ",
    about="""The memory of agents: in this process or on a server, with the same methods.

        async with Memory("planner") as memory:
            await memory.remember("Ana lives in Lisbon", user_id="ana")
            for hit in await memory.recall("where does Ana live?", user_id="ana"):
                print(hit.text)

    Without a place it is one file in your data directory; `Memory(stores="sqlite:///data/memory.db")` names another,
    `connect("https://…")` a server. Nothing is opened before the first call.
    """,
)
_BLOCKING = _HEAD.format(
    title="Memory for code that does not await.",
    collections="Iterator",
    module="blocking",
    base="BlockingMemory",
    start="def",
    run="",
    about="""`quipu.Memory` for code that does not await: every call runs on one event loop in a thread of its own.

        memory = Memory("planner")
        memory.remember("Ana lives in Lisbon", user_id="ana")
        print(memory.recall("where does Ana live?", user_id="ana")[0].text)
        memory.close()

    It may be shared by threads, and closed by any of them.
    """,
)

_METHOD = '''
    {start} {name}({parameters}) -> {answer}:
        """{description}

{meanings}
        """
        return {call}
'''

_CATALOGUE = '''"""Where each operation is declared, and its command. Generated by `python scripts/generate.py`: do not edit."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the list of commands is shown without loading a single operation
    from quipu.operation import AnyOperation

#: Operation → module and name.
PLACES: Mapping[str, str] = {places}
#: Words of a command → its operation, and what it does.
COMMANDS: Mapping[str, tuple[str, str]] = {commands}


def operation(name: str) -> "AnyOperation":
    """The operation of this name; only its own capability is loaded."""
    module, _, attribute = PLACES[name].partition(":")
    return getattr(import_module(module), attribute)
'''
