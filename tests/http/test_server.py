"""The life of a server: it binds, says where it is, drains, and ends; and what it does by itself meanwhile."""

import asyncio
import logging
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quipu.bootstrap import background_jobs, http_app, open_container
from quipu.config import Settings
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.http.jobs import Job, JobLog, Jobs, for_each_tenant
from quipu.http.server import address_of, bound_socket
from quipu.memory.operations import REMEMBER
from quipu.model.principal import local
from quipu.operation import dispatch
from tests.fixtures.memories import START, Clock
from tests.http.rig import until
from tests.http.served import PATIENCE_S, Served, served, wait_for

# -- where it listens -------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_named_before_anything_is_opened() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            BackendUnavailableError, match=f"Another program listens on 127.0.0.1:{port}"
        ) as told:
            bound_socket(Settings(port=port))
    assert told.value.reason == "address_in_use"
    assert "--port" in (told.value.hint or "")
    with pytest.raises(InvalidError, match="no address"):
        bound_socket(Settings(host="not-a-host.invalid"))


def test_who_comes_before_the_server_is_ready_waits_and_is_not_refused() -> None:
    with bound_socket(Settings(port=0)) as listening:
        early = socket.create_connection(listening.getsockname(), timeout=PATIENCE_S)
        early.close()


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("127.0.0.1", "http://127.0.0.1:"),
        ("localhost", "http://localhost:"),
        ("::1", "http://[::1]:"),
        ("0.0.0.0", "http://localhost:"),  # noqa: S104  told to people
    ],
)
def test_addresses_are_told_as_a_browser_takes_them(host: str, told: str) -> None:
    settings = Settings(host=host, port=0)
    with bound_socket(settings) as listening:
        assert address_of(settings, listening).startswith(told)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, good for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return chain, secret


def test_tls_is_spoken_where_there_is_a_certificate_and_nothing_older_than_1_3(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    with served(tls_cert=chain, tls_key=key) as at:
        assert at.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(chain))
        with at.client(verify=context) as client:
            answer = client.get("/rig/who")
        assert answer.status_code == 200
        assert answer.headers["strict-transport-security"].startswith("max-age=")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(httpx.ConnectError), at.client(verify=context) as client:
            client.get("/rig/who")


def test_a_proxy_is_believed_only_where_there_is_one() -> None:
    def guesses(at: Served, count: int) -> int:
        with at.client("guess") as client:
            answers = [
                client.get("/rig/who", headers={"X-Forwarded-For": f"198.51.100.{number}"})
                for number in range(count)
            ]
        return answers[-1].status_code

    with served() as at:
        assert guesses(at, 13) == 429, "all from here, whatever they say"
    with served(trusted_proxies=("127.0.0.1",)) as at:
        assert guesses(at, 13) == 401, "each from somewhere else"


# -- the end ----------------------------------------------------------------------------------------------------------


def refuses(at: Served) -> bool:
    """Whether new connections are no longer accepted."""
    try:
        at.connect().close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False


def test_what_is_at_work_is_finished_and_event_streams_end_when_the_server_stops() -> None:
    answers: list[httpx.Response] = []
    with served() as at:

        def ask() -> None:
            with at.client() as client:
                answers.append(client.post("/rig/wait", json={}))

        def follow() -> None:
            with at.client() as client, client.stream("GET", "/rig/events") as response:
                response.read()  # an end in the middle would raise
                answers.append(response)

        asking = [threading.Thread(target=ask), threading.Thread(target=follow)]
        for thread in asking:
            thread.start()
        wait_for(lambda: at.inside.rig.waiting == 2)
        at.running.stop()
        wait_for(lambda: refuses(at))
        asking[1].join(PATIENCE_S)
        assert [b"id: 3" in answer.content for answer in answers] == [True]
        assert at.inside.rig.ended == 1
        at.open_gate()
        asking[0].join(PATIENCE_S)
    assert answers[1].json()["type"] == "done"
    assert answers[1].headers["connection"] == "close"


# -- jobs -------------------------------------------------------------------------------------------------------------


async def test_each_job_is_done_again_and_again_and_what_breaks_breaks_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[str] = []
    pauses: list[float] = []
    ended = asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async def good() -> None:
        done.append("good")

    async def broken() -> None:
        done.append("broken")
        raise RuntimeError("its text is nobody's business")

    async def stuck() -> None:
        done.append("stuck")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def last() -> None:
        done.append("last")

    jobs = [
        Job(name="broken", every_s=1, work=broken),
        Job(name="stuck", every_s=2, work=stuck),
        Job(name="good", every_s=3, work=good),
        Job(name="never", every_s=0, work=broken),
        Job(name="last", every_s=0, work=last, is_last=True),
    ]
    async with Jobs(jobs, pause=pause):
        await until(lambda: done.count("good") > 5 and done.count("broken") > 5)
    assert ended.is_set()
    assert done.count("stuck") == 1
    assert done[-1] == "last"
    count = len(done)
    await asyncio.sleep(0)
    assert len(done) == count
    assert set(pauses) == {1, 2, 3}
    assert "The job broken failed: RuntimeError" in caplog.text
    assert "nobody's business" not in caplog.text


async def test_it_is_known_how_each_job_went_also_where_it_failed_for_one_tenant() -> None:
    log = JobLog(lambda: 7)

    async def tenants() -> list[str]:
        return ["good", "broken"]

    async def work(tenant: str) -> None:
        if tenant == "broken":
            raise InvalidError("Its text is nobody's business.", reason="bad_value")

    jobs = Jobs(
        [
            Job(name="each", every_s=1, work=for_each_tenant("each", tenants, work)),
            Job(name="good", every_s=1, work=tenants),
            Job(name="last", every_s=0, work=tenants, is_last=True),
        ],
        log,
        pause=lambda _: asyncio.sleep(0),
    )
    assert [(one.name, one.ended_at) for one in log.states.values()] == [("each", None), ("good", None)]
    async with jobs:
        await until(lambda: all(one.ended_at for one in log.states.values()))
    assert {one.name: one.failure for one in log.states.values()} == {
        "each": "bad_value",
        "good": None,
    }


async def test_a_tenant_that_is_slow_or_broken_keeps_no_other_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[str] = []
    free = asyncio.Event()

    async def tenants() -> list[str]:
        return ["slow", "broken", "good"]

    async def work(tenant: str) -> None:
        if tenant == "slow":
            await free.wait()
        if tenant == "broken":
            raise BackendUnavailableError(reason="disk_full")
        done.append(tenant)
        free.set()

    async with asyncio.timeout(PATIENCE_S):
        await for_each_tenant("sweep", tenants, work)()
    assert done == ["good", "slow"]
    assert "The job sweep failed: backend_unavailable disk_full" in caplog.text


async def test_a_server_sweeps_what_has_expired_in_every_tenant() -> None:
    clock = Clock()
    container = await open_container(Settings(), stores=[":memory:"], embedder="none", clock=clock)
    try:
        ids: dict[str, str] = {}
        for tenant in ("default", "acme"):
            ctx = container.context(local(tenant, agent_id="agent"))
            answer = await dispatch(ctx, REMEMBER, {"content": "x", "expires_at": START + 1})
            ids[tenant] = answer.id
        clock.now += 2
        (sweep,) = [job for job in background_jobs(container) if job.name == "sweep"]
        assert sweep.every_s == container.config.sweep_s
        await sweep.work()
        for tenant, name in ids.items():
            found = (await container.ledger.newest_versions(tenant, [name]))[name]
            assert found.died is not None, tenant
    finally:
        await container.close()


async def test_a_held_write_waits_for_the_person_who_decides() -> None:
    """The whole product behind one application: a write is held, somebody approves it, and its answer is what was done."""
    container = await open_container(Settings(), stores=[":memory:"], embedder="none")
    transport = httpx.ASGITransport(http_app(container, is_open=True))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            asked = asyncio.ensure_future(
                http.post(
                    "/v1/memories",
                    json={"content": "x", "agent_id": "a", "approval_required": True},
                    headers={"Prefer": "wait=20"},
                )
            )
            async with asyncio.timeout(PATIENCE_S):
                pending: list[Any] = []
                while not pending:
                    assert not asked.done(), asked.result().text
                    pending = (await http.get("/v1/proposals")).json()["reviews"]
            decided = await http.post(f"/v1/proposals/{pending[0]['id']}/decision", json={"approved": True})
            assert decided.status_code == 200, decided.text
            async with asyncio.timeout(PATIENCE_S):
                answer = await asked
        assert (answer.status_code, answer.json()["pending_approval"]) == (200, False)
        assert answer.headers["preference-applied"] == "wait=20"
        assert answer.json()["stores"] == ["sqlite"]
    finally:
        await container.close()


def test_a_server_ends_its_jobs_before_it_says_that_it_is_done(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with served() as at, at.client() as client:
        assert client.get("/readyz").json() == {"status": "ok"}
    assert not [record for record in caplog.records if record.name == "quipu.jobs"]
