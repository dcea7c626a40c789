"""Where a server may listen: beyond this machine only for those who say who they are, and only encrypted. And which
addresses lie inside, so that nobody can have a server ask there."""

from __future__ import annotations

import ipaddress

from quipu.errors import InvalidError

#: IPv6 addresses that stand for an IPv4 one behind a gateway.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_public(address: str) -> bool:
    """Whether an address is out in the world: not private, loopback, link-local, multicast or reserved (OAP 6.1).

    One that stands for another is judged by that one.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        behind = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else None
        if (meant := found.ipv4_mapped or behind) is not None:
            return is_public(str(meant))
        inner = found.sixtofour or (found.teredo[1] if found.teredo else None)
        # Site-local ones are routed inside alone, which `is_global` does not tell.
        if found.is_site_local or (inner is not None and not is_public(str(inner))):
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def checked_exposure(host: str, *, is_open: bool, has_tls: bool, is_behind_proxy: bool) -> None:
    """Refuse an address where strangers could read along, or come in without a word."""
    if is_open and (is_behind_proxy or not is_loopback(host)):
        raise InvalidError(
            "Without authentication the server listens on this machine only, and stands behind no proxy.",
            reason="open_to_all",
            hint="Leave out --no-auth, or use --host 127.0.0.1.",
        )
    if not (is_loopback(host) or has_tls or is_behind_proxy):
        raise InvalidError(
            "Beyond this machine tokens and memories would travel unencrypted.",
            reason="no_tls",
            hint="Give --tls-cert and --tls-key, or --behind-proxy if a proxy in front of the server speaks TLS.",
        )


def checked_address(url: str) -> str:
    """The address that others reach a host by, without a slash at its end: https, or http on this machine (OAP 5.1)."""
    scheme, _, rest = url.rstrip("/").partition("://")
    host = rest.partition("/")[0]
    name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    if url and scheme != "https" and not (scheme == "http" and is_loopback(name)):
        raise InvalidError(
            "Grants and tokens travel over TLS only: others reach this host by https.",
            reason="no_tls",
            hint="QUIPU_PUBLIC_URL is https://…; http only on this machine, to try things out.",
        )
    return url.rstrip("/")
