"""Reaching a server: addresses, tokens, settings, proxies, certificates, event loops."""

import asyncio
import datetime
import ipaddress
import socket
import ssl
import traceback
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quipu import api, client, sync
from quipu.client.transport import Patience, Transport, base_url, is_loopback
from quipu.config import Settings
from quipu.errors import BackendUnavailableError, InvalidError, QuipuError
from tests.client.network import Fate, Served

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


# -- addresses ----------------------------------------------------------------------------------------------------


def test_an_address_is_taken_without_its_last_slash() -> None:
    for given, base in {
        "https://memory.example.org/": "https://memory.example.org",
        "https://memory.example.org:8443/quipu/": "https://memory.example.org:8443/quipu",
        "http://127.0.0.1:8321": "http://127.0.0.1:8321",
        "http://[::1]:8321/": "http://[::1]:8321",
    }.items():
        assert base_url(given) == base


def test_what_is_no_address_is_refused() -> None:
    for given in (
        *("memory.example.org", "ftp://x", "https://", "https://x?y=1", "https://x#y", "https://x:port", ""),
        *("http://a\x7fb.localhost", "http://xn--.localhost", "http://[::1]x:80", "https://me:hush@host"),
    ):
        with pytest.raises(InvalidError) as refused:
            base_url(given)
        assert refused.value.faults[0].pointer == "/server"
        assert "hush" not in f"{refused.value} {refused.value.hint} {refused.value.faults}"


def test_without_tls_only_this_machine_is_spoken_to_unless_one_insists() -> None:
    for given in ("http://memory.example.org", "http://10.0.0.7:8321", "http://localhost.evil.org"):
        with pytest.raises(InvalidError) as refused:
            base_url(given)
        assert refused.value.reason == "insecure"
        assert base_url(given, is_insecure=True) == given
    assert all(is_loopback(host) for host in ("localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"))
    others = ("localhost.org", "0.0.0.0", "10.0.0.1", "example", "")  # noqa: S104  nothing is bound to it
    assert not any(is_loopback(host) for host in others)


# -- settings and tokens ------------------------------------------------------------------------------------------


def test_a_server_must_be_named() -> None:
    with pytest.raises(InvalidError) as refused:
        api.connect(config=Settings())
    assert "QUIPU_SERVER" in (refused.value.hint or "")


def test_settings_name_server_token_agent_and_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SERVER", "https://mine.example"), ("TOKEN", "mine"), ("TIMEOUT_S", "7")):
        monkeypatch.setenv(f"QUIPU_{name}", value)
    made = client.connection()
    assert made.transport.server == "https://mine.example"
    assert made.transport.patience.total_s == 7
    assert client.connection(timeout=1.5, retries=0).transport.patience == Patience(total_s=1.5, retries=0)
    assert api.connect().agent_id is None, "the credential's own"
    monkeypatch.setenv("QUIPU_AGENT", "ana")
    assert api.connect().agent_id == sync.connect().agent_id == "ana"
    assert api.connect(agent_id="ben").agent_id == "ben"


async def test_a_token_of_the_settings_is_not_shown_to_another_server() -> None:
    config = Settings.model_validate({"server": "https://mine.example", "token": "hush"})
    for server, has_token in (
        (None, True),
        ("https://mine.example/", True),
        ("quipu+https://MINE.example", True),
        ("https://other.example", False),
    ):
        made = client.connection(server, config=config)
        assert ("Authorization" in made.transport._made_client().headers) is has_token
        assert "hush" not in repr(made) + repr(made.transport)


def test_a_token_that_no_header_carries_is_refused_without_repeating_it() -> None:
    for token in ("hüsh", "hush hush", "hush\n"):
        with pytest.raises(InvalidError) as refused:
            Transport("https://x", token=token)
        assert "sh" not in str(refused.value).replace("such", "")


async def test_the_token_goes_into_its_header_and_nowhere_else(served: Served) -> None:
    memory = served.connect()
    await memory.remember("tea")
    request = served.network.asked[0]
    assert request.headers["authorization"] == "Bearer qp_secret"
    assert b"qp_secret" not in request.content
    assert "qp_secret" not in str(request.url)


def test_a_store_url_of_a_server_is_a_remote_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for memory in (
        api.Memory("ana", "quipu+https://memory.example.org"),
        api.Memory("ana", config=Settings(store="quipu+https://memory.example.org")),
    ):
        assert memory.agent_id == "ana"
    with pytest.raises(InvalidError) as refused:
        api.Memory("ana", "quipu+https://memory.example.org", embedder="none")
    assert refused.value.faults[0].pointer == "/embedder"


async def test_a_token_does_not_follow_to_another_server(served: Served) -> None:
    elsewhere = {"location": "http://elsewhere.example/v1/memories"}
    served.network.choose = lambda _: Fate(answer=httpx.Response(307, headers=elsewhere))
    with pytest.raises(QuipuError):
        await served.connect().list()
    assert {request.url.host for request in served.network.asked} == {"localhost"}


# -- proxies and certificates -------------------------------------------------------------------------------------


async def test_a_proxy_is_not_asked_about_this_machine_and_one_that_cannot_be_used_is_named(
    no_proxies: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("ALL_PROXY", "socks7://ana:hush@proxy.invalid:9"),
        ("HTTP_PROXY", "ftp://127.0.0.1:9"),
        ("NO_PROXY", "localhost,[::1]"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not Transport("http://127.0.0.1:1")._made_client().trust_env
            with pytest.raises(InvalidError) as refused:
                Transport("http://memory.invalid", is_insecure=True)._made_client()
            assert refused.value.reason == "bad_setting"
            assert name in (refused.value.hint or "")
            assert "hush" not in "".join(traceback.format_exception(refused.value))


async def test_certificate_authorities_that_cannot_be_read_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "authorities.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    memory = api.connect("https://127.0.0.1:1", token="x", config=Settings())
    for text in (None, "no certificate"):
        if text is not None:
            file.write_text(text, "utf-8")
        with pytest.raises(InvalidError) as refused:
            await memory.list_stores()
        assert "SSL_CERT_FILE" in (refused.value.hint or "")
    await memory.close()


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine that nobody vouches for, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "quipu test")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    return cert_file, key_file


async def test_a_certificate_that_nobody_vouches_for_is_refused_and_one_s_own_authority_can_be_named(
    no_proxies: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # a client that does not trust us
            writer.close()
            return
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
        writer.write(head + b'content-length: 13\r\n\r\n{"stores":[]}')
        await writer.drain()
        writer.close()

    cert_file, key_file = certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert_file, key_file)
    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    memory = api.connect(url, token="x", config=Settings())
    with pytest.raises(InvalidError) as refused:
        await memory.list_stores()
    assert refused.value.reason == "insecure"
    await memory.close()
    monkeypatch.setenv("SSL_CERT_FILE", str(cert_file))
    trusting = api.connect(url, token="x", config=Settings())
    assert (await trusting.list_stores()).stores == ()
    await trusting.close()
    listening.close()
    await listening.wait_closed()


# -- event loops --------------------------------------------------------------------------------------------------


def test_a_remote_memory_may_be_used_on_one_event_loop_after_the_other() -> None:
    """As a script does that has an `asyncio.run` for each call: connections belong to the loop they were made on."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                b'content-length: 13\r\n\r\n{"stores":[]}'
            )
            await writer.drain()

    async def used(memory: api.Memory) -> None:
        listening = await asyncio.start_server(_quietly(answer), sock=held.dup())
        assert (await memory.list_stores()).stores == ()
        listening.close()

    with socket.create_server(("127.0.0.1", 0)) as held:  # the same port for all, and nobody else's
        memory = api.connect(f"http://127.0.0.1:{held.getsockname()[1]}", token="x", config=Settings())
        for _ in range(3):
            asyncio.run(used(memory))
    asyncio.run(memory.close())
    with pytest.raises(BackendUnavailableError) as closed:
        asyncio.run(memory.list_stores())
    assert closed.value.reason == "closed"


def _quietly(answer: object) -> object:
    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)  # type: ignore[operator]
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    return run


async def test_a_call_under_way_is_not_begun_again_once_it_is_closed() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await broken.wait()
        writer.close()

    broken, asked = asyncio.Event(), asyncio.Event()
    listening = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    memory = api.connect(f"http://127.0.0.1:{port}", token="x", config=Settings())
    call = asyncio.create_task(memory.recall("tea"))
    await asyncio.wait_for(asked.wait(), 20)
    await memory.close()
    broken.set()
    with pytest.raises(BackendUnavailableError) as told:
        await asyncio.wait_for(call, 20)
    assert told.value.reason == "closed"
    listening.close()
