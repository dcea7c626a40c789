"""What tells a secret from a word, a name and a placeholder."""

import base64

from quipu.secrets import randomness
from tests.secrets.noise import ALNUM, HEX, LOWER, UPPER, drawn

WORDY = """getUserToken2 settings.API_KEY /run/secrets/db_password 2024-05-01T10:15:30Z PKCS7KeyTypes v2 base64-encoded
SHA256-hashed AWS4-HMAC-SHA256 b64encode correct-horse-battery getIdOfUser""".split()  # noqa: SIM905  words read better as a text
PLACEHOLDERS = [
    "password",
    "YOUR_KEY",
    "example-1234",
    "xxxxxxxx1",
    "<your key>",
    "${KEY}",
    "$KEY",
    "{{ key }}",
    "sk-...",
    "****",
    "change-me-now1",
    "os.environ",
    "wJalrXUtnFEMIEXAMPLEKEY",
    "aaab",
    "%(key)s",
    "%KEY%",
    "[key]",
    "goes-here1",
]


def test_what_can_be_read_aloud_is_no_secret() -> None:
    assert [text for text in WORDY if not randomness.is_wordy(text)] == []
    assert [text for text in WORDY if randomness.is_mixed(text) or randomness.is_stated_secret(text)] == []


def test_letters_that_nobody_can_say_are_not_wordy() -> None:
    assert randomness.is_wordy("heliotropes42")
    assert not randomness.is_wordy("hlvtrkpqzes42")


def test_noise_is_not_wordy() -> None:
    for alphabet in (ALNUM, HEX, LOWER, UPPER):
        for number in range(200):
            text = drawn(f"noise {number}", 32, alphabet)
            assert randomness.is_mixed(text), text
            assert randomness.is_assigned_secret(text), text
            assert not randomness.is_placeholder(text), text


def test_a_placeholder_is_no_secret() -> None:
    assert [text for text in PLACEHOLDERS if not randomness.is_placeholder(text)] == []
    assert [text for text in PLACEHOLDERS if randomness.is_assigned_secret(text)] == []
    assert [text for text in PLACEHOLDERS if randomness.is_url_password(text)] == []


def test_a_password_may_be_a_number_and_a_secret_may_not() -> None:
    assert randomness.is_assigned_password("20240501")
    assert not randomness.is_assigned_password("11111111")
    assert not randomness.is_assigned_secret("20240501")


def test_a_sentence_that_goes_on_is_no_secret() -> None:
    assert randomness.is_stated_secret("BlueOcean42!")
    assert not randomness.is_stated_secret("blueocean4711")
    assert randomness.is_stated_secret("blueocean4711wide")
    assert not randomness.is_stated_secret("well-known!")


def test_entropy_grows_with_variety() -> None:
    assert randomness.entropy("aaaa") == 0
    assert randomness.entropy("abcd") == 2
    assert randomness.is_varied("abcdefgh")
    assert not randomness.is_varied("abcdefg" * 9)


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def test_a_jwt_names_its_algorithm() -> None:
    header = '{"alg":"HS256"}'
    assert randomness.has_jwt_header(f"{encoded(header)}.body.signature")
    for header in ('{"typ":"JWT"}', "3", "no json", "[" * 99_999):
        assert not randomness.has_jwt_header(f"{encoded(header)}.body.signature")


def test_basic_credentials_have_a_name_and_a_password() -> None:
    def is_one(text: str) -> bool:
        return randomness.is_name_and_password(base64.b64encode(text.encode()).decode())

    assert is_one("ana:secret")
    assert not any(map(is_one, ("ana", "ana:x", "\n:secret", "é:secret")))
    assert not randomness.is_name_and_password("abcde")  # no whole number of bytes


def test_the_number_of_a_bot_is_recognised() -> None:
    assert randomness.has_numeric_id(f"{encoded('812345678901234567')}.x.y")
    assert not randomness.has_numeric_id(f"{encoded('no number')}.x.y")
    assert not randomness.has_numeric_id("abcde.x.y")
