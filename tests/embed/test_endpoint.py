"""The endpoint embedder against a real HTTP server on loopback."""

import asyncio
import gzip
import json
import traceback
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from quipu.embed import model_server
from quipu.embed.endpoint import EndpointEmbedder, model_name
from quipu.embed.model_server import UNREACHED
from quipu.errors import BackendUnavailableError, InvalidError
from tests.embed.server import Reply, Script, Server, serving

KEY = "sk-very-secret-7a1f"
TEXT = "the launch code is swordfish"


def vector(text: str, size: int = 4) -> list[float]:
    return [float(len(text) + position) for position in range(size)]


def listing(body: bytes, size: int = 4) -> list[dict[str, Any]]:
    texts = json.loads(body)["input"]
    return [{"index": number, "embedding": vector(text, size)} for number, text in enumerate(texts)]


def data(items: object) -> Reply:
    return 200, {"Content-Type": "application/json"}, json.dumps({"data": items}).encode()


def right(body: bytes) -> Reply:
    return data(listing(body))


def status(code: int, headers: dict[str, str] | None = None) -> Script:
    # An unkind endpoint: it repeats what it was sent, key and all.
    return lambda body: (code, headers or {}, b"refused " + body + KEY.encode())


def embeddings(numbers: list[Any]) -> Script:
    return lambda body: data([{**item, "embedding": numbers} for item in listing(body)])


def unit(numbers: list[float]) -> bytes:
    exact = np.array(numbers)
    return (exact / np.linalg.norm(exact)).astype("<f4").tobytes()


class Waits:
    """A clock that passes at once and remembers how long it was to wait."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def opened(server: Server, **settings: Any) -> EndpointEmbedder:
    defaults = {"base_url": server.url, "model": "tiny", "api_key": KEY, "sleep": Waits(), "dimensions": 4}
    return await EndpointEmbedder.open(**{**defaults, **settings})


async def failure(server: Server, *replies: Script, **settings: Any) -> BackendUnavailableError:
    """What embedding two texts ends in; checked to hold neither the key nor a text, wherever it is printed."""
    server.replies = list(replies)
    embedder = await opened(server, **settings)
    with pytest.raises(BackendUnavailableError) as failed:
        await embedder.embed([TEXT, "another"])
    await embedder.close()
    error = failed.value
    printed = "".join(traceback.format_exception(error)) + repr(error) + str(error.hint) + repr(embedder)
    assert KEY not in printed
    assert "swordfish" not in printed
    return error


async def test_it_finds_out_the_dimensions_and_brings_vectors_to_length_one(server: Server) -> None:
    server.replies = [right]
    embedder = await opened(server, dimensions=None)
    assert (embedder.dimensions, embedder.model) == (4, "openai:tiny/4")
    assert embedder.model == model_name("tiny", 4)
    assert await embedder.embed(["a", "bcd"]) == [unit(vector("a")), unit(vector("bcd"))]
    assert server.bodies[-1] == {"model": "tiny", "input": ["a", "bcd"]}
    assert server.headers[-1]["Authorization"] == f"Bearer {KEY}"
    embedder.clear()
    await embedder.close()


async def test_given_dimensions_are_requested_and_not_probed(server: Server) -> None:
    server.replies = [right]
    embedder = await opened(server, api_key=None)
    assert server.bodies == []
    await embedder.embed(["a"])
    assert server.bodies[-1]["dimensions"] == 4
    assert "Authorization" not in server.headers[-1]
    await embedder.close()


async def test_known_dimensions_are_neither_requested_nor_probed(server: Server) -> None:
    server.replies = [right]
    embedder = await opened(server, dimensions=None, known_dimensions=4)
    assert (server.bodies, embedder.model, embedder.dimensions) == ([], "openai:tiny/4", 4)
    await embedder.embed([TEXT])
    assert "dimensions" not in server.bodies[0]
    await embedder.close()


async def test_texts_go_out_in_batches_and_come_back_in_order(server: Server) -> None:
    server.replies = [right]
    embedder = await opened(server, batch_size=2)
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    assert await embedder.embed(texts) == [unit(vector(text)) for text in texts]
    assert [len(body["input"]) for body in server.bodies] == [2, 2, 1]
    assert await embedder.embed([]) == []
    await embedder.close()


async def test_vectors_listed_in_another_order_are_put_right_by_index(server: Server) -> None:
    server.replies = [lambda body: data(listing(body)[::-1])]
    embedder = await opened(server)
    assert await embedder.embed(["a", "bcd"]) == [unit(vector("a")), unit(vector("bcd"))]
    await embedder.close()


async def test_empty_and_malformed_texts_are_sent_as_something_an_endpoint_takes(server: Server) -> None:
    server.replies = [right]
    embedder = await opened(server)
    await embedder.embed(["", "\ud800"])
    assert server.bodies[-1]["input"] == [" ", "?"]
    await embedder.close()


async def test_a_rate_limit_is_waited_out_as_long_as_the_endpoint_asks(server: Server) -> None:
    waits = Waits()
    server.replies = [status(429, {"Retry-After": "3"}), status(503), right]
    embedder = await opened(server, sleep=waits)
    assert await embedder.embed(["a"]) == [unit(vector("a"))]
    assert waits.seconds == [3.0, 0.5]
    await embedder.close()


async def test_a_wait_that_is_too_long_is_not_begun(server: Server) -> None:
    waits = Waits()
    error = await failure(server, status(429, {"Retry-After": "86400"}), sleep=waits)
    assert (error.reason, error.retry_after_s) == ("endpoint_rate_limited", 86_400)
    assert waits.seconds == []


async def test_attempts_are_bounded(server: Server) -> None:
    waits = Waits()
    error = await failure(server, status(500), retries=2, sleep=waits)
    assert error.reason == "endpoint_refused"
    assert (len(server.bodies), waits.seconds) == (3, [0.25, 0.5])


def narrow(code: int, *, longest: int, most: int = 1_000) -> Script:
    """An endpoint that takes so many characters in one text, and so many texts at once."""

    def reply(body: bytes) -> Reply:
        texts = json.loads(body)["input"]
        is_taken = len(texts) <= most and max(map(len, texts)) <= longest
        return right(body) if is_taken else status(code)(body)

    return reply


@pytest.mark.parametrize("code", [400, 413, 422])
async def test_a_text_that_is_too_long_is_embedded_in_pieces_and_takes_no_other_along(
    server: Server, code: int
) -> None:
    server.replies = [narrow(code, longest=1_000)]
    embedder = await opened(server)
    texts = ["a", "b" * 3_000, "cc", "dddd", "e" * 1_000]
    found = await embedder.embed(texts)
    assert [found[place] for place in (0, 2, 3, 4)] == [unit(vector(texts[place])) for place in (0, 2, 3, 4)]
    assert found[1] == unit(vector("b" * 750))  # four pieces, all of one direction here
    await embedder.close()


async def test_pieces_cover_the_text_and_their_mean_is_its_vector(server: Server) -> None:
    server.replies = [narrow(400, longest=600)]
    embedder = await opened(server)
    text = "".join(f"{number:04}" for number in range(275))
    (found,) = await embedder.embed([text])
    pieces = [text[:550], text[550:]]
    assert server.bodies[-1]["input"] == pieces
    middle = np.mean([np.frombuffer(unit(vector(piece)), "<f4") for piece in pieces], axis=0)
    np.testing.assert_allclose(np.frombuffer(found, "<f4"), middle / np.linalg.norm(middle), rtol=1e-6)
    await embedder.close()


async def test_a_very_long_text_is_sampled_and_its_end_is_not_left_out(server: Server) -> None:
    server.replies = [narrow(413, longest=1_024)]
    embedder = await opened(server)
    text = "".join(f"{number:08}" for number in range(1 << 17))
    await embedder.embed([text])
    pieces = server.bodies[-1]["input"]
    assert len(pieces) == 32
    assert (pieces[0], pieces[-1]) == (text[:1_024], text[-1_024:])
    await embedder.close()


async def test_pieces_that_cancel_each_other_out_are_a_refusal(server: Server) -> None:
    def torn(body: bytes) -> Reply:
        texts = json.loads(body)["input"]
        if max(map(len, texts)) > 600:
            return status(400)(body)
        return data([{"index": n, "embedding": [(-1.0) ** n] * 4} for n in range(len(texts))])

    server.replies = [torn]
    embedder = await opened(server)
    with pytest.raises(BackendUnavailableError) as refused:
        await embedder.embed(["x" * 1_200])
    assert refused.value.reason == "endpoint_refused"
    await embedder.close()


async def test_more_texts_than_an_endpoint_takes_at_once_go_out_in_smaller_batches(server: Server) -> None:
    server.replies = [narrow(422, longest=1_000, most=32)]
    embedder = await opened(server)
    texts = ["x" * (1 + number) for number in range(150)]
    assert await embedder.embed(texts) == [unit(vector(text)) for text in texts]
    await embedder.close()


@pytest.mark.parametrize("code", [400, 413, 422])
async def test_a_short_text_that_is_refused_is_not_cut_up(server: Server, code: int) -> None:
    error = await failure(server, status(code))
    assert error.reason == "endpoint_refused"
    assert str(code) in str(error)
    assert len(server.bodies) == 2  # both texts, and the first of them


@pytest.mark.parametrize("code", [401, 403, 404, 302])
async def test_a_refusal_that_will_not_pass_is_not_tried_again(server: Server, code: int) -> None:
    error = await failure(server, status(code, {"Location": "http://127.0.0.1:9/"}))
    assert error.reason == "endpoint_refused"
    assert str(code) in str(error)
    assert (error.hint is not None) == (code != 302)
    assert len(server.bodies) == 1


UNTRUSTED: dict[str, Script] = {
    "wrong dimensions": lambda body: data(listing(body, size=5)),
    "too few": lambda body: data(listing(body)[:1]),
    "index twice": lambda body: data([{"index": 0, "embedding": vector("a")}] * 2),
    "index out of range": lambda body: data([{"index": 7, "embedding": vector("a")}] * 2),
    "index is a list": lambda body: data([{**item, "index": [0]} for item in listing(body)]),
    "not a number": embeddings([1.0, float("nan"), 0.0, 0.0]),
    "infinite": lambda body: (200, {}, json.dumps({"data": listing(body)}).replace("28.0", "1e999").encode()),
    "all zero": embeddings([0.0] * 4),
    "words": embeddings(["swordfish"] * 4),
    "numbers as words": embeddings(["1.0"] * 4),
    "a huge number": embeddings([10**400, 0, 0, 0]),
    "nested": embeddings([[1.0], [2.0], [3.0], [4.0]]),
    "nothing inside": lambda body: data([None, None]),
    "no data": lambda body: data(None),
    "not an object": lambda body: (200, {}, b"[]"),
    "not JSON": lambda body: (200, {}, b"swordfish " + KEY.encode()),
    "not text": lambda body: (200, {}, b"\xff\xfe\xfd"),
    "very deep": lambda body: (200, {}, b"[" * 200_000),
}


@pytest.mark.parametrize("name", UNTRUSTED)
async def test_an_answer_that_cannot_be_trusted_is_refused(server: Server, name: str) -> None:
    error = await failure(server, UNTRUSTED[name])
    assert error.reason == "endpoint_answer"
    assert len(server.bodies) == 1


async def test_an_answer_that_is_far_too_long_is_not_read_to_its_end(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_server, "_MOST_BYTES", 1_000_000)
    bomb = gzip.compress(b" " * 10_000_000)
    error = await failure(server, lambda body: (200, {"Content-Encoding": "gzip"}, bomb))
    assert error.reason == "endpoint_answer"
    assert "too long" in error.message


def silence(server: Server) -> Script:
    def reply(body: bytes) -> Reply:
        server.is_over.wait(60)
        return 200, {}, b""

    return reply


async def test_an_endpoint_that_does_not_answer_is_given_up(server: Server) -> None:
    error = await failure(server, silence(server), timeout_ms=100)
    assert error.reason == "endpoint_timeout"
    assert isinstance(error.__cause__, TimeoutError)
    assert error.is_retryable


async def test_an_endpoint_that_drips_its_answer_is_given_up(server: Server) -> None:
    def drops() -> Iterator[bytes]:
        while not server.is_over.wait(0.01):
            yield b" "

    error = await failure(server, lambda body: (200, {}, drops()), timeout_ms=200)
    assert error.reason == "endpoint_timeout"


async def test_an_endpoint_that_is_not_there_is_tried_again_and_named_unreachable() -> None:
    waits = Waits()
    with pytest.raises(BackendUnavailableError) as failed:
        await EndpointEmbedder.open(base_url="http://127.0.0.1:1/v1", model="tiny", sleep=waits)
    assert failed.value.reason == "endpoint_unreachable"
    assert isinstance(failed.value.__cause__, httpx.ConnectError)
    assert len(waits.seconds) == 3


async def test_an_endpoint_that_is_gone_is_left_alone_for_a_while() -> None:
    with serving() as gone:
        pass
    waits, clock = Waits(), Clock()
    embedder = await opened(gone, sleep=waits, monotonic=clock)
    for _ in range(2):
        with pytest.raises(BackendUnavailableError) as failed:
            await embedder.embed([TEXT])
        assert failed.value.reason in UNREACHED
        assert len(waits.seconds) == 3, "the second time it was not tried"
    clock.now += 6
    with pytest.raises(BackendUnavailableError):
        await embedder.embed([TEXT])
    assert len(waits.seconds) == 6
    await embedder.close()


async def test_an_endpoint_that_was_silent_is_left_alone_for_a_while(server: Server) -> None:
    clock = Clock()
    server.replies = [silence(server)]
    embedder = await opened(server, timeout_ms=100, monotonic=clock)
    reasons: list[str | None] = []
    for pause in (0, 0, 6):
        clock.now += pause
        with pytest.raises(BackendUnavailableError) as failed:
            await embedder.embed([TEXT])
        reasons.append(failed.value.reason)
    # The second time it was not tried: that would have timed out too.
    assert reasons == ["endpoint_timeout", "endpoint_unreachable", "endpoint_timeout"]
    await embedder.close()


async def test_one_that_refuses_is_tried_again_at_once(server: Server) -> None:
    server.replies = [status(401), right]
    embedder = await opened(server)
    with pytest.raises(BackendUnavailableError):
        await embedder.embed([TEXT])
    assert await embedder.embed([TEXT]) == [unit(vector(TEXT))]
    await embedder.close()


@pytest.mark.parametrize("url", ["localhost:11434", "ftp://host", "http://[::1"])
async def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BackendUnavailableError) as failed:
        await EndpointEmbedder.open(base_url=url, model="tiny", sleep=Waits())
    assert failed.value.reason == "endpoint_unreachable"


@pytest.mark.parametrize("key", ["sk-line\n", "sk-ü", "sk with blanks"])
async def test_a_key_no_header_can_carry_is_refused_without_being_quoted(server: Server, key: str) -> None:
    with pytest.raises(InvalidError) as refused:
        await opened(server, api_key=key)
    assert key not in "".join(traceback.format_exception(refused.value))


async def test_a_client_handed_in_stays_open(server: Server) -> None:
    server.replies = [right]
    async with httpx.AsyncClient() as client:
        embedder = await opened(server, client=client)
        await embedder.embed(["a"])
        await embedder.close()
        assert not client.is_closed


async def test_a_closed_embedder_says_so(server: Server) -> None:
    server.replies = [right]
    embedder = await opened(server)
    await embedder.close()
    await embedder.close()
    with pytest.raises(BackendUnavailableError) as closed:
        await embedder.embed(["a"])
    assert closed.value.reason == "closed"
    assert server.bodies == []


async def test_who_waits_between_attempts_when_it_is_closed_gets_an_error(server: Server) -> None:
    server.replies = [status(503)]
    pause, is_waiting = asyncio.Event(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        is_waiting.set()
        await pause.wait()

    embedder = await opened(server, sleep=sleep)
    waiting = asyncio.create_task(embedder.embed(["a"]))
    await is_waiting.wait()
    await embedder.close()
    pause.set()
    with pytest.raises(BackendUnavailableError) as closed:
        await waiting
    assert closed.value.reason == "closed"
