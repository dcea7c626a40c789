"""What went wrong, in one line, what to do in another, and an exit code.

A caller's fault is 1; a fault of the memory, a file or a server is 2. Nothing here repeats memory text or a query.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

import typer

from quipu.cli import streams
from quipu.errors import BackendUnavailableError, InternalError, InvalidError, QuipuError
from quipu.faces.http.problems import status_of

BAD_INPUT, FAILED = 1, 2
_FAILURES = frozenset({"tampered", "timeout", "backend_unavailable", "internal_error", "rate_limited"})

#: What to do, where the error itself does not say.
_HINTS: Mapping[str, str] = {
    "bad_token": "Check the token in --token-file or QUIPU_TOKEN: is it whole, and this server's?",
    "expired_token": "Ask an administrator for a new one: `quipu token create` makes it.",
    "revoked_token": "Ask an administrator for a new one: `quipu token create` makes it.",
    "suspended_tenant": "Ask who runs the server: `quipu tenant resume` lets a tenant in again.",
    "no_scope": "Name records with --id, or describe them with --filter.",
    "empty_policy": "Give at least one of --older-than-days, --type, --confidence-below, --no-recall-in-days.",
    "bad_json": 'Write JSON between single quotes, such as \'{"topic": "food"}\'.',
    "record": "`quipu list` shows what is there; `quipu list --state forgotten` what was.",
    "canonical": "Name a live record of this agent: `quipu list` shows them.",
    "token": "`quipu token list` shows the tokens and their ids.",
    "tenant": "`quipu tenant list` shows the tenants; `quipu tenant create` makes one.",
    "grant": "`quipu grant list` shows what is lent.",
    "access_request": "`quipu grant requests` shows who asks.",
    "run": "`quipu run list` shows the runs.",
    "import": "`quipu imports list` shows the imports.",
    "secret": "`quipu secret list` shows what is registered.",
    "mirror": "`quipu mirror list` shows the mirrors.",
    "peer_unreachable": "Check the other host's address, and that it can be reached from here.",
    "webhook": "`quipu webhook list` shows the addresses that are told.",
    "suggestion": "`quipu rules suggested` shows the suggestions.",
    "store": "`quipu store list` shows the stores; `quipu store create` makes one.",
    "proposal": "`quipu review list --status all` shows every proposal.",
    "snapshot_unavailable": "Read as of a later moment: retention has emptied older versions.",
    "already_decided": "`quipu review list --status all` shows how it was decided.",
    "not_forgotten": "There is nothing to do; `quipu show` reads it.",
    "version_mismatch": "Somebody changed it meanwhile: read it again with `quipu show`, then repeat.",
    "type_mismatch": "Keep the type of the record, or use the strategy keep_canonical.",
    "scope_mismatch": "Merge records of one user and one store.",
    "ambiguous_name": "Use the id: `quipu list` shows it.",
    "idempotency_key_mismatch": "Use another --key for another request.",
    "no_embedder": "Choose one with --embedder onnx.",
    "name_taken": "Choose a name that is free.",
    "store_in_use": "The store main cannot be deleted.",
}
_LAST_HINTS: Mapping[str, str] = {
    "unauthenticated": "Give the server's token with --token-file or QUIPU_TOKEN; `quipu token create` makes one.",
    "forbidden": "`quipu whoami` shows what this credential may do.",
    "rate_limited": "Wait a moment, then try again.",
    "quota_exceeded": "Wait until some of the budget is free again.",
    "validation_error": "`--help` shows what the command takes.",
    "not_found": "`quipu list` shows what is there.",
    "conflict": "Look at how it stands now with `quipu show`, then repeat.",
    "backend_unavailable": "`quipu doctor` says what is wrong.",
    "tampered": "`quipu verify` names the first fault; restore a backup if it was not you.",
    "internal_error": "Repeat with --verbose and report what it shows.",
    "timeout": "Try again.",
}
#: An option as people type it; anything else after "no such option" might be a memory.
_OPTION = re.compile(r"--?[A-Za-z][\w-]{0,40}")
#: What Python says of `~name` where nobody has that name.
_NO_HOME = "Could not determine home directory."
#: As the library says it, with the word in Python's notation.
_NO_COMMAND = re.compile(r"""No such command (['"])(.*)\1\.""", re.DOTALL)


def told(error: Exception, *, is_json: bool, is_verbose: bool) -> int:
    """Tell the error on standard error; returns the exit code, also where nobody can be told."""
    known = _as_ours(error)
    try:
        if is_verbose and not _is_usage(error):
            import traceback

            traceback.print_exception(error)
        _say(known, is_json=is_json)
    except OSError:
        streams.leave(sys.stderr)
    return exit_code(known)


def _say(known: QuipuError, *, is_json: bool) -> None:
    if is_json:
        import json

        streams.tell(json.dumps(problem(known)) + "\n")
        return
    from rich.text import Text

    from quipu.cli.output import clean, notes

    shown = notes()
    shown.print(Text.assemble(("Error: ", "bold red"), clean(known.message)), soft_wrap=True)
    shown.print(Text.assemble(("Hint:  ", "bold"), clean(hint(known))), soft_wrap=True)


def exit_code(error: QuipuError) -> int:
    return FAILED if error.code in _FAILURES else BAD_INPUT


def hint(error: QuipuError) -> str:
    """What a person can do about it."""
    if error.hint:
        return error.hint
    if error.reason is not None and error.reason in _HINTS:
        return _HINTS[error.reason]
    if (error.reason, error.faults[0].pointer if error.faults else None) == ("too_large", "/content"):
        return "Split it into smaller memories."
    accepted = next((fault.accepted for fault in error.faults if fault.accepted), ())
    if accepted:
        return f"Accepted: {', '.join(accepted)}."
    return _LAST_HINTS.get(error.code, "`quipu doctor` looks for what is wrong.")


def problem(error: QuipuError) -> dict[str, Any]:
    """The error as the wire tells it (RFC 9457), and the hint."""
    body: dict[str, Any] = {
        "type": f"urn:quipu:error:{error.code}",
        "title": (type(error).__doc__ or "").strip(),
        "status": status_of(error),
        "code": error.code,
        "reason": error.reason,
        "detail": error.message,
        "errors": [
            {"pointer": fault.pointer, "reason": fault.reason, "accepted": list(fault.accepted)}
            for fault in error.faults
        ],
        "hint": hint(error),
        "retryable": error.retryable,
    }
    return {name: value for name, value in body.items() if value is not None}


def _is_usage(error: Exception) -> bool:
    """Words on the command line that make no sense: the command line library's own errors."""
    return hasattr(error, "format_message")


def _as_ours(error: Exception) -> QuipuError:
    if isinstance(error, QuipuError):
        return error
    if _is_usage(error):
        return _usage_error(error)
    if isinstance(error, OSError):
        place = f" ({error.filename})" if error.filename else ""
        return BackendUnavailableError(
            f"The system refused: {error.strerror or type(error).__name__}{place}.",
            reason="cannot_open",
            hint="Check the path, its permissions and the space on the disk.",
        )
    if isinstance(error, RuntimeError) and str(error) == _NO_HOME:
        return InvalidError(
            "A path begins with ~ and leads nowhere: nobody on this machine is called so, or there is no home.",
            reason="bad_value",
            hint="Write the whole path, from / on.",
        )
    if isinstance(error, UnicodeError):
        return InvalidError("The input is not UTF-8 text.", reason="bad_value", hint="Convert it to UTF-8.")
    return InternalError(f"Quipu failed unexpectedly ({type(error).__name__}).")


def _usage_error(error: Any) -> QuipuError:
    """The same without words that may be a memory or a query."""
    from quipu.cli import meant

    message, kind = str(error.format_message()), type(error).__name__
    ctx: typer.Context | None = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else "quipu"
    advice = f"`{path} --help` explains the command with examples."
    if match := _NO_COMMAND.fullmatch(message):
        return _no_command(match[2], ctx, path)
    if kind == "NoSuchOption":
        return _no_option(str(getattr(error, "option_name", "")), ctx, advice)
    if kind == "MissingParameter" and ctx is not None and (example := meant.example(ctx)):
        advice = f"For example: `{example}`. `{path} --help` has more."
    if message.startswith("Got unexpected extra argument"):
        message = "There are more arguments than the command takes."
        advice = f"Put text that has spaces between quotes. {advice}"
    name = getattr(getattr(error, "param", None), "name", None)
    if kind == "BadParameter" and name:
        return InvalidError.at(f"/{name}", "bad_value", message, hint=advice)
    return InvalidError(message, reason="usage", hint=advice)


def _no_command(word: str, ctx: typer.Context | None, path: str) -> QuipuError:
    from quipu.cli import meant

    if word == "completion":
        advice = "`quipu --install-completion` sets completion up for your shell."
        return InvalidError("There is no command completion.", reason="usage", hint=advice)
    advice = f"`{path} --help` lists the commands."
    if not meant.is_word(word):
        message = "The first word is no command."
        return InvalidError(message, reason="usage", hint=f"`quipu remember` keeps a text. {advice}")
    found = [] if ctx is None else meant.command(word, ctx)
    if found == [f"{path} --help"]:
        found = []  # the advice says it
    return InvalidError(f"There is no command {word}.", reason="usage", hint=_perhaps(found) + advice)


def _no_option(word: str, ctx: typer.Context | None, advice: str) -> QuipuError:
    from quipu.cli import meant

    if not _OPTION.fullmatch(word):
        advice = f"Put -- before text that begins with a dash. {advice}"
        return InvalidError("There is no such option.", reason="usage", hint=advice)
    found = [] if ctx is None else meant.option(word, ctx)
    return InvalidError(f"There is no option {word}.", reason="usage", hint=_perhaps(found) + advice)


def _perhaps(found: list[str]) -> str:
    return f"Did you mean {' or '.join(f'`{one}`' for one in found)}? " if found else ""
