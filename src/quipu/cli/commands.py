"""Commands about this machine and no operation: `init` makes a memory ready, `config` shows which settings hold."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from quipu.cli.session import Session
from quipu.command import HandCommand
from quipu.errors import QuipuError

if TYPE_CHECKING:
    from quipu.embed.port import Embedder

# -- init -------------------------------------------------------------------------------------------------------------


async def _init(session: Session, *, place: str | None, no_model: bool) -> None:
    from quipu.access.rules import solo_mode
    from quipu.config import without_password
    from quipu.model.principal import local

    if place is not None:
        session.store_urls = (place,)
    session.stay_here("init")
    shown = without_password(session.store_address())
    async with session.container("creates") as container:
        is_new = not await container.ledger.tenants("", 1)
        model = None if no_model else await _ready_model(session, container.embedder)
        # Last of all: a token that is made must be shown, so nothing that can fail comes between.
        issued = await container.access.tokens.first(local(), container.clock())
        token = None if issued is None else issued.text
        body: dict[str, Any] = {"store": shown, "is_new": is_new, "embedder": model, "token": token}
        session.answer(body, f"{'Created a memory' if is_new else 'A memory is there'}: {shown}")
        if model is not None:
            session.say(f"Embedder: {model}")
        if token is not None:
            session.say("\nYour administrator's token, shown this once:", style="bold")
            session.say(f"  {token}")
            session.say("Commands on this machine need none; `quipu serve` asks for it.")
            session.say(f"\n{solo_mode(session.store_urls)}", style="yellow")
    session.note('Next: quipu remember "Mara is vegetarian", then quipu recall "what does Mara eat?"')


async def _ready_model(session: Session, embedder: "Embedder | None") -> str | None:
    """Load the model once, so that its first user does not wait; without one, memory works by words."""
    if embedder is None:
        return None
    with session.bar("Loading the model") as bar:
        bar(0)
        try:
            await embedder.embed(["ready"])
        except QuipuError as error:
            session.note(f"{error.message} {error.hint or ''} Until then recall goes by words alone.")
            return None
    return embedder.model


INIT = HandCommand(
    name="init",
    help="""Make a memory ready: its file or its database's tables, its model, its first token.

    Harmless where there is one already. An administrator's token is made once and shown once.""",
    run=_init,
    parameters=(
        click.Argument(
            ["place"],
            required=False,
            help="A file, or a URL such as postgresql://user@host/database. Left out, the configured place.",
        ),
        click.Option(["--no-model"], is_flag=True, help="Do not load the embedding model now."),
    ),
    examples=(
        "quipu init",
        "quipu init ./project.db --no-model",
        "quipu init postgresql://quipu@localhost/memory",
    ),
)

# -- config -----------------------------------------------------------------------------------------------------------


def _config(session: Session, *, is_all: bool) -> None:
    loaded = session.loaded
    rows = [row for row in _settings(session) if is_all or session.is_json or row["source"] != "default"]
    body: dict[str, Any] = {
        "file": None if loaded.file is None else str(loaded.file),
        "settings": rows,
        "unknown": [{"name": name, "near": near} for name, near in loaded.unknown.items()],
    }
    session.answer(body)
    if is_all:
        for row in rows:
            session.say(f"{row['name']} = {row['value']}   ({row['source']}; {row['variable']})")
            session.say(f"    {row['description']}", style="dim")
    elif rows:
        session.table(("name", "value", "source"), rows)
    else:
        session.say("Nothing is set: every setting has its default.")
    session.say(f"Settings file: {loaded.file or 'none'}")
    if not is_all:
        session.note(
            "`quipu config --all` shows every setting, what it means, and the variable that sets it."
        )


def _settings(session: Session) -> list[dict[str, Any]]:
    """Every setting as it may be shown. An option of this run wins over the environment, that over the file."""
    from quipu.config import SETTINGS, without_password

    loaded = session.loaded
    options = {
        "store": without_password(session.store_urls[0]) if session.store_urls else None,
        "server": None if session.server is None else without_password(session.server),
        "token": None if session.token_file is None else "(set)",
    }
    rows: list[dict[str, Any]] = []
    for setting in SETTINGS.values():
        option = options.get(setting.name)
        value = option or loaded.settings.shown(setting.name)
        if setting.name == "store" and value is None:
            with suppress(QuipuError):  # nobody's home: then there is no usual place
                value = session.store_address()
        source = "option" if option is not None else loaded.sources.get(setting.name, "default")
        rows.append(
            {
                "name": setting.name,
                "value": value,
                "source": source,
                "variable": setting.variable,
                "description": setting.description,
            }
        )
    return rows


CONFIG = HandCommand(
    name="config",
    help="""Show what is set, and where each value came from. Secrets are not shown.

    An option wins over the environment, that over the settings file, that over the default. The file is flat TOML:
    $QUIPU_CONFIG, else ~/.config/quipu/config.toml. A variable that sets nothing is named.""",
    run=_config,
    parameters=(
        click.Option(
            ["--all", "is_all"], is_flag=True, help="Every setting, with its meaning and its variable."
        ),
    ),
    examples=("quipu config", "quipu config --all", "QUIPU_AGENT=planner quipu config --json"),
)
