"""bundle: look into a bundle, and check it, without any memory at hand."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from quipu.cli import output, sealing
from quipu.cli.command import Command, Group
from quipu.cli.proof import FAULTY, UNCHECKED, Keys, trusted
from quipu.cli.session import Session
from quipu.errors import InvalidError, QuipuError

if TYPE_CHECKING:
    from quipu.formats.bundle_proofs import Proofs
    from quipu.formats.reading import Opened

app = typer.Typer(name="bundle", cls=Group, no_args_is_help=True)

File: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="A bundle, or a PAM memory store.")]
_SAID = {
    "valid": "Signed by a key you trust",
    "foreign": "The signature is right, by a key that was not compared with yours",
    "absent": "Nobody signed it",
}
#: So many faults are listed; the first is what matters.
_LISTED = 10


@app.callback(cls=Group, rich_help_panel="In and out")
def bundle() -> None:
    """Check a file of memories, and look into it, without a database or a network.

    [bold]Example[/bold]
      quipu bundle verify memories.bundle.zip
      quipu bundle show memories.bundle.zip

    Files that `quipu export` writes, signed, and those of others that can be read here.
    """


@app.command("verify", cls=Command)
def verify(
    ctx: typer.Context,
    file: File,
    keys: Keys = None,
    identity: sealing.Identity = None,
    passphrase_file: sealing.Passphrase = None,
) -> None:
    """Check a bundle, every byte of it: signature, digests, receipts and logs.

    [bold]Examples[/bold]
      quipu bundle verify memories.bundle.zip
      quipu bundle verify memories.bundle.zip --keys trusted.json
      quipu bundle verify memories.bundle.zip.age --identity key.txt

    Exit codes: 0 it holds, 1 nobody signed it, 2 it was altered.
    See also: bundle show, import, audit keys.
    """
    run = Session.of(ctx)
    with sealing.opened(file, identity, passphrase_file) as opened_file:
        opened = _opened(opened_file, file, keys)
        vectors, proofs = opened.vectors(), opened.proofs()
        good = bad = 0
        for _, item in opened.items():
            good, bad = (good, bad + 1) if isinstance(item, QuipuError) else (good + 1, bad)
    told = {
        **_body(opened),
        "items": good,
        "unreadable": bad,
        "vectors": 0 if vectors is None else len(vectors),
        "receipts": proofs.receipts,
        "logged": proofs.logged,
        "faults": [{"kind": one.kind, "seq": one.seq, "detail": one.detail} for one in proofs.faults],
    }
    if not run.answer_json(told):
        shown = output.console()
        shown.print(_SAID[opened.signature], markup=False)
        shown.print(f"{output.counted(good, 'item')}, owner {opened.owner or 'unknown'}", markup=False)
        if vectors is not None:
            of = output.clean(vectors.model)
            shown.print(f"{output.counted(len(vectors), 'vector')} of {of}", markup=False)
        if bad:
            shown.print(f"{output.counted(bad, 'item')} cannot be read", markup=False)
        _tell_proofs(proofs)
    if proofs.faults:
        raise typer.Exit(FAULTY)
    if opened.signature == "absent":
        raise typer.Exit(UNCHECKED)


def _tell_proofs(proofs: Proofs) -> None:
    """Of a bundle that brings any."""
    shown = output.console()
    if proofs.receipts or proofs.logged:
        tied = (
            f"{output.counted(proofs.receipts, 'receipt')}, {output.counted(proofs.logged, 'line')} of logs"
        )
        shown.print(f"{tied}{'' if proofs.faults else ', each tied to the one before it'}", markup=False)
    for fault in proofs.faults[:_LISTED]:
        shown.print(output.clean(f"{fault.kind} at {fault.seq or 'its end'}: {fault.detail}"), markup=False)


@app.command("show", cls=Command)
def show(
    ctx: typer.Context,
    file: File,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many items are shown.")] = 10,
    identity: sealing.Identity = None,
    passphrase_file: sealing.Passphrase = None,
) -> None:
    """Show what is in a bundle: whose it is, and its first items.

    [bold]Example[/bold]
      quipu bundle show memories.bundle.zip --limit 3

    See also: bundle verify, import --dry-run.
    """
    run = Session.of(ctx)
    with sealing.opened(file, identity, passphrase_file) as opened_file:
        opened = _opened(opened_file, file, None)
        items: list[Any] = [
            item for _, item in islice(opened.items(), limit) if not isinstance(item, QuipuError)
        ]
    if run.answer_json({**_body(opened), "items": items}):
        return
    shown = output.console()
    shown.print(f"{opened.format.value}, owner {opened.owner or 'unknown'}", markup=False)
    for item in items:
        text = output.brief(item.get("content", {}).get("text") or "")
        shown.print(f"{output.clean(str(item.get('item_id')))}  {item.get('kind')}  {text}", markup=False)


@app.command("key", cls=Command)
def key(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the key goes; nothing may be there.")],
) -> None:
    """Make a key that opens bundles, and print the recipient that others seal them to.

    [bold]Examples[/bold]
      quipu bundle key key.txt
      quipu export memories.bundle.zip.age --encrypt-to age1...
      quipu import memories.bundle.zip.age --identity key.txt

    The file is an age identity: keep it as safe as the memories. Keys of other age programs do as well.
    See also: export, import, bundle verify.
    """
    from quipu.bootstrap import envelopes

    run = Session.of(ctx)
    identity, recipient = envelopes.new_identity()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidError(f"{file} exists already.", reason="exists", hint="Choose another name.") from None
    except OSError as error:
        raise InvalidError(f"{file} cannot be written: {error.strerror}.", reason="no_file") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as target:
        target.write(f"# recipient: {recipient}\n{identity}\n")
    if not run.answer_json({"file": str(file), "recipient": recipient}):
        output.console().print(recipient, markup=False, soft_wrap=True)


def describe(file: Path, identity: Path | None, words: Path | None) -> Opened:
    """What a bundle says of itself; its signature is checked, by whichever key it is."""
    with sealing.opened(file, identity, words) as opened_file:
        return _opened(opened_file, file, None)


def _opened(opened: Any, file: Path, keys: Path | None) -> Opened:
    from quipu import bootstrap
    from quipu.formats import reading
    from quipu.formats.archives import Source
    from quipu.formats.signing import Checking

    known = {} if keys is None else trusted(keys)
    checking = Checking(canonical=bootstrap.canonical, verify=bootstrap.verify, keys=known)
    return reading.opened(Source(opened, file.name), checking)


def _body(opened: Opened) -> dict[str, Any]:
    return {
        "format": opened.format.value,
        "signature": opened.signature,
        "owner": opened.owner,
        "export_id": opened.export_id,
        "position": opened.position,
        "incremental": opened.is_incremental,
        "stores": [store.get("name") for store in opened.stores],
    }
