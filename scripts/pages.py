"""Pages of the reference that are written from the code: settings, commands, MCP tools, backends, public contracts."""

import inspect
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import click

from quipu.bootstrap import other_memories
from quipu.cli import program
from quipu.cli.options import SharedOption, shared_options
from quipu.config import SETTINGS, Setting, Settings
from quipu.methods import in_reading_order
from quipu.mirrors import backend
from quipu.mirrors.registry import VENDORS, adapter_at
from quipu.operation import AnyOperation
from quipu.schemas import Operations
from quipu.testing.embedders import WordEmbedder

_FILE_VARIABLE = "QUIPU_CONFIG"


# -- backends ---------------------------------------------------------------------------------------------------------


def backends() -> str:
    """What each place that copies can be kept at promises."""
    promised = {
        scheme: adapter_at(
            f"{scheme}://here" if scheme == "https" else f"{scheme}://",
            folder=Path(),
            open_memory=other_memories(Settings()),
            embedder=WordEmbedder(),
        ).capabilities
        for scheme in (*VENDORS, "https")
    }
    said = dict(re.findall(r'^    "(\w+)",  # (.+)$', inspect.getsource(backend), re.M))
    rows = [
        f"| `{name}` | {said[name]} | {' | '.join('yes' if name in one else '·' for one in promised.values())} |"
        for name in get_args(backend.Capability)
    ]
    rows.append(
        f"| score | What a native score means. | {' | '.join(one.score_kind for one in promised.values())} |"
    )
    return (
        "\n\n".join(
            [
                "# Backends",
                "What a [mirror](../howto/mirrors.md) promises, by the scheme of its address; `https` is another Quipu, and so is a\n"
                "second ledger. Tests prove each promise on the real packages, and skip by name what is not promised.\n"
                "[How to add one](../howto/add-a-backend.md). This page is generated from the adapters.",
                "\n".join(
                    [
                        f"| promise | meaning | {' | '.join(promised)} |",
                        "|---" * (len(promised) + 2) + "|",
                        *rows,
                    ]
                ),
            ]
        )
        + "\n"
    )


# -- the index --------------------------------------------------------------------------------------------------------

_FOLDERS = {
    "tutorial": ("Learn", "Lessons, each ten minutes long."),
    "howto": ("Do", "One task a page."),
    "reference": ("Look up", "Generated from the code."),
    "explanation": ("Understand", "How it works, and why."),
    "specs": ("Public contracts", "What is claimed of each, requirement by requirement."),
}


def index(docs: Path, generated: Mapping[Path, str]) -> str:
    """The front page of the documentation: what Quipu is, and every page by its title."""
    parts = [
        "# Quipu",
        "One memory for every agent: a Python library, a server and a web page. Agents remember, recall, forget, merge and\n"
        "expire through it; people review what is remembered; secrets stay out; a tenant never sees another; every change\n"
        "stands on a journal that anyone can verify. It runs on one SQLite file with nothing to set up, and on PostgreSQL\n"
        "when that is outgrown.",
        "![Agents and people reach Quipu over Python, HTTP, MCP, the command line and the web page; every write goes through\n"
        "one pipeline into the ledger and its journal.](pictures/quipu.svg)",
        "Begin with [your first memory](tutorial/first-memory.md), or [run a server](howto/run-a-server.md).",
    ]
    for folder, (title, about) in _FOLDERS.items():
        pages = {page for page in (*docs.glob(f"{folder}/*.md"), *generated) if page.parent.name == folder}
        lines = sorted(
            (f"- [{_title(page, generated)}]({folder}/{page.name})" for page in pages),
            key=lambda line: line.lower(),
        )
        if lines:
            parts += [f"## {title}", about, "\n".join(lines)]
    parts.append("Why things are as they are is in the [decisions](adr/README.md). This page is generated.")
    return "\n\n".join(parts) + "\n"


def _title(page: Path, generated: Mapping[Path, str]) -> str:
    text = generated[page] if page in generated else page.read_text("utf-8")
    return text.partition("\n")[0].removeprefix("# ").strip()


# -- settings ---------------------------------------------------------------------------------------------------------


def settings() -> str:
    """Every setting with its variable, its default and what it means."""
    parts = [
        "# Settings",
        "Read once, when a program starts: the defaults, then the settings file, then the environment, then options of\n"
        "a command. A setting `name` is the variable `QUIPU_NAME` and the key `name` of the settings file, which is\n"
        "flat TOML (`~/.config/quipu/config.toml`, or the file that `" + _FILE_VARIABLE + "` names).\n"
        "`quipu config` shows what holds, and where each value came from.\n\n"
        "An unknown key of the file is an error; an unknown variable that begins with `QUIPU_` is a warning.\n"
        "This page is generated from `src/quipu/config.py`.",
    ]
    for group in dict.fromkeys(setting.group for setting in SETTINGS.values()):
        rows = [_setting(setting) for setting in SETTINGS.values() if setting.group == group]
        parts.append(f"## {group}")
        parts.append("\n".join(["| setting | default | what it means |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _setting(setting: Setting) -> str:
    names = f"`{setting.name}`" + (
        f"<br>also `{setting.other_variable}`" if setting.other_variable is not None else ""
    )
    default = "" if setting.default in (None, ()) else f"`{str(setting.default).lower()}`"
    if isinstance(setting.default, str):
        default = f"`{setting.default}`"
    return f"| {names} | {default} | {_cell(setting.description)} |"


# -- commands ---------------------------------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its arguments, options and examples."""
    root = program.program()
    parts = [
        "# Commands",
        "`quipu COMMAND --help` says the same in the terminal. Every command also takes the options under *All commands*.\n"
        "Exit codes: 0 done, 1 bad input, 2 the memory or a server failed, 3 held for approval, 130 interrupted, 143\n"
        "terminated. This page is generated.",
        "## All commands",
        _options(shared_options()),
    ]
    words = list(program.commands())
    for section, firsts in program.SECTIONS.items():
        found = [one for first in firsts for one in words if one.split()[0] == first]
        if found:
            parts.append(f"## {section}")
            parts += [_command_text(root, one) for one in found]
    return "\n\n".join(parts) + "\n"


def _command(root: click.Group, words: Iterable[str]) -> click.Command:
    found: click.Command = root
    for word in words:
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), word)
        assert inner is not None, word
        found = inner
    return found


def _command_text(root: click.Group, words: str) -> str:
    command = _command(root, words.split())
    arguments = "".join(
        f" {param.human_readable_name.upper()}"
        if param.required
        else f" [{param.human_readable_name.upper()}]"
        for param in command.params
        if isinstance(param, click.Argument)
    )
    help_text = re.sub(r"\s*\n\s*", " ", (command.help or "").replace("\b", "")).strip()
    own = [param for param in command.params if not isinstance(param, SharedOption)]
    parts = [f"### quipu {words}{arguments}", help_text, _options(own)]
    examples = [str(line) for line in getattr(command, "examples", ())]
    if examples:
        parts.append("```text\n" + "\n".join(examples) + "\n```")
    return "\n\n".join(part for part in parts if part)


def _options(params: Iterable[click.Parameter]) -> str:
    rows: list[str] = []
    for param in params:
        if not isinstance(param, click.Option):
            continue
        names = ", ".join(
            f"`{name}`" for name in (*param.opts, *param.secondary_opts) if name.startswith("-")
        )
        choices = getattr(param.type, "choices", ())
        words = f" One of {', '.join(f'`{word}`' for word in choices)}." if choices else ""
        rows.append(f"| {names} | {_cell(param.help or '')}{words} |")
    return "\n".join(["| option | what it does |", "|---|---|", *rows]) if rows else ""


# -- MCP tools --------------------------------------------------------------------------------------------------------


def tools(operations: Operations) -> str:
    """Every tool with the profile that has it and its arguments."""
    parts = [
        "# MCP tools",
        "Each tool is an operation; `readonly` is part of `default`, which is part of `admin`. A credential sees only the\n"
        "tools that it has a permission for. [How to connect a client](../howto/connect-an-mcp-client.md). This page is\n"
        "generated.",
        "| tool | profile | arguments | what it does |",
    ]
    rows = [_tool(operation) for operation in operations if operation.mcp is not None]
    parts[-1] = "\n".join([parts[-1], "|---|---|---|---|", *rows])
    return "\n\n".join(parts) + "\n"


def _tool(operation: AnyOperation) -> str:
    tool = operation.mcp
    assert tool is not None
    shown = [one.name for one in in_reading_order(operation.request)]
    shown = [name for name in shown if tool.shows is None or name in tool.shows]
    arguments = ", ".join(f"`{name}`" for name in shown)
    return f"| `{operation.name}` | {tool.profile} | {arguments} | {_cell(operation.summary)} |"


# -- public contracts -------------------------------------------------------------------------------------------------


def contract(manifest: Path) -> str:
    """What is claimed of a public contract: every requirement, and where Quipu differs on purpose."""
    found = tomllib.loads(manifest.read_text("utf-8"))
    entries: dict[str, dict[str, Any]] = found.get("requirement", {})
    parts = [
        f"# {found['contract']}",
        f"Version: {found['version']}. Each line is claimed by at least one test of the same name\n"
        f'(`@requirement("{manifest.stem}:…")`). This page is generated from `tests/requirements/{manifest.name}`.',
        "\n".join(
            [
                "| requirement | clause | what Quipu does |",
                "|---|---|---|",
                *(
                    f"| `{name}` | {_cell(entry['source'])} | {_cell(entry['behaviour'])} |"
                    for name, entry in entries.items()
                    if "deferred" not in entry
                ),
            ]
        ),
    ]
    for title, key in (("Where Quipu differs on purpose", "divergence"), ("Not done", "deferred")):
        lines = [f"- `{name}`: {_cell(entry[key])}" for name, entry in entries.items() if key in entry]
        if lines:
            parts += [f"## {title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
