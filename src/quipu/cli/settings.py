"""config: which settings hold, and where each came from."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from quipu.cli import output
from quipu.cli.command import Command
from quipu.cli.session import Session

app = typer.Typer()

_SECRET = re.compile(r"(^|_)(key|token|secret|password)$")
_CREDENTIALS = re.compile(r"(://)[^/?#\s]+@")
#: The same behind the question mark, where databases and models take them too.
_PARAMETERS = re.compile(
    r"([?&][\w.-]*(?:key|token|secret|passw(?:or)?d|pwd|sig|signature)=)[^&#\s]+", re.IGNORECASE
)
_MASK = "********"


@app.command("config", cls=Command, rich_help_panel="Upkeep")
def config(ctx: typer.Context) -> None:
    """Show the settings that hold and where each came from.

    [bold]Examples[/bold]
      quipu config
      quipu config --verbose
      QUIPU_AGENT=planner quipu config --json

    An option wins over the environment, that over the file, that over the default.
    --verbose adds what each means, and the variable that sets it.
    The file is TOML: $QUIPU_CONFIG, else ~/.config/quipu/config.toml. Secrets are masked.
    A QUIPU_ variable that sets nothing is named, with the one that may have been meant.
    See also: doctor, init.
    """
    from quipu.config import misspelt

    run = Session.of(ctx)
    rows = effective(run)
    file = file_in_use()
    unknown = misspelt()
    body = {
        "file": None if file is None else str(file),
        "settings": rows,
        "unknown": [{"name": one.name, "meant": list(one.meant)} for one in unknown],
    }
    if run.answer_json(body):
        return
    shown = output.console()
    if run.is_verbose:
        for row in rows:
            line = f"{row['name']} = {row['value']}   from {row['source']}; {row['environment']}"
            shown.print(line, markup=False, soft_wrap=True)
            shown.print(f"    {row['help']}", style="dim", markup=False, soft_wrap=True)
    else:
        cells = [[row["name"], str(row["value"]), row["source"]] for row in rows]
        shown.print(output.table(["setting", "value", "from"], cells, whole=("setting", "from")))
        run.note("`quipu config --verbose` adds what each means, and the variable that sets it.")
    shown.print(f"settings file: {file or 'none'}", style="dim", markup=False, soft_wrap=True)
    for one in unknown:
        run.warn(f"{one.said} {one.advice}")


def effective(run: Session) -> list[dict[str, Any]]:
    """Every setting with its value, masked if it is a secret, and its origin."""
    from quipu import bootstrap
    from quipu import config as settings

    values = run.config()
    given = {
        "agent": run.agent,
        "embedder": run.embedder,
        "store_url": (run.store_urls or (None,))[0],
        "server_url": run.server,
        "server_token": run.token_file,
    }
    given_here = environment()
    in_file = _names_in(file_in_use(given_here))
    rows: list[dict[str, Any]] = []
    for setting in settings.SETTINGS:
        value = getattr(values, setting.name)
        if given.get(setting.name) is not None:
            source = "option"
        elif given_here.get(setting.environment):
            source = "environment"
        elif setting.alias and given_here.get(setting.alias):
            source = f"environment ({setting.alias})"
        else:
            source = "file" if setting.name in in_file else "default"
        if setting.name == "store_url" and not value:
            value = str(bootstrap.address("").path)
        if setting.name == "cache_dir" and not value:
            value = str(settings.cache_dir(values))
        rows.append(
            {
                "name": setting.name,
                "value": masked(setting.name, value),
                "source": source,
                "environment": setting.environment,
                "help": setting.help,
            }
        )
    return rows


def masked(name: str, value: Any) -> Any:
    """The value without what nobody should see."""
    if not isinstance(value, str) or not value:
        return value
    if _SECRET.search(name):
        return _MASK
    return _PARAMETERS.sub(rf"\1{_MASK}", _CREDENTIALS.sub(rf"\1{_MASK}@", value))


def file_in_use(given: Mapping[str, str] | None = None) -> Path | None:
    """The settings file that was read, if there is one."""
    from quipu.config import settings_file

    path = settings_file(_variables() if given is None else given)
    return path if path is not None and path.exists() else None


def _names_in(file: Path | None) -> frozenset[str]:
    return frozenset() if file is None else frozenset(tomllib.loads(file.read_text("utf-8")))


def environment() -> Mapping[str, str]:
    """The variables of this process, without those that nobody chose."""
    from quipu.config import of_the_cluster

    given = _variables()
    unchosen = of_the_cluster(given)
    return {name: value for name, value in given.items() if name not in unchosen}


def _variables() -> Mapping[str, str]:
    return os.environ  # noqa: TID251  only tells which settings the environment holds; quipu.config reads them
