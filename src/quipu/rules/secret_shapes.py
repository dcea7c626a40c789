"""The well-known shapes of secrets, one row each. To add one, add a row and its two examples in the tests.

A row's name is the class that the marker shows. Its keywords are looked for first: without one of them the pattern is
not tried. Where only a part of the match is secret, the pattern names it `secret`. Every repetition has an upper bound
or is possessive over one class of characters, so that no text takes more than linear time. More specific rows come
first: they name what several rows find.
"""

from __future__ import annotations

from typing import Final

from quipu.rules import randomness
from quipu.rules.shapes import APART, Shape, cased, token, told

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
_PASSWORDS = r"(?:pass(?:word|wd|phrase|code)|pwd)"
_SIGNS_OF_PASSWORDS = "password passwd passphrase passcode pwd"
_SECRETS = (
    r"(?:(?:api|app|access|secret|private|auth|encryption|signing|master|account|admin|service|shared|client|webhook)"
    r"[ _.-]?keys?|secret|(?<!page)(?<!page[ _-])(?<!next[ _-])(?<!continuation[ _-])token|credentials?)"
)
_SIGNS_OF_SECRETS = "key secret token credential"

#: How each of those begins.
_WORDS_BEFORE = (
    "api app access secret private auth encryption signing master account admin service shared client webhook token "
    "credential"
)

SHAPES: Final[tuple[Shape, ...]] = (
    # Quipu's own, and whole keys
    token("quipu_token", "qp_", r"[a-z0-9][a-z0-9-]{0,62}_[A-Za-z0-9_-]{43}"),
    cased(
        "private_key",
        "PRIVATE",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\s\S])*+(?:-----END [A-Z0-9 ]{0,60}-----)",
        randomness.holds_key,
        is_long=False,
        signs="--",
    ),
    cased(  # cut off before its end
        "private_key",
        "PRIVATE",
        rf"-----BEGIN [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----{_BODY}",
        randomness.holds_key,
        is_long=False,
        signs="--",
    ),
    cased(
        "private_key",
        "PRIVATE",
        r"---- BEGIN SSH2 [A-Z ]{0,20}PRIVATE KEY ----(?:(?!---- (?:BEGIN|END))[\s\S])*+---- END [A-Z0-9 ]{0,40} ----",
        is_long=False,
        signs="--",
    ),
    cased(
        "private_key",
        "PuTTY-User-Key-File-",
        rf"PuTTY-User-Key-File-(?:(?!Private-Lines|PuTTY-)[\s\S])*+Private-Lines: ?\d{{1,4}}{_BODY}",
        is_long=False,
    ),
    token("age_key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    cased("jwk_private_key", '"kty"', r"\"(?:d|k)\"\s{0,4}:\s{0,4}\"(?P<secret>[A-Za-z0-9_-]{20,2048})\""),
    # clouds
    Shape(
        "aws_access_key_id",
        rf"{APART}(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{{16}}{_ENDS}",
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        lambda text: randomness.is_varied(text) and not text.endswith("EXAMPLE"),
        begins=True,
        is_long=True,
    ),
    told(
        "aws_secret_access_key",
        "secret aws",
        rf"(?:secret_?(?:access)?_?key|aws_?secret|secret access key|aws[\w .-]{{0,20}}secret)"
        rf"{_NEAR}(?P<secret>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])",
        randomness.is_mixed,
        is_long=True,
    ),
    cased(  # beside its key id
        "aws_secret_access_key",
        "AKIA ASIA",
        r"(?<![A-Za-z0-9/+])(?=[A-Za-z/+]{0,39}[0-9])(?=[^A-Z]{0,39}[A-Z])(?=[^a-z]{0,39}[a-z])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
        lambda text: randomness.is_mixed(text) and randomness.entropy(text) > 4.2,
    ),
    token("google_api_key", "AIza", r"[A-Za-z0-9_-]{35}"),
    token("google_oauth_secret", "GOCSPX-", r"[A-Za-z0-9_-]{28}"),
    token("google_oauth_token", "ya29.", r"[A-Za-z0-9_-]{20,2048}", is_apart=True),
    token("google_refresh_token", "1//0", r"[A-Za-z0-9_-]{40,256}", is_apart=True),
    cased("azure_storage_key", "AccountKey", r"AccountKey\s{0,2}=\s{0,2}(?P<secret>[A-Za-z0-9+/]{86}==)"),
    told(
        "azure_storage_key",
        "azure storage",
        rf"(?:azure|storage)[\w .-]{{0,30}}key{_NEAR}(?P<secret>[A-Za-z0-9+/]{{86}}==)",
        is_long=True,
    ),
    cased(
        "azure_shared_key",
        "SharedAccessKey",
        r"SharedAccessKey\s{0,2}=\s{0,2}(?P<secret>[A-Za-z0-9+/]{42,44}=)",
    ),
    cased("azure_sas", "sig=", r"[?&](?:amp;)?sig=(?P<secret>[A-Za-z0-9%+/]{40,120}=?)"),
    cased("azure_client_secret", "Q~", rf"{APART}[A-Za-z0-9_~.]{{3}}[0-9]Q~[A-Za-z0-9_~.-]{{31,34}}{_ENDS}"),
    token("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{64}"),
    token("heroku_key", "HRKU-", r"[A-Za-z0-9_-]{30,80}"),
    told(
        "heroku_key",
        "heroku",
        rf"heroku[\w .\"'-]{{0,16}}(?:key|token|secret|auth|api){_NEAR}(?P<secret>{_UUID})",
        is_long=True,
    ),
    token("cloudflare_key", "v1.0-", r"[a-f0-9]{24}-[a-f0-9]{146}", is_apart=True),
    told(
        "cloudflare_key",
        "cloudflare",
        rf"cloudflare[\w .-]{{0,20}}(?:key|token){_NEAR}(?P<secret>[A-Za-z0-9_-]{{37,40}}){_ENDS}",
        randomness.is_mixed,
        is_long=True,
    ),
    token("alibaba_key_id", "LTAI", rf"[A-Za-z0-9]{{16,24}}{_ENDS}", randomness.is_mixed, is_apart=True),
    token("flyio_token", "fm2_ fo1_", r"[A-Za-z0-9+/=_-]{40,2048}", is_apart=True),
    token(
        "tailscale_key", "tskey-", r"(?:auth|api|client|scim|webhook)-[A-Za-z0-9]{8,32}-[A-Za-z0-9]{16,48}"
    ),
    token("supabase_key", "sbp_ sb_secret_", r"[A-Za-z0-9_-]{30,64}", randomness.is_mixed, is_apart=True),
    token("netlify_token", "nfp_", r"[A-Za-z0-9]{36,44}", is_apart=True),
    token("planetscale_token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9._=-]{32,64}"),
    token("pulumi_token", "pul-", r"[a-f0-9]{40}", is_apart=True),
    token("doppler_token", "dp.pt. dp.st. dp.ct. dp.sa.", r"[A-Za-z0-9._-]{40,64}", is_apart=True),
    # code and packages
    token("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9_]{36,255}"),
    token("github_token", "github_pat_", r"[A-Za-z0-9_]{36,255}"),
    token(
        "gitlab_token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat-",
        r"[A-Za-z0-9_.-]{20,300}",
    ),
    token("gitlab_token", "GR1348941", r"[A-Za-z0-9_-]{20}"),
    token("bitbucket_token", "ATBB ATCTT3", r"[A-Za-z0-9_=-]{24,300}", randomness.is_mixed, is_apart=True),
    token("atlassian_token", "ATATT3", r"[A-Za-z0-9_=-]{60,300}"),
    token("npm_token", "npm_", r"[A-Za-z0-9]{36}"),
    cased(
        "npm_token",
        "_authToken",
        rf"_authToken\s{{0,2}}=\s{{0,2}}[\"']?(?P<secret>{_UUID}|[A-Za-z0-9+/=_-]{{32,256}})",
    ),
    token("pypi_token", "pypi-Ag", r"[A-Za-z0-9_-]{50,1024}"),
    token("rubygems_key", "rubygems_", r"[a-f0-9]{48}"),
    token("docker_token", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{27,64}"),
    cased(
        "docker_config_auth",
        '"auths"',
        r"\"auth\"\s{0,4}:\s{0,4}\"(?P<secret>[A-Za-z0-9+/]{8,512}={0,2})\"",
        randomness.is_name_and_password,
        is_long=False,
    ),
    token("buildkite_token", "bkua_", r"[a-z0-9]{40}"),
    token("vault_token", "hvs. hvb. hvr.", r"[A-Za-z0-9_-]{24,512}", is_apart=True),
    told(
        "vault_token",
        "vault",
        rf"(?<![A-Za-z0-9.])(?P<secret>s\.[A-Za-z0-9]{{24}}){_ENDS}",
        randomness.is_mixed,
        is_long=True,
        begins=False,
    ),
    cased("terraform_token", ".atlasv1.", r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70}"),
    token("sentry_token", "sntrys_ sntryu_", r"[A-Za-z0-9_+/=-]{40,512}"),
    cased("sentry_dsn", "://", rf"https?://{_HEX32}:(?P<secret>{_HEX32})@"),
    token("grafana_token", "glsa_ glc_", r"[A-Za-z0-9_+/=-]{32,512}", is_apart=True),
    token("newrelic_key", "NRAK- NRII- NRIQ- NRRA- NRSP-", r"[A-Za-z0-9_-]{27,64}"),
    cased("newrelic_key", "NRAL", rf"{APART}[a-f0-9]{{36}}NRAL{_ENDS}"),
    told(
        "datadog_key",
        "datadog dd_ dd-",
        rf"(?:datadog|dd)[ _-]?(?:api|app|application)?[ _-]?key{_NEAR}(?P<secret>[a-f0-9]{{40}}|[a-f0-9]{{32}}){_ENDS}",
        is_long=True,
    ),
    # models
    token("anthropic_key", "sk-ant-", r"[A-Za-z0-9_-]{24,256}", randomness.is_mixed),
    token(
        "openai_key",
        "sk-proj- sk-svcacct- sk-admin- sk-None-",
        r"[A-Za-z0-9_-]{20,300}",
        randomness.is_mixed,
        is_apart=True,
    ),
    token("openrouter_key", "sk-or-", r"(?:v1-)?[a-f0-9]{64}"),
    token("openai_key", "sk-", rf"[A-Za-z0-9]{{32,64}}{_ENDS}", randomness.is_mixed, is_apart=True),
    token("huggingface_token", "hf_ api_org_", r"[A-Za-z0-9]{30,40}", is_apart=True),
    token("groq_key", "gsk_", r"[A-Za-z0-9]{48,56}", is_apart=True),
    token("replicate_token", "r8_", r"[A-Za-z0-9]{37,40}", is_apart=True),
    token("xai_key", "xai-", r"[A-Za-z0-9]{70,90}", is_apart=True),
    token("perplexity_key", "pplx-", r"[A-Za-z0-9]{40,56}"),
    token("databricks_token", "dapi", r"[a-f0-9]{32}(?:-\d)?", is_apart=True),
    # talk, mail, money
    token(
        "slack_token",
        "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxc- xoxd- xapp- xoxe.xox",
        r"[A-Za-z0-9%/+.=-]{16,300}",
        lambda text: randomness.is_varied(text) and any(map(str.isdigit, text)),
    ),
    cased(
        "slack_webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_-]{20,200})",
    ),
    cased(
        "discord_webhook",
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/(?P<secret>\d{16,22}/[A-Za-z0-9_-]{50,100})",
    ),
    Shape(
        "discord_token",
        rf"{APART}[MNO][DTjz][A-Za-z0-9_-]{{22,28}}\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,45}}(?![A-Za-z0-9_.-])",
        ("MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),  # digits in base64
        randomness.has_numeric_id,
        begins=True,
        is_long=True,
    ),
    cased("telegram_token", ":AA", r"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])"),
    token("sendgrid_key", "SG.", r"[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}", is_apart=True),
    token("twilio_key", "SK", rf"[0-9a-f]{{32}}{_ENDS}", is_apart=True),
    told(
        "twilio_key",
        "twilio",
        rf"twilio[\w .\"'-]{{0,30}}(?:token|secret|key){_NEAR}(?P<secret>{_HEX32}){_ENDS}",
        is_long=True,
    ),
    cased("mailgun_key", "key-", rf"(?<![A-Za-z0-9_-])key-{_HEX32}{_ENDS}"),
    told(
        "mailgun_key",
        "mailgun",
        rf"(?P<secret>{_HEX32}-[0-9a-f]{{8}}-[0-9a-f]{{8}}){_ENDS}",
        is_long=True,
        begins=False,
    ),
    cased("mailchimp_key", "-us", rf"{APART}{_HEX32}-us[0-9]{{1,2}}{_ENDS}"),
    token("brevo_key", "xkeysib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    token("stripe_key", "sk_live_ sk_test_ rk_live_ rk_test_", r"[A-Za-z0-9]{16,247}", is_apart=True),
    token("webhook_secret", "whsec_", r"[A-Za-z0-9+/]{24,88}={0,2}"),
    token("square_token", "sq0atp- sq0csp- sq0idp-", r"[A-Za-z0-9_-]{22,43}"),
    token("square_token", "EAAA", r"[A-Za-z0-9_-]{60}(?![A-Za-z0-9_-])", randomness.is_mixed, is_apart=True),
    token("shopify_token", "shpat_ shpca_ shppa_ shpss_", r"[a-fA-F0-9]{32}"),
    # work
    token("linear_key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,64}"),
    token("notion_token", "ntn_", r"[A-Za-z0-9]{40,50}", is_apart=True),
    token("notion_token", "secret_", rf"[A-Za-z0-9]{{43}}{_ENDS}", randomness.is_mixed, is_apart=True),
    token("postman_key", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    token("figma_token", "figd_", r"[A-Za-z0-9_-]{36,64}"),
    token("airtable_token", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    # by structure
    cased(
        "jwt",
        "eyJ",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,4096}+\.[A-Za-z0-9_-]{8,16384}+\.[A-Za-z0-9_-]{0,4096}+(?:\.[A-Za-z0-9_-]{1,16384}+\.[A-Za-z0-9_-]{1,4096}+)?",
        randomness.has_jwt_header,
    ),
    told(
        "authorization",
        "authorization",
        rf"authorization{_IS}basic\s{{1,4}}(?P<secret>[A-Za-z0-9+/]{{4,4096}}={{0,2}})",
        randomness.is_name_and_password,
    ),
    told(
        "authorization",
        "authorization",
        rf"authorization{_IS}(?:bearer|token|apikey|digest)?\s{{0,4}}(?P<secret>[A-Za-z0-9._~+/=-]{{12,4096}})",
        randomness.is_assigned_secret,
    ),
    told(
        "authorization",
        "bearer",
        r"\bbearer[\s:=]{1,4}(?P<secret>[A-Za-z0-9._~+/=-]{16,4096})",
        randomness.is_mixed,
    ),
    cased(
        "url_password",
        "://",
        r"://[^\s/:@?#\"'<>]{0,128}:(?P<secret>[^\s/@\"'<>]{3,256})@",
        randomness.is_url_password,
        is_long=False,
    ),
    told(
        "password",
        "curl",
        r"\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =][\"']?[^\s:\"']{1,64}:(?P<secret>[^\s\"']{4,128})",
        randomness.is_url_password,
    ),
    told(
        "password",
        "machine",
        r"\bmachine\s{1,8}\S{1,128}\s{1,8}login\s{1,8}\S{1,128}\s{1,8}password\s{1,8}(?P<secret>\S{4,128})",
        randomness.is_url_password,
        signs="password",
    ),
    told(
        "password",
        "pass pwd",
        rf"{_PASSWORDS}{_IS}{_VALUE}",
        randomness.is_assigned_password,
        signs=_SIGNS_OF_PASSWORDS,
    ),
    told(
        "password",
        "pass pwd",
        rf"{_PASSWORDS}>(?P<secret>[^\s<>]{{6,256}})</",
        randomness.is_assigned_password,
        signs=_SIGNS_OF_PASSWORDS,
    ),
    told(
        "password",
        "--pass --pwd",
        rf"--{_PASSWORDS}[ ]{{1,2}}[\"']?{_VALUE}",
        randomness.is_assigned_password,
    ),
    told(
        "password",
        "pass pwd",
        rf"{_PASSWORDS}(?: for [\w .-]{{1,40}}?)? (?:is|was|will be|to)[: ] ?[\"'`]?{_VALUE}",
        randomness.is_told_secret,
        signs=_SIGNS_OF_PASSWORDS,
    ),
    told(
        "secret",
        _WORDS_BEFORE,
        rf"{_SECRETS}{_IS}{_VALUE}",
        randomness.is_assigned_secret,
        signs=_SIGNS_OF_SECRETS,
    ),
    told(
        "secret",
        _WORDS_BEFORE,
        rf"{_SECRETS}>(?P<secret>[^\s<>]{{8,256}})</",
        randomness.is_assigned_secret,
        signs=_SIGNS_OF_SECRETS,
    ),
    told(
        "secret",
        "--",
        rf"(?<!-)--(?:[a-z]{{1,12}}-){{0,2}}{_SECRETS}[ ]{{1,2}}[\"']?{_VALUE}",
        randomness.is_assigned_secret,
    ),
    told(
        "secret",
        _WORDS_BEFORE,
        rf"{_SECRETS}(?: for [\w .-]{{1,40}}?)? (?:is|was)[: ] ?[\"'`]?{_VALUE}",
        lambda text: randomness.is_told_secret(text) and len(text) >= 12,
        signs=_SIGNS_OF_SECRETS,
    ),
)

#: Every class that a marker can show.
NAMES: Final = frozenset(shape.name for shape in SHAPES)
