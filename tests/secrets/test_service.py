"""The list of registered values: known to every server at once, sealed under one key, and in force or nothing is written."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from quipu.access.model import TABLES as ACCESS_TABLES
from quipu.access.operations import CREATE_TOKEN
from quipu.bootstrap import Container, open_container
from quipu.config import Settings
from quipu.errors import (
    BackendUnavailableError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    SecretLeakageError,
    UnverifiableError,
)
from quipu.governance.operations import CREATE_WEBHOOK, DELETE_WEBHOOK
from quipu.ledger.driver import Driver
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.memory.operations import FORGET, GET, LIST, RECALL, REMEMBER, REMEMBER_MANY
from quipu.memory.scope import STORES
from quipu.model.principal import Permission, Principal, local
from quipu.operation import AnyOperation, dispatch
from quipu.secrets.model import SECRETS
from quipu.secrets.operations import ADD_SECRET, LIST_SECRETS, REMOVE_SECRET
from quipu.secrets.sealing import FileSealer, KeySealer, Sealing
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.ledgers import database, engine, new_driver, postgres
from tests.fixtures.memories import TestMemory, open_memory

__all__ = ["database", "engine", "new_driver", "postgres"]

VALUE = "correct-horse-battery-staple"
MARK = "<REDACTED:pass>"


class Open:
    """Servers over one file, as processes that know nothing of each other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.opened = folder, list[Container]()

    @property
    def key(self) -> Path:
        return self.folder / "memory.db.key"

    async def __call__(self, **settings: Any) -> "Server":
        container = await open_container(
            Settings(**settings), stores=[str(self.folder / "memory.db")], embedder=WordEmbedder()
        )
        self.opened.append(container)
        return Server(container)

    def holding(self, text: str) -> list[str]:
        """The files that hold a text."""
        return [file.name for file in self.folder.iterdir() if text.encode() in file.read_bytes()]


class Server:
    def __init__(self, container: Container) -> None:
        self.container = container

    async def __call__(self, operation: AnyOperation, who: Principal | None = None, /, **fields: Any) -> Any:
        context = self.container.context(who or local(agent_id="ana"))
        return await dispatch(context, operation, fields)

    async def add(self, who: Principal | None = None, /, **given: Any) -> str:
        return (await self(ADD_SECRET, who, **{"label": "pass", "value": VALUE, **given})).id

    async def kept(self, content: str = f"it opens with {VALUE}", **fields: Any) -> str:
        """What became of a text."""
        return (await self(GET, id=(await self(REMEMBER, content=content, **fields)).id)).content


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    servers = Open(tmp_path)
    yield servers
    for container in servers.opened:
        await container.close()


# -- in force -----------------------------------------------------------------------------------------------------


async def test_a_registered_value_is_marked_from_then_on_in_every_disguise(opened: Open) -> None:
    server = await opened()
    before = (await server(REMEMBER, content=VALUE)).id
    await server.add()
    assert await server.kept() == f"it opens with {MARK}"
    plain = VALUE.encode()
    for form in (
        base64.b64encode(plain).decode(),
        base64.b64encode(base64.b64encode(plain)).decode(),
        base64.b32encode(plain).decode(),
        plain.hex().upper(),
        VALUE[::-1],
        "\u200b".join(VALUE),
        "".join(f"={byte:02X}" for byte in plain),
        base64.b64encode(VALUE.encode("utf-16-le")).decode(),
    ):
        text = await server.kept(f"x {form} y")
        assert form not in text, form
        assert MARK in text, form
    assert (await server(GET, id=before)).content == VALUE, "what was remembered before stays"


async def test_a_value_is_never_shown_again_and_stands_in_no_file(opened: Open) -> None:
    server = await opened()
    await server.add()
    await server.kept()
    (secret,) = (await server(LIST_SECRETS)).secrets
    assert (secret.label, secret.created_by, secret.run_id) == ("pass", "local", None)
    assert VALUE not in repr(secret)
    await server.container.memory.read_log.flush()
    assert opened.holding(VALUE) == []
    (entry,) = await server.container.ledger.entries("default", JournalQuery(op="add_secret"))
    assert entry.detail["label"] == "pass"


async def test_removing_lets_it_in_again(opened: Open) -> None:
    server = await opened()
    secret_id = await server.add()
    await server(REMOVE_SECRET, id=secret_id)
    assert VALUE in await server.kept()
    with pytest.raises(NotFoundError):
        await server(REMOVE_SECRET, id=secret_id)


async def test_another_server_knows_it_at_once(opened: Open) -> None:
    one, other = await opened(), await opened()
    await other.kept("warm")
    await one.add()
    assert await other.kept() == f"it opens with {MARK}"
    many = await other(REMEMBER_MANY, items=[{"content": VALUE}])
    assert VALUE not in repr(many)
    assert opened.holding(VALUE) == []


async def test_writes_and_registrations_at_once_lose_nothing_and_leak_nothing(
    new_driver: Callable[[], Driver],
) -> None:
    sealer = KeySealer(b"k" * 32)
    tables = (STORES, SECRETS, *ACCESS_TABLES)
    servers: list[TestMemory] = []
    for number in range(3):
        memory = open_memory(Ledger(new_driver(), tables), new_id=_ids(number), sealer=sealer)
        servers.append(memory)
    await servers[0](REMEMBER, content="warm")

    async def write(memory: TestMemory, name: int) -> list[str]:
        return [(await memory(REMEMBER, content=f"{name} {n} {VALUE}")).id for n in range(15)]

    begun = asyncio.Event()
    servers[0].ledger.on_commit(lambda _, seq, __: begun.set() if seq >= 10 else None)

    async def register() -> None:
        async with asyncio.timeout(20):
            await begun.wait()
        await servers[0](ADD_SECRET, label="pass", value=VALUE)

    *written, _ = await asyncio.gather(*(write(one, n) for n, one in enumerate(servers)), register())
    ids = [record_id for some in written for record_id in some]
    assert len(set(ids)) == 45
    (entry,) = await servers[0].ledger.entries("default", JournalQuery(op="add_secret"))
    for record in (await servers[1].ledger.records("default", ids)).values():
        assert (VALUE in record.content) == (record.born < entry.seq)
    for memory in servers:
        await memory.close()


def _ids(server: int) -> Callable[[str], str]:
    numbers = iter(range(10_000))
    return lambda prefix: f"{prefix}_{server}{next(numbers):025d}"


async def test_a_runs_value_is_kept_out_of_that_run(opened: Open) -> None:
    server = await opened()
    await server.add(run_id="run_1")
    assert MARK in await server.kept(run_id="run_1")
    assert VALUE in await server.kept(run_id="run_2")
    secrets = server.container.secrets
    secrets.resolve("default", "run_3", "pass", VALUE)
    assert MARK in await server.kept(run_id="run_3")
    secrets.end_run("default", "run_3")
    assert VALUE in await server.kept(run_id="run_3")


async def test_a_tenants_values_are_its_own(opened: Open) -> None:
    server = await opened()
    await server.container.ledger.open_tenant("acme", 1)
    await server.add()
    there = local("acme", "ana")
    stored = await server(REMEMBER, there, content=VALUE)
    assert (await server(GET, there, id=stored.id)).content == VALUE
    assert (await server(LIST_SECRETS, there)).secrets == ()


async def test_the_policy_may_refuse_instead(opened: Open) -> None:
    server = await opened(secrets="reject")
    await server.add()
    with pytest.raises(SecretLeakageError) as refused:
        await server.kept()
    assert [fault.pointer for fault in refused.value.faults] == ["/content"]
    assert VALUE not in f"{refused.value} {refused.value.hint} {refused.value.faults}"
    kept = (await server(REMEMBER, content="fine")).id
    with pytest.raises(SecretLeakageError):
        await server(FORGET, ids=[kept], reason=VALUE)
    assert (await server(GET, id=kept)).content == "fine"


async def test_what_names_something_is_refused_and_never_kept(opened: Open) -> None:
    server = await opened()
    await server.add()
    for operation, fields in (
        (REMEMBER, {"content": "x", "agent_id": VALUE}),
        (REMEMBER, {"content": "x", "idempotency_key": VALUE}),
        (REMEMBER_MANY, {"items": [{"content": "x"}], "idempotency_key": VALUE}),
        (FORGET, {"ids": [VALUE], "idempotency_key": "once"}),
        (FORGET, {"filter": {"tags": VALUE}}),
        (CREATE_TOKEN, {"name": VALUE, "roles": ["agent"]}),
        (ADD_SECRET, {"label": VALUE, "value": "another-long-enough-value"}),
        (ADD_SECRET, {"label": "x", "run_id": VALUE, "value": "another-long-enough-value"}),
    ):
        with pytest.raises(SecretLeakageError):
            await server(operation, **fields)
    assert opened.holding(VALUE) == []


async def test_a_secret_in_the_place_of_an_agent_is_not_named_by_reads(opened: Open) -> None:
    server = await opened()
    await server.add()
    await server(RECALL, agent_id=VALUE, query="x")
    await server(LIST, agent_id=VALUE)
    await server.container.memory.read_log.flush()
    (entry,) = await server.container.ledger.entries("default", JournalQuery(op="recall"))
    assert entry.agent is None
    assert opened.holding(VALUE) == []


async def test_registering_is_for_those_who_manage_and_bad_values_are_refused(opened: Open) -> None:
    server = await opened()
    agent = Principal(tenant="default", name="x", permissions=frozenset({Permission.WRITE, Permission.READ}))
    with pytest.raises(ForbiddenError):
        await server.add(agent)
    for bad in (
        {"value": "short"},
        {"value": ""},
        {"label": ""},
        {"label": "a>b"},
        {"label": f"x {VALUE}"},
        {"run_id": "a\0b"},
        {"label": "a\ud800"},
    ):
        with pytest.raises(InvalidError) as refused:
            await server.add(**bad)
        assert VALUE not in str(refused.value)
    assert (await server(LIST_SECRETS)).secrets == ()


# -- the key ------------------------------------------------------------------------------------------------------


async def test_without_the_key_or_with_another_nothing_is_written_and_reads_go_on(opened: Open) -> None:
    first = await opened()
    kept = (await first(REMEMBER, content="harmless")).id
    await first.add()
    right = opened.key.read_bytes()
    for wrong in (None, base64.b64encode(b"w" * 32), b"no key"):
        opened.key.unlink()
        if wrong is not None:
            opened.key.write_bytes(wrong)
        server = await opened()
        for operation, fields in (
            (REMEMBER, {"content": "harmless too"}),
            (REMEMBER_MANY, {"items": [{"content": "harmless too"}]}),
            (FORGET, {"ids": [kept]}),
            (CREATE_WEBHOOK, {"url": "https://hooks.example/"}),
        ):
            with pytest.raises((UnverifiableError, BackendUnavailableError)) as refused:
                await server(operation, **fields)
            assert refused.value.reason in ("missing_key", "bad_key")
        assert (await server(GET, id=kept)).content == "harmless"
        assert (await server(RECALL, query="harmless", min_relevance=0)).results
        if wrong is None:
            assert not opened.key.exists(), "a lost key is not silently replaced"
        opened.key.write_bytes(right)
    assert await (await opened()).kept("harmless again") == "harmless again"


async def test_without_the_key_tokens_are_made_and_reads_name_nobody(opened: Open) -> None:
    await (await opened()).add()
    opened.key.unlink()
    server = await opened()
    assert (await server(CREATE_TOKEN, name="carla", roles=["reviewer"])).text
    with pytest.raises(SecretLeakageError):  # what looks like a key is none the less no name
        await server(CREATE_TOKEN, name="AKIAIOSFODNN7EXAMPLQ", roles=["reviewer"])
    await server(RECALL, agent_id="bo", query="x")
    await server.container.memory.read_log.flush()
    (entry,) = await server.container.ledger.entries("default", JournalQuery(op="recall"))
    assert entry.agent is None


@pytest.mark.parametrize("first", ["secret", "webhook", "another tenant's"])
@pytest.mark.parametrize("second", ["secret", "webhook"])
async def test_a_lost_key_is_not_replaced_by_a_second_one(opened: Open, first: str, second: str) -> None:
    """With two keys, what was sealed with one could never be opened again beside the other."""

    async def sealed(server: Server, what: str, who: Principal | None = None) -> str:
        if what == "webhook":
            return (await server(CREATE_WEBHOOK, who, url="https://hooks.example/")).webhook.id
        return await server.add(who)

    one = await opened()
    await one.container.ledger.open_tenant("acme", 1)
    who = local("acme") if first == "another tenant's" else None
    kept = await sealed(one, first, who)
    lost = opened.key.read_bytes()
    opened.key.unlink()
    later = await opened()
    with pytest.raises(UnverifiableError) as refused:
        await sealed(later, second)
    assert refused.value.reason == "missing_key"
    assert not opened.key.exists()
    opened.key.write_bytes(lost)
    assert await sealed(await opened(), second)
    opened.key.unlink()
    last = await opened()
    for operation in (LIST_SECRETS, DELETE_WEBHOOK) if first == "webhook" else (REMOVE_SECRET,):
        fields = {} if operation is LIST_SECRETS else {"id": kept}
        await last(operation, who, **fields)  # where it is lost for good, what it sealed can be taken away


def listed(folder: Path) -> dict[str, int]:
    """The files of a folder, and who may do what with them."""
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


async def test_of_two_who_make_the_key_at_once_one_does(tmp_path: Path) -> None:
    path = tmp_path / "sealing.key"
    sealers = [FileSealer(path) for _ in range(8)]
    sealed = await asyncio.gather(
        *(asyncio.to_thread(one.seal, bytes([n]), b"place") for n, one in enumerate(sealers))
    )
    assert [FileSealer(path).unseal(one, b"place") for one in sealed] == [bytes([n]) for n in range(8)]
    assert listed(tmp_path) == {"sealing.key": 0o600}


async def test_what_was_sealed_is_bound_to_its_place(opened: Open) -> None:
    server = await opened()
    ledger = server.container.ledger
    sealing = Sealing(ledger, KeySealer.fresh(), ())
    sealed = await sealing.seal(b"x", "default", "sec_1")
    assert sealing.unseal(sealed, "default", "sec_1") == b"x"
    for tenant, row in (("default", "sec_2"), ("acme", "sec_1")):
        with pytest.raises(UnverifiableError):
            sealing.unseal(sealed, tenant, row)


async def test_a_key_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(BackendUnavailableError) as refused:
        FileSealer(tmp_path / "file" / "sealing.key").seal(b"x", b"place")
    assert refused.value.reason == "bad_key"


async def test_labels_of_registrations_at_once_hold_none_of_each_other(opened: Open) -> None:
    """A label stands in the journal, from where nothing goes again."""
    one, other = await opened(), await opened()
    for number in range(10):
        value = f"registered-at-once-{number}"
        await asyncio.gather(
            one.add(label=f"pass-{number}", value=value),
            other.add(label=value, value=f"another-value-{number}"),
            return_exceptions=True,
        )
    entries = await one.container.ledger.entries("default", JournalQuery(op="add_secret", limit=100))
    seqs = {str(entry.detail["label"]): entry.seq for entry in entries}
    for number in range(10):
        named = seqs.get(f"registered-at-once-{number}")
        assert named is None or named < seqs[f"pass-{number}"]
