"""Addresses, methods and headers: what every answer carries, whatever was asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.routing import Mount, Route

from quipu.faces.http.catalogue import Catalogue, Face
from quipu.faces.http.headers import header_text
from tests.faces.http.rig import Rig, problem
from tests.faces.serving import Served, served


@pytest.fixture(scope="module")
def at() -> Iterator[Served]:
    """One for all of them: what is asked here leaves nothing behind."""
    with served(more=Rig().faces, rate_per_minute=0) as at:
        yield at


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/rig",
        "/rig/",
        "/rig/nowhere",
        "/rig/public/",
        "/rig/../rig",
        "/%00",
        "/rig/items/",
        "/*",
    ],
)
def test_an_unknown_address_is_not_found(at: Served, path: str) -> None:
    with at.client() as client:
        problem(client.get(path), 404, "not_found", "route")
    with at.client("") as anonymous:
        problem(anonymous.get(path), 404, "not_found", "route")


@pytest.mark.parametrize("path", ["/rig/public?x=%00", "/memorywire/v0/export?agent_id=a%00b"])
def test_a_query_that_no_ledger_can_be_asked_for_is_refused(at: Served, path: str) -> None:
    with at.client() as client:
        problem(client.get(path), 400, "validation_error", "bad_value")
        assert client.get("/rig/public?x=%2500").status_code == 200


def test_an_unknown_method_is_told_which_there_are(at: Served) -> None:
    with at.client() as client:
        response = client.delete("/rig/echo")
        problem(response, 405, "validation_error", "method")
        assert response.headers["allow"] == "POST"
        response = client.request("OPTIONS", "/rig/wait")
        problem(response, 405, "validation_error", "method")
        assert response.headers["allow"] == "GET, HEAD, POST"
        problem(client.request("TRACE", "/rig/public"), 405, "validation_error", "method")


def test_head_is_get_without_a_body(at: Served) -> None:
    with at.client() as client:
        assert client.head("/rig/large").content == b""
        assert client.head("/rig/large").headers["content-type"] == "application/json"
        assert client.head("/nowhere").status_code == 404
        assert client.head("/nowhere").content == b""


def test_every_answer_carries_the_headers_that_keep_it_safe(at: Served) -> None:
    with at.client() as client:
        for response in (client.get("/rig/public"), client.get("/nowhere"), client.get("/healthz")):
            assert response.headers["cache-control"] == "no-store"
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["referrer-policy"] == "no-referrer"
            assert response.headers["x-frame-options"] == "DENY"
            assert response.headers["content-security-policy"].startswith("default-src 'none'")
            assert "strict-transport-security" not in response.headers
            assert "server" not in response.headers
            assert "access-control-allow-origin" not in response.headers


def test_https_is_remembered_by_browsers_where_it_is_spoken(rig: Rig) -> None:
    with served(more=rig.faces, behind_proxy=True) as at, at.client() as client:
        assert client.get("/rig/public").headers["strict-transport-security"].startswith("max-age=")


def test_each_request_has_an_id_of_ours(at: Served) -> None:
    with at.client() as client:
        seen = {
            client.get(
                "/rig/public", headers={"Quipu-Request-Id": "req_mine", "X-Request-Id": "mine"}
            ).headers["quipu-request-id"]
            for _ in range(20)
        }
    assert len(seen) == 20
    assert all(name.startswith("req_") and len(name) == 30 for name in seen)


@pytest.mark.parametrize(
    "text",
    [
        "a\r\nSet-Cookie: x=1",
        "a\nb",
        "\x01",
        "é",
        "\u2028",
        "\ud83e\uddf6".encode("utf-16", "surrogatepass").decode("utf-16"),
        "a,b",
    ],
)
def test_a_header_cannot_be_broken_out_of(at: Served, text: str) -> None:
    with at.client() as client:
        response = client.get("/rig/header", params={"text": text})
    assert response.status_code == 200
    assert "set-cookie" not in response.headers
    told = response.headers["x-told"]
    assert told.isascii()
    assert not set("\r\n\0") & set(told)
    assert told == text or "%" in told
    assert header_text(f"{text}\0") == f"{told}%00"


def test_a_broken_header_is_refused_before_it_reaches_a_handler(at: Served) -> None:
    raw = b"GET /rig/public HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\rb\r\n\r\n"
    with at.connect() as connection:
        connection.sendall(raw)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400")


def test_a_face_with_a_misspelt_path_does_not_start() -> None:
    async def endpoint(_request: object) -> None: ...

    with pytest.raises(ValueError, match="/nothere"):
        Catalogue([Face(name="x", routes=[Route("/here", endpoint)], public=frozenset({"/nothere"}))])


def test_the_place_of_a_request_is_a_template() -> None:
    async def endpoint(_request: object) -> None: ...

    inner = [Route("/{id}/deep", endpoint, methods=["POST"])]
    face = Face(
        name="x",
        routes=[
            Mount("/m", routes=inner),
            Route("/items/{id:path}", endpoint),
            Route("/items/{id}", endpoint, methods=["PUT"]),
        ],
        prefix="/m",
    )
    other = Face(name="y", routes=[Route("/y", endpoint)])
    catalogue = Catalogue([face, other])

    def place(method: str, path: str) -> tuple[str, str]:
        found = catalogue.place(
            {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
        )
        return found.face.name, found.path

    assert place("POST", "/m/private/deep") == ("x", "/m/{id}/deep")
    assert place("GET", "/m/private/deep") == ("x", "/m/{id}/deep")
    assert place("GET", "/items/a/b") == ("x", "/items/{id:path}")
    assert place("PUT", "/items/a") == ("x", "/items/{id}")
    assert place("GET", "/m/unknown") == ("x", "")
    assert place("GET", "/y") == ("y", "/y")
    assert place("GET", "/unknown") == ("y", "")


def test_a_place_that_was_found_once_is_found_again_by_its_own_method_only() -> None:
    async def endpoint(_request: object) -> None: ...

    reading = Face(name="reading", routes=[Route("/both", endpoint), Route("/{any}", endpoint)])
    writing = Face(name="writing", routes=[Route("/both", endpoint, methods=["POST"])])
    catalogue = Catalogue([reading, writing])

    def place(method: str, path: str) -> tuple[str, str]:
        found = catalogue.place(
            {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
        )
        return found.face.name, found.path

    for _ in range(2):
        assert place("GET", "/both") == ("reading", "/both")
        assert place("POST", "/both") == ("writing", "/both")
        assert place("DELETE", "/both") == ("reading", "/both")
        assert place("GET", "/{any}") == ("reading", "/{any}")
        assert place("GET", "/one") == ("reading", "/{any}")
    for number in range(100):  # whoever makes methods or addresses up fills nothing
        place(f"METHOD{number}", "/both")
        place("GET", f"/{number}")
    assert len(catalogue._known) == 3


def test_operations_are_looked_for_first_and_keep_what_comes_before_them() -> None:
    async def endpoint(_request: object) -> None: ...

    page = Route("/page", endpoint)
    recall, named = Route("/recall", endpoint), Route("/by/{name}", endpoint)
    slow = Face(name="slow", routes=[page])
    quick = Face(name="quick", routes=[named, recall], operations={"/recall": "recall", "/by/{name}": "by"})
    assert Catalogue([slow, quick]).routes == [recall, page, named]
