"""Every setting, read once: defaults, then the settings file, then the environment. Nothing else reads either.

A setting `name` is the variable `QUIPU_NAME` and the key `name` of the settings file, which is flat TOML. A key that is
no setting is an error: only Quipu reads that file. A variable that looks like one of ours and is none is a warning:
others write into the environment too, and a server that does not start because of them would be worse.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_core import PydanticCustomError

from quipu.errors import InvalidError
from quipu.fields import duration_ms

_PREFIX = "QUIPU_"
_FILE = "QUIPU_CONFIG"
#: Variables of other systems that set one of ours.
_OTHER_VARIABLES = {
    "store": "MEMORYWIRE_STORE",
    "agent": "MEMORYWIRE_AGENT",
    "telemetry_capture_content": "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
}
#: Where OpenTelemetry's own SDK is told to send spans and metrics.
_COLLECTOR = "OTEL_EXPORTER_OTLP_ENDPOINT"
#: What other programs call the same thing.
_ELSEWHERE = {
    "agent_id": "agent",
    "api_key": "token",
    "bind": "host",
    "database": "store",
    "database_url": "store",
    "db": "store",
    "db_url": "store",
    "listen": "host",
    "loglevel": "log_level",
    "log": "log_level",
    "model": "embedder_model",
    "path": "store",
    "server_port": "port",
    "url": "server",
}


# -- kinds of values ----------------------------------------------------------------------------------------------


def _wrong(accepted: str) -> PydanticCustomError:
    return PydanticCustomError("bad_setting", "{accepted}", {"accepted": accepted})


def _split(value: Any) -> Any:
    return [part for part in value.replace(",", " ").split() if part] if isinstance(value, str) else value


def _split_at_spaces(value: Any) -> Any:
    """Addresses may hold commas."""
    return value.split() if isinstance(value, str) else value


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _home_expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # `~somebody` whom nobody knows: a name like any other
        return path


def _duration(text: str) -> str:
    if duration_ms(text) is None:
        raise _wrong("should be a duration such as 12h, 30d or 1y")
    return text


def _captures(value: Any) -> Any:
    """OpenTelemetry's words, and those that came before them. Events are not made, so only spans show content."""
    word = str(value).strip().upper()
    if word in ("SPAN_ONLY", "SPAN_AND_EVENT", "TRUE", "1"):
        return True
    if word in ("NO_CONTENT", "EVENT_ONLY", "FALSE", "0"):
        return False
    raise _wrong("should be NO_CONTENT, SPAN_ONLY, EVENT_ONLY or SPAN_AND_EVENT")


Addresses: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_split_at_spaces)]
Words: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_split)]
FilePath: TypeAlias = Annotated[Path, AfterValidator(_home_expanded)]
Duration: TypeAlias = Annotated[str, AfterValidator(_duration)]
Level: TypeAlias = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)]
Seconds: TypeAlias = Annotated[int, Field(ge=0, le=10_000_000)]
SecondsFromOne: TypeAlias = Annotated[int, Field(ge=1, le=10_000_000)]
Milliseconds: TypeAlias = Annotated[int, Field(ge=0, le=3_600_000)]
Number: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]
NumberFromOne: TypeAlias = Annotated[int, Field(ge=1, lt=2**31)]
Captures: TypeAlias = Annotated[bool, BeforeValidator(_captures)]


def _set(default: Any, description: str) -> Any:
    return Field(default=default, description=description)


def _address(description: str, default: Any = None) -> Any:
    """An address may hold a password, so it does not stand in the text form of the settings."""
    return Field(default=default, description=description, repr=False)


class Settings(BaseModel):
    """What can be set. Frozen: nothing changes a setting after it was read."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        coerce_numbers_to_str=True,
        allow_inf_nan=False,
    )

    # memory
    store: str | None = _address(
        "Where memory is kept: sqlite:///path, sqlite://:memory:, or postgresql://user@host/database."
        " Left out, a file in the data directory of the user.",
    )
    replica: str | None = _address(
        "A read replica of the PostgreSQL database; recall reads from it where it has caught up."
    )
    pool_size: NumberFromOne = _set(8, "Connections to PostgreSQL, at most, for each process.")
    cache_mb: NumberFromOne = _set(
        1024, "Memory for search, in MiB; what was used longest ago is dropped beyond it."
    )
    agent: Annotated[str, Field(min_length=1, max_length=256)] = _set(
        "default", "The agent that commands act for."
    )
    max_retain: Duration | None = _set(
        None, "The longest that a memory is kept after it was written, such as 365d; left out, no limit."
    )
    limit_content_bytes: Annotated[int, Field(ge=1, le=4 << 20)] = _set(
        1 << 20, "Bytes of one memory's content, as UTF-8."
    )

    # client
    server: str | None = _address("The server that commands and `quipu.connect` talk to: https://host.")
    token: SecretStr | None = _set(None, "The token to show the server. Never logged.")
    timeout_s: SecondsFromOne = _set(
        60, "Seconds that one call to the server may take, repetitions included."
    )
    insecure: bool = _set(
        False, "Whether the server may be spoken to without TLS when it is on another machine."
    )

    # models
    embedder: Literal["onnx", "arctic-s", "multilingual", "openai", "none"] = _set(
        "onnx",
        "onnx (the built-in model, on this machine), arctic-s or multilingual (other models, on this machine, which are "
        "fetched first), openai (any compatible endpoint), or none.",
    )
    embedder_url: str | None = _address("Base address of an OpenAI-compatible endpoint for embeddings.")
    embedder_model: str | None = _set(None, "The model to ask that endpoint for.")
    embedder_key: SecretStr | None = _set(None, "That endpoint's key. Never logged.")
    embedder_dimensions: Number = _set(
        0, "How long its vectors shall be, where its model can make shorter ones; 0: as long as they are."
    )
    weights: FilePath | None = _set(
        None,
        "A directory with the model's files; left out, those of the package, or the directory of the model's name in "
        "the cache. With embedder onnx and a model.json in it, it is the model which that describes.",
    )
    cache: FilePath | None = _set(
        None, "Where downloaded models are kept; left out, the cache directory of the user."
    )
    extractor_url: str | None = _address(
        "Base address of an OpenAI-compatible endpoint whose model proposes facts; left out, none does."
    )
    extractor_model: str | None = _set(None, "The model to ask that endpoint for.")
    extractor_key: SecretStr | None = _set(None, "That endpoint's key. Never logged.")

    # secrets
    secrets: Literal["rewrite", "reject"] = _set(
        "rewrite",
        "What becomes of a write that holds a secret: rewrite puts a marker in its place, reject refuses it.",
    )
    secrets_detectors: bool = _set(True, "Whether secrets are also recognised by their usual shapes.")
    secrets_marker: Annotated[str, Field(min_length=1, max_length=64)] = _set(
        "<REDACTED:{label}>", "The marker; {label} stands for what was found."
    )
    sealing_key: FilePath | None = _set(
        None, "File with the key that seals registered secrets; left out, next to the ledger."
    )
    signing_key: FilePath | None = _set(
        None, "File with the key that signs the journal; left out, next to the ledger."
    )

    # governance
    rules: FilePath | None = _set(
        None,
        "File with rules that allow, hold or deny writes, TOML or JSON; they come before every tenant's own.",
    )
    rules_default: Literal["allow", "hold", "deny"] = _set(
        "allow", "What becomes of a write that no rule is about."
    )
    rules_shipped: bool = _set(
        True,
        "Whether the rules that come with Quipu are in force; they hold bulk deletes and instructions to the model.",
    )
    on_reject: Literal["erase", "keep"] = _set(
        "erase", "What becomes of the text of a rejected write: erase it, or keep it."
    )
    webhook_hosts: Words = _set(
        (), "Hosts that webhooks may be sent to although they are private, or without https."
    )

    # access
    rate: Number = _set(6000, "Requests a minute of a token that has no rate of its own; 0: no limit.")
    recall_budget: Number = _set(
        20_000, "Memories an hour that a token, and all tokens for one agent, may be given; 0: no limit."
    )
    oidc_issuer: str | None = _set(None, "OpenID Connect provider whose signed tokens are accepted.")
    oidc_audience: str | None = _set(None, "The audience that its tokens must name.")
    oidc_tenant: str | None = _set(None, "The tenant of everybody who signs in there.")
    oidc_tenant_claim: str | None = _set(None, "Or the claim that names the tenant.")
    oidc_roles_claim: str = _set("roles", "The claim that names roles: agent, reviewer, operator, admin.")
    oidc_agents_claim: str | None = _set(None, "The claim that names agents; left out, all agents.")

    # server
    host: str = _set("127.0.0.1", "Where the server listens. Beyond this machine it needs TLS.")
    port: Annotated[int, Field(ge=0, le=65_535)] = _set(8321, "The server's port; 0 takes one that is free.")
    public_url: str | None = _set(
        None, "Where people reach the server, for links in answers; left out, the address that was asked."
    )
    tls_cert: FilePath | None = _set(None, "PEM file with the server's certificate chain.")
    tls_key: FilePath | None = _set(None, "PEM file with the key of the certificate.")
    trusted_proxies: Words = _set(
        (), "Addresses of proxies that speak TLS for the server, and whose word about the client is taken."
    )
    allowed_hosts: Words = _set(
        (), "Names the server answers to; a leading dot takes subdomains. Left out, any name."
    )
    cors_origins: Words = _set((), "Origins whose web pages may use the server, such as https://app.example.")
    metrics_public: bool = _set(False, "Whether /metrics needs no token.")
    request_timeout_s: SecondsFromOne = _set(30, "Seconds that a request may take; streams may take longer.")
    most_requests: NumberFromOne = _set(
        200, "Requests at work at the same time; further ones are asked to come back."
    )
    shutdown_grace_s: Seconds = _set(20, "Seconds that requests at work get when the server stops.")
    log_level: Level = _set("info", "What the server logs: debug, info, warning or error.")

    # background
    sweep_s: Seconds = _set(300, "How often the server closes expired memories, in seconds; 0: never.")
    consolidation_s: Seconds = _set(
        60, "How often the server consolidates short-term memory, in seconds; 0: never by itself."
    )
    checkpoint_s: SecondsFromOne = _set(60, "Sign the journal's head at least this often, in seconds.")
    audit_anchor: str | None = _address(
        "Where signed checkpoints are also published: file:///path or https://host/path."
    )

    # mirrors
    mirrors: Addresses = _address(
        "Addresses of mirrors, separated by spaces: other stores that hold a copy. Never logged.",
        default=(),
    )
    mirror_votes: Literal["tiebreak", "count"] = _set(
        "tiebreak",
        "How mirrors take part in ranking: they break ties, or their votes count (memorywire's plain sum).",
    )
    mirror_write_deadline_ms: Milliseconds = _set(
        250, "How long the answer to a write waits for mirrors to confirm it, in milliseconds."
    )
    recall_deadline_ms: Milliseconds = _set(
        2000, "How long a recall waits for mirrors in all, in milliseconds; each has a deadline of its own."
    )

    # protocols
    mcp_profile: Literal["readonly", "default", "admin", "graph", "anthropic", "chatgpt"] = _set(
        "default", "Which tools MCP clients see."
    )
    telemetry: bool = _set(True, "Whether operations are reported to OpenTelemetry.")
    telemetry_convention: Literal["proposal", "merged"] = _set(
        "proposal", "Whose names spans use: the proposal's, or upstream's later ones (merged)."
    )
    telemetry_namespace: Literal["plain", "off"] | None = _set(
        None,
        "Whether isolation keys, often user ids, are shown: plain or off. Left out, plain, and off under merged.",
    )
    telemetry_metrics: bool = _set(True, "Whether operations are measured.")
    telemetry_capture_content: Captures = _set(
        False, "Whether content and queries are shown on spans, after redaction: NO_CONTENT or SPAN_ONLY."
    )
    openwop_conformance: bool = _set(
        False, "Whether the fixture workflows and test secrets of OpenWOP are there. Never in production."
    )
    run_history_days: Number = _set(
        0, "Days after which the log and variables of a run that has ended are dropped; 0: never."
    )
    oap_allowed_hosts: Words = _set(
        (), "Origins that may be asked although they are private, such as http://127.0.0.1:8321."
    )
    oap_owners: Words = _set(
        (), "DIDs that owners bring along: did=tenant. Left out, owners are known by this server's address."
    )
    oap_authorities: FilePath | None = _set(
        None,
        "PEM file with certificate authorities that other servers may be known by, besides the usual ones.",
    )
    oap_free_text: Literal["mask", "omit"] = _set(
        "mask",
        "What becomes of text that is shared below level 4: mask hides addresses, numbers and known names; omit leaves"
        " it out.",
    )

    def with_values(self, **values: Any) -> Self:
        """The same with some settings given by the caller, checked like all others; None leaves one as it is."""
        given = {name: value for name, value in values.items() if value is not None}
        try:
            return self.model_validate({**{name: getattr(self, name) for name in SETTINGS}, **given})
        except ValidationError as error:
            raise _refused(error, dict.fromkeys(given, "what was given")) from None

    def shown(self, name: str) -> str | int | bool | None:
        """The value of a setting as it may be printed: no key, and no password of an address."""
        if name == "mirrors":  # such an address may hold a key anywhere
            return ", ".join(one.partition("://")[0] + "://…" for one in self.mirrors)
        value: Any = getattr(self, name)
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, SecretStr):
            return "(set)"
        return ", ".join(map(str, value)) if isinstance(value, tuple) else without_password(str(value))  # pyright: ignore[reportUnknownArgumentType]  our tuples hold texts


_GROUPS = {
    "store": "Memory",
    "server": "Client",
    "embedder": "Models",
    "secrets": "Secrets",
    "rules": "Governance",
    "rate": "Access",
    "host": "Server",
    "sweep_s": "Background jobs",
    "mirrors": "Mirrors",
    "mcp_profile": "Protocols",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting as documentation and `quipu config` describe it."""

    name: str
    #: The variable that sets it, and another one that is honoured where that one is not set.
    variable: str
    other_variable: str | None
    group: str
    description: str
    default: Any


def _described() -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    group = ""
    for name, field in Settings.model_fields.items():
        group = _GROUPS.get(name, group)
        found[name] = Setting(
            name=name,
            variable=_PREFIX + name.upper(),
            other_variable=_OTHER_VARIABLES.get(name),
            group=group,
            description=field.description or "",
            default=field.default,
        )
    return found


#: By name, in the order of the class.
SETTINGS: Mapping[str, Setting] = _described()


# -- reading them -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings, and where they came from."""

    settings: Settings
    #: Name → `environment QUIPU_PORT` or `file /path`; a setting that is not here has its default.
    sources: Mapping[str, str]
    #: The settings file that was read.
    file: Path | None
    #: Variables that look like a setting and are none, and what may have been meant. Their values are not kept.
    unknown: Mapping[str, str | None]
    #: What should be said to whoever started the program.
    warnings: tuple[str, ...]


def load(environment: Mapping[str, str] | None = None) -> Loaded:
    """Defaults, then the settings file, then the environment."""
    given = _chosen(os.environ if environment is None else environment)
    file = _settings_file(given)
    values = _file_values(file, is_named=bool(given.get(_FILE)))
    sources = dict.fromkeys(values, f"file {file}")
    for setting in SETTINGS.values():
        for variable in (setting.variable, setting.other_variable):
            if variable is not None and (text := given.get(variable)):  # an empty variable sets nothing
                values[setting.name] = text
                sources[setting.name] = f"environment {variable}"
                break
    settings, wrong = _validated(values, sources)
    unknown = _unknown(given)
    return Loaded(
        settings=settings,
        sources={name: source for name, source in sources.items() if name not in wrong},
        file=file if file is not None and file.exists() else None,
        unknown=unknown,
        warnings=(*(_sets_nothing(name, near) for name, near in unknown.items()), *wrong.values()),
    )


def _validated(values: Mapping[str, Any], sources: Mapping[str, str]) -> tuple[Settings, dict[str, str]]:
    """The settings, and warnings by name: what memory does never depends on how it is observed."""
    try:
        return Settings.model_validate(values), {}
    except ValidationError as error:
        wrong = {str(detail["loc"][0]) for detail in error.errors(include_input=False)}
        if not all(name.startswith("telemetry") for name in wrong):
            raise _refused(error, sources) from None
        rest = {name: value for name, value in values.items() if name not in wrong}
        return Settings.model_validate(rest), {
            name: f"{name} ({sources[name]}) has no such value; the default is used."
            for name in sorted(wrong)
        }


def _refused(error: ValidationError, sources: Mapping[str, str]) -> InvalidError:
    """Names the setting, where it was set and what would be accepted; never the value, which may be a key."""
    detail = error.errors(include_input=False, include_url=False)[0]
    name = str(detail["loc"][0]) if detail["loc"] else "A setting"
    if name not in SETTINGS:
        return _no_setting(name, sources.get(name, "what was given"))
    accepted = str(detail["msg"]).replace("Input should be", "should be").replace("Value ", "")
    return InvalidError(
        f"{name} ({sources.get(name, 'default')}): {accepted}.",
        reason="bad_setting",
        hint=SETTINGS[name].description,
    )


def _no_setting(name: str, source: str) -> InvalidError:
    near = _near(name)
    hint = f"Did you mean {near}?" if near else f"Known: {', '.join(SETTINGS)}."
    return InvalidError(f"There is no setting {name[:64]} ({source}).", reason="bad_setting", hint=hint)


def _near(name: str) -> str | None:
    names = {**_ELSEWHERE, **{known: known for known in SETTINGS}}
    found = get_close_matches(name.lower(), names, n=1, cutoff=0.7)
    return names[found[0]] if found else None


def _sets_nothing(name: str, near: str | None) -> str:
    advice = f"Did you mean {near}?" if near else "`quipu config` lists the variables that are read."
    return f"{name} sets nothing: there is no such setting. {advice}"


def _unknown(given: Mapping[str, str]) -> dict[str, str | None]:
    known = {setting.variable for setting in SETTINGS.values()} | {_FILE}
    found: dict[str, str | None] = {}
    for name in sorted(name for name in given if name.startswith(_PREFIX) and name not in known):
        word = name.removeprefix(_PREFIX).lower()
        near = "config" if get_close_matches(word, ["config"], cutoff=0.8) else _near(word)
        found[name] = None if near is None else _PREFIX + near.upper()
    return found


def _chosen(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what Kubernetes sets in every container next to a Service called `quipu…`: nobody chose that.

    One of those variables is QUIPU_PORT, with an address in it.
    """
    suffix = "_SERVICE_HOST"
    services = [
        name.removesuffix(suffix)
        for name in environment
        if name.startswith("QUIPU") and name.endswith(suffix)
    ]
    return {
        name: value
        for name, value in environment.items()
        if not any(
            name.startswith((f"{service}_SERVICE_", f"{service}_PORT_"))
            or (name == f"{service}_PORT" and "://" in value)
            for service in services
        )
    }


def _settings_file(given: Mapping[str, str]) -> Path | None:
    """Where the settings file would be; nowhere for who has no home and names none."""
    if named := given.get(_FILE):
        return _home_expanded(Path(named))
    try:
        return _user_dir(given, "XDG_CONFIG_HOME", ".config") / "config.toml"
    except InvalidError:
        return None


def _file_values(file: Path | None, *, is_named: bool) -> dict[str, Any]:
    named = f"{_FILE} names it: correct the path, or unset the variable."
    try:
        found = {} if file is None else tomllib.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if not is_named:
            return {}
        raise InvalidError(
            f"The settings file {file} does not exist.", reason="bad_setting", hint=named
        ) from None
    except OSError as error:
        raise InvalidError(
            f"The settings file {file} cannot be read: {error.strerror}.",
            reason="bad_setting",
            hint=named if is_named else "Check its permissions.",
        ) from error
    except tomllib.TOMLDecodeError as error:
        place = str(error).rpartition("(")[2].rstrip(")")  # the rest may quote what stands there
        raise InvalidError(
            f"The settings file {file} is not TOML ({place}).",
            reason="bad_setting",
            hint='Write one setting on a line, text between quotes, such as agent = "planner".',
        ) from None
    except UnicodeDecodeError:
        raise InvalidError(
            f"The settings file {file} is not UTF-8 text.", reason="bad_setting", hint="Save it as UTF-8."
        ) from None
    for name in found:
        if name not in SETTINGS:
            raise _no_setting(name, f"file {file}")
    return {name: value for name, value in found.items() if value != ""}


# -- places and addresses -----------------------------------------------------------------------------------------


def _user_dir(given: Mapping[str, str], variable: str, fallback: str) -> Path:
    if named := given.get(variable):
        return Path(named) / "quipu"
    try:
        return Path.home() / fallback / "quipu"
    except RuntimeError:
        raise InvalidError(
            "There is no home directory to keep things in.",
            reason="bad_setting",
            hint=f"Set HOME or {variable}, or say where: QUIPU_STORE, QUIPU_CACHE.",
        ) from None


def data_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Where the default memory file lives."""
    return _user_dir(os.environ if environment is None else environment, "XDG_DATA_HOME", ".local/share")


def cache_dir(settings: Settings, environment: Mapping[str, str] | None = None) -> Path:
    """Where downloaded models are kept."""
    if settings.cache is not None:
        return settings.cache
    return _user_dir(os.environ if environment is None else environment, "XDG_CACHE_HOME", ".cache")


def database_url(environment: Mapping[str, str] | None = None) -> str | None:
    """What `pgvector://default` stands for."""
    return (os.environ if environment is None else environment).get("DATABASE_URL") or None


def collected(settings: Settings, environment: Mapping[str, str] | None = None) -> frozenset[str]:
    """What a program sends to the collector that OpenTelemetry's own variables name: `traces`, `metrics`."""
    given = os.environ if environment is None else environment
    if not settings.telemetry:
        return frozenset()

    def is_sent(signal: str) -> bool:
        own = given.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or given.get(_COLLECTOR)
        return bool(own) and given.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() != "none"

    wanted = {"traces": True, "metrics": settings.telemetry_metrics}
    return frozenset(name for name, is_wanted in wanted.items() if is_wanted and is_sent(name.upper()))


def without_password(address: str) -> str:
    """An address as it may be printed: without user, password, query and fragment. A path stays as it is."""
    if "://" not in address:
        return "(set)" if "password" in address.lower() else address
    try:
        parts = urlsplit(address)
    except ValueError:
        return "(set)"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
