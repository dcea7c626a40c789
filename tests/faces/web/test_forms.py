"""Forms from elsewhere change nothing; no page can be framed."""

import httpx
import pytest

from quipu.faces.web import routes
from quipu.faces.web.forms import own_path
from tests.faces.web.conftest import House, Person

WRITES = sorted(path for path in routes._WRITES)
PAGES = (
    "/",
    "/memories",
    "/stores",
    "/journal",
    "/journal/proof",
    "/review",
    "/rules",
    "/patterns",
    "/candidates",
    "/recover",
    "/dashboard",
    "/health",
    "/signin",
    "/nowhere",
)


def filled(path: str, house: House) -> str:
    kind = house.demo.proposals[0] if path.startswith("/review") else next(iter(house.demo.ids.values()))
    return path.replace("{id}", kind)


def is_refused(answer: httpx.Response) -> bool:
    return answer.status_code == 403 and "not sent by this page" in answer.text


@pytest.mark.parametrize("path", WRITES)
def test_a_form_without_its_secret_is_refused(house: House, ana: Person, path: str) -> None:
    assert is_refused(ana.client.post(filled(path, house), data={"decision": "approve"}))
    assert is_refused(ana.client.post(filled(path, house), data={"csrf": "", "decision": "approve"}))
    assert is_refused(ana.client.post(filled(path, house), data={"csrf": "wrong", "decision": "approve"}))


@pytest.mark.parametrize("path", WRITES)
def test_the_secret_of_another_session_is_refused(house: House, ana: Person, path: str) -> None:
    other = house.person("ana")
    assert is_refused(
        ana.client.post(filled(path, house), data={"csrf": other.secret(), "decision": "approve"})
    )


@pytest.mark.parametrize("path", WRITES)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
def test_a_form_that_another_site_sends_is_refused_even_with_the_secret(
    house: House, ana: Person, path: str, headers: dict[str, str]
) -> None:
    data = {"csrf": ana.secret(), "decision": "approve"}
    assert is_refused(ana.client.post(filled(path, house), data=data, headers=headers))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
    ],
    ids=str,
)
def test_the_pages_own_form_is_taken(house: House, ana: Person, headers: dict[str, str]) -> None:
    answer = ana.client.post("/journal/verify", data={"csrf": ana.secret()}, headers=headers)
    assert answer.status_code == 303


def test_its_own_origin_is_taken(house: House, ana: Person) -> None:
    answer = ana.client.post("/journal/verify", data={"csrf": ana.secret()}, headers={"Origin": house.url})
    assert answer.status_code == 303


def test_signing_in_needs_the_form_of_this_browser(house: House) -> None:
    """Otherwise somebody could sign a victim in to the attacker's own account."""
    token = house.demo.tokens["ana"]
    stranger, other = house.person(), house.person()
    assert is_refused(stranger.client.post("/signin", data={"token": token}))
    assert is_refused(stranger.client.post("/signin", data={"token": token, "csrf": other.secret("/signin")}))
    mine = stranger.secret("/signin")
    assert is_refused(
        stranger.client.post(
            "/signin", data={"token": token, "csrf": mine}, headers={"Origin": "https://evil.example"}
        )
    )
    assert stranger.session is None


def test_nothing_is_changed_by_a_link(house: House, ana: Person) -> None:
    for path in WRITES:
        assert ana.get(filled(path, house)).status_code in (200, 404, 405)
    assert ana.get("/signout").status_code == 405
    assert ana.get("/").status_code == 200


@pytest.mark.parametrize("path", PAGES)
def test_no_page_can_be_framed_sniffed_or_kept(house: House, ana: Person, path: str) -> None:
    headers = ana.get(path).headers
    policy = {part.strip() for part in headers["content-security-policy"].split(";")}
    assert policy == {
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self' data:",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    }
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-opener-policy"] == "same-origin"


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_inline_script_or_style(house: House, ana: Person, path: str) -> None:
    text = ana.get(path).text
    assert " style=" not in text
    assert "<style" not in text
    assert " onclick=" not in text
    assert "javascript:" not in text
    assert text.count("<script") == text.count('<script src="/static/quipu.js?v=')
    for found in ("http://", "https://", 'src="//'):
        assert found not in text.replace('xmlns="http://www.w3.org', "").replace("<b>https</b>", ""), (
            "nothing from elsewhere"
        )


def test_assets_may_be_kept_for_good_under_their_own_hash(house: House) -> None:
    person = house.person()
    found = person.get("/signin").text
    address = found.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
    answer = person.get(address)
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert person.get("/static/quipu.css?v=other").headers["cache-control"] == "no-cache"
    assert person.get("/static/routes.py").status_code == 404
    assert person.get("/static/%2e%2e/routes.py").status_code in (303, 404)


@pytest.mark.parametrize("path", ["/", "/memories", "/memories?q=a&b=c", "/review/prp_1#x"])
def test_an_own_path_is_kept(path: str) -> None:
    assert own_path(path) == path


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"not a form", "multipart/form-data; boundary=x"),
        (
            b"--x\r\nContent-Disposition: form-data; name=a; filename=f\r\n\r\nx\r\n--x--",
            "multipart/form-data; boundary=x",
        ),
        (b"{}", "application/json"),
        (b"\xff\xfe=%ff&csrf=%00", "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % number for number in range(200)), "application/x-www-form-urlencoded"),
        (b"", "multipart/form-data"),
    ],
    ids=range(6),
)
def test_what_is_no_form_is_refused_and_breaks_nothing(
    house: House, ana: Person, body: bytes, kind: str
) -> None:
    for path in ("/signin", "/signout", "/journal/verify"):
        answer = ana.client.post(path, content=body, headers={"Content-Type": kind})
        assert answer.status_code in (400, 403), path
    assert ana.get("/").status_code == 200
