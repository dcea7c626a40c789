"""Secrets by their shape: every row of the table finds its own and leaves its look-alikes."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quipu.rules.detectors import LABELS, Detectors
from quipu.rules.marking import Marker, Piece, Redacted
from quipu.rules.secret_shapes import SHAPES
from quipu.rules.shapes import LONG, Shape
from quipu.testing.strategies import texts
from tests.corpora.noise import ALNUM, BASE64, HEX, drawn
from tests.corpora.secrets import DISGUISES, Kind, kinds, pem

DETECTORS = Detectors()
KINDS = kinds()
TOKEN = next(kind.secret for kind in KINDS if kind.label == "github_token")
HEX32, PRIVATE = "0123456789abcdef" * 2, "PRIVATE KEY"
JWT_LIKE = f"eyJ{'x' * 20}.{'y' * 20}.{'z' * 20}"

#: For every row that is not a prefix and a tail: what looks like it and is no secret. In the order of the table.
NEGATIVES: dict[str, tuple[str, ...]] = {
    "quipu_token": (
        f"qp_acme_{drawn('q', 42)}",
        f"qp_Acme_{drawn('q', 43)}",
        f"qp_{'x' * 64}_{drawn('q', 43)}",
    ),
    "private_key": (
        f"-----BEGIN {PRIVATE}----- ... -----END {PRIVATE}-----",
        f"It begins with -----BEGIN {PRIVATE}-----, then base64.",
        "-----BEGIN PUBLIC KEY-----\n" + drawn("public", 64, BASE64) + "\n-----END PUBLIC KEY-----",
        "---- BEGIN SSH2 PUBLIC KEY ----\n" + drawn("public", 64, BASE64),
        "PuTTY-User-Key-File-2: ssh-rsa is how it begins",
        f"---- BEGIN SSH2 ENCRYPTED {PRIVATE} ---- is how another begins",
    ),
    "jwk_private_key": ('{"kty":"EC","x":"' + drawn("x", 43) + '"}', '{"kty":"EC","d":"..."}'),
    "aws_access_key_id": (
        "AKIAIOSFODNN7" + "EXAMPLE",
        "AKIA" + "A" * 16,
        f"xAKIA{drawn('k', 16, 'ABCDEFGH234567')}",
    ),
    "aws_secret_access_key": (
        f"aws_secret_access_key = {drawn('s', 39, BASE64)}",
        f"aws secret commit is {drawn('sha', 40, 'x')}",
        f"AKIA and the commit {drawn('sha', 40, HEX)}",
    ),
    "azure_storage_key": (f"AccountKey={drawn('a', 60)}", f"azure storage key: {drawn('a', 60)}"),
    "azure_shared_key": ("SharedAccessKey=<key>", f"SharedAccessKeyName={drawn('n', 43)}"),
    "azure_sas": ("https://example.com/?sig=none", f"sig={drawn('s', 43)}"),
    "azure_client_secret": ("abc8Q~short", "the 3Q~ sign"),
    "heroku_key": ("the heroku app 12345678-1234-1234-1234-123456789abc", "HEROKU_API_KEY=none"),
    "cloudflare_key": ("cloudflare api key: see the vault", "CLOUDFLARE_API_TOKEN=" + "x" * 40),
    "npm_token": ("_authToken=${NPM_TOKEN}", "_authToken is a setting"),
    "docker_config_auth": ('{"auths":{"example.com":{}}}', '{"auths":{"x":{"auth":"bm90aGluZw=="}}}'),
    "vault_token": (f"s.{drawn('v', 24)} alone", "vault s.thisisnotatokenatallnooo"),
    "terraform_token": ("x.atlasv1.y", f"{drawn('t', 14)}.atlasv2.{drawn('t', 67)}"),
    "sentry_dsn": (
        f"https://{HEX32}@sentry.example/3",
        f"https://{HEX32}:short@x".replace("short", "$SECRET"),
    ),
    "newrelic_key": (f"{HEX32}NRAL", "NRAL"),
    "datadog_key": ("DD_API_KEY=none", f"datadog dashboard {HEX32}"),
    "slack_webhook": ("https://hooks.slack.com/services/...", "hooks.slack.com"),
    "discord_webhook": ("https://discord.com/api/webhooks/1234", "/api/webhooks/"),
    "telegram_token": (f"12345678:AB{drawn('tg', 33)}", f"1234:AA{drawn('tg', 33)}"),
    "twilio_key": (f"twilio sid AC{HEX32}", f"the md5 is {HEX32}"),
    "mailgun_key": (f"cache_key-{HEX32}", f"{HEX32}-01234567-01234567", "mailgun key-value"),
    "mailchimp_key": (f"{HEX32}-usage", "en-us"),
    "jwt": (JWT_LIKE, "eyJ is how a JWT begins", f"eyJ{drawn('j', 30)}.only"),
    "authorization": (
        "Authorization: Bearer <token>",
        "Authorization: Basic bm90aGluZw==",
        "Authorization: required for everything",
        "the bearer of authentication-and-authorization",
    ),
    "url_password": (
        "https://example.com:8080/@scope",
        "postgres://user:password@host",
        "http://a:${PASS}@b",
    ),
    "password": (
        "password=changeme",
        "password: required",
        "password = get_password()",
        "The password is base64-encoded.",
        "curl -u ana https://example.com",
        "machine learning login password",
        "<password>hidden</password>",
        "--password-file /etc/x2",
        "the password was changed on 2024-05-01",
    ),
    "secret": (
        "api_key=your-key-here-123",
        "client_secret: str",
        "token_count: 128000",
        "next_page_token: CAUQAA12345",
        "next_token: CAUQAA12345",
        "continuation-token: CAUQAA12345",
        "pageToken: CAUQAA12345",
        "<secret>********</secret>",
        "--auth-token $TOKEN",
        "the api key is in the vault",
        "secret = settings.DJANGO_SECRET_V2",
    ),
}


def shape_name(shape: Shape) -> str:
    return f"{shape.name}: {' '.join(shape.keywords)}"[:60]


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_every_row_finds_a_secret_of_its_class(shape: Shape) -> None:
    alone = Detectors(shapes=[shape])
    found = [kind for kind in KINDS if kind.label == shape.name and alone(kind.told).found]
    assert found
    for kind in found:
        assert kind.secret not in alone(kind.told).text


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_every_row_leaves_what_only_looks_like_it(shape: Shape) -> None:
    alone = Detectors(shapes=[shape])
    texts = NEGATIVES.get(shape.name, ())
    if shape.begins and shape.is_cased:
        texts += tuple(f"{word}{tail}" for word in shape.keywords for tail in ("x" * 64, "", "...", "short"))
    assert texts
    assert [text for text in texts if alone(text).found] == []


def test_every_class_with_words_around_it_has_its_look_alikes() -> None:
    assert set(NEGATIVES) >= {shape.name for shape in SHAPES if not (shape.begins and shape.is_cased)}
    assert set(NEGATIVES) <= LABELS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
def test_a_secret_is_named_by_its_class(kind: Kind) -> None:
    result = DETECTORS(f"Please note: {kind.told} (until May)")
    assert kind.label in result.found
    assert kind.secret not in result.text
    assert f"<REDACTED:{kind.label}>" in result.text
    assert result.text.startswith("Please note: ")
    assert result.text.endswith(" (until May)")
    assert DETECTORS(result.text) == Redacted(result.text)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.is_prefixed], ids=lambda kind: kind.label)
def test_a_row_is_skipped_only_where_it_cannot_match(kind: Kind) -> None:
    assert max(map(len, kind.secret.split())) >= LONG


# -- encodings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disguise", DISGUISES)
def test_an_encoded_secret_is_found(disguise: str) -> None:
    carried = DISGUISES[disguise](TOKEN)
    result = DETECTORS(f"see {carried} there")
    assert "github_token" in result.found
    assert TOKEN not in result.text
    if disguise not in ("plain", "JSON in JSON", "wrapped base64"):
        assert result.text.strip() == "see <REDACTED:github_token> there"


def test_of_a_long_row_of_secrets_without_a_gap_nothing_is_left() -> None:
    """Each is told from a word by what stands before it, so it is uncovered when that was replaced."""
    row = [f"hf_{drawn(f'row {number}', 40)}" for number in range(30)]
    clean = DETECTORS(f"keys: {''.join(row)} and more")
    assert not [secret for secret in row if secret[-30:] in clean.text]
    assert (clean.text[:6], clean.text[-9:]) == ("keys: ", " and more")
    assert DETECTORS(clean.text) == Redacted(clean.text)


def test_a_name_may_stand_before_base64_without_a_gap() -> None:
    encoded = base64.urlsafe_b64encode(f"token {TOKEN}".encode()).decode().rstrip("=")
    for name in ("k_", "key_", "my-key_", "a_b_c_d_"):
        assert DETECTORS(f"{name}{encoded}").found == ("github_token",)


def test_utf_16_in_base64_is_read() -> None:
    encoded = base64.b64encode(f"$t = '{TOKEN}'".encode("utf-16-le")).decode()
    assert DETECTORS(f"powershell -enc {encoded}").found == ("github_token",)


def test_bytes_that_are_no_text_are_left_alone() -> None:
    wall = drawn("noise", 400, BASE64)
    assert DETECTORS(f"data:image/png;base64,{wall}") == Redacted(f"data:image/png;base64,{wall}")
    digest = drawn("digest", 64, HEX)
    assert DETECTORS(digest).found == ()


def test_a_key_of_another_case_and_length_is_still_at_its_place() -> None:
    """`İ` is two characters in lower case: what comes after it must not move."""
    result = DETECTORS(f"İİİ PASSWORD={drawn('p', 12)}!7 İ")
    assert result == Redacted("İİİ PASSWORD=<REDACTED:password> İ", ("password",))


@pytest.mark.parametrize("line_break", ["\n", "\\n", "\r\n", " "])
def test_a_private_key_is_found_however_its_lines_end(line_break: str) -> None:
    block = pem(f"RSA {PRIVATE}", "lines", line_break)
    assert DETECTORS(f'{{"key": "{block}", "x": 1}}').text == '{"key": "<REDACTED:private_key>' + (
        f'{line_break}", "x": 1}}'
    )


# -- keys, pieces, markers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "clean"),
    [
        ("password", "BlueOcean42!", "<REDACTED:password>"),
        ("db_password", "blue, ocean", "blue, ocean"),
        ("DB-PASSWORD", "blue(42),ocean!", "<REDACTED:password>"),
        ("api_key", drawn("api", 20), "<REDACTED:secret>"),
        ("Authorization", f"Bearer {drawn('b', 30)}", "Bearer <REDACTED:authorization>"),
        ("password", "Xk39!dkq is what she said", "<REDACTED:password> is what she said"),
        ("password", "required", "required"),
        ("password", "ab<c3D!9", "<REDACTED:password>"),
        ("colour", drawn("api", 20), drawn("api", 20)),
        ("password", "<REDACTED:password>", "<REDACTED:password>"),
        ("password", "pa<REDACTED:db>42!", "pa<REDACTED:db>42!"),
        ("token", "[REDACTED:k2]", "[REDACTED:k2]"),
        (f"token {TOKEN}", "a name", "a name"),
    ],
)
def test_a_key_tells_what_its_value_is(key: str, text: str, clean: str) -> None:
    once = DETECTORS.named(key, text)
    assert once.text == clean
    assert bool(once.found) == (clean != text)
    assert DETECTORS.named(key, clean) == Redacted(clean)


def test_a_secret_with_a_prefix_is_found_in_pieces() -> None:
    first, second = TOKEN[:20], TOKEN[20:]
    assert DETECTORS.across(["see " + first, second + " there"]) == [
        Piece(0, 4, 24, "github_token"),
        Piece(1, 0, 20, "github_token"),
    ]
    assert [piece.place for piece in DETECTORS.across(["a", first, second[:10], second[10:], "b"])] == [
        1,
        2,
        3,
    ]


@pytest.mark.parametrize(
    "parts",
    [
        ["ghp_", "and", "other", "prefixes"],
        [TOKEN, "production"],
        ["ta" + "sk-", drawn("not a key", 40)],
        [TOKEN[:20], "words and " + TOKEN[20:]],
        ["ghp_" + " " * 3_000, TOKEN[4:]],
        ["ghp_" + "x" * 3_000, TOKEN[4:]],
        [TOKEN[:20]],
        ["short", "words"],
    ],
)
def test_what_does_not_go_on_is_not_in_pieces(parts: list[str]) -> None:
    assert DETECTORS.across(parts) == []


def test_a_word_after_a_long_token_is_not_its_rest() -> None:
    token = f"glpat-{drawn('g', 24)}"
    assert DETECTORS.across([token, "production"]) == []
    assert [piece.place for piece in DETECTORS.across([token[:16], token[16:], "production"])] == [0, 1]


@pytest.mark.parametrize("template", ["<REDACTED:{label}>", "[REDACTED:{label}]", "***{label}***"])
@pytest.mark.parametrize(
    "around", ["password={}", "postgres://app:{}@db", "Authorization: Bearer {}", "token is {}"]
)
def test_a_marker_is_never_matched(template: str, around: str) -> None:
    marker = Marker(template)
    detectors = Detectors(marker)
    for label in ("github_token", "registered-label-2", "carry-forward"):
        text = around.format(marker.of(label))
        assert detectors(text) == Redacted(text)


def test_a_token_of_ours_is_found_in_the_middle_of_a_word_too() -> None:
    token = f"qp_acme_{drawn('ours', 43)}"
    assert DETECTORS(f"key_{token}") == Redacted("key_<REDACTED:quipu_token>", ("quipu_token",))
    assert DETECTORS(f"x{token}").found == ("quipu_token",)


def test_no_secret_hides_in_a_marker() -> None:
    assert TOKEN not in DETECTORS(f"<REDACTED:{TOKEN}>").text


# -- properties -----------------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(
    st.sampled_from([kind for kind in KINDS if kind.is_prefixed]),
    st.sampled_from(sorted(set(DISGUISES) - {"wrapped base64"})),
    texts(max_size=20),
    texts(max_size=20),
)
def test_no_secret_leaks_in_any_disguise(kind: Kind, disguise: str, before: str, after: str) -> None:
    result = DETECTORS(f"{before} {DISGUISES[disguise](kind.secret)} {after}")
    assert result.found
    assert kind.secret not in result.text
    assert DETECTORS(result.text).text == result.text


@settings(max_examples=300)
@given(texts(max_size=300))
def test_a_text_without_secrets_comes_back_as_it_was(text: str) -> None:
    result = DETECTORS(text)
    assert result.text is text or result.found


@given(
    st.lists(
        st.sampled_from([*(kind.told for kind in KINDS), " ", "\n", "password=", "<REDACTED:x>", "a"]),
        max_size=5,
    )
)
def test_redacting_twice_changes_nothing(parts: list[str]) -> None:
    once = DETECTORS("".join(parts))
    assert DETECTORS(once.text) == Redacted(once.text)


ADVERSARIES: dict[str, Callable[[], str]] = {
    "one letter": lambda: "a" * 1_000_000,
    "the beginning of a JWT": lambda: "eyJ" * 333_333,
    "parts of a JWT": lambda: "eyJaaaaaaaaaaaaa." * 60_000,
    "the beginning of a key": lambda: "-----BEGIN " * 50_000,
    "the first line of a key": lambda: f"-----BEGIN {PRIVATE}-----" * 37_000,
    "an open key": lambda: f"-----BEGIN {PRIVATE}-----" + "A" * 1_000_000,
    "SSH2": lambda: f"---- BEGIN SSH2 {PRIVATE} ----" * 30_000,
    "PuTTY": lambda: "PuTTY-User-Key-File-" * 50_000,
    "base64": lambda: drawn("wall", 1_000_000, BASE64),
    "wrapped base64": lambda: base64.encodebytes(drawn("wall", 700_000).encode()).decode(),
    "base64 of words": lambda: base64.b64encode(b"the secret: token = " * 35_000).decode(),
    "hex": lambda: drawn("wall", 1_000_000, HEX),
    "assignments": lambda: "password=" * 111_111,
    "words before": lambda: "api key for " * 83_333,
    "URLs": lambda: "://a:" * 200_000,
    "dashes": lambda: "--" * 500_000,
    "flags": lambda: "--token " * 125_000,
    "curl": lambda: "curl " * 200_000,
    "netrc": lambda: "machine a login b " * 55_000,
    "percent signs": lambda: "%41" * 333_333,
    "prefixes": lambda: "ghp_" * 250_000,
    "just too short": lambda: ("A" * 23 + " ") * 41_000,
    "capitals": lambda: "secret=" + "Aa" * 500_000,
}


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_megabyte_of_anything_is_done_soon(adversary: str) -> None:
    text = ADVERSARIES[adversary]()
    result = DETECTORS(text)
    assert len(result.text) <= len(text)
    DETECTORS.across([text, text])
    DETECTORS.named("password", text)


def test_letters_without_order_are_still_told_from_words() -> None:
    """A secret may happen to have no digit."""
    secret = "".join(char for char in drawn("letters", 80, ALNUM) if char.isalpha())[:40]
    assert DETECTORS(f"api_key={secret}").found == ("secret",)
    assert DETECTORS("api_key=getTheApiKeyOfThisService").found == ()


@pytest.mark.parametrize(
    "shape", [shape for shape in SHAPES if shape.begins and shape.is_cased], ids=lambda shape: shape.name
)
def test_a_secret_that_begins_with_its_prefix_is_one_long_word(shape: Shape) -> None:
    """Such secrets are only looked for in long words, and where a text ends in one."""
    assert shape.is_long
    assert not any(space in shape.pattern.pattern for space in (r"\s", " ", r"\n", r"\W", r"[^"))
