"""Whether a server is at work or on its way out."""

from collections.abc import Callable


class Lifecycle:
    """Set by the server, looked at by readiness and by every answer. A server that drains never goes back."""

    def __init__(self) -> None:
        self.is_draining = False
        self._ends: dict[Callable[[], None], None] = {}

    def drain(self) -> None:
        """The end has begun: what is at work is finished, streams without an end are ended."""
        self.is_draining = True
        for end in tuple(self._ends):
            end()

    def on_drain(self, end: Callable[[], None]) -> None:
        """Call it when the server drains; at once if it does already."""
        self._ends[end] = None
        if self.is_draining:
            end()

    def off_drain(self, end: Callable[[], None]) -> None:
        """It came to its end by itself."""
        self._ends.pop(end, None)
