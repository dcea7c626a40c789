"""`quipu serve` as a real process: the first token, refusals, signals, and what is left after a kill."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from quipu.errors import InvalidError
from quipu.faces.http.server import ServerOptions, address_of, bind, check_tls
from quipu.memory import Memory
from tests.faces.http.rig import SECRET, problem, store_in
from tests.faces.http.wires import wait_for
from tests.faces.serving import PATIENCE_S, Program

REMEMBER = "/memorywire/v0/remember"
EVERYWHERE = "0.0.0.0"  # noqa: S104  to see it refused, or guarded


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def run(store: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A serve that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "quipu", "serve", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
        env={
            "PATH": "",
            "HOME": str(store.parent),
            "QUIPU_STORE": f"sqlite://{store}",
            "QUIPU_EMBEDDER": "none",
        }
        | environment,
        check=False,
    )


def test_the_first_run_shows_one_token_once(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    with Program(store) as program:
        token = program.token
        answer = httpx.get(f"{program.url}/quipu/v1/me", headers=headers(token))
        assert answer.status_code == 200
        assert {"memory:admin", "server:operate"} <= set(answer.json()["permissions"])
        assert program.stop() == 0
        assert token not in program.log
        rest = program.process.stdout
        assert rest is not None
        assert rest.read() == b""
    with Program(store) as program:
        assert set(program.told) == {"address"}
        assert httpx.get(f"{program.url}/quipu/v1/me", headers=headers(token)).status_code == 200
        assert program.stop(signal.SIGINT) == 0
    assert token.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("memory.db*"))


def test_a_person_reads_where_to_go_and_how_to_make_more_tokens(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "quipu",
            "serve",
            "--port",
            "0",
            "--store-url",
            f"sqlite://{store_in(tmp_path)}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "", "HOME": str(tmp_path), "QUIPU_EMBEDDER": "none"},
    )
    try:
        assert process.stdout is not None
        said = ""
        while "quipu token create" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        _, noted = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait(PATIENCE_S)
    assert "Quipu listens on http://127.0.0.1:" in said
    assert said.count("qp_default_") == 1
    assert "Stopped." in noted
    assert "qp_default_" not in noted
    assert process.returncode == 0


def test_open_mode_makes_no_token_and_lets_everybody_on_this_machine_in(tmp_path: Path) -> None:
    with Program(store_in(tmp_path), "--no-auth") as program:
        assert set(program.told) == {"address"}
        assert httpx.get(f"{program.url}/quipu/v1/me").json()["name"] == "local"
        refused = httpx.get(f"{program.url}/quipu/v1/me", headers={"Host": "evil.example"})
        problem(refused, 403, "forbidden", "host")


@pytest.mark.parametrize(
    ("words", "reason", "hint"),
    [
        (["--host", EVERYWHERE], "no_tls", "--behind-proxy"),
        (["--host", "::"], "no_tls", "--tls-cert"),
        (["--host", "192.0.2.1"], "no_tls", "--tls-cert"),
        (["--host", EVERYWHERE, "--no-auth"], "open_to_all", "--no-auth"),
        (["--host", EVERYWHERE, "--no-auth", "--behind-proxy"], "open_to_all", "--no-auth"),
        (["--no-auth", "--behind-proxy"], "open_to_all", "--no-auth"),
        (["--tls-cert", "missing.pem"], "bad_certificate", "PEM"),
    ],
)
def test_what_is_not_safe_is_refused_with_what_would_be(
    tmp_path: Path, words: list[str], reason: str, hint: str
) -> None:
    done = run(store_in(tmp_path), "--port", "0", "--json", *words)
    assert done.returncode == 1
    told = json.loads(done.stderr)
    assert told["reason"] == reason
    assert hint in told["hint"]
    assert not store_in(tmp_path).exists()


def test_behind_a_proxy_a_public_address_is_fine(tmp_path: Path) -> None:
    with Program(
        store_in(tmp_path), "--host", EVERYWHERE, "--behind-proxy", "--allow-host", "memory.example"
    ) as program:
        url = program.url.replace("localhost", "127.0.0.1")
        given = headers(program.token)
        problem(httpx.get(f"{url}/quipu/v1/me", headers=given), 403, "forbidden", "host")
        let_in = httpx.get(f"{url}/quipu/v1/me", headers={**given, "Host": "memory.example"})
        assert let_in.status_code == 200
        assert "strict-transport-security" in let_in.headers


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = run(store_in(tmp_path), "--port", port)
    assert done.returncode == 2
    assert f"Another program listens on 127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr
    assert not store_in(tmp_path).exists()


def test_a_ledger_that_is_none_is_told_and_left_alone(tmp_path: Path) -> None:
    store_in(tmp_path).write_text("no database, whatever its name says", "utf-8")
    done = run(store_in(tmp_path), "--port", "0", "--json")
    assert done.returncode == 2
    assert json.loads(done.stderr.splitlines()[-1])["reason"] == "not_a_database"
    assert store_in(tmp_path).read_text("utf-8").startswith("no database")


def test_an_unknown_log_level_is_refused(tmp_path: Path) -> None:
    done = run(store_in(tmp_path), "--port", "0", "--json", QUIPU_LOG_LEVEL="loud")
    assert (done.returncode, json.loads(done.stderr)["reason"]) == (1, "bad_setting")


def test_a_limit_that_is_raised_in_vain_is_named(tmp_path: Path) -> None:
    with Program(store_in(tmp_path), QUIPU_LIMIT_TAGS="200", QUIPU_LIMIT_K="10") as program:
        assert program.stop() == 0
        told = [line for line in program.log.splitlines() if "QUIPU_LIMIT" in line]
    assert len(told) == 1
    assert "QUIPU_LIMIT_TAGS is raised for this process only" in told[0]


def test_addresses_are_told_as_a_browser_takes_them() -> None:
    for host, told in (
        ("127.0.0.1", "http://127.0.0.1:"),
        ("localhost", "http://localhost:"),
        ("::1", "http://[::1]:"),
    ):
        options = ServerOptions(host=host, port=0)
        with bind(options) as listening:
            assert address_of(options, listening).startswith(told)
    with pytest.raises(InvalidError, match="no address"):
        bind(ServerOptions(host="not-a-host.invalid"))
    check_tls(ServerOptions())


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, good for a day."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

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


def test_tls_is_spoken_where_a_certificate_is_given(tmp_path: Path) -> None:
    import ssl

    chain, key = certificate(tmp_path)
    with Program(store_in(tmp_path), "--tls-cert", str(chain), "--tls-key", str(key)) as program:
        assert program.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(chain))
        with httpx.Client(base_url=program.url, headers=headers(program.token), verify=context) as client:
            answer = client.get("/quipu/v1/me")
        assert answer.status_code == 200
        assert "strict-transport-security" in answer.headers
        assert program.stop() == 0


# -- signals --------------------------------------------------------------------------------------------------------


class Writers:
    """Agents that write as fast as they can and keep what was acknowledged."""

    def __init__(self, url: str, token: str, count: int = 4) -> None:
        self.acknowledged: list[tuple[str, str]] = []
        self.refused: list[int] = []
        self._url, self._token = url, token
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _write(self, number: int) -> None:
        with httpx.Client(base_url=self._url, headers=headers(self._token), timeout=PATIENCE_S) as client:
            for turn in range(100_000):
                text = f"writer {number} says {turn} {SECRET}"
                try:
                    answer = client.post(
                        REMEMBER, json={"agent_id": "a", "type": "semantic", "content": text}
                    )
                except httpx.HTTPError:  # the server is gone
                    return
                if answer.status_code == 200:
                    self.acknowledged.append((answer.json()["id"], text))
                else:
                    self.refused.append(answer.status_code)
                    return

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def kept(store: Path) -> tuple[dict[str, str], bool, int, int]:
    """What is in the memory: texts by id; whether the chain holds; its length, and how much of it is signed."""

    async def look() -> tuple[dict[str, str], bool, int, int]:
        async with Memory(agent_id="a", stores=f"sqlite://{store}", embedder="none") as memory:
            found = await memory.verify()
            texts = {record["id"]: str(record["content"]) async for record in memory.export()}
            signed = 0 if found.last_checkpoint is None else found.last_checkpoint.seq
            return {str(name): text for name, text in texts.items()}, found.holds, found.head_seq, signed

    return asyncio.run(look())


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda how: how.name)
def test_a_stop_in_the_middle_of_writes_loses_nothing_that_was_acknowledged(
    tmp_path: Path, how: signal.Signals
) -> None:
    store = store_in(tmp_path)
    with Program(store) as program:
        writers = Writers(program.url, program.token)
        wait_for(lambda: len(writers.acknowledged) >= 50)
        assert program.stop(how) == 0
        writers.join()
        assert SECRET not in program.log
        assert program.token not in program.log
    texts, holds, head, signed = kept(store)
    assert holds
    assert {name: texts.get(name) for name, _ in writers.acknowledged} == dict(writers.acknowledged)
    assert signed == head, "the last act of a server is to sign"


@pytest.mark.slow
def test_a_killed_server_has_lost_nothing_that_was_acknowledged_and_starts_again(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    with Program(store) as program:
        token = program.token
        writers = Writers(program.url, token)
        wait_for(lambda: len(writers.acknowledged) >= 50)
        assert program.stop(signal.SIGKILL) == -signal.SIGKILL
        writers.join()
    with Program(store) as program:
        answer = httpx.post(
            f"{program.url}/memorywire/v0/recall",
            headers=headers(token),
            json={"agent_id": "a", "query": writers.acknowledged[0][1]},
        )
        assert answer.status_code == 200
        assert program.stop() == 0
    texts, holds, _, _ = kept(store)
    assert holds
    assert {name: texts.get(name) for name, _ in writers.acknowledged} == dict(writers.acknowledged)


def test_a_second_interrupt_does_not_wait_for_those_at_work(tmp_path: Path) -> None:
    with Program(store_in(tmp_path), QUIPU_SHUTDOWN_DELAY_S="60") as program:
        ready = f"{program.url}/readyz"
        program.process.send_signal(signal.SIGINT)
        wait_for(lambda: httpx.get(ready).status_code == 503)
        assert program.stop(signal.SIGINT) == 0


def test_a_terminal_that_is_shut_does_not_end_a_server_that_was_told_to_go_on(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    try:
        program = Program(store_in(tmp_path))
    finally:
        signal.signal(signal.SIGHUP, before)
    with program:
        program.process.send_signal(signal.SIGHUP)
        program.process.send_signal(signal.SIGHUP)
        assert httpx.get(f"{program.url}/readyz").status_code == 200
        assert program.stop() == 0
