"""What went wrong in one line, what to type next in another, and an exit code.

A caller's fault is 1; a fault of the memory, a file or a server is 2. Nothing here repeats memory text or a query: what
was typed is repeated only where it can be nothing but a name.
"""

import re
import traceback
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from quipu.cli import output, streams
from quipu.errors import BackendUnavailableError, Fault, InvalidError, QuipuError, presentable

if TYPE_CHECKING:
    from quipu.operation import AnyOperation

BAD_INPUT, FAILED, HELD = 1, 2, 3
FAILURES = frozenset({"tampered", "timeout", "backend_unavailable", "internal_error", "rate_limited"})
#: A word that may be a command, and one that may be an option; anything else in their place may be a memory.
_WORD, _OPTION = re.compile(r"[A-Za-z][A-Za-z-]{0,24}"), re.compile(r"--?[A-Za-z][\w-]{0,40}")
#: What to do by reason, where the error itself does not say; then by code.
_HINTS: Mapping[str, str] = {
    "no_scope": "Name memories by their ids, or describe them with --filter.",
    "empty_policy": "Give at least one condition: --policy '{\"older_than_days\": 90}'.",
    "snapshot_unavailable": "Read as of a later moment: older versions were emptied.",
    "version_mismatch": "Somebody changed it meanwhile: read it again with `quipu show`, then repeat.",
    "idempotency_key_mismatch": "Use another --idempotency-key for another request.",
    "name_taken": "Choose a name that is free.",
    "ambiguous_name": "Use the id: `quipu list` shows it.",
    "unauthenticated": "Give the server's token with --token-file or QUIPU_TOKEN; `quipu token create` makes one.",
    "forbidden": "`quipu whoami` shows what this credential may do.",
    "rate_limited": "Wait a moment, then try again.",
    "quota_exceeded": "Wait until some of the budget is free again.",
    "not_found": "`quipu list` shows what is there; `quipu list --states forgotten` what was.",
    "conflict": "Look at how it stands now with `quipu show`, then repeat.",
    "backend_unavailable": "`quipu doctor` says what is wrong.",
    "tampered": "`quipu verify` names the first fault.",
    "internal_error": "Repeat it with --verbose, and report what it shows.",
    "timeout": "Try again.",
}


def explain(
    error: Exception, *, is_json: bool, is_verbose: bool, operation: "AnyOperation | None" = None
) -> int:
    """Show the error on standard error; the exit code is the same where nobody can be shown anything."""
    known = _ours(error)
    if is_verbose and not isinstance(error, click.ClickException):
        streams.write_error("".join(traceback.format_exception(error)))
    if is_json:
        streams.write_error(output.json_text(problem(known, operation)) + "\n")
    else:
        streams.write_error(f"Error: {output.clean(message(known, operation))}\n")
        streams.write_error(f"Hint:  {output.clean(hint(known, operation))}\n")
    return FAILED if known.code in FAILURES else BAD_INPUT


def message(error: QuipuError, operation: "AnyOperation | None") -> str:
    """What happened; fields of a request are named as they are typed."""
    if not error.faults or operation is None or not error.message.startswith("The request is not valid."):
        return error.message
    return "; ".join(f"{_typed(fault, operation)}: {fault.accepted}" for fault in error.faults[:5]) + "."


def _typed(fault: Fault, operation: "AnyOperation") -> str:
    name, _, rest = fault.pointer.removeprefix("/").partition("/")
    if not name:
        return "The request"
    is_argument = operation.cli is not None and name in operation.cli.arguments
    shown = name.upper() if is_argument else option_name(name)
    return f"{shown} ({rest})" if rest else shown


def option_name(field: str) -> str:
    return "--" + field.replace("_", "-")


def hint(error: QuipuError, operation: "AnyOperation | None" = None) -> str:
    """What to type next. Who is not known reads how a token is given here, not how it is sent."""
    if error.hint and error.code != "unauthenticated":
        return error.hint
    for word in (error.reason, error.code):
        if word is not None and word in _HINTS:
            return _HINTS[word]
    if operation is not None and operation.cli is not None:
        words = operation.cli.name or operation.name.replace("_", " ")
        example = f"For example: `{operation.cli.examples[0]}`. " if operation.cli.examples else ""
        return f"{example}`quipu {words} --help` explains every option."
    return "`quipu --help` lists the commands."


def problem(error: QuipuError, operation: "AnyOperation | None" = None) -> dict[str, Any]:
    """The error for a program, in the words of the wire."""
    return {
        "code": error.code,
        "reason": error.reason,
        "detail": error.message,
        "errors": [
            {"pointer": fault.pointer, "reason": fault.reason, "accepted": fault.accepted}
            for fault in error.faults
        ],
        "hint": hint(error, operation),
        "retryable": error.is_retryable,
    }


def _ours(error: Exception) -> QuipuError:
    if isinstance(error, click.ClickException):
        return _usage(error)
    if isinstance(error, OSError) and not isinstance(error, QuipuError):
        place = f" ({error.filename})" if error.filename else ""
        return BackendUnavailableError(
            f"The system refused: {error.strerror or type(error).__name__}{place}.",
            reason="cannot_open",
            hint="Check the path, its permissions and the space on the disk.",
        )
    if isinstance(error, UnicodeError):
        return InvalidError("The input is not UTF-8 text.", reason="bad_value", hint="Convert it to UTF-8.")
    return presentable(error)


def _usage(error: click.ClickException) -> QuipuError:
    """Words that make no sense to click, without those that may be a memory."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    path = ctx.command_path if ctx is not None else "quipu"
    advice = f"`{path} --help` explains it."
    if isinstance(error, click.NoSuchOption):
        return _no_option(error.option_name, ctx, advice)
    if isinstance(error, click.exceptions.NoSuchCommand):
        return _no_command(error.command_name, ctx, path)
    if isinstance(error, click.MissingParameter):
        name = error.param.name if error.param is not None else None
        what = f"{str(name).upper()} is missing." if name else "Something is missing."
        return InvalidError(what, reason="usage", hint=advice)
    said = error.format_message()
    if said.startswith("Got unexpected extra argument"):
        said = "There are more arguments than the command takes."
        advice = f"Put text that has spaces between quotes. {advice}"
    elif isinstance(error, click.BadParameter):
        name = error.param.opts[0] if error.param is not None else "A value"
        said = f"{name} cannot be read."
    elif isinstance(error, click.BadOptionUsage):
        said = (
            f"{error.option_name} needs a value."
            if _OPTION.fullmatch(error.option_name)
            else "A value is missing."
        )
    return InvalidError(said, reason="usage", hint=advice)


def _no_command(word: str, ctx: click.Context | None, path: str) -> QuipuError:
    advice = f"`{path} --help` lists the commands."
    if not _WORD.fullmatch(word):
        return InvalidError(
            "The first word is no command.", reason="usage", hint=f"`quipu remember` keeps a text. {advice}"
        )
    known = ctx.command.list_commands(ctx) if ctx is not None and isinstance(ctx.command, click.Group) else []
    return InvalidError(
        f"There is no command {word}.", reason="usage", hint=near(word.lower(), known, f"{path} ") + advice
    )


def _no_option(word: str, ctx: click.Context | None, advice: str) -> QuipuError:
    if not _OPTION.fullmatch(word):
        return InvalidError(
            "There is no such option.",
            reason="usage",
            hint=f"Put -- before text that begins with a dash. {advice}",
        )
    known = [
        name
        for param in (ctx.command.get_params(ctx) if ctx is not None else [])
        for name in (*param.opts, *param.secondary_opts)
        if name.startswith("--")
    ]
    return InvalidError(f"There is no option {word}.", reason="usage", hint=near(word, known) + advice)


def near(word: str, known: Sequence[str], before: str = "") -> str:
    """What may have been meant: the beginning of a longer word, or a slip of the finger."""
    found = [name for name in known if name.startswith(word)][:3] if len(word.strip("-")) > 1 else []
    found = found or get_close_matches(word.replace("_", "-"), known, n=1)
    return f"Did you mean {' or '.join(f'`{before}{name}`' for name in found)}? " if found else ""
