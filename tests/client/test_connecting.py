"""Reaching a server: addresses, tokens, settings, certificates."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import quipu
from quipu import BackendUnavailableError, InvalidError, Memory, UnauthenticatedError, connect, sync
from quipu.config import Config
from quipu.memory.remote import connection
from quipu.ports.memory_store import MemoryStore
from tests.faces.serving import Served, served


@pytest.fixture(autouse=True)
def nobody_s_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the machine reaches a test."""
    for name in ("QUIPU_SERVER", "QUIPU_TOKEN", "QUIPU_AGENT", "QUIPU_INSECURE", "QUIPU_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


async def test_a_server_is_named_by_argument_setting_or_store_url(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_argument = connect(server.url, token=server.admin_token, agent_id="ana")
    monkeypatch.setenv("QUIPU_SERVER", server.url)
    monkeypatch.setenv("QUIPU_TOKEN", server.admin_token)
    monkeypatch.setenv("QUIPU_AGENT", "ana")
    by_setting = connect()
    by_store_url = Memory("ana", stores=f"quipu+{server.url}")
    async with by_argument, by_setting, by_store_url:
        kept = await by_argument.remember("tea")
        for memory in (by_setting, by_store_url):
            assert memory.agent_id == "ana"
            assert (await memory.get(kept.id)).content == "tea"


def test_the_blocking_twin_connects_the_same_way(server: Served) -> None:
    with sync.connect(server.url, token=server.admin_token, agent_id="ana") as memory:
        kept = memory.remember("tea")
        assert memory.get(kept.id).content == "tea"
        assert memory.whoami().name == "admin"
    with pytest.raises(BackendUnavailableError) as closed:
        memory.recall("tea")
    assert closed.value.reason == "closed"


async def test_a_memory_on_a_server_is_a_memory_store(server: Served) -> None:
    memory = connect(server.url, token=server.admin_token)
    assert isinstance(memory, MemoryStore)
    assert isinstance(memory, Memory)
    assert len(memory.capabilities) == 9
    await memory.close()


def test_a_server_must_be_named() -> None:
    with pytest.raises(InvalidError) as refused:
        connect(config=Config())
    assert "QUIPU_SERVER" in (refused.value.hint or "")


def test_nothing_is_sent_before_the_first_call() -> None:
    memory = connect("http://127.0.0.1:1", token="x")  # noqa: S106  not a password
    assert isinstance(memory, Memory)


@pytest.mark.parametrize("token", ["", "qp_default_" + "A" * 43, "nonsense"])
async def test_without_a_good_token_nobody_is_let_in(server: Served, token: str) -> None:
    config = Config(server_url=server.url)
    with pytest.raises(UnauthenticatedError):
        async with connect(config=config, token=token):
            pass


def test_a_blocking_memory_that_is_not_let_in_leaves_no_thread(server: Served) -> None:
    before = set(threading.enumerate())
    with pytest.raises(UnauthenticatedError), sync.connect(server.url, token="nonsense"):  # noqa: S106  not a password
        pass
    assert "quipu-portal" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_without_tls_only_this_machine_unless_one_insists() -> None:
    away = "http://memory.example.org"
    with pytest.raises(InvalidError) as refused:
        connect(away, token="t")  # noqa: S106  not a password
    assert refused.value.reason == "insecure"
    assert connection(Config(server_url=away), insecure=True).server == away
    assert connection(Config(server_url=away, server_insecure=True)).server == away
    assert (
        connection(Config(store_url="quipu+https://memory.example.org/")).server
        == "https://memory.example.org"
    )


def test_a_token_of_the_settings_is_not_shown_to_another_server() -> None:
    config = Config(server_url="https://mine.example", server_token="mine")  # noqa: S106  not a password
    for server, token in (
        ("https://mine.example/", "mine"),
        ("quipu+https://MINE.example", "mine"),
        ("https://other.example", ""),
    ):
        assert connection(config, server=server)._transport._token == token
    assert connection(config, server="https://other.example", token="own")._transport._token == "own"  # noqa: S105, S106  not a password
    assert connection(Config(server_token="any"), server="https://other.example")._transport._token == "any"  # noqa: S105, S106  not a password


def test_settings_say_how_patient_to_be() -> None:
    config = Config(server_url="https://x", server_timeout_s=7, server_retries=2)
    assert connection(config)._transport.patience.total_s == 7
    assert connection(config)._transport.patience.retries == 2
    assert connection(config, timeout=1.5, retries=0)._transport.patience.total_s == 1.5


def test_the_token_is_in_no_representation() -> None:
    made = connection(Config(server_url="https://x", server_token="qp_default_hush"))  # noqa: S106  not a password
    assert "hush" not in repr(made) + repr(vars(made)["_transport"])


async def test_a_proxy_of_the_machine_is_not_asked_about_this_machine(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with connect(server.url, token=server.admin_token) as memory:
        assert (await memory.whoami()).tenant == "default"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9"),
        ("HTTP_PROXY", "ftp://127.0.0.1:9"),
        ("NO_PROXY", "localhost,[::1]"),
        ("NO_PROXY", "http://:x"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_told_and_keeps_nobody_from_this_machine(
    server: Served, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    for one in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(one, raising=False)
        monkeypatch.delenv(one.lower(), raising=False)
    monkeypatch.setenv(name, value)
    async with connect(server.url, token=server.admin_token) as memory:
        assert (await memory.whoami()).tenant == "default"
    away = connect("http://memory.invalid", token="x", insecure=True)  # noqa: S106  not a password
    with pytest.raises(InvalidError) as refused:
        await away.whoami()
    assert refused.value.reason == "bad_setting"
    assert name in (refused.value.hint or "")
    await away.close()


async def test_the_password_of_a_proxy_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in ("ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(one, "socks7://ana:hush@proxy.invalid:9")
    away = connect("http://memory.invalid", token="x", insecure=True)  # noqa: S106  not a password
    with pytest.raises(InvalidError) as refused:
        await away.whoami()
    assert "hush" not in "".join(traceback.format_exception(refused.value))
    await away.close()


@pytest.mark.parametrize("address", ["http://a\x7fb.localhost", "http://xn--.localhost", "http://[::1]x:80"])
def test_an_address_that_cannot_be_called_is_told_before_it_is(address: str) -> None:
    with pytest.raises(InvalidError) as refused:
        connect(address, token="x")  # noqa: S106  not a password
    assert refused.value.faults[0].pointer == "/server"


@pytest.mark.parametrize("text", [None, "no certificate"])
async def test_authorities_that_cannot_be_read_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "authorities.pem"
    if text is not None:
        file.write_text(text, "utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    memory = connect("https://127.0.0.1:1", token="x")  # noqa: S106  not a password
    with pytest.raises(InvalidError) as refused:
        await memory.whoami()
    assert refused.value.reason == "bad_setting"
    assert "SSL_CERT_FILE" in (refused.value.hint or "")
    await memory.close()


# -- certificates -------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for this machine that nobody vouches for, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "quipu test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return cert_file, key_file


@pytest.fixture
def secure(certificate: tuple[Path, Path]) -> Iterator[Served]:
    cert_file, key_file = certificate
    with served(tls_cert=str(cert_file), tls_key=str(key_file)) as running:
        yield running


async def test_a_certificate_that_nobody_vouches_for_is_refused(secure: Served) -> None:
    memory = connect(secure.url, token=secure.admin_token)
    with pytest.raises(InvalidError) as refused:
        await memory.open()
    assert refused.value.reason == "insecure"
    await memory.close()


async def test_an_authority_of_one_s_own_can_be_named(
    secure: Served, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    async with connect(secure.url, token=secure.admin_token) as memory:
        assert (await memory.whoami()).name == "admin"


def test_the_door_of_the_package_shows_it() -> None:
    assert quipu.connect is connect
    assert "connect" in dir(quipu)


def test_a_memory_on_a_server_may_be_used_on_one_event_loop_after_the_other(server: Served) -> None:
    """As a script does that has an `asyncio.run` for each call: connections belong to the loop they were made on."""
    memory = connect(server.url, token=server.admin_token, agent_id="ana")
    kept = asyncio.run(memory.remember("Deploys happen on Tuesdays"))
    for _ in range(2):
        assert [hit.id for hit in asyncio.run(memory.recall("deploys"))] == [kept.id]
    asyncio.run(memory.close())
    with pytest.raises(BackendUnavailableError):
        asyncio.run(memory.recall("deploys"))
