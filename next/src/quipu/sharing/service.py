"""The capability put together: every operation of sharing and the function that does it."""

from dataclasses import dataclass

from quipu.memory.pipeline import Pipeline
from quipu.operation import AnyBinding, Binding
from quipu.sharing import operations as ops
from quipu.sharing.about import About
from quipu.sharing.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What sharing does."""

    host: Host
    about: About

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.GET_IDENTITY, self.about.identity),
            Binding(ops.ROTATE_KEY, self.about.rotate),
            Binding(ops.DESCRIBE_SERVICE, self.about.describe),
        )


def sharing_service(*, host: Host, pipeline: Pipeline) -> Sharing:
    return Sharing(host=host, about=About(host=host, pipeline=pipeline, profiles=(), formats=()))
