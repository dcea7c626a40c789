"""Requests to addresses that others named: sent to the place that was looked at, and never inside."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from quipu.errors import BackendUnavailableError
from quipu.outbound import Answer, HttpOutbound, address_of, is_public
from tests.requirement import requirement


class Host:
    """A small server that notes what it is asked, and answers in the bytes that a test gives it."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.asked, self.connections, self.port = answer, list[bytes](), 0, 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (
                    int(line[15:])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ),
                0,
            )
            self.asked.append(head + await reader.readexactly(length))
            writer.write(self.answer)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def listening(answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n") -> AsyncIterator[Host]:
    host = Host(answer)
    server = await asyncio.start_server(host, "127.0.0.1", 0)
    host.port = server.sockets[0].getsockname()[1]
    async with server:
        yield host


def resolver(*found: str) -> Callable[[str, int], object]:
    async def resolve(host: str, port: int) -> list[str]:
        if not found:
            raise OSError("no such host")
        return [*found]

    return resolve


async def sent(
    url: str,
    *found: str,
    allowed: tuple[str, ...] = ("hooks.internal",),
    most: int = 0,
    patience_s: float = 10,
) -> Answer:
    outbound = HttpOutbound(allowed, resolve=resolver(*found), patience_s=patience_s)  # type: ignore[arg-type]
    return await outbound.send("POST", url, headers={"X-Mine": "1"}, body=b"{}", most_bytes=most)


async def refusal(url: str, *found: str, **given: object) -> str | None:
    with pytest.raises(BackendUnavailableError) as refused:
        await sent(url, *found, **given)  # type: ignore[arg-type]
    assert not any(address in refused.value.message for address in found)
    return refused.value.reason


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.216.34", True), ("2606:2800:220:1::1", True), ("64:ff9b::8.8.8.8", True),
        ("127.0.0.1", False), ("10.0.0.1", False), ("192.168.1.1", False), ("172.16.0.1", False),
        ("169.254.169.254", False), ("100.64.0.1", False), ("0.0.0.0", False), ("224.0.0.1", False),  # noqa: S104  an address, no binding
        ("255.255.255.255", False), ("::1", False), ("fe80::1%eth0", False), ("fc00::1", False),
        ("::ffff:127.0.0.1", False), ("::ffff:10.1.2.3", False), ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False), ("64:ff9b:1::7f00:1", False), ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False), ("fec0::1", False), ("not an address", False), ("", False),
    ],
)  # fmt: skip
def test_only_addresses_that_everybody_can_reach_are_public(address: str, expected: bool) -> None:
    assert is_public(address) is expected


@requirement("oap:tls.only")
@pytest.mark.parametrize(
    ("url", "found", "reason"),
    [
        ("https://inside.example/", ["10.0.0.7"], "private_address"),
        ("https://mixed.example/", ["93.184.216.34", "127.0.0.1"], "private_address"),
        ("https://metadata.example/", ["169.254.169.254"], "private_address"),
        ("https://127.0.0.1/", ["127.0.0.1"], "private_address"),
        ("https://0x7f000001/", ["127.0.0.1"], "private_address"),
        ("http://example.org/", ["93.184.216.34"], "insecure_address"),
        ("http://hooks.internal.example.org/", ["93.184.216.34"], "insecure_address"),
        ("https://nowhere.example/", [], "unknown_host"),
        ("https://someone@example.org/", ["93.184.216.34"], "bad_address"),
    ],
)
async def test_nothing_goes_inside(url: str, found: list[str], reason: str) -> None:
    assert await refusal(url, *found) == reason


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "https://", "ftp://x/y", "javascript:alert(1)", "https://u:p@example.org/",
        "https://example.org/#f", "https://a b/", "https://example.org:99999/", "https://example.org:0/",
        "https://a..b/", "https://.example/", "https://" + "a" * 64 + ".example/", "https://" + "a" * 2_100,
        "https://[v1.a]/", "https://[1::2]x/", "https://xn--a/", "https://example.org/\n", "//example.org/",
    ],
)  # fmt: skip
def test_what_is_no_address_is_told_before_anybody_is_asked(url: str) -> None:
    assert address_of(url) is None


async def test_the_place_that_was_looked_at_is_asked_under_its_name() -> None:
    async with listening() as host:
        answer = await sent(f"http://hooks.internal:{host.port}/x?y=1", "127.0.0.1")
        assert (answer.status, answer.is_success) == (204, True)
        head, _, body = host.asked[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /x?y=1 HTTP/1.1\r\n")
        assert f"host: hooks.internal:{host.port}".encode() in head.lower()
        assert body == b"{}"


async def test_an_origin_is_excepted_alone_and_a_host_with_every_port() -> None:
    async with listening() as host:
        origin = f"http://127.0.0.1:{host.port}"
        assert (await sent(f"{origin}/x", "127.0.0.1", allowed=(origin,))).is_success
        assert (
            await refusal(f"{origin}/x", "127.0.0.1", allowed=("http://127.0.0.1:1",)) == "insecure_address"
        )
        assert (await sent(f"{origin}/x", "127.0.0.1", allowed=("127.0.0.1",))).is_success


async def test_redirects_are_answers_and_are_not_followed() -> None:
    redirect = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
    async with listening(redirect) as host:
        answer = await sent(f"http://hooks.internal:{host.port}/", "127.0.0.1")
        assert (answer.status, answer.is_success, len(host.asked)) == (302, False, 1)


async def test_no_cookie_and_no_connection_is_kept() -> None:
    reply = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    async with listening(reply) as host:
        outbound = HttpOutbound(("hooks.internal",), resolve=resolver("127.0.0.1"))  # type: ignore[arg-type]
        for _ in range(2):
            await outbound.send("GET", f"http://hooks.internal:{host.port}/")
        assert host.connections == 2
        assert not any(b"cookie" in asked.lower() for asked in host.asked)


async def test_an_answer_is_read_up_to_a_limit() -> None:
    async with listening(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") as host:
        url = f"http://hooks.internal:{host.port}/"
        assert (await sent(url, "127.0.0.1", most=5)).body == b"hello"
        assert (await sent(url, "127.0.0.1")).body == b"", "nobody wanted it"
        assert await refusal(url, "127.0.0.1", most=4) == "answer_too_large"


@pytest.mark.parametrize("begins", [b"HTTP/1.1 204 No Content\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
async def test_an_answer_that_never_ends_is_not_waited_for(begins: bytes) -> None:
    gone = asyncio.Event()

    async def dribble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(begins)
            while not reader.at_eof():
                writer.write(b"x")
                await writer.drain()
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 0.02)
        writer.close()
        gone.set()

    server = await asyncio.start_server(dribble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(30):
        url = f"http://hooks.internal:{port}/x"
        assert await refusal(url, "127.0.0.1", most=1 << 20, patience_s=0.2) == "no_answer"
        await gone.wait()


async def test_a_host_that_is_down_is_told_without_saying_where() -> None:
    async with listening() as host:
        port = host.port
    assert await refusal(f"http://hooks.internal:{port}/", "127.0.0.1") == "no_connection"


def certificate(name: str, folder: Path) -> tuple[Path, Path]:
    """A certificate for a name, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return paths


@pytest.mark.parametrize(("asked", "reason"), [("hooks.internal", None), ("other.internal", "no_connection")])
async def test_a_place_must_show_a_certificate_of_the_name_that_was_asked_for(
    asked: str, reason: str | None, tmp_path: Path
) -> None:
    cert, key = certificate("hooks.internal", tmp_path)
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    theirs.load_cert_chain(cert, key)
    trusting = ssl.create_default_context(cafile=str(cert))
    host = Host(b"HTTP/1.1 204 No Content\r\n\r\n")
    server = await asyncio.start_server(host, "127.0.0.1", 0, ssl=theirs)
    outbound = HttpOutbound((asked,), resolve=resolver("127.0.0.1"), tls=trusting)  # type: ignore[arg-type]
    async with server:
        url = f"https://{asked}:{server.sockets[0].getsockname()[1]}/"
        if reason is None:
            assert (await outbound.send("GET", url)).is_success
        else:
            with pytest.raises(BackendUnavailableError) as refused:
                await outbound.send("GET", url)
            assert refused.value.reason == reason
