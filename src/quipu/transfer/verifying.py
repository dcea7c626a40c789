"""Checking a bundle by itself, without a memory and without the network: who signed it, and whether all of it holds."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field

from quipu.command import Session
from quipu.errors import InvalidError, QuipuError, TamperedError
from quipu.model.ids import now
from quipu.operation import Response
from quipu.sharing import dids
from quipu.sharing.dids import PublicKey
from quipu.transfer.formats import registry, values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.reading import Reading

#: What a bundle proves: everything; nothing, because nobody signed it or the key is not known; that it was altered.
Outcome = Literal["proven", "unsigned", "unknown_key", "altered"]
_SHOWN, _FAILED = 20, 2


class FileReport(Response):
    """What a bundle proves."""

    file: str = Field(description="The file.")
    outcome: Outcome = Field(description="proven, unsigned, unknown_key or altered.")
    owner: str | None = Field(default=None, description="The DID that the file names as its owner.")
    kid: str | None = Field(default=None, description="The key that signed it.")
    items: int = Field(default=0, description="Memories in it.")
    tombstones: int = Field(default=0, description="Deletions that it names.")
    logs: int = Field(default=0, description="Entries of the logs of shared items.")
    receipts: int = Field(default=0, description="Receipts in it.")
    unverified: int = Field(default=0, description="Receipts by keys that are not known here.")
    position: int | None = Field(default=None, description="The journal position that it shows.")
    faults: tuple[str, ...] = Field(default=(), description="What is wrong with it; the first hundred.")

    @property
    def is_proven(self) -> bool:
        return self.outcome == "proven"


def verified_file(path: Path, documents: Sequence[Mapping[str, Any]], at: int) -> FileReport:
    """What a bundle proves. `documents`: DID documents of whoever may have signed; a `did:key` needs none."""
    keys = _keys(documents)
    with path.open("rb") as opened:
        try:
            found = registry.opened(Source(opened, path.name), "bundle", keys=keys, now=at)
            return _report(path, found)
        except TamperedError as error:
            return FileReport(file=str(path), outcome="altered", faults=(error.message,))


def verify_files(session: Session, files: Sequence[str], keys: str | None) -> int:
    """The part of `quipu verify` that is about bundles; its exit code."""
    documents = () if keys is None else documents_in(Path(keys).expanduser())
    reports: list[FileReport] = []
    for name in files:
        try:
            reports.append(verified_file(Path(name).expanduser(), documents, now()))
        except OSError as error:
            raise InvalidError(f"{name} cannot be read.", reason="no_file", hint="Check the path.") from error
    is_proven = all(report.is_proven for report in reports)
    body = {"verified": is_proven, "files": [report.to_dict() for report in reports]}
    session.answer(body, *(said for report in reports for said in lines(report)))
    return 0 if is_proven else _FAILED


def _report(path: Path, found: Reading) -> FileReport:
    faults: list[str] = []
    counts = {"items": 0, "tombstones": 0}
    for name, read in (("items", found.items), ("tombstones", found.tombstones)):
        for place, one in read():
            counts[name] += 1
            if isinstance(one, QuipuError):
                faults.append(f"{name}, line {place}: {one.message}")
    proofs = found.proofs()
    faults += [f"{one.file}, line {one.line}: {one.kind.replace('_', ' ')}" for one in proofs.faults]
    outcome: Outcome = "proven"
    if faults:
        outcome = "altered"
    elif found.signature != "valid":
        outcome = "unsigned" if found.signature == "absent" else "unknown_key"
    return FileReport(
        file=str(path),
        outcome=outcome,
        owner=found.owner,
        kid=found.kid,
        items=counts["items"],
        tombstones=counts["tombstones"],
        logs=proofs.logs,
        receipts=proofs.receipts,
        unverified=proofs.unverified,
        position=found.position,
        faults=tuple(faults[:100]),
    )


def _keys(documents: Sequence[Mapping[str, Any]]) -> Callable[[str], PublicKey | None]:
    known = {str(document.get("id")): document for document in documents}

    def key(kid: str) -> PublicKey | None:
        did, _ = dids.split(kid)
        document = dids.key_document(did) if did.startswith("did:key:") else known.get(did)
        return None if document is None else dids.key_of(document, did, kid, "assertionMethod")

    return key


def documents_in(path: Path) -> Sequence[Mapping[str, Any]]:
    """DID documents from a file: one, or a list of them."""
    try:
        found: Any = json.loads(path.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise _no_documents(path) from error
    listed: list[Any] = cast("list[Any]", found) if isinstance(found, list) else [found]
    if not all(isinstance(values.an_object(one).get("id"), str) for one in listed):
        raise _no_documents(path)
    return listed


def _no_documents(path: Path) -> InvalidError:
    return InvalidError(
        f"{path} holds no DID document.",
        reason="no_file",
        hint="It is what the owner's server answers at /.well-known/did.json or /owners/…/did.json.",
    )


def lines(report: FileReport) -> Sequence[str]:
    """The report, in sentences."""
    counted = (
        (report.items, "memory", "memories"),
        (report.tombstones, "deletion", "deletions"),
        (report.logs, "log entry", "log entries"),
        (report.receipts, "receipt", "receipts"),
    )
    said = ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in counted if count)
    outcome = {
        "proven": "holds",
        "unsigned": "not proven",
        "unknown_key": "not proven",
        "altered": "NOT as it was written",
    }
    told = [f"{report.file}: {outcome[report.outcome]} ({said or 'nothing in it'})"]
    if report.outcome == "proven":
        told.append(f"Signed by {report.kid}; every byte is as it was signed.")
    elif report.outcome == "unsigned":
        told.append("Nobody has signed it: whoever has it can have changed it.")
    elif report.outcome == "unknown_key":
        told.append(
            f"Signed by {report.kid}, whose key is not here: whoever has the file can have made it up."
        )
        if report.owner is not None and report.owner.startswith("did:web:"):
            host, path = dids.place_of(report.owner)
            told.append(f"Get it with: curl https://{host}{path} -o did.json; then: --keys did.json")
    if report.unverified:
        told.append(f"{report.unverified:,} receipts are signed by keys that are not here.")
    told += [f"  {fault}" for fault in report.faults[:_SHOWN]]
    if len(report.faults) > _SHOWN:
        told.append(f"  and {len(report.faults) - _SHOWN:,} more")
    return told
