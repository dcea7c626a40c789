"""The well-known shapes of secrets, one row each. To add one, add a row, and an example and a look-alike in the tests.

A row's name is the label that the marker shows. Its keywords are looked for first: without one of them the pattern is
not tried. Where only a part of the match is secret, the pattern names it `secret`. Every repetition has an upper bound
or is possessive over one class of characters, so that no text takes more than linear time. More specific rows come
first: they name what several rows find.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from quipu.secrets import randomness

Check: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of secret."""

    name: str
    expression: str
    #: At least one of them is in every match; lower case when `is_cased` is false.
    keywords: tuple[str, ...]
    #: What distinguishes a secret from something of the same shape.
    accepts: Check = randomness.is_varied
    #: Whether keywords and expression are looked for as they are written, or in either case.
    is_cased: bool = True
    #: Whether every match begins with a keyword: then the expression is tried there and nowhere else.
    begins: bool = False
    #: Whether it is one word that begins with its issuer's prefix, so that it is found when it is cut in two.
    is_prefixed: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        return _compiled(self.expression, 0 if self.is_cased else re.IGNORECASE)


@cache
def _compiled(expression: str, flags: int) -> re.Pattern[str]:
    """Compiled when a text first needs it: a hundred at once would slow every start."""
    return re.compile(expression, flags)


#: Not in the middle of a word.
_APART = r"(?<![A-Za-z0-9])"


def _prefixed(
    name: str, prefixes: str, tail: str, accepts: Check = randomness.is_varied, *, is_apart: bool = False
) -> Shape:
    """A secret that begins with a prefix of its issuer's; what comes after it must be accepted.

    `is_apart`: the prefix also occurs inside words.
    """
    words = tuple(prefixes.split())
    begins = "|".join(map(re.escape, words))

    def accepts_tail(text: str) -> bool:
        return accepts(_compiled(begins, 0).sub("", text, 1))

    expression = f"{_APART if is_apart else ''}(?:{begins}){tail}"
    return Shape(name, expression, words, accepts_tail, begins=True, is_prefixed=True)


def _worded(
    name: str, keywords: str, expression: str, accepts: Check = randomness.is_varied, *, begins: bool = True
) -> Shape:
    """A secret that is known by the words before it, in either case."""
    return Shape(name, expression, tuple(keywords.split()), accepts, is_cased=False, begins=begins)


def _structured(
    name: str, keywords: str, expression: str, accepts: Check = randomness.is_varied, *, begins: bool = False
) -> Shape:
    """A secret whose keywords are always written the same way, somewhere in it."""
    return Shape(name, expression, tuple(keywords.split()), accepts, begins=begins)


_ENDS = r"(?![A-Za-z0-9])"
_HEX32 = r"[0-9a-f]{32}"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

#: Lines of base64; the last may be short.
_BODY = r"(?:(?:\s|\\[nr]){0,8}[A-Za-z0-9+/=]{16,}+)++(?:(?:\r?\n|\\[nr]){1,4}[A-Za-z0-9+/]{1,15}={0,2}(?![A-Za-z0-9]))?"

#: Between a name and its value: quotes, an operator, quotes.
_IS = r"[\"'\]]{0,2}\s{0,4}(?:=>|:=|==?|:)\s{0,4}[\"'(]{0,2}"
#: The same, loosely: a few words may stand between.
_NEAR = r"[\w .\"'\-]{0,24}(?:=>|[:=]|\bis\b)\s{0,4}[\"']?"
_VALUE = r"(?P<secret>(?:[^\s\"'`<>,;&|()\[\]{}\\]|&(?!\w{1,40}=)){5,255}[^\s\"'`<>,;&|()\[\]{}\\.:])"
_PASSWORDS = "password passwd passphrase passcode pwd"
_ANY_OF_PASSWORDS = f"(?:{_PASSWORDS.replace(' ', '|')})"
#: Of what a key is one.
_KEYS_OF = (
    "api app access secret private auth encryption signing master account admin service shared client webhook"
)
_TOKENS = r"(?<!page)(?<!page[ _-])(?<!next[ _-])(?<!continuation[ _-])token"
_ANY_OF_SECRETS = rf"(?:(?:{_KEYS_OF.replace(' ', '|')})[ _.-]?keys?|secret|{_TOKENS}|credentials?)"
#: The same, from its last word on: it is rarer in a text, so it is what is looked for.
_LAST_OF_SECRETS = (
    f"(?:(?:{'|'.join(f'(?<={word})|(?<={word}[ _.-])' for word in _KEYS_OF.split())})keys?"
    f"|secret|{_TOKENS}|credentials?)"
)
_LAST_WORDS = "key secret token credential"

SHAPES: Final[tuple[Shape, ...]] = (
    # Quipu's own, and whole keys
    _prefixed("quipu_token", "qp_", r"[a-z0-9][a-z0-9-]{0,62}_[A-Za-z0-9_-]{43}"),
    _structured(
        "private_key",
        "-----BEGIN",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\s\S])*+(?:-----END [A-Z0-9 ]{0,60}-----)",
        randomness.has_key_body,
        begins=True,
    ),
    _structured(  # cut off before its end
        "private_key",
        "-----BEGIN",
        rf"-----BEGIN [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----{_BODY}",
        randomness.has_key_body,
        begins=True,
    ),
    _structured(
        "private_key",
        "SSH2",
        r"---- BEGIN SSH2 [A-Z ]{0,20}PRIVATE KEY ----(?:(?!---- (?:BEGIN|END))[\s\S])*+---- END [A-Z0-9 ]{0,40} ----",
    ),
    _structured(
        "private_key",
        "PuTTY-User-Key-File-",
        rf"PuTTY-User-Key-File-(?:(?!Private-Lines|PuTTY-)[\s\S])*+Private-Lines: ?\d{{1,4}}{_BODY}",
        begins=True,
    ),
    _prefixed("age_key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    _structured(
        "jwk_private_key", '"kty"', r"\"(?:d|k)\"\s{0,4}:\s{0,4}\"(?P<secret>[A-Za-z0-9_-]{20,2048})\""
    ),
    # clouds
    Shape(
        "aws_access_key_id",
        rf"{_APART}(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{{16}}{_ENDS}",
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        lambda text: randomness.is_varied(text) and not text.endswith("EXAMPLE"),
        begins=True,
        is_prefixed=True,
    ),
    _worded(
        "aws_secret_access_key",
        "secret aws",
        rf"(?:secret_?(?:access)?_?key|aws_?secret|secret access key|aws[\w .-]{{0,20}}secret)"
        rf"{_NEAR}(?P<secret>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])",
        randomness.is_mixed,
    ),
    _structured(  # near its key id
        "aws_secret_access_key",
        "AKIA ASIA",
        r"(?<![A-Za-z0-9/+])(?=[A-Za-z/+]{0,39}[0-9])(?=[^A-Z]{0,39}[A-Z])(?=[^a-z]{0,39}[a-z])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
        lambda text: randomness.is_mixed(text) and randomness.entropy(text) > 4.2,
    ),
    _prefixed("google_api_key", "AIza", r"[A-Za-z0-9_-]{35}"),
    _prefixed("google_oauth_secret", "GOCSPX-", r"[A-Za-z0-9_-]{28}"),
    _prefixed("google_oauth_token", "ya29.", r"[A-Za-z0-9_-]{20,2048}", is_apart=True),
    _prefixed("google_refresh_token", "1//0", r"[A-Za-z0-9_-]{40,256}", is_apart=True),
    _structured(
        "azure_storage_key",
        "AccountKey",
        r"AccountKey\s{0,2}=\s{0,2}(?P<secret>[A-Za-z0-9+/]{86}==)",
        begins=True,
    ),
    _worded(
        "azure_storage_key",
        "azure storage",
        rf"(?:azure|storage)[\w .-]{{0,30}}key{_NEAR}(?P<secret>[A-Za-z0-9+/]{{86}}==)",
    ),
    _structured(
        "azure_shared_key",
        "SharedAccessKey",
        r"SharedAccessKey\s{0,2}=\s{0,2}(?P<secret>[A-Za-z0-9+/]{42,44}=)",
        begins=True,
    ),
    _structured("azure_sas", "sig=", r"[?&](?:amp;)?sig=(?P<secret>[A-Za-z0-9%+/]{40,120}=?)"),
    _structured(
        "azure_client_secret", "Q~", rf"{_APART}[A-Za-z0-9_~.]{{3}}[0-9]Q~[A-Za-z0-9_~.-]{{31,34}}{_ENDS}"
    ),
    _prefixed("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{64}"),
    _prefixed("heroku_key", "HRKU-", r"[A-Za-z0-9_-]{30,80}"),
    _worded(
        "heroku_key",
        "heroku",
        rf"heroku[\w .\"'-]{{0,16}}(?:key|token|secret|auth|api){_NEAR}(?P<secret>{_UUID})",
    ),
    _prefixed("cloudflare_key", "v1.0-", r"[a-f0-9]{24}-[a-f0-9]{146}", is_apart=True),
    _worded(
        "cloudflare_key",
        "cloudflare",
        rf"cloudflare[\w .-]{{0,20}}(?:key|token){_NEAR}(?P<secret>[A-Za-z0-9_-]{{37,40}}){_ENDS}",
        randomness.is_mixed,
    ),
    _prefixed("alibaba_key_id", "LTAI", rf"[A-Za-z0-9]{{16,24}}{_ENDS}", randomness.is_mixed, is_apart=True),
    _prefixed("flyio_token", "fm2_ fo1_", r"[A-Za-z0-9+/=_-]{40,2048}", is_apart=True),
    _prefixed(
        "tailscale_key", "tskey-", r"(?:auth|api|client|scim|webhook)-[A-Za-z0-9]{8,32}-[A-Za-z0-9]{16,48}"
    ),
    _prefixed("supabase_key", "sbp_ sb_secret_", r"[A-Za-z0-9_-]{30,64}", randomness.is_mixed, is_apart=True),
    _prefixed("netlify_token", "nfp_", r"[A-Za-z0-9]{36,44}", is_apart=True),
    _prefixed("planetscale_token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9._=-]{32,64}"),
    _prefixed("pulumi_token", "pul-", r"[a-f0-9]{40}", is_apart=True),
    _prefixed("doppler_token", "dp.pt. dp.st. dp.ct. dp.sa.", r"[A-Za-z0-9._-]{40,64}", is_apart=True),
    # code and packages
    _prefixed("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9_]{36,255}"),
    _prefixed("github_token", "github_pat_", r"[A-Za-z0-9_]{36,255}"),
    _prefixed(
        "gitlab_token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat-",
        r"[A-Za-z0-9_.-]{20,300}",
    ),
    _prefixed("gitlab_token", "GR1348941", r"[A-Za-z0-9_-]{20}"),
    _prefixed(
        "bitbucket_token", "ATBB ATCTT3", r"[A-Za-z0-9_=-]{24,300}", randomness.is_mixed, is_apart=True
    ),
    _prefixed("atlassian_token", "ATATT3", r"[A-Za-z0-9_=-]{60,300}"),
    _prefixed("npm_token", "npm_", r"[A-Za-z0-9]{36}"),
    _structured(
        "npm_token",
        "_authToken",
        rf"_authToken\s{{0,2}}=\s{{0,2}}[\"']?(?P<secret>{_UUID}|[A-Za-z0-9+/=_-]{{32,256}})",
        begins=True,
    ),
    _prefixed("pypi_token", "pypi-Ag", r"[A-Za-z0-9_-]{50,1024}"),
    _prefixed("rubygems_key", "rubygems_", r"[a-f0-9]{48}"),
    _prefixed("docker_token", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{27,64}"),
    _structured(
        "docker_config_auth",
        '"auths"',
        r"\"auth\"\s{0,4}:\s{0,4}\"(?P<secret>[A-Za-z0-9+/]{8,512}={0,2})\"",
        randomness.is_name_and_password,
    ),
    _prefixed("buildkite_token", "bkua_", r"[a-z0-9]{40}"),
    _prefixed("vault_token", "hvs. hvb. hvr.", r"[A-Za-z0-9_-]{24,512}", is_apart=True),
    _worded(
        "vault_token",
        "vault",
        rf"(?<![A-Za-z0-9.])(?P<secret>s\.[A-Za-z0-9]{{24}}){_ENDS}",
        randomness.is_mixed,
        begins=False,
    ),
    _structured(
        "terraform_token", ".atlasv1.", r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70}"
    ),
    _prefixed("sentry_token", "sntrys_ sntryu_", r"[A-Za-z0-9_+/=-]{40,512}"),
    _structured("sentry_dsn", "://", rf"https?://{_HEX32}:(?P<secret>{_HEX32})@"),
    _prefixed("grafana_token", "glsa_ glc_", r"[A-Za-z0-9_+/=-]{32,512}", is_apart=True),
    _prefixed("newrelic_key", "NRAK- NRII- NRIQ- NRRA- NRSP-", r"[A-Za-z0-9_-]{27,64}"),
    _structured("newrelic_key", "NRAL", rf"{_APART}[a-f0-9]{{36}}NRAL{_ENDS}"),
    _worded(
        "datadog_key",
        "datadog dd_ dd-",
        rf"(?:datadog|dd)[ _-]?(?:api|app|application)?[ _-]?key{_NEAR}(?P<secret>[a-f0-9]{{40}}|[a-f0-9]{{32}}){_ENDS}",
    ),
    # models
    _prefixed("anthropic_key", "sk-ant-", r"[A-Za-z0-9_-]{24,256}", randomness.is_mixed),
    _prefixed(
        "openai_key",
        "sk-proj- sk-svcacct- sk-admin- sk-None-",
        r"[A-Za-z0-9_-]{20,300}",
        randomness.is_mixed,
        is_apart=True,
    ),
    _prefixed("openrouter_key", "sk-or-", r"(?:v1-)?[a-f0-9]{64}"),
    _prefixed("openai_key", "sk-", rf"[A-Za-z0-9]{{32,64}}{_ENDS}", randomness.is_mixed, is_apart=True),
    _prefixed("huggingface_token", "hf_ api_org_", r"[A-Za-z0-9]{30,40}", is_apart=True),
    _prefixed("groq_key", "gsk_", r"[A-Za-z0-9]{48,56}", is_apart=True),
    _prefixed("replicate_token", "r8_", r"[A-Za-z0-9]{37,40}", is_apart=True),
    _prefixed("xai_key", "xai-", r"[A-Za-z0-9]{70,90}", is_apart=True),
    _prefixed("perplexity_key", "pplx-", r"[A-Za-z0-9]{40,56}"),
    _prefixed("databricks_token", "dapi", r"[a-f0-9]{32}(?:-\d)?", is_apart=True),
    # chat, mail, payment
    _prefixed(
        "slack_token",
        "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxc- xoxd- xapp- xoxe.xox",
        r"[A-Za-z0-9%/+.=-]{16,300}",
        lambda text: randomness.is_varied(text) and any(map(str.isdigit, text)),
    ),
    _structured(
        "slack_webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_-]{20,200})",
        begins=True,
    ),
    _structured(
        "discord_webhook",
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/(?P<secret>\d{16,22}/[A-Za-z0-9_-]{50,100})",
    ),
    Shape(
        "discord_token",
        rf"{_APART}[MNO][DTjz][A-Za-z0-9_-]{{22,28}}\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,45}}(?![A-Za-z0-9_.-])",
        ("MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),  # digits in base64
        randomness.has_numeric_id,
        begins=True,
        is_prefixed=True,
    ),
    _structured("telegram_token", ":AA", r"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])"),
    _prefixed("sendgrid_key", "SG.", r"[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}", is_apart=True),
    _prefixed("twilio_key", "SK", rf"[0-9a-f]{{32}}{_ENDS}", is_apart=True),
    _worded(
        "twilio_key",
        "twilio",
        rf"twilio[\w .\"'-]{{0,30}}(?:token|secret|key){_NEAR}(?P<secret>{_HEX32}){_ENDS}",
    ),
    _structured("mailgun_key", "key-", rf"(?<![A-Za-z0-9_-])key-{_HEX32}{_ENDS}", begins=True),
    _worded(
        "mailgun_key",
        "mailgun",
        rf"(?P<secret>{_HEX32}-[0-9a-f]{{8}}-[0-9a-f]{{8}}){_ENDS}",
        begins=False,
    ),
    _structured("mailchimp_key", "-us", rf"{_APART}{_HEX32}-us[0-9]{{1,2}}{_ENDS}"),
    _prefixed("brevo_key", "xkeysib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    _prefixed("stripe_key", "sk_live_ sk_test_ rk_live_ rk_test_", r"[A-Za-z0-9]{16,247}", is_apart=True),
    _prefixed("webhook_secret", "whsec_", r"[A-Za-z0-9+/]{24,88}={0,2}"),
    _prefixed("square_token", "sq0atp- sq0csp- sq0idp-", r"[A-Za-z0-9_-]{22,43}"),
    _prefixed(
        "square_token", "EAAA", r"[A-Za-z0-9_-]{60}(?![A-Za-z0-9_-])", randomness.is_mixed, is_apart=True
    ),
    _prefixed("shopify_token", "shpat_ shpca_ shppa_ shpss_", r"[a-fA-F0-9]{32}"),
    # offices
    _prefixed("linear_key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,64}"),
    _prefixed("notion_token", "ntn_", r"[A-Za-z0-9]{40,50}", is_apart=True),
    _prefixed("notion_token", "secret_", rf"[A-Za-z0-9]{{43}}{_ENDS}", randomness.is_mixed, is_apart=True),
    _prefixed("postman_key", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    _prefixed("figma_token", "figd_", r"[A-Za-z0-9_-]{36,64}"),
    _prefixed("airtable_token", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    # by structure
    _structured(
        "jwt",
        "eyJ",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,4096}+\.[A-Za-z0-9_-]{8,16384}+\.[A-Za-z0-9_-]{0,4096}+(?:\.[A-Za-z0-9_-]{1,16384}+\.[A-Za-z0-9_-]{1,4096}+)?",
        randomness.has_jwt_header,
        begins=True,
    ),
    _worded(
        "authorization",
        "authorization",
        rf"authorization{_IS}basic\s{{1,4}}(?P<secret>[A-Za-z0-9+/]{{4,4096}}={{0,2}})",
        randomness.is_name_and_password,
    ),
    _worded(
        "authorization",
        "authorization",
        rf"authorization{_IS}(?:bearer|token|apikey|digest)?\s{{0,4}}(?P<secret>[A-Za-z0-9._~+/=-]{{12,4096}})",
        randomness.is_assigned_secret,
    ),
    _worded(
        "authorization",
        "bearer",
        r"\bbearer[\s:=]{1,4}(?P<secret>[A-Za-z0-9._~+/=-]{16,4096})",
        randomness.is_mixed,
    ),
    _structured(
        "url_password",
        "://",
        r"://[^\s/:@?#\"'<>]{0,128}:(?P<secret>[^\s/@\"'<>]{3,256})@",
        randomness.is_url_password,
        begins=True,
    ),
    _worded(
        "password",
        "curl",
        r"\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =][\"']?[^\s:\"']{1,64}:(?P<secret>[^\s\"']{4,128})",
        randomness.is_url_password,
    ),
    _worded(
        "password",
        "machine",
        r"\bmachine\s{1,8}\S{1,128}\s{1,8}login\s{1,8}\S{1,128}\s{1,8}password\s{1,8}(?P<secret>\S{4,128})",
        randomness.is_url_password,
    ),
    _worded(
        "password",
        _PASSWORDS,
        rf"{_ANY_OF_PASSWORDS}{_IS}{_VALUE}",
        randomness.is_assigned_password,
    ),
    _worded(
        "password",
        _PASSWORDS,
        rf"{_ANY_OF_PASSWORDS}>(?P<secret>[^\s<>]{{6,256}})</",
        randomness.is_assigned_password,
    ),
    _worded(
        "password",
        "--pass --pwd",
        rf"--{_ANY_OF_PASSWORDS}[ ]{{1,2}}[\"']?{_VALUE}",
        randomness.is_assigned_password,
    ),
    _worded(
        "password",
        _PASSWORDS,
        rf"{_ANY_OF_PASSWORDS}(?: for [\w .-]{{1,40}}?)? (?:is|was|will be|to)[: ] ?[\"'`]?{_VALUE}",
        randomness.is_stated_secret,
    ),
    _worded(
        "secret",
        _LAST_WORDS,
        rf"{_LAST_OF_SECRETS}{_IS}{_VALUE}",
        randomness.is_assigned_secret,
    ),
    _worded(
        "secret",
        _LAST_WORDS,
        rf"{_LAST_OF_SECRETS}>(?P<secret>[^\s<>]{{8,256}})</",
        randomness.is_assigned_secret,
    ),
    _worded(
        "secret",
        "--",
        rf"(?<!-)--(?:[a-z]{{1,12}}-){{0,2}}{_ANY_OF_SECRETS}[ ]{{1,2}}[\"']?{_VALUE}",
        randomness.is_assigned_secret,
    ),
    _worded(
        "secret",
        _LAST_WORDS,
        rf"{_LAST_OF_SECRETS}(?: for [\w .-]{{1,40}}?)? (?:is|was)[: ] ?[\"'`]?{_VALUE}",
        lambda text: randomness.is_stated_secret(text) and len(text) >= 12,
    ),
)

#: Every label that a row can give.
NAMES: Final = frozenset(shape.name for shape in SHAPES)
