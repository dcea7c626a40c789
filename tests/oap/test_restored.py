"""An older ledger put in the place of a newer one: what was taken back meanwhile stays so (contract S7)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.errors import UnauthenticatedError
from tests.faces.serving import served
from tests.oap.hosts import OWNER, Host, free_port
from tests.requirement import requirement


@contextlib.contextmanager
def running(folder: Path, ports: tuple[int, int]) -> Iterator[tuple[Host, Host]]:
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    allowed: dict[str, Any] = {"oap_allowed_hosts": ",".join(urls)}
    with (
        served(folder / "a.db", port=ports[0], public_url=urls[0], **allowed) as a,
        served(folder / "b.db", port=ports[1], public_url=urls[1], **allowed) as b,
    ):
        yield Host(a), Host(b)


@requirement("oap:revocation.next-request")
@pytest.mark.parametrize("ends", ["one by one", "all at once"])
def test_a_grant_that_was_revoked_since_the_backup_stays_revoked(tmp_path: Path, ends: str) -> None:
    ports = free_port(), free_port()
    with running(tmp_path, ports) as (a, b):
        a.remember("Anything.", tags=("website_redesign",))
        kept, ended = (a.grant(b.owner, trust_level=4) for _ in range(2))
        assert b.ask(a, ended).items
        a.at.do(a.parts.ledger.backup(tmp_path / "backup.db"))
        later = a.grant(b.owner, trust_level=4)
        body = a.at.do(a.sharing.grants.get(OWNER, later)).body
        if ends == "one by one":
            for name in (ended, later):
                a.at.do(a.sharing.grants.revoke(OWNER, name))
        else:
            a.at.do(a.sharing.grants.kill(OWNER))
    for name in ("a.db", "a.db-wal", "a.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "backup.db").rename(tmp_path / "a.db")
    with running(tmp_path, ports) as (a, b):
        with pytest.raises(UnauthenticatedError) as refused:
            b.ask(a, ended)
        assert refused.value.reason == "grant_revoked"
        assert httpx.post(f"{a.url}/oap/memory/grant", json=body).json()["output"]["status"] == "revoked"
        standing = {one.id: one.status.value for one in a.at.do(a.sharing.grants.list(OWNER))}
        is_kept = ends == "one by one"
        assert standing == {kept: "active" if is_kept else "revoked", ended: "revoked", later: "revoked"}
        if is_kept:
            assert b.ask(a, kept).items, "the others go on"
        assert a.at.do(a.sharing.grants.verify(OWNER)) == []
