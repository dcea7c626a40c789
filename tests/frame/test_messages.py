"""Messages are built at their first use, whoever comes first."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from pydantic import Field

from quipu.operation import Response


def test_many_threads_that_use_a_message_first_all_get_it() -> None:
    for _ in range(20):

        class Part(Response):
            """A part."""

            name: str = Field(description="Its name.")

        class Whole(Response):
            """A whole."""

            parts: tuple[Part, ...] = Field(description="Its parts.")

        at_once = Barrier(8)

        def made(number: int, whole: Any = Whole, part: Any = Part, start: Barrier = at_once) -> str:
            start.wait(60)
            return whole(parts=(part(name=str(number)),)).parts[0].name

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(made, range(8))) == [str(number) for number in range(8)]
