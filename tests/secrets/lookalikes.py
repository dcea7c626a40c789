"""Texts that look a little like secrets and are none: they must be remembered as they are."""

import base64
from collections.abc import Iterator
from hashlib import md5, sha1, sha256, sha512

from tests.secrets.noise import ALNUM, BASE64, DIGITS, HEX, UPPER, drawn

#: Said or written by people about secrets, without one.
PROSE = """\
She changed her password last week and wrote it down nowhere.
The password is stored as a bcrypt hash, never in plain text.
The password is base64-encoded, which protects nothing.
The password is SHA256-hashed with a salt.
Password: must contain at least 8 characters, one digit and one sign.
password: required
The password was wrong three times, so the account is locked.
The password for the wifi is on the fridge.
Her password is too short.
Reset your password at https://example.com/reset
His passphrase is a line of a poem.
The passcode to the gym changes every month.
Ask Bo for the API key; it is in the vault.
An API key is like a password for programs.
api_key: see the vault
The token is valid for 60 minutes.
Tokens: 1,024 in, 256 out.
max_tokens=4096
token_count: 128000
A JWT has three parts: header, payload and signature, each in base64url, joined by dots.
A JWT begins with eyJ because its header is JSON: {"alg": ...}.
Decode the JWT's first part and look at alg and typ.
The header is eyJ... and the rest follows.
Authorization: Bearer <token>
Authorization: Bearer YOUR_TOKEN_HERE
Authorization: Bearer $TOKEN
Authorization: Bearer ${ACCESS_TOKEN}
Send the header Authorization: Bearer followed by your token.
The bearer of this letter is my brother.
Bearer authentication is described in RFC 6750.
Basic authentication sends the name and password with every request.
Authorization: Basic <base64 of user:password>
export OPENAI_API_KEY=sk-...
export OPENAI_API_KEY=<your key>
OPENAI_API_KEY=your-api-key-here
OPENAI_API_KEY=${OPENAI_API_KEY}
The key begins with sk- and is 51 characters long.
Keys look like sk-proj-... nowadays.
use sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx as a placeholder
ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
GitHub tokens start with ghp_ and have 36 characters after it.
github_pat_... is the new form
glpat-xxxxxxxxxxxxxxxxxxxx
Slack bot tokens start with xoxb- and user tokens with xoxp-.
xoxb-your-token-goes-here-please
AIza... is how Google's keys begin.
npm_config_registry and npm_package_version are environment variables.
hf_hub_download and hf_transfer are functions.
She works at the help desk-the one downstairs.
The risk-adjusted-return-on-capital was discussed.
task-management-and-scheduling-for-everyone
disk-encryption-recovery-procedure-explained
AKIA is the prefix of long-term keys, ASIA that of temporary ones.
-----BEGIN CERTIFICATE----- is how a certificate begins.
A key file begins with BEGIN and ends with END lines.
postgresql://user:password@localhost/db
postgresql://user:pass@host:5432/dbname
mysql://USER:PASSWORD@HOST/DB
postgres://localhost:5432/main
redis://cache:6379/0
https://user@example.com/path
https://example.com:8443/a/b?c=d#e
https://example.com/search?q=secret+garden&page=2
https://example.com/login?next=%2Fhome%2Fana%3Ftab%3D2
git@example.com:acme/tools.git
ssh://git@example.com:22/acme/tools.git
mongodb+srv://<user>:<password>@cluster.example/db
amqp://${USER}:${PASS}@queue
mailto:ana@example.com?subject=The%20secret%20santa
The secret of good bread is time.
secret: true
secret = None
client_secret: str
client_secret=os.environ["CLIENT_SECRET"]
api_key=settings.OPENAI_API_KEY
api_key = get_api_key()
password = getpass.getpass()
password=$DB_PASSWORD
password: ${{ secrets.DB_PASSWORD }}
token: {{ vault_token }}
self.token = token
def login(user: str, password: str) -> Token:
if password != confirmation: raise ValueError
"password": null
"token": ""
"access_token": "string"
<input type="password" name="password" id="password">
<password>********</password>
--password-file /run/secrets/db
--token-file=/etc/acme/token.txt
secret_key_base is set in config/credentials.yml
private_key_path = "/etc/ssl/private/server.key"
public_key: see keys/ana.pub
primary_key=True
cache_key = f"{tenant}:{agent}"
partition key: tenant_id
The key-value store keeps its keys in order.
foreign key (tenant, store) references store
next_page_token: CAUQAA
continuation_token=eyJwYWdlIjoyfQ
Secrets of the Louvre, page 214
The 3 secrets are: patience, patience and patience.
credentials: include
credential: verifiable credential of type AlumniCredential
client key exchange, then change cipher spec
Twilio sent the message; the account was charged.
Heroku's free tier ended in November 2022.
Datadog shows 99.95 % uptime.
Vault keeps them; run vault status.
Her wifi is called BlueOcean42.
The machine logs in with its own account.
The curl command in the docs fails with 401.
"""

CODE = """\
const colours = ["#ff00aa", "#00ff7f", "#1e90ff", "#abcdef"];
background: #0d1117; color: #c9d1d9; border: 1px solid #30363d
for (let i = 0; i < items.length; i++) { total += items[i].price }
import { createHash } from "node:crypto";
SELECT id, content FROM memory WHERE tenant = ? AND born <= ? AND (died IS NULL OR died > ?)
kubectl get pods -n production -o wide --sort-by=.metadata.creationTimestamp
docker run --rm -it -p 8080:80 -v /srv/data:/data:ro nginx:1.27.3-alpine
pip install "numpy>=2.2,<3" --no-deps --only-binary=:all:
/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.33
C:\\Users\\Ana\\AppData\\Local\\Programs\\Python\\Python311\\python.exe
src/quipu/faces/memorywire/wire_requests.py:214
org.springframework.boot.autoconfigure.SpringBootApplication
com.acme.billing.invoices.InvoiceRepositoryImplementation
AbstractSingletonProxyFactoryBeanConfigurationException
test_a_value_without_secrets_comes_back_equal_and_unchanged
QUIPU_LEDGER_URL=sqlite:///var/lib/quipu/memory.db
LC_ALL=C.UTF-8 TZ=Europe/Berlin make check
x = (a + b) * c / d - e % f ^ g
\\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}
^(?:[a-z0-9!#$%&'*+/=?^_`{|}~-]+)@(?:[a-z0-9-]+\\.)+[a-z]{2,}$
printf("%02x:%02x:%02x\\n", a[0], a[1], a[2]);
data = b"\\x89PNG\\r\\n\\x1a\\n"
assert response.status_code == 200, response.text
@pytest.mark.parametrize("value", [1, 2, 3])
git rebase --onto main feature~3 feature
curl -fsSL https://example.com/install.sh | sh -s -- --version 1.2.3
curl -u ana https://example.com/api
ETag: W/"33a64df551425fcc55e4d42a148795d9f25f89d4"
If-None-Match: "686897696a7c876b7e"
Content-Type: multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
content="width=device-width, initial-scale=1.0, viewport-fit=cover"
urn:isbn:0451450523
doi:10.1038/s41586-020-2649-2
arXiv:2005.11401v4
"""

OTHERS = """\
v1.2.3-rc.1+build.20240501
Python 3.11.7, OpenSSL 3.0.13, SQLite 3.45.1, glibc 2.39
ISBN 978-3-16-148410-0
ISBN-10 0-306-40615-2
+49 30 901820
+1 (555) 010-9999
0049-89-12345678
DE89 3704 0044 0532 0130 00
EU372000011
Flight LH2035, seat 23F, booking R7KQ2Z
Order 302-4419283-5521907 arrives on 2024-05-01
52.5200066, 13.4049540
40°26'46"N 79°58'56"W
00:1B:44:11:3A:B7
00-14-22-01-23-45
2001:0db8:85a3:0000:0000:8a2e:0370:7334
192.168.178.24:8080
2024-05-01T10:15:30.123456789Z
20240501T101530Z
P3Y6M4DT12H30M5S
#ff8800 and #08f are the brand colours
Donaudampfschifffahrtsgesellschaftskapitaenswitwe
pneumonoultramicroscopicsilicovolcanoconiosis
Rindfleischetikettierungsueberwachungsaufgabenuebertragungsgesetz
Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogoginoch
supercalifragilisticexpialidocious
Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Be7 Re1 b5 Bb3 d6 c3 O-O
C9H8O4, C8H10N4O2 and C27H46O
ATGGCCATTGTAATGGGCCGCTGAAAGGGTGCCCGATAG
MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQARLVQTE
G4Cm7F2Bb5Eb4
E2E4E7E5G1F3B8C6F1B5
1Z999AA10123456784
9400 1000 0000 0000 0000 00
WVWZZZ1JZXW000001
Room 4.17B, locker 0815, code word "tulip"
She paid 1,299.00 EUR on 03/05/2024 with invoice RE-2024-00417
The meeting id is 812 3456 7890
3.14159265358979323846264338327950288
1000000007 and 998244353 are primes
0xDEADBEEF and 0xCAFEBABE
Ana’s café, “naïve” façade — ½ price, №5, ﬁne print, ①②③
日本語のテキストと emoji 🙂👩‍👩‍👧‍👦 and Ελληνικά
"""  # noqa: RUF001  signs that people type


def lookalikes() -> list[str]:
    """At least 220 texts without a secret."""
    return [
        *PROSE.splitlines(),
        *CODE.splitlines(),
        *OTHERS.splitlines(),
        *_digests(),
        *_ids(),
        *_data(),
        *_places(),
    ]


def _digests() -> Iterator[str]:
    for number in range(8):
        text = f"object {number}".encode()
        yield sha1(text, usedforsecurity=False).hexdigest()
        yield f"Fixed in commit {sha1(text, usedforsecurity=False).hexdigest()} by Ana"
        yield f"sha256:{sha256(text).hexdigest()}"
        yield md5(text, usedforsecurity=False).hexdigest()
    for number in range(4):
        text = f"package {number}".encode()
        yield f"sha512-{base64.b64encode(sha512(text).digest()).decode()}"
        yield f'"integrity": "sha384-{base64.b64encode(sha512(text).digest()[:48]).decode()}"'
        yield f"numpy==2.2.{number} --hash=sha256:{sha256(text).hexdigest()}"
        yield f"h1:{base64.b64encode(sha256(text).digest()).decode()}="
        yield f"SHA256:{base64.b64encode(sha256(text).digest()).decode().rstrip('=')} ana@laptop (ED25519)"
        yield ":".join(
            sha1(text, usedforsecurity=False).hexdigest()[place : place + 2] for place in range(0, 40, 2)
        )
        yield sha256(text).hexdigest().upper()


def _ids() -> Iterator[str]:
    for number in range(8):
        digits = drawn(f"uuid {number}", 32, HEX)
        yield f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
        yield f"01J{drawn(f'ulid {number}', 23, '0123456789ABCDEFGHJKMNPQRSTVWXYZ')}"
        yield f"mem_01J{drawn(f'mem {number}', 23, '0123456789ABCDEFGHJKMNPQRSTVWXYZ')}"
        yield f"run {drawn(f'run {number}', 12)} ended with exit code {number}"
    for number in range(4):
        yield f"Ticket {drawn(f't {number}', 3, UPPER)}-{drawn(f'n {number}', 4, DIGITS)} is done"
        yield f"tok_01J{drawn(f'tok {number}', 23, '0123456789ABCDEFGHJKMNPQRSTVWXYZ')}"
        yield f"arn:aws:s3:::bucket-{drawn(f'arn {number}', 12, DIGITS)}/key/{number}"
        yield f"https://youtu.be/{drawn(f'video {number}', 11)}?t={number}"
        yield f"https://docs.example.com/document/d/{drawn(f'doc {number}', 44)}/edit"
        yield f"0x{drawn(f'address {number}', 40, HEX)}"
        yield f"trace 00-{drawn(f'trace {number}', 32, HEX)}-{drawn(f'span {number}', 16, HEX)}-01"


def _data() -> Iterator[str]:
    """The beginnings of files in base64, and base64 of harmless text."""
    for head in (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\xff\xd8\xff\xe0\0\x10JFIF",
        b"GIF89a",
        b"%PDF-1.7\n",
        b"PK\3\4",
    ):
        body = base64.b64encode(head + sha512(head).digest()).decode()
        yield f"data:application/octet-stream;base64,{body}"
        yield body
    for text in ("The quick brown fox jumps over the lazy dog.", '{"page": 2, "order": "asc", "limit": 50}'):
        yield base64.b64encode(text.encode()).decode()
        yield text.encode().hex()
        yield text.encode().hex(" ")
        yield "".join(f"%{byte:02X}" for byte in text.encode())
    yield f"-----BEGIN CERTIFICATE-----\n{drawn('cert', 64, BASE64)}\n-----END CERTIFICATE-----"
    yield f"-----BEGIN PUBLIC KEY-----\n{drawn('pub', 64, BASE64)}\n-----END PUBLIC KEY-----"
    yield f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{drawn('ssh', 43, BASE64)} ana@laptop"


def _places() -> Iterator[str]:
    """Markers, ours and those of others."""
    yield "The key was <REDACTED:github_token> and is gone."
    yield "password=<REDACTED:password>"
    yield "postgres://app:<REDACTED:url_password>@db/main"
    yield "Authorization: Bearer <REDACTED:authorization>"
    yield "[REDACTED:db-password] stood here"
    yield "<REDACTED:some-label-of-old> stood here"
    yield f"{'AKIA'}{'IOSFODNN7'}{'EXAMPLE'}"  # the vendor's own example
    yield drawn("a word of letters and digits", 32, ALNUM)
