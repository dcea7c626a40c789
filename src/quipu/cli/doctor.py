"""`doctor`: looks at everything that a memory stands on, and says what to type about what is wrong."""

import platform
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from quipu._version import __version__
from quipu.cli.session import Session, ledger_file, no_memory
from quipu.command import HandCommand
from quipu.errors import QuipuError

if TYPE_CHECKING:
    from quipu.bootstrap import Container
    from quipu.command import Bar
    from quipu.config import Loaded, Settings

Status: TypeAlias = Literal["ok", "warn", "fail"]
_STYLES: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}
_TIGHT, _FULL = 500_000_000, 50_000_000
_TENANTS = 1000
#: Who restored a backup and left the log of the former file beside it reads here why it did not help.
_RESTORE = (
    "Restore the latest backup: end every process that uses the file, move it away together with the -wal and -shm "
    "beside it, then copy the backup there."
)


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: how it is, and what to do about it."""

    name: str
    status: Status
    detail: str
    advice: str | None = None


def failed(
    name: str, error: QuipuError, advice: str = "Correct the setting; `quipu config` shows it."
) -> Check:
    return Check(name, "fail", error.message, error.hint or advice)


async def _doctor(session: Session, *, quick: bool) -> int:
    checks = [Check("program", "ok", f"quipu {__version__}, Python {platform.python_version()}")]
    try:
        loaded = session.surroundings.loaded()
    except QuipuError as error:
        checks.append(failed("settings", error))
    else:
        checks += settings_checks(loaded)
        server = session.server_of()
        with session.bar("Checking") as bar:
            if server is not None:
                checks += await server_checks(session, server)
            else:
                checks += await memory_checks(session, is_quick=quick, bar=bar)
    is_well = all(check.status != "fail" for check in checks)
    session.answer(
        {
            "ok": is_well,
            "checks": [
                {"name": one.name, "status": one.status, "detail": one.detail, "advice": one.advice}
                for one in checks
            ],
        }
    )
    _show(session, checks)
    return 0 if is_well else 1


def _show(session: Session, checks: Sequence[Check]) -> None:
    for check in checks:
        session.say(f"{check.status:<4}  {check.name:<9}  {check.detail}", style=_STYLES[check.status])
        if check.advice is not None:
            session.say(f"      → {check.advice}")
    worst = {check.status for check in checks}
    if "fail" in worst:
        session.say("Something failed.", style=_STYLES["fail"])
    elif "warn" in worst:
        session.say("It works, with warnings.", style=_STYLES["warn"])
    else:
        session.say("All is well.", style=_STYLES["ok"])


# -- settings ---------------------------------------------------------------------------------------------------------


def settings_checks(loaded: "Loaded") -> list[Check]:
    """What was read, and what looks as if it were not meant so."""
    file = f"file {loaded.file}" if loaded.file is not None else "no settings file"
    checks = [Check("settings", "ok", f"{file}; {len(loaded.sources)} set, see `quipu config`")]
    checks += [Check("settings", "warn", warning, "Correct or unset it.") for warning in loaded.warnings]
    checks += [Check("settings", "warn", said, advice) for said, advice in odd_settings(loaded.settings)]
    return checks


def odd_settings(settings: "Settings") -> Iterator[tuple[str, str]]:
    """Values that are good alone, and together do not say what was meant."""
    for name in ("weights", "rules", "tls_cert", "tls_key", "oap_authorities"):
        path: Path | None = getattr(settings, name)
        if path is not None and not path.exists():
            yield f"{name} names {path}, which is not there", "Correct the path."
    if (settings.tls_cert is None) != (settings.tls_key is None):
        yield "only one of tls_cert and tls_key is set", "Set both, or none."
    if settings.embedder != "openai" and (settings.embedder_url or settings.embedder_model):
        yield (
            f"embedder_url is not used: embedder is {settings.embedder}",
            "Set QUIPU_EMBEDDER=openai to use it.",
        )
    if settings.embedder == "openai" and not (settings.embedder_url and settings.embedder_model):
        yield (
            "embedder is openai without an address or a model",
            "Set QUIPU_EMBEDDER_URL and QUIPU_EMBEDDER_MODEL.",
        )
    if bool(settings.extractor_url) != bool(settings.extractor_model):
        yield "only one of extractor_url and extractor_model is set", "Set both, or none."
    if settings.token is not None and settings.server is None:
        yield "a token is set, and no server to show it to", "Set QUIPU_SERVER, or give --server."
    if settings.insecure:
        yield "insecure is on: tokens and memories may travel unencrypted", "Unset QUIPU_INSECURE; use https."
    if "{label}" not in settings.secrets_marker:
        yield "secrets_marker does not say what was found", "Write {label} into it, as in <REDACTED:{label}>."
    if settings.oidc_issuer and not (
        settings.oidc_audience and (settings.oidc_tenant or settings.oidc_tenant_claim)
    ):
        yield (
            "oidc_issuer is set without an audience or a tenant",
            "Set QUIPU_OIDC_AUDIENCE, and QUIPU_OIDC_TENANT or QUIPU_OIDC_TENANT_CLAIM.",
        )
    if settings.openwop_conformance:
        yield (
            "openwop_conformance is on: test secrets are there",
            "Unset QUIPU_OPENWOP_CONFORMANCE in production.",
        )


# -- a memory of this machine -----------------------------------------------------------------------------------------


async def memory_checks(session: Session, *, is_quick: bool, bar: "Bar") -> list[Check]:
    """The file, then what is in it, then the model. Nothing is created where there is nothing."""
    settings, address = session.settings, session.store_address()
    try:
        path = ledger_file(address)
    except QuipuError as error:
        return [failed("store", error)]
    checks = [] if path is None else file_checks(path, is_named=bool(session.store_urls))
    if path is None or (path.is_file() and path.stat().st_size):
        checks += await _opened_checks(settings, address, is_quick=is_quick, bar=bar)
    if path is not None:
        checks.append(disk_check(path))
    return checks


def file_checks(path: Path, *, is_named: bool) -> list[Check]:
    """The file from outside. One that the command names has to be there; the usual one may still come."""
    if path.is_dir():
        return [Check("store", "fail", f"{path} is a directory", "Name a file in it.")]
    if path.exists() and not path.is_file():  # who opens a pipe waits for somebody at its other end
        return [Check("store", "fail", f"{path} is no file, but a pipe or a device", "Name a file.")]
    if not path.exists():
        error = no_memory(path, is_named=is_named)
        return [Check("store", "fail" if is_named else "warn", error.message, error.hint)]
    if path.stat().st_size == 0:
        return [Check("store", "warn", f"{path} is empty", "`quipu init` makes it a memory.")]
    return [Check("store", "ok", f"{path}, {path.stat().st_size / 1e6:.1f} MB")]


async def _opened_checks(settings: "Settings", address: str, *, is_quick: bool, bar: "Bar") -> list[Check]:
    from quipu.bootstrap import open_container

    checks: list[Check] = []
    try:
        container = await open_container(settings, stores=[address])
    except QuipuError as error:
        try:  # perhaps it is the model alone
            container = await open_container(settings, stores=[address], embedder="none")
        except QuipuError as deeper:
            damaged = deeper.reason == "damaged_file"
            return [Check("ledger", "fail", deeper.message, _RESTORE if damaged else deeper.hint)]
        checks.append(failed("embedder", error))
    try:
        checks += await ledger_checks(container, is_quick=is_quick, bar=bar)
        checks += await key_checks(container, address)
        if not checks or checks[0].name != "embedder":
            checks += await model_checks(container)
    finally:
        await container.close()
    return checks


async def ledger_checks(container: "Container", *, is_quick: bool, bar: "Bar") -> list[Check]:
    """The system of record from inside."""
    ledger = container.ledger
    checks: list[Check] = []
    try:
        health = await ledger.health()
        if not health.writable:
            advice = "Look at the disk, the permissions, and whether the database is a replica."
            checks.append(Check("ledger", "fail", f"{health.kind} refuses writes: {health.reason}", advice))
        faults = [*await ledger.schema_faults()]
        bar(1, 3)
        if not is_quick:
            faults += await ledger.integrity_faults()
        bar(2, 3)
        if faults:
            checks.append(Check("ledger", "fail", f"{len(faults)} faults, the first: {faults[0]}", _RESTORE))
        tenants = await ledger.tenants("", _TENANTS)
        counts = [await ledger.statistics(one.tenant) for one in tenants]
        bar(3, 3)
    except QuipuError as error:
        return [*checks, failed("ledger", error, _RESTORE)]
    if not checks:
        said = f"{sum(one['records'] for one in counts):,} records, {sum(one['entries'] for one in counts):,} entries"
        checks.append(Check("ledger", "ok", f"{health.kind}, {len(tenants)} tenants, {said}"))
    return checks


async def key_checks(container: "Container", address: str) -> list[Check]:
    """Keys that only their owner may read; the one that seals registered secrets must be the right one."""
    from quipu.bootstrap import sealing_key_file, signing_key_file

    files = (sealing_key_file(address, container.config), signing_key_file(address, container.config))
    there = [key for key in files if key.exists()]
    checks = [
        Check("key", "warn", f"others may read {key}", f"Run `chmod 600 {key}`.")
        for key in there
        if stat.S_IMODE(key.stat().st_mode) & 0o077
    ]
    for tenant in await container.ledger.tenants("", _TENANTS):
        try:
            await container.secrets.guard(tenant.tenant, None)
        except QuipuError as error:
            said = f"{error.message} Every write of tenant {tenant.tenant} is refused."
            advice = f"{error.hint or ''} Where it is lost for good: `quipu secret remove`."
            return [*checks, Check("key", "fail", said, advice.strip())]
    shown = ", ".join(map(str, there)) or "none yet: nothing is sealed or signed"
    return checks or [Check("key", "ok", shown)]


async def model_checks(container: "Container") -> list[Check]:
    """Can the embedder be had, and what can it not do?"""
    from quipu.bootstrap.embedders import local_model

    embedder, settings = container.embedder, container.config
    if embedder is None:
        return [Check("embedder", "ok", "none: recall goes by words alone")]
    try:
        await embedder.embed(["ready"])
    except QuipuError as error:
        return [Check("embedder", "warn", f"{error.message} Recall goes by words alone.", error.hint)]
    limits = "" if settings.embedder == "openai" else local_model(settings)[1].limits
    checks = [
        Check("embedder", "ok", f"{embedder.model}, {embedder.dimensions} dimensions. {limits}".strip())
    ]
    if embedder.calibration is None:
        checks.append(
            Check(
                "embedder",
                "warn",
                f"{embedder.model} is not calibrated: nobody has measured how near a memory must be to answer",
                "Give recalls a min_relevance of your own, or `off`.",
            )
        )
    return checks


def disk_check(path: Path) -> Check:
    """Room to grow."""
    folder = next((parent for parent in path.parents if parent.exists()), Path("/"))
    free = shutil.disk_usage(folder).free
    said = f"{free / 1e9:.1f} GB free"
    if free < _FULL:
        return Check("disk", "fail", said, "Free some space: writes will soon be refused.")
    taken = path.stat().st_size if path.is_file() else 0
    if free < max(_TIGHT, 2 * taken):
        return Check("disk", "warn", said, "Free some space: a backup needs as much room again.")
    return Check("disk", "ok", said)


# -- a server ---------------------------------------------------------------------------------------------------------


async def server_checks(session: Session, server: str) -> list[Check]:
    """Does it answer, how is it, and who is the caller there?"""
    from quipu.config import without_password

    memory = session.memory("reads")
    shown = without_password(server)
    try:
        health: Any = (await memory.call("health", {})).to_dict()
        able: Any = (await memory.call("capabilities", {})).to_dict()
        caller: Any = (await memory.call("whoami", {})).to_dict()
    except QuipuError as error:
        return [failed("server", error, "Check the address and the token.")]
    finally:
        await memory.close()
    ledger = health["ledger"]
    status: Status = "ok" if health["status"] == "ok" else "fail"
    said = f"{shown}, quipu {health['version']}, {len(able['operations'])} operations"
    checks = [
        Check("server", status, said, None if status == "ok" else f"Its ledger says: {ledger['reason']}.")
    ]
    if health["version"] != __version__:
        advice = "Bring both to one version where something does not fit."
        checks.append(Check("server", "warn", f"this program is quipu {__version__}", advice))
    checks.append(
        Check("ledger", "ok" if ledger["writable"] else "fail", f"{ledger['kind']}, as the server says")
    )
    embedder = health["embedder"] or "none: recall goes by words alone"
    checks.append(Check("embedder", "ok", embedder))
    permissions = ", ".join(caller["permissions"])
    checks.append(Check("token", "ok", f"{caller['name']} in tenant {caller['tenant']}: {permissions}"))
    return checks


DOCTOR = HandCommand(
    name="doctor",
    help="""Examine a memory, or a server, and say what to type about what is wrong.

    Looked at: settings, file or database, keys, embedder, disk; of a server its health, what it can do, and who you are
    there. The exit code is 0 when nothing failed; warnings may stand.""",
    run=_doctor,
    parameters=(click.Option(["--quick"], is_flag=True, help="Do not read the whole file."),),
    examples=(
        "quipu doctor",
        "quipu doctor --quick --json",
        "quipu doctor --server https://memory.example.org",
    ),
)
