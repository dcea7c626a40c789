"""What is shown of memory, and to whom."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

from quipu.config import Settings

Convention: TypeAlias = Literal["proposal", "merged"]
#: `caller`: where the call is made; `server`: inside the server, beneath its own span.
Side: TypeAlias = Literal["caller", "server"]
#: Has the last word on content: given records and the name of the operation, it gives back the records to be shown.
RedactContent: TypeAlias = Callable[[Sequence[Mapping[str, Any]], str], Sequence[Mapping[str, Any]] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """OpenTelemetry as a program hands it in: `Memory(telemetry=Telemetry(tracer_provider=…))`.

    tracer_provider, meter_provider: Left out, those of the process, if there are any.
    redact: Sees content before it is shown, where it is shown at all, and gives back what may be shown of it.
    clock_ns: Nanoseconds since 1970; for tests.
    """

    tracer_provider: Any = None
    meter_provider: Any = None
    redact: RedactContent | None = None
    clock_ns: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Propagating(Telemetry):
    """The trace goes along with requests to another server of ours, and nothing is shown or counted: it mirrors us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """The settings, as far as spans and metrics go by them."""

    convention: Convention = "proposal"
    #: Whether content and queries stand on spans.
    has_content: bool = False
    has_namespace: bool = True
    has_metrics: bool = True
    #: Host and port of the server that is called, on the remote client's spans.
    server: tuple[str, int] | None = None

    @classmethod
    def of(cls, settings: Settings, server: tuple[str, int] | None = None) -> Self:
        wanted = settings.telemetry_namespace or (
            "off" if settings.telemetry_convention == "merged" else "plain"
        )
        return cls(
            convention=settings.telemetry_convention,
            # The remote client does not know the secrets, so it shows no texts.
            has_content=settings.telemetry_capture_content and server is None,
            has_namespace=wanted == "plain",
            has_metrics=settings.telemetry_metrics,
            server=server,
        )
