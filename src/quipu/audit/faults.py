"""A list of what is wrong: all is counted, and the first thousand are named."""

from collections.abc import Iterable

from quipu.audit.model import AuditFault

_MOST = 1_000


class Faults:
    """What is wrong with one tenant."""

    def __init__(self) -> None:
        self.count = 0
        self._named: list[AuditFault] = []

    def add(self, kind: str, detail: str, *, seq: int | None = None, id: str | None = None) -> None:
        """`kind` is a stable word, `detail` says it in words; neither holds memory text."""
        self.extend([AuditFault(kind=kind, detail=detail, seq=seq, id=id)])

    def extend(self, faults: Iterable[AuditFault]) -> None:
        for fault in faults:
            self.count += 1
            if len(self._named) < _MOST:
                self._named.append(fault)

    def include(self, other: "Faults") -> None:
        """What somebody else found comes behind."""
        unnamed = other.count - len(other._named)
        self.extend(other._named)
        self.count += unnamed

    @property
    def named(self) -> tuple[AuditFault, ...]:
        return tuple(self._named)

    @property
    def kinds(self) -> tuple[AuditFault, ...]:
        """That there are such faults, without what they are about."""
        kinds = dict.fromkeys(fault.kind for fault in self._named)
        return tuple(AuditFault(kind=kind, detail="who runs the server sees what it is") for kind in kinds)


class Unverifiable:
    """What could not be checked, each reason once."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def add(self, reason: str, message: str) -> None:
        self._reasons.setdefault(reason, message)

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(self._reasons)

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(self._reasons.values())
