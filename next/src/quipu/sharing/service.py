"""The capability put together: every operation of sharing and the function that does it."""

from dataclasses import dataclass

from quipu.operation import AnyBinding
from quipu.sharing.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What sharing does."""

    host: Host

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return ()


def sharing_service(*, host: Host) -> Sharing:
    return Sharing(host=host)
