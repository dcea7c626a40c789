"""Secrets in every disguise, made up by a rule: no string in here is anybody's, and none stands in the file.

`cases()` gives notes that hold a secret, `needles(secret)` the forms in which it must not come out again. The first is
for any way into Quipu, the second for any way out: answers, database files, logs.
"""

import base64
import html
import json
import quopri
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, quote_plus

from pydantic import BaseModel, ConfigDict

from quipu.fields import Redact
from quipu.model.record import MemoryType
from quipu.secrets.registered import RegisteredValue
from tests.secrets.noise import ALNUM, BASE64, DIGITS, HEX, LOWER, UPPER, URLSAFE, drawn

Text = Annotated[str, Redact.REWRITE]


class Note(BaseModel):
    """A request to remember something, without limits of size."""

    model_config = ConfigDict(frozen=True)

    agent_id: Annotated[str, Redact.REFUSE] = "corpus"
    session_id: Annotated[str, Redact.REFUSE] | None = None
    type: MemoryType = "semantic"
    content: Text | Annotated[dict[str, Any], Redact.REWRITE] = "x"
    metadata: Annotated[dict[str, Any], Redact.REWRITE] | None = None
    tags: tuple[Text, ...] | None = None
    source: Text | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of secret: the label it is found as, one of its kind, and what must stand around it."""

    label: str
    secret: str
    around: str = "{}"
    #: Whether it is known by how it begins, so that it is found in two pieces.
    is_prefixed: bool = True

    @property
    def text(self) -> str:
        return self.around.format(self.secret)


@dataclass(frozen=True, slots=True)
class Case:
    """A note that holds a secret."""

    name: str
    label: str
    secret: str
    note: Note


# -- the kinds ------------------------------------------------------------------------------------------------------


def _token(label: str, prefix: str, length: int, alphabet: str = ALNUM, after: str = "") -> Kind:
    return Kind(label, f"{prefix}{drawn(label + prefix, length, alphabet)}{after}")


def _near(label: str, around: str, secret: str) -> Kind:
    return Kind(label, secret, around, is_prefixed=False)


def _uuid(seed: str) -> str:
    digits = drawn(seed, 32, HEX)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _jwt() -> str:
    header = _encoded(json.dumps({"typ": "JWT", "alg": "HS256"}).encode())
    claims = _encoded(json.dumps({"sub": "ana", "iat": 1_700_000_000}).encode())
    return f"{header}.{claims}.{drawn('jwt', 43, URLSAFE)}"


def pem(words: str, seed: str, line_break: str = "\n") -> str:
    """A private key in its frame; the body is noise."""
    body = drawn(seed, 64 * 6 + 20, BASE64) + "=="
    lines = [body[place : place + 64] for place in range(0, len(body), 64)]
    return line_break.join((f"-----BEGIN {words}-----", *lines, f"-----END {words}-----", ""))


_PRIVATE = "PRIVATE KEY"
_PASSWORD = f"{drawn('password', 10)}!7q"


def kinds() -> list[Kind]:
    """One of every shape that is found without being registered."""
    return [*_issued(), *_near_words(), *_by_structure()]


def _issued() -> Iterator[Kind]:
    yield Kind("quipu_token", f"qp_acme-2_{drawn('quipu', 43, URLSAFE)}")
    yield _token("aws_access_key_id", "AKIA", 16, string.ascii_uppercase + "234567")
    yield _token("aws_access_key_id", "ASIA", 16, string.ascii_uppercase + "234567")
    for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"):
        yield _token("github_token", prefix, 36)
    yield Kind("github_token", f"github_pat_{drawn('pat', 22)}_{drawn('pat2', 59)}")
    for prefix in ("glpat-", "gldt-", "glrt-", "glptt-"):
        yield _token("gitlab_token", prefix, 20, URLSAFE)
    yield _token("gitlab_token", "GR1348941", 20, URLSAFE)
    yield Kind("slack_token", f"xoxb-{drawn('s1', 12, DIGITS)}-{drawn('s2', 12, DIGITS)}-{drawn('s3', 24)}")
    yield Kind(
        "slack_token", f"xapp-1-A{drawn('s4', 10, UPPER)}-{drawn('s5', 13, DIGITS)}-{drawn('s6', 64, HEX)}"
    )
    yield _token("stripe_key", "sk_live_", 24)
    yield _token("stripe_key", "rk_test_", 24)
    yield _token("webhook_secret", "whsec_", 32)
    yield _token("openai_key", "sk-", 48)
    yield _token("openai_key", "sk-proj-", 124, URLSAFE)
    yield _token("anthropic_key", "sk-ant-api03-", 93, URLSAFE, "AA")
    yield _token("openrouter_key", "sk-or-v1-", 64, HEX)
    yield _token("google_api_key", "AIza", 35, URLSAFE)
    yield _token("google_oauth_secret", "GOCSPX-", 28, URLSAFE)
    yield _token("google_oauth_token", "ya29.", 60, URLSAFE)
    yield _token("google_refresh_token", "1//0", 60, URLSAFE)
    yield _token("npm_token", "npm_", 36)
    yield _token("pypi_token", "pypi-AgEIcHlwaS5vcmc", 150, URLSAFE)
    yield _token("rubygems_key", "rubygems_", 48, HEX)
    yield _token("docker_token", "dckr_pat_", 27, URLSAFE)
    yield _token("digitalocean_token", "dop_v1_", 64, HEX)
    yield _token("heroku_key", "HRKU-", 60, URLSAFE)
    yield Kind("sendgrid_key", f"SG.{drawn('sg1', 22, URLSAFE)}.{drawn('sg2', 43, URLSAFE)}")
    yield _token("twilio_key", "SK", 32, HEX)
    yield _token("brevo_key", "xkeysib-", 64, HEX, f"-{drawn('brevo', 16)}")
    yield _token("huggingface_token", "hf_", 34)
    yield _token("groq_key", "gsk_", 52)
    yield _token("replicate_token", "r8_", 37)
    yield _token("xai_key", "xai-", 80)
    yield _token("perplexity_key", "pplx-", 48)
    yield _token("databricks_token", "dapi", 32, HEX)
    yield _token("shopify_token", "shpat_", 32, HEX)
    yield _token("square_token", "sq0atp-", 22, URLSAFE)
    yield _token("square_token", "EAAA", 60, URLSAFE)
    yield _token("vault_token", "hvs.", 90, URLSAFE)
    yield _token("linear_key", "lin_api_", 40)
    yield _token("notion_token", "ntn_", 46)
    yield _token("notion_token", "secret_", 43)
    yield Kind("postman_key", f"PMAK-{drawn('pm1', 24, HEX)}-{drawn('pm2', 34, HEX)}")
    yield _token("newrelic_key", "NRAK-", 27, UPPER)
    yield _token("sentry_token", "sntryu_", 64, HEX)
    yield Kind("grafana_token", f"glsa_{drawn('gr1', 32)}_{drawn('gr2', 8, HEX)}")
    yield _token("figma_token", "figd_", 43, URLSAFE)
    yield Kind("airtable_token", f"pat{drawn('at1', 14)}.{drawn('at2', 64, HEX)}")
    yield Kind("tailscale_key", f"tskey-auth-{drawn('ts1', 17)}-{drawn('ts2', 32)}")
    yield _token("supabase_key", "sbp_", 40, HEX)
    yield _token("netlify_token", "nfp_", 40)
    yield _token("planetscale_token", "pscale_tkn_", 43, URLSAFE)
    yield _token("pulumi_token", "pul-", 40, HEX)
    yield _token("doppler_token", "dp.pt.", 43)
    yield _token("buildkite_token", "bkua_", 40, LOWER)
    yield _token("atlassian_token", "ATATT3", 180, URLSAFE)
    yield _token("bitbucket_token", "ATBB", 32)
    yield _token("alibaba_key_id", "LTAI", 20)
    yield _token("flyio_token", "fm2_", 120, BASE64)
    yield _token("age_key", "AGE-SECRET-KEY-1", 58, UPPER)
    yield Kind("cloudflare_key", f"v1.0-{drawn('cf1', 24, HEX)}-{drawn('cf2', 146, HEX)}")
    yield Kind(
        "discord_token", f"{_encoded(b'812345678901234567')}.{drawn('d1', 6)}.{drawn('d2', 38, URLSAFE)}"
    )


def _near_words() -> Iterator[Kind]:
    key40, hex32 = drawn("aws", 40, BASE64), drawn("hex32", 32, HEX)
    yield _near("aws_secret_access_key", "aws_secret_access_key = {}", key40)
    yield _near("aws_secret_access_key", "The AWS secret access key is {}", key40)
    yield _near("aws_secret_access_key", f"AKIA{drawn('id', 16, string.ascii_uppercase)} with {{}}", key40)
    yield _near(
        "azure_storage_key", "AccountName=acme;AccountKey={};EndpointSuffix=x", drawn("az", 86, BASE64) + "=="
    )
    yield _near("azure_storage_key", "The Azure storage key: {}", drawn("az2", 86, BASE64) + "==")
    yield _near(
        "azure_shared_key", "SharedAccessKeyName=root;SharedAccessKey={}", drawn("sb", 43, BASE64) + "="
    )
    yield _near("azure_sas", "https://acme.blob.example/c?sv=2022&sig={}", drawn("sas", 43) + "%3D")
    yield _near("azure_client_secret", "client {}", f"{drawn('a1', 3)}8Q~{drawn('a2', 34)}")
    yield _near("heroku_key", "HEROKU_API_KEY={}", _uuid("heroku"))
    yield _near("cloudflare_key", "CLOUDFLARE_API_TOKEN={}", drawn("cf", 40, URLSAFE))
    yield _near("twilio_key", "twilio auth token: {}", hex32)
    yield _near("mailgun_key", "call it with {}", f"key-{hex32}")
    yield _near(
        "mailgun_key", "mailgun sends with {}", f"{hex32}-{drawn('m1', 8, HEX)}-{drawn('m2', 8, HEX)}"
    )
    yield _near("mailchimp_key", "audience {}", f"{drawn('mc', 32, HEX)}-us14")
    yield _near("datadog_key", "DD_API_KEY={}", hex32)
    yield _near("datadog_key", "datadog application key: {}", drawn("dd", 40, HEX))
    yield _near("newrelic_key", "license {}", f"{drawn('nr', 36, HEX)}NRAL")
    yield _near(
        "telegram_token", "the bot is {}", f"{drawn('tg', 9, '123456789')}:AA{drawn('tg2', 33, URLSAFE)}"
    )
    yield _near("terraform_token", "credentials {}", f"{drawn('tf', 14)}.atlasv1.{drawn('tf2', 67)}")
    yield _near("vault_token", "vault login {}", f"s.{drawn('vault', 24)}")
    yield _near("npm_token", "//packages.example/:_authToken={}", _uuid("npm"))
    yield _near(
        "slack_webhook",
        "https://hooks.slack.com/services/{}",
        f"T{drawn('w1', 8, UPPER)}/B{drawn('w2', 8, UPPER)}/{drawn('w3', 24)}",
    )
    yield _near(
        "discord_webhook",
        "https://discord.com/api/webhooks/{}",
        f"{drawn('w4', 18, '123456789')}/{drawn('w5', 68, URLSAFE)}",
    )
    yield _near("sentry_dsn", f"https://{drawn('sd', 32, HEX)}:{{}}@sentry.example/3", drawn("sd2", 32, HEX))
    yield _near("password", "password={}", _PASSWORD)
    yield _near("password", '"password": "{}"', _PASSWORD)
    yield _near("password", "Her wifi password is {} at home", _PASSWORD)
    yield _near("password", "<password>{}</password>", _PASSWORD)
    yield _near("password", "mysql --password {} -h db", _PASSWORD)
    yield _near("password", "curl -s -u ana:{} https://example.com", _PASSWORD)
    yield _near("password", "machine example.com login ana password {}", _PASSWORD)
    yield _near("secret", 'api_key: "{}"', drawn("api", 32))
    yield _near("secret", "CLIENT_SECRET={}", drawn("client", 40, URLSAFE))
    yield _near("secret", "the api key for the printer is {}", drawn("printer", 24))
    yield _near("secret", "deploy --auth-token {}", drawn("flag", 32))
    yield _near("secret", "<secret>{}</secret>", drawn("xml", 32))


def _by_structure() -> Iterator[Kind]:
    yield _near("jwt", "a session {}", _jwt())
    yield _near("authorization", "Authorization: Bearer {}", drawn("bearer", 40))
    yield _near("authorization", "send it as Bearer {}", drawn("bearer2", 40))
    yield _near(
        "authorization", "Authorization: Basic {}", base64.b64encode(b"ana:" + _PASSWORD.encode()).decode()
    )
    yield _near("url_password", "postgresql://app:{}@db.example:5432/main", _PASSWORD)
    yield _near("url_password", "redis://:{}@cache.example/0", _PASSWORD)
    yield _near("jwk_private_key", '{{"kty":"EC","crv":"P-256","d":"{}"}}', drawn("jwk", 43, URLSAFE))
    auth = base64.b64encode(b"ana:" + _PASSWORD.encode()).decode()
    yield _near("docker_config_auth", '{{"auths":{{"example.com":{{"auth":"{}"}}}}}}', auth)
    for words in (
        _PRIVATE,
        f"RSA {_PRIVATE}",
        f"EC {_PRIVATE}",
        f"OPENSSH {_PRIVATE}",
        f"ENCRYPTED {_PRIVATE}",
    ):
        yield _near("private_key", "keep\n{}safe", pem(words, words))
        yield _near("private_key", "keep {} safe", pem(words, words, "\\n"))
    yield _near("private_key", "{}", pem(f"PGP {_PRIVATE} BLOCK", "pgp"))
    yield _near("private_key", "cut off: {}", pem(_PRIVATE, "cut").partition("-----END")[0].strip())
    putty = f"PuTTY-User-Key-File-2: ssh-rsa\nComment: x\nPrivate-Lines: 2\n{drawn('putty', 64, BASE64)}\n{drawn('putty2', 60, BASE64)}"
    yield _near("private_key", "{}", putty)
    yield _near(
        "private_key",
        "{}",
        f"---- BEGIN SSH2 ENCRYPTED {_PRIVATE} ----\n{drawn('ssh2', 70, BASE64)}\n---- END SSH2 ENCRYPTED {_PRIVATE} ----",
    )


def registered() -> list[RegisteredValue]:
    """Values to register before the cases that need it."""
    values = {
        "db-password": f"{drawn('db', 14)}!#",
        "odd.signs": f'a"b\\c/d %41&lt;+{drawn("odd", 6)}',
        "pass_phrase": "seven quiet herons cross " + drawn("herons", 8, LOWER),
        "umlaut": f"Größe-{drawn('umlaut', 8)}-naïve",
        "cyrillic": f"пароль-{drawn('cyrillic', 8)}",
        "hex": drawn("registered hex", 40, HEX),
        "uuid": _uuid("registered uuid"),
        "number": drawn("number", 12, "123456789"),
        "pem": pem(_PRIVATE, "registered").strip(),
        "shortest": drawn("shortest", 8),
        "plain-word": "heliotropes",
    }
    return [RegisteredValue(label, value) for label, value in values.items()]


# -- the disguises --------------------------------------------------------------------------------------------------


def _hex_with(separator: str, upper: bool = False) -> Callable[[str], str]:
    return lambda text: (
        (text.encode().hex(separator) if separator else text.encode().hex()).upper()
        if upper
        else (text.encode().hex(separator) if separator else text.encode().hex())
    )


def _base64_after(before: str) -> Callable[[str], str]:
    return lambda text: base64.b64encode((before + text + "~~~").encode()).decode()


def _everything_percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


def _everything_escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[place]:02x}{units[place + 1]:02X}" for place in range(0, len(units), 2))


def _wide(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def _hidden_by(char: str) -> Callable[[str], str]:
    return lambda text: char.join(text)


def _base32(text: str) -> str:
    return base64.b32encode(text.encode()).decode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


#: How a text can be encoded so that it is still found.
DISGUISES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda text: _base64(text.encode()),
    "base64 without padding": lambda text: _base64(text.encode()).rstrip("="),
    "url-safe base64": lambda text: _encoded(text.encode()),
    "base64 at offset 1": _base64_after("~"),
    "base64 at offset 2": _base64_after("~~"),
    "wrapped base64": lambda text: base64.encodebytes(f"{text} ".encode() * 3).decode(),
    "base64 of base64": lambda text: _base64(_base64(text.encode()).encode()),
    "base64 of base64 with more around it": lambda text: _base64(
        f"a: {_base64(f'b {text}~'.encode())}".encode()
    ),
    "base64 of hex": lambda text: _base64(text.encode().hex().encode()),
    "base64 of UTF-16": lambda text: _base64(text.encode("utf-16-le")),
    "base64 of big-endian UTF-16": lambda text: _base64(text.encode("utf-16-be")),
    "base64 of JSON": lambda text: _base64(json.dumps({"note": text}).encode()),
    "base32": _base32,
    "base32 without padding": lambda text: _base32(text).rstrip("="),
    "lower-case base32": lambda text: _base32(text).lower(),
    "base32 at offset 1": lambda text: _base32(f"~{text}~~"),
    "base32 at offset 3": lambda text: _base32(f"~~~{text}~~"),
    "hex": _hex_with(""),
    "upper-case hex": _hex_with("", upper=True),
    "hex with colons": _hex_with(":"),
    "hex with dashes": _hex_with("-", upper=True),
    "hex with spaces": _hex_with(" "),
    "hex of UTF-16": lambda text: text.encode("utf-16-le").hex(),
    "percent-encoded": lambda text: quote(text, safe=""),
    "percent-encoded in lower case": _everything_percent,
    "form-encoded": quote_plus,
    "quoted-printable": lambda text: quopri.encodestring(text.encode(), quotetabs=True).decode(),
    "quoted-printable entirely": lambda text: "".join(f"={byte:02X}" for byte in text.encode()),
    "quoted-printable with broken lines": lambda text: "=\r\n".join(
        text[place : place + 11].replace("=", "=3D") for place in range(0, len(text), 11)
    ),
    "JSON-escaped": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON-escaped entirely": _everything_escaped,
    "JSON in JSON": lambda text: json.dumps(json.dumps({"note": text})),
    "HTML-escaped": html.escape,
    "zero-width spaces": _hidden_by("\u200b"),
    "soft hyphens": _hidden_by("\u00ad"),
    "zero bytes": _hidden_by("\x00"),
    "full width": _wide,
}
#: What only a registered value is known in.
REGISTERED_DISGUISES: dict[str, Callable[[str], str]] = {
    "reversed": lambda text: text[::-1],
    "reversed in base64": lambda text: _base64(text[::-1].encode()),
    "bytes as a program writes them": lambda text: ", ".join(f"0x{byte:02x}" for byte in text.encode()),
    "between other letters": lambda text: f"xyz{text}zyx",
}
#: How a value in hex, or a UUID, can be written.
HEX_DISGUISES: dict[str, Callable[[str], str]] = {
    "in capitals": str.upper,
    "without dashes": lambda text: text.replace("-", ""),
    "in capitals without dashes": lambda text: text.replace("-", "").upper(),
    "with colons": lambda text: bytes.fromhex(text.replace("-", "")).hex(":"),
    "in capitals in base64": lambda text: _base64(text.upper().encode()),
}


# -- the cases ------------------------------------------------------------------------------------------------------


def cases() -> list[Case]:
    """Every kind in a sentence; a choice of kinds, and every registered value, in every disguise and every place."""
    found: list[Case] = []
    for number, kind in enumerate(kinds()):
        name = f"{kind.label} {number}"
        found.append(_case(f"{name}: in a sentence", kind, content=f"Remember this: {kind.text}"))
        if number % 4 == 0:
            found.extend(_disguised(name, kind, DISGUISES))
            found.extend(_placed(name, kind))
        if kind.is_prefixed and number % 3 == 0:
            found.extend(_split(name, kind))
    for label, value in ((one.label, one.value) for one in registered()):
        kind = Kind(label, value)
        found.extend(_disguised(label, kind, {**DISGUISES, **REGISTERED_DISGUISES}))
        if label in ("hex", "uuid"):
            found.extend(_disguised(label, kind, HEX_DISGUISES))
        found.extend(_placed(label, kind))
        found.extend(_split(label, kind))
    return found


def _case(name: str, kind: Kind, **fields: Any) -> Case:
    return Case(name, kind.label, kind.secret, Note(**fields))


def _disguised(name: str, kind: Kind, disguises: dict[str, Callable[[str], str]]) -> Iterator[Case]:
    for disguise, encode in disguises.items():
        yield _case(f"{name}: {disguise}", kind, content=f"It came as {encode(kind.text)} this morning.")
        if disguise == "hex":
            yield _case(f"{name}: {disguise} in metadata", kind, metadata={"raw": encode(kind.text)})


def _placed(name: str, kind: Kind) -> Iterator[Case]:
    yield _case(f"{name}: in a metadata value", kind, metadata={"deep": [{"note": kind.text}]})
    yield _case(f"{name}: in a metadata key", kind, metadata={"deep": {kind.text: 1}})
    yield _case(f"{name}: in the source", kind, source=f"mail: {kind.text}")
    yield _case(f"{name}: in a tag", kind, tags=("first", kind.text))
    machine = {
        "name": "deploy",
        "initial": "idle",
        "states": ["idle", "busy"],
        "transitions": [{"trigger": "go", "source": "idle", "dest": "busy"}],
        "metadata": {"description": f"uses {kind.text}"},
    }
    yield _case(f"{name}: in a machine", kind, type="procedural", content=machine)
    escaped = f'"uses {_everything_escaped(kind.text)}"'
    written = json.dumps(machine).replace(json.dumps(f"uses {kind.text}"), escaped)
    yield _case(f"{name}: in a machine's text", kind, type="procedural", content=written)


def _split(name: str, kind: Kind) -> Iterator[Case]:
    secret = kind.secret
    half, third = len(secret) // 2, len(secret) // 3
    parts = (secret[:half], secret[half:])
    thirds = (secret[: 2 * third], secret[2 * third :])
    yield _case(f"{name}: split over values", kind, metadata={"a": parts[0], "n": 1, "b": parts[1]})
    yield _case(f"{name}: split over a list", kind, metadata={"list": [{"x": thirds[0]}, thirds[1]]})
    yield _case(f"{name}: split over key and value", kind, metadata={thirds[0]: thirds[1]})
    yield _case(f"{name}: split over tags", kind, tags=parts)
    yield _case(f"{name}: split over content and source", kind, content=f"it is {parts[0]}", source=parts[1])


def needles(secret: str) -> set[str]:
    """The secret and every form in which it could still be read; none may come out again."""
    data = secret.encode()
    forms = {
        secret,
        secret[::-1],
        data.hex(),
        data.hex().upper(),
        data.hex(":"),
        data.hex("-"),
        data.hex(" "),
    }
    forms |= {
        quote(secret, safe=""),
        quote_plus(secret),
        _everything_percent(secret),
        _everything_escaped(secret),
    }
    forms |= {json.dumps(secret)[1:-1], html.escape(secret), _wide(secret)}
    forms |= {_base32(secret).rstrip("=")[:-1], _base32(secret).lower().rstrip("=")[:-1]}
    forms |= {_base64(_base64(data).encode())[:-4], "".join(f"={byte:02X}" for byte in data)}
    forms |= {_base64(secret.encode("utf-16-le"))[:-4], secret.encode("utf-16-le").hex()}
    for offset, first in enumerate((0, 2, 3)):
        whole = (offset + len(data)) * 8 // 6
        inner = base64.b64encode(bytes(offset) + data).decode()[first:whole]
        forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return forms
