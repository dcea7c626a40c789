"""What was meant by a command or an option that does not exist: what others call it, or a slip of the finger."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import typer

from quipu.rules.nearest import nearest

#: A word that may be a command; anything else in its place may be a memory, and is not repeated.
_WORD = re.compile(r"[A-Za-z][A-Za-z-]{0,24}")
#: A line of the examples in a command's help; far right of it may stand what it does.
_EXAMPLE = re.compile(r"^ +(quipu .*?)(?: {2,}.*)?$", re.MULTILINE)
#: Words of other programs → what to type here.
_COMMANDS: Mapping[str, str] = {
    "add": "remember",
    "approve": "review approve",
    "ask": "recall",
    "check": "doctor",
    "clean": "vacuum",
    "dashboard": "serve --open",
    "del": "forget",
    "delete": "forget",
    "dump": "export",
    "env": "config",
    "find": "recall",
    "get": "show",
    "help": "--help",
    "info": "health",
    "journal": "audit log",
    "key": "token",
    "keys": "token",
    "load": "import",
    "log": "audit log",
    "logs": "audit log",
    "ls": "list",
    "migrate": "db migrate",
    "new": "init",
    "ping": "health",
    "pull": "import",
    "purge": "erase",
    "put": "remember",
    "query": "recall",
    "reject": "review reject",
    "remove": "forget",
    "rm": "forget",
    "save": "remember",
    "search": "recall",
    "server": "serve",
    "settings": "config",
    "setup": "init",
    "snapshot": "backup",
    "start": "serve",
    "stats": "doctor --quick",
    "status": "health",
    "tail": "changes",
    "ui": "serve --open",
    "undo": "recover",
    "update": "remember --id",
    "upgrade": "db migrate",
    "users": "tenant list",
    "version": "--version",
    "watch": "changes",
    "web": "serve --open",
}
#: Within a group of commands.
_IN_A_GROUP: Mapping[str, tuple[str, ...]] = {
    "add": ("create", "set"),
    "delete": ("remove", "revoke"),
    "get": ("show",),
    "help": ("--help",),
    "ls": ("list",),
    "make": ("create",),
    "new": ("create", "open"),
    "remove": ("delete", "revoke"),
    "rm": ("remove", "delete", "revoke"),
    "upgrade": ("migrate",),
}
#: Options of other programs → those a command may have for it, the likeliest first.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "--agent-id": ("--agent",),
    "--api-key": ("--token-file",),
    "--bind": ("--host",),
    "--count": ("-k", "--limit"),
    "--database": ("--store-url",),
    "--db": ("--store-url",),
    "--force": ("--yes",),
    "--format": ("--json",),
    "--limit": ("-k",),
    "--max": ("-k", "--limit"),
    "--n": ("-k", "--limit"),
    "-n": ("-k", "--limit"),
    "--number": ("-k", "--limit"),
    "--tags": ("--tag",),
    "--token": ("--token-file",),
    "--top": ("-k", "--limit"),
    "--top-k": ("-k",),
    "--k": ("-k",),
    "--url": ("--server", "--store-url"),
    "--user-id": ("--user",),
    "-y": ("--yes",),
    "-f": ("--yes",),
}


def example(ctx: typer.Context) -> str | None:
    """The first example that a command's help gives of the command itself."""
    return example_in(ctx.command.help or "", ctx.command_path)


def example_in(help_text: str, path: str) -> str | None:
    """The same of a help's text, on one line and without what is said beside it."""
    found: list[str] = _EXAMPLE.findall(re.sub(r" \\\n +", " ", help_text))
    return next((line for line in found if line.startswith(path)), None)


def is_word(word: str) -> bool:
    """Whether it may be repeated."""
    return _WORD.fullmatch(word) is not None


def command(word: str, ctx: typer.Context) -> list[str]:
    """Whole commands that may have been meant by a word behind this command."""
    group: Any = ctx.command
    known: list[str] = group.list_commands(ctx)
    word = word.lower()
    found = _likely(word, known, is_root=ctx.parent is None)
    return [f"{ctx.command_path} {one}" for one in found]


def _likely(word: str, known: list[str], *, is_root: bool) -> list[str]:
    if word in known:
        return [word]
    if is_root and word in _COMMANDS:
        return [_COMMANDS[word]]
    if not is_root:
        others = [one for one in _IN_A_GROUP.get(word, ()) if one in known or one.startswith("-")]
        if others:
            return others[:1]
    return nearest(word, known)[:3]


def option(word: str, ctx: typer.Context) -> list[str]:
    """Options of this command that may have been meant."""
    known = {
        name
        for param in ctx.command.get_params(ctx)
        if not getattr(param, "hidden", False)
        for name in (*param.opts, *param.secondary_opts)
        if name.startswith("-")
    }
    if others := [name for name in _OPTIONS.get(word, ()) if name in known]:
        return others[:1]
    long = {name.removeprefix("--") for name in known if name.startswith("--")}
    return [f"--{name}" for name in nearest(word.lstrip("-").replace("_", "-"), long)][:3]
