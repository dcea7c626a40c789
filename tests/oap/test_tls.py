"""Grants and tokens travel over TLS only: what is published, what is asked, and two hosts that speak it (5.1, M4)."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quipu.bootstrap.lending import open_lending
from quipu.config import Config
from quipu.crypto.dids_peers import GuardedPeers
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.rules.exposure import checked_address
from tests.faces.serving import served
from tests.oap.hosts import Host, free_port
from tests.requirement import requirement

PEM = serialization.Encoding.PEM
HOUR = datetime.timedelta(hours=1)


class Authority:
    """A throw-away authority that vouches for this machine."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self.file, self.cert, self.key = (folder / part for part in ("ca.pem", "cert.pem", "key.pem"))
        ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        usage = x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        ca = _built(issuer, issuer, ca_key.public_key())
        ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        ca = ca.add_extension(usage, critical=True)
        ca = ca.add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        signed = ca.sign(ca_key, hashes.SHA256())
        leaf = _built(subject, issuer, key.public_key()).add_extension(here, critical=False)
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
        leaf = leaf.add_extension(above, critical=False)
        self.file.write_bytes(signed.public_bytes(PEM))
        self.cert.write_bytes(leaf.sign(ca_key, hashes.SHA256()).public_bytes(PEM))
        form = serialization.PrivateFormat.PKCS8
        self.key.write_bytes(key.private_bytes(PEM, form, serialization.NoEncryption()))


def _built(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    built = built.serial_number(x509.random_serial_number())
    return built.not_valid_before(now - HOUR).not_valid_after(now + HOUR)


@contextlib.contextmanager
def secure(folder: Path, authority: Authority) -> Iterator[tuple[Host, Host]]:
    """Two hosts that speak TLS and know each other's authority."""
    ports = free_port(), free_port()
    urls = [f"https://127.0.0.1:{port}" for port in ports]
    common = {
        "oap_allowed_hosts": ",".join(urls),
        "oap_authorities": str(authority.file),
        "tls_cert": str(authority.cert),
        "tls_key": str(authority.key),
    }
    with (
        served(folder / "a.db", port=ports[0], public_url=urls[0], **common) as a,
        served(folder / "b.db", port=ports[1], public_url=urls[1], **common) as b,
    ):
        yield Host(a), Host(b)


@requirement("oap:transport.tls")
def test_a_query_under_a_grant_between_two_hosts_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ours", "Ours")
    with secure(tmp_path, authority) as (a, b):
        a.remember("Meet.", tags=("website_redesign",), structured={"day": "tue"})
        grant_id = a.grant(b.owner)
        told = b.ask(a, grant_id, "tue")
        assert [item["content"]["structured"] for item in told.items] == [{"day": "tue"}]
        assert told.source == a.did
        assert a.did.startswith("did:web:127.0.0.1%3A")
        context = ssl.create_default_context(cafile=str(authority.file))
        manifest = httpx.get(f"{a.url}/.well-known/oap-memory.json", verify=context).json()
        assert all(url.startswith("https://") for url in manifest["endpoints"].values())
        # Connections that are kept open would be waited for when the hosts stop.
        for one in (b, a):
            one.at.do(one.parts.lending.peers.close())


@requirement("oap:transport.tls")
async def test_a_host_that_no_known_authority_vouches_for_is_not_asked(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "ours", "Ours"), Authority(tmp_path / "theirs", "Theirs")
    with served(tls_cert=str(theirs.cert), tls_key=str(theirs.key)) as host:
        for authorities, is_known in ((str(theirs.file), True), (str(ours.file), False), ("", False)):
            peers = GuardedPeers(frozenset({host.url}), authorities=authorities)
            try:
                if is_known:
                    assert (await peers.get(f"{host.url}/.well-known/did.json")).status == 200
                else:
                    with pytest.raises(BackendUnavailableError):
                        await peers.get(f"{host.url}/.well-known/did.json")
            finally:
                await peers.close()
    with pytest.raises(InvalidError):
        GuardedPeers(authorities=str(tmp_path / "none.pem"))


@requirement("oap:transport.version")
@pytest.mark.parametrize(
    ("version", "is_spoken"), [(ssl.TLSVersion.TLSv1_2, False), (ssl.TLSVersion.TLSv1_3, True)]
)
def test_nothing_older_than_tls_1_3_is_spoken(
    tmp_path: Path, version: ssl.TLSVersion, is_spoken: bool
) -> None:
    authority = Authority(tmp_path / "ours", "Ours")
    context = ssl.create_default_context(cafile=str(authority.file))
    context.minimum_version = context.maximum_version = version
    with served(tls_cert=str(authority.cert), tls_key=str(authority.key)) as host:
        where = httpx.URL(host.url)

        def spoken() -> str | None:
            with (
                socket.create_connection((where.host, where.port or 443), timeout=20) as plain,
                context.wrap_socket(plain, server_hostname=where.host) as secure,
            ):
                return secure.version()

        if is_spoken:
            assert spoken() == "TLSv1.3"
        else:
            with pytest.raises((ssl.SSLError, ConnectionResetError)):
                spoken()


@requirement("oap:transport.published")
@pytest.mark.parametrize("url", ["", "https://memory.example", "http://127.0.0.1:8321/", "http://[::1]:8321"])
def test_an_address_that_may_be_published(url: str) -> None:
    assert checked_address(url) == url.rstrip("/")


@requirement("oap:transport.published")
@pytest.mark.parametrize(
    "url",
    [
        "http://memory.example",
        "http://10.0.0.1:8321",
        "ftp://127.0.0.1",
        "memory.example",
        "http://127.0.0.1.example",
    ],
)
def test_plain_http_is_published_on_this_machine_only(url: str) -> None:
    with pytest.raises(InvalidError) as refused:
        checked_address(url)
    assert refused.value.reason == "no_tls"
    with pytest.raises(InvalidError):
        open_lending(None, Config(public_url=url), lambda: 0)
