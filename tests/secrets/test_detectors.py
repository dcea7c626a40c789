"""Secrets by their shape: every row of the table finds its own and leaves its look-alikes."""

import base64
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.secrets.detectors import LABELS, Detectors
from quipu.secrets.marker import Marker, Piece
from quipu.secrets.redaction import Guard
from quipu.secrets.shapes import SHAPES, Shape
from tests.secrets.corpus import DISGUISES, Kind, kinds, pem
from tests.secrets.noise import ALNUM, BASE64, HEX, drawn

GUARD = Guard()
DETECTORS = GUARD.detectors
KINDS = kinds()
TOKEN = next(kind.secret for kind in KINDS if kind.label == "github_token")
HEX32, PRIVATE = "0123456789abcdef" * 2, "PRIVATE KEY"
JWT_LIKE = f"eyJ{'x' * 20}.{'y' * 20}.{'z' * 20}"
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)

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


def alone(shape: Shape) -> Guard:
    return Guard(detectors=Detectors([shape]))


def row(shape: Shape) -> str:
    return f"{shape.name}: {' '.join(shape.keywords)}"


def test_every_row_finds_a_secret_of_its_class() -> None:
    missing: list[str] = []
    for shape in SHAPES:
        masked = [(kind, alone(shape).masked(kind.text)) for kind in KINDS if kind.label == shape.name]
        found = [(kind, text) for kind, text in masked if text != kind.text]
        if not found or any(kind.secret in text for kind, text in found):
            missing.append(row(shape))
    assert missing == []


def test_every_row_leaves_what_only_looks_like_it() -> None:
    wrong: list[tuple[str, str]] = []
    for shape in SHAPES:
        texts = NEGATIVES.get(shape.name, ())
        if shape.is_prefixed:
            texts += tuple(
                f"{word}{tail}" for word in shape.keywords for tail in ("x" * 64, "", "...", "short")
            )
        assert texts, shape.name
        wrong += [(row(shape), text) for text in texts if alone(shape).finds(text)]
    assert wrong == []


def test_every_class_with_words_around_it_has_its_look_alikes() -> None:
    assert set(NEGATIVES) >= {shape.name for shape in SHAPES if not shape.is_prefixed}
    assert set(NEGATIVES) <= LABELS


def test_a_secret_is_named_by_its_class() -> None:
    for kind in KINDS:
        text = GUARD.masked(f"Please note: {kind.text} (until May)")
        assert kind.secret not in text, kind
        assert f"<REDACTED:{kind.label}>" in text, kind
        assert text.startswith("Please note: "), kind
        assert text.endswith(" (until May)"), kind
        assert GUARD.finds(text) == (), kind


def test_a_row_that_says_so_begins_with_a_keyword() -> None:
    """It is tried where a keyword stands, and nowhere else."""
    for shape in (shape for shape in SHAPES if shape.begins):
        for kind in KINDS:
            for match in shape.pattern.finditer(kind.text):
                text = match[0] if shape.is_cased else match[0].lower()
                assert text.startswith(shape.keywords), (row(shape), kind)


def test_a_prefixed_secret_is_one_word() -> None:
    """Such secrets are looked for where a text ends in a word that has the prefix."""
    for shape in SHAPES:
        if shape.is_prefixed:
            assert shape.begins
            assert not any(space in shape.expression for space in (r"\s", " ", r"\n", r"\W", r"[^")), row(
                shape
            )


def test_without_a_table_nothing_is_found() -> None:
    assert [kind for kind in KINDS if Guard(detectors=Detectors(())).finds(kind.text)] == []


# -- encodings ------------------------------------------------------------------------------------------------------


def test_an_encoded_secret_is_found_and_the_whole_run_replaced() -> None:
    for name, disguised in DISGUISES.items():
        text = GUARD.masked(f"see {disguised(TOKEN)} there")
        if name in ("JSON in JSON", "wrapped base64"):
            assert "<REDACTED:github_token>" in text, name
            assert TOKEN not in text, name
        else:
            assert text == "see <REDACTED:github_token> there", name


def test_of_a_long_row_of_secrets_without_a_gap_nothing_is_left() -> None:
    """Each is known by what stands before it, so it is uncovered when that was replaced."""
    secrets = [f"hf_{drawn(f'row {number}', 40)}" for number in range(30)]
    text = GUARD.masked(f"keys: {''.join(secrets)} and more")
    assert not [secret for secret in secrets if secret[-30:] in text]
    assert (text[:6], text[-9:]) == ("keys: ", " and more")
    assert GUARD.finds(text) == ()


def test_a_name_may_stand_before_base64_without_a_gap() -> None:
    encoded = base64.urlsafe_b64encode(f"token {TOKEN}".encode()).decode().rstrip("=")
    for name in ("k_", "key_", "my-key_", "a_b_c_d_"):
        assert GUARD.finds(f"{name}{encoded}") == ("github_token",)


def test_utf_16_in_base64_is_read() -> None:
    for text in (f"$t = '{TOKEN}'", f"пароль = '{TOKEN}'"):
        encoded = base64.b64encode(text.encode("utf-16-le")).decode()
        assert GUARD.finds(f"powershell -enc {encoded}") == ("github_token",)


def test_bytes_that_are_no_text_are_left_alone() -> None:
    wall = drawn("noise", 400, BASE64)
    assert GUARD.finds(f"data:image/png;base64,{wall}") == ()
    assert GUARD.finds(drawn("digest", 64, HEX)) == ()


def test_what_stands_after_a_character_of_another_length_is_found_at_its_place() -> None:
    """`İ` is two characters in lower case, and two bytes."""
    text = GUARD.masked(f"İİİ PASSWORD={drawn('p', 12)}!7 İ")
    assert text == "İİİ PASSWORD=<REDACTED:password> İ"


def test_a_private_key_is_found_however_its_lines_end() -> None:
    for line_break in ("\n", "\\n", "\r\n", " "):
        block = pem(f"RSA {PRIVATE}", "lines", line_break)
        expected = '{"key": "<REDACTED:private_key>' + f'{line_break}", "x": 1}}'
        assert GUARD.masked(f'{{"key": "{block}", "x": 1}}') == expected


# -- keys, pieces, markers ------------------------------------------------------------------------------------------


def test_a_key_says_what_its_value_is() -> None:
    for key, text, clean in (
        ("password", "BlueOcean42!", "<REDACTED:password>"),
        ("db_password", "blue, ocean", "blue, ocean"),
        ("DB-PASSWORD", "blue(42),ocean!", "<REDACTED:password>"),
        ("api_key", drawn("api", 20), "<REDACTED:secret>"),
        ("Authorization", f"Bearer {drawn('b', 30)}", "Bearer <REDACTED:authorization>"),
        ("password", "Xk39!dkq is what she said", "<REDACTED:password> is what she said"),
        ("password", "required", "required"),
        ("password", "ab<c3D!9", "<REDACTED:password>"),
        ("pwd", "abc12!", "<REDACTED:password>"),
        ("colour", drawn("api", 20), drawn("api", 20)),
        ("password", "<REDACTED:password>", "<REDACTED:password>"),
        ("password", "pa<REDACTED:db>42!", "pa<REDACTED:db>42!"),
        ("token", "[REDACTED:k2]", "[REDACTED:k2]"),
    ):
        assert GUARD.clean({key: text}) == {key: clean}, (key, text)
        assert GUARD.clean({key: clean}) == {key: clean}, (key, text)


def across(*texts: str) -> Sequence[Piece]:
    return list(DETECTORS.across(texts))


def test_a_secret_with_a_prefix_is_found_in_pieces() -> None:
    first, second = TOKEN[:20], TOKEN[20:]
    assert across("see " + first, second + " there") == [
        Piece(0, 4, 24, "github_token"),
        Piece(1, 0, 20, "github_token"),
    ]
    assert [piece.number for piece in across("a", first, second[:10], second[10:], "b")] == [1, 2, 3]


def test_what_does_not_go_on_is_not_in_pieces() -> None:
    for parts in (
        ["ghp_", "and", "other", "prefixes"],
        [TOKEN, "production"],
        ["ta" + "sk-", drawn("not a key", 40)],
        [TOKEN[:20], "words and " + TOKEN[20:]],
        ["ghp_" + " " * 3_000, TOKEN[4:]],
        ["ghp_" + "x" * 3_000, TOKEN[4:]],
        [TOKEN[:20]],
        ["short", "words"],
    ):
        assert across(*parts) == [], parts


def test_a_word_after_a_long_token_is_not_its_rest() -> None:
    token = f"glpat-{drawn('g', 24)}"
    assert across(token, "production") == []
    assert [piece.number for piece in across(token[:16], token[16:], "production")] == [0, 1]


def test_a_marker_is_never_matched() -> None:
    for template in ("<REDACTED:{label}>", "[REDACTED:{label}]", "***{label}***"):
        guard = Guard(marker=Marker(template))
        for around in ("password={}", "postgres://app:{}@db", "Authorization: Bearer {}", "token is {}"):
            for label in ("github_token", "registered-label-2"):
                assert guard.finds(around.format(guard.marker.of(label))) == (), (template, around, label)


def test_a_token_of_ours_is_found_in_the_middle_of_a_word_too() -> None:
    token = f"qp_acme_{drawn('ours', 43)}"
    assert GUARD.masked(f"key_{token}") == "key_<REDACTED:quipu_token>"
    assert GUARD.finds(f"x{token}") == ("quipu_token",)


def test_no_secret_hides_in_a_marker() -> None:
    assert TOKEN not in GUARD.masked(f"<REDACTED:{TOKEN}>")


def test_letters_without_order_are_still_told_from_words() -> None:
    """A secret may happen to have no digit."""
    secret = "".join(char for char in drawn("letters", 80, ALNUM) if char.isalpha())[:40]
    assert GUARD.finds(f"api_key={secret}") == ("secret",)
    assert GUARD.finds("api_key=getTheApiKeyOfThisService") == ()


# -- properties -----------------------------------------------------------------------------------------------------


@given(
    st.sampled_from([kind for kind in KINDS if kind.is_prefixed]),
    st.sampled_from(sorted(set(DISGUISES) - {"wrapped base64"})),
    TEXTS,
    TEXTS,
)
def test_no_secret_leaks_in_any_disguise(kind: Kind, disguise: str, before: str, after: str) -> None:
    text = GUARD.masked(f"{before} {DISGUISES[disguise](kind.secret)} {after}")
    assert "<REDACTED:" in text
    assert kind.secret not in text
    assert GUARD.masked(text) == text


@given(TEXTS)
def test_a_text_without_secrets_comes_back_as_it_was(text: str) -> None:
    assert GUARD.clean_text(text) is text or GUARD.finds(text)


@given(
    st.lists(
        st.sampled_from([*(kind.text for kind in KINDS), " ", "\n", "password=", "<REDACTED:x>", "a"]),
        max_size=5,
    )
)
def test_redacting_twice_changes_nothing(parts: list[str]) -> None:
    once = GUARD.masked("".join(parts))
    assert GUARD.masked(once) == once


ADVERSARIES: dict[str, Callable[[int], str]] = {
    "one letter": lambda size: "a" * size,
    "the beginning of a JWT": lambda size: "eyJ" * (size // 3),
    "parts of a JWT": lambda size: "eyJaaaaaaaaaaaaa." * (size // 17),
    "the beginning of a key": lambda size: "-----BEGIN " * (size // 20),
    "the first line of a key": lambda size: f"-----BEGIN {PRIVATE}-----" * (size // 27),
    "an open key": lambda size: f"-----BEGIN {PRIVATE}-----" + "A" * size,
    "SSH2": lambda size: f"---- BEGIN SSH2 {PRIVATE} ----" * (size // 33),
    "PuTTY": lambda size: "PuTTY-User-Key-File-" * (size // 20),
    "base64": lambda size: drawn("wall", size, BASE64),
    "wrapped base64": lambda size: base64.encodebytes(drawn("wall", size).encode()).decode(),
    "base64 of words": lambda size: base64.b64encode(b"the secret: token = " * (size // 29)).decode(),
    "hex": lambda size: drawn("wall", size, HEX),
    "assignments": lambda size: "password=" * (size // 9),
    "words before": lambda size: "api key for " * (size // 12),
    "URLs": lambda size: "://a:" * (size // 5),
    "dashes": lambda size: "--" * (size // 2),
    "flags": lambda size: "--token " * (size // 8),
    "curl": lambda size: "curl " * (size // 5),
    "netrc": lambda size: "machine a login b " * (size // 18),
    "pairs of digits": lambda size: "41 42:43-" * (size // 9),
    "words of base32": lambda size: ("ABCDEFGHIJKLMNOPQRSTUVWX" + " ") * (size // 25),
    "percent signs": lambda size: "%41" * (size // 3),
    "prefixes": lambda size: "ghp_" * (size // 4),
    "just too short": lambda size: ("A" * 23 + " ") * (size // 24),
    "capitals": lambda size: "secret=" + "Aa" * (size // 2),
}


def hostile(size: int) -> None:
    for name, made in ADVERSARIES.items():
        text = made(size)
        assert len(GUARD.masked(text)) <= len(text), name
        across(text, text)
        list(DETECTORS.named("password", text))


def test_hostile_texts_do_not_grow() -> None:
    hostile(5_000)


@pytest.mark.slow
def test_a_megabyte_of_anything_is_done_soon() -> None:
    hostile(1_000_000)
