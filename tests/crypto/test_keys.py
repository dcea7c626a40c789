"""Keys: made once, kept for their owner alone, and the only ones that their signatures verify with."""

import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from quipu.crypto.jose import JsonWebSignatures
from quipu.crypto.kept import KeptSigner
from quipu.crypto.keys import Ed25519Signer, key_id, verify
from quipu.errors import BackendUnavailableError, UnverifiableError
from quipu.rules.receipts import b64

SIGNER = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(32)))
KEYS = {SIGNER.key_id: SIGNER.public_key}
MESSAGE = b'{"seq":1}'
SIGNATURE = SIGNER.sign(MESSAGE)


def kept(path: Path) -> KeptSigner:
    """A signer whose key is there."""
    signer = KeptSigner(path)
    assert signer.key_id
    return signer


def test_looking_at_the_known_keys_makes_no_key(tmp_path: Path) -> None:
    path = tmp_path / "memory.db.key"
    assert KeptSigner(path).known_keys == {}
    assert not path.exists()
    signer = kept(path)
    assert KeptSigner(path).known_keys == {signer.key_id: signer.public_key}


def test_a_signature_verifies_with_its_key_and_message() -> None:
    assert verify(MESSAGE, SIGNER.key_id, SIGNATURE, KEYS)
    assert not verify(MESSAGE + b" ", SIGNER.key_id, SIGNATURE, KEYS)


@given(st.integers(0, len(SIGNATURE) - 1), st.characters())
def test_a_signature_changed_anywhere_is_wrong(place: int, letter: str) -> None:
    changed = SIGNATURE[:place] + letter + SIGNATURE[place + 1 :]
    assert verify(MESSAGE, SIGNER.key_id, changed, KEYS) == (changed == SIGNATURE)


@given(st.text(max_size=100))
def test_no_text_is_a_signature(text: str) -> None:
    assert not verify(MESSAGE, SIGNER.key_id, text, KEYS)


def test_the_key_of_another_is_wrong_under_either_name() -> None:
    other = Ed25519Signer.fresh()
    keys = {**KEYS, other.key_id: other.public_key}
    assert not verify(MESSAGE, other.key_id, SIGNATURE, keys)
    assert not verify(MESSAGE, SIGNER.key_id, other.sign(MESSAGE), keys)
    planted = {SIGNER.key_id: other.public_key}
    assert not verify(MESSAGE, SIGNER.key_id, other.sign(MESSAGE), planted)


def test_without_the_key_nothing_can_be_said() -> None:
    with pytest.raises(UnverifiableError) as refused:
        verify(MESSAGE, "0" * 16, SIGNATURE, KEYS)
    assert refused.value.reason == "missing_key"


@pytest.mark.parametrize("public", ["", "A", "*", "é", "AAAA", SIGNER.public_key + "A"])
def test_a_damaged_public_key_verifies_nothing(public: str) -> None:
    assert not verify(MESSAGE, SIGNER.key_id, SIGNATURE, {SIGNER.key_id: public})


def test_a_key_is_made_once_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "memory.db.key"
    first = kept(path)
    again = kept(path)
    assert (first.key_id, first.public_key) == (again.key_id, again.public_key)
    assert verify(MESSAGE, first.key_id, again.sign(MESSAGE), {first.key_id: first.public_key})
    assert first.key_id == key_id(first.public_key)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_asking_for_known_keys_makes_none(tmp_path: Path) -> None:
    signer = KeptSigner(tmp_path / "memory.db.key")
    assert signer.known_keys == {}
    assert list(tmp_path.iterdir()) == []
    signature = signer.sign(MESSAGE)
    assert signer.known_keys == {signer.key_id: signer.public_key}
    assert verify(MESSAGE, signer.key_id, signature, KeptSigner(tmp_path / "memory.db.key").known_keys)


def test_only_its_owner_may_read_a_key(tmp_path: Path) -> None:
    path = tmp_path / "memory.db.key"
    kept(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_threads_that_start_at_once_end_up_with_one_key(tmp_path: Path) -> None:
    for attempt in range(20):
        path = tmp_path / f"{attempt}.key"
        together = threading.Barrier(8)

        def start(path: Path = path, together: threading.Barrier = together) -> str:
            together.wait(60)
            return kept(path).key_id

        with ThreadPoolExecutor(8) as pool:
            names = {call.result() for call in [pool.submit(start) for _ in range(8)]}
        assert names == {kept(path).key_id}
    assert len(list(tmp_path.iterdir())) == 20


MAKE = """
import sys
from pathlib import Path
from quipu.crypto.jose import JsonWebSignatures
from quipu.crypto.kept import KeptSigner
from quipu.crypto.keys import Ed25519Signer
print("ready", flush=True)
sys.stdin.readline()
print(KeptSigner(Path(sys.argv[1])).key_id)
"""


def test_processes_that_start_at_once_end_up_with_one_key(tmp_path: Path) -> None:
    path = tmp_path / "memory.db.key"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", MAKE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    names = {process.communicate("\n", timeout=60)[0] for process in started}
    assert names == {kept(path).key_id + "\n"}
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def other_kind() -> bytes:
    key = generate_private_key(SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", other_kind()], ids=["empty", "nonsense", "another kind"]
)
def test_a_file_that_holds_no_such_key_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "memory.db.key"
    path.write_bytes(content)
    with pytest.raises(BackendUnavailableError) as refused:
        kept(path)
    assert refused.value.reason == "bad_key"
    assert path.read_bytes() == content


def test_a_key_that_cannot_be_kept_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailableError) as refused:
        kept(tmp_path / "missing" / "memory.db.key")
    assert refused.value.reason == "bad_key"
    assert list(tmp_path.iterdir()) == []


#: The point that adds nothing, one of order two, and the first once more with a sign that it has not.
WEAK = [
    "01" + "00" * 31,
    "ec" + "ff" * 30 + "7f",
    "01" + "00" * 30 + "80",
    "ee" + "ff" * 30 + "7f",
    "00" * 32,
]


@pytest.mark.parametrize("point", WEAK)
def test_a_key_that_fits_every_text_verifies_nothing(point: str) -> None:
    raw = bytes.fromhex(point)
    public, neutral = b64(raw), bytes.fromhex("01" + "00" * 31)
    for start in (neutral, raw):
        signature = b64(start + bytes(32))
        for number in range(16):
            message = f"whatever {number}".encode()
            assert not verify(message, key_id(public), signature, {key_id(public): public})
            assert not JsonWebSignatures().verify(
                message, signature, {"kty": "OKP", "crv": "Ed25519", "x": public}
            )
