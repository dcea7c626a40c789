"""The tree of commands: all are there, each teaches, none loads what it does not need, and a slip is met with advice."""

import json
import subprocess
import sys

import click
import pytest

from quipu import catalogue
from quipu.cli.program import HAND_COMMANDS, SECTIONS, commands, program
from quipu.cli.render import hand_command
from tests.cli.conftest import Cli, process

#: Every command of the product, by the room that brings it.
COMMANDS = {
    "cli": ("demo", "init", "doctor", "config"),
    "http": ("serve",),
    "mcp": ("mcp", "mcp install"),
    "memory": (
        *("remember", "recall", "update", "forget", "merge", "expire", "show", "list", "history", "restore"),
        *("changes", "store create", "store list", "store delete"),
    ),
    "access": (
        *("whoami", "tenant create", "tenant list", "tenant suspend", "tenant resume"),
        *("token create", "token list", "token revoke", "token rotate"),
    ),
    "secrets": ("secret add", "secret list", "secret remove"),
    "governance": (
        *("review", "review list", "review show", "review approve", "review reject"),
        *("rules show", "rules set", "rules test"),
    ),
    "consolidation": ("add", "context", "consolidate"),
    "procedures": ("procedure step",),
    "runs": ("run list", "run show", "run fork"),
    "audit": ("undo", "verify", "audit log", "audit export", "audit anchor", "backup", "db copy"),
    "sharing": (
        *("erase", "share", "borrow", "grant list", "grant show", "grant revoke", "grant token"),
        *("did", "did rotate"),
    ),
    "transfer": ("import", "export"),
    "mirrors": ("mirror list", "mirror verify", "mirror resync"),
    "ledger": ("reindex", "vacuum", "db distribute"),
    "testing": ("conformance",),
    "telemetry": ("telemetry check",),
}
#: Rooms whose commands all stand. A room that is finished adds its name.
STANDING = ("cli", "http", "mcp", "memory", "access", "secrets", "governance", "audit", "testing")
#: What no help may load: what serves, what keeps, what computes.
HEAVY = frozenset(
    {
        "apsw",
        "cryptography",
        "httpx",
        "mcp",
        "numpy",
        "onnxruntime",
        "psycopg",
        "rich",
        "starlette",
        "uvicorn",
    }
)


def command_of(words: str) -> click.Command:
    """The command that is reached with these words."""
    found: click.Command = program()
    for word in words.split():
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), word)
        assert below is not None, words
        found = below
    return found


def test_every_command_of_every_room_that_stands_is_there() -> None:
    missing = [words for room in STANDING for words in COMMANDS[room] if words not in commands()]
    assert missing == []


def test_every_command_has_a_place_in_the_overview() -> None:
    sections = {word for words in SECTIONS.values() for word in words}
    assert {words.split()[0] for words in commands()} <= sections


def test_no_command_is_declared_twice() -> None:
    by_hand = [place.words for place in HAND_COMMANDS]
    assert len(by_hand) == len(set(by_hand))
    assert not set(by_hand) & catalogue.COMMANDS.keys()


def test_every_command_teaches_with_an_example_of_itself_and_explains_each_option(cli: Cli) -> None:
    missing: list[tuple[str, str | None]] = []
    for words in commands():
        said = cli.says(*words.split(), "--help")
        text, _, examples = said.partition("Examples:\n")
        if f" quipu {words}" not in examples:
            missing.append((words, "an example"))
        if max(map(len, text.splitlines())) > 80:
            missing.append((words, "lines of 80 characters"))
        params = command_of(words).params
        missing += [(words, param.name) for param in params if not getattr(param, "help", None)]
    assert missing == []


def test_the_summary_of_a_command_by_hand_is_the_beginning_of_its_help() -> None:
    for place in HAND_COMMANDS:
        found = place.loaded()
        assert found.name == place.words
        assert place.summary.endswith(".")
        assert len(place.summary) <= 80, place.words
        assert hand_command(found, place.words.split()[-1]).callback is not None


def test_the_overview_names_every_command_and_the_exit_codes(cli: Cli) -> None:
    said = cli.says("--help")
    for words in commands():
        first, *rest = words.split()
        assert f"\n  {first} " in said, words
        assert not rest or rest[-1] in said, words
    assert (
        "0 done, 1 bad input, 2 the memory or a server failed, 3 held for approval, 130 interrupted, 143 terminated"
        in " ".join(said.split())
    )
    for words in ((), ("store",), ("token",)):
        assert cli(*words).code == 0
        assert "Usage" in cli(*words).out


def loaded_by_help(names: list[str]) -> dict[str, list[str]]:
    """What each help adds to the modules of one process."""
    script = (
        "import json, os, sys\n"
        "from quipu.cli.program import run\n"
        "found, out = {}, sys.stdout\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    before, sys.stdout = set(sys.modules), open(os.devnull, 'w')\n"
        "    assert run([*words.split(), '--help']) == 0\n"
        "    found[words] = sorted(set(sys.modules) - before)\n"
        "json.dump(found, out)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(names)], capture_output=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def test_help_loads_no_server_no_database_and_nothing_that_computes() -> None:
    found = loaded_by_help(["", *commands()])
    assert "pydantic" not in found[""], "the overview is shown without loading a single command"
    heavy = {words: sorted(HEAVY.intersection(modules)) for words, modules in found.items()}
    assert {words: names for words, names in heavy.items() if names} == {}
    for words, modules in found.items():
        assert not {"quipu.bootstrap", "quipu.api", "quipu.sync", "quipu.http.app"}.intersection(modules), (
            words
        )


def test_help_loads_the_operations_of_its_own_room_only() -> None:
    for room in ("memory", "access", "secrets"):
        found = loaded_by_help(list(COMMANDS[room]))
        operations = {name for modules in found.values() for name in modules if name.endswith(".operations")}
        assert operations == {f"quipu.{room}.operations"}


def test_a_list_loads_nothing_that_ranks_writes_serves_or_asks_others(cli: Cli) -> None:
    cli.remember("tea")
    script = (
        "import sys; from quipu.cli.program import run; run(['list']); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=60)
    assert b"tea" in done.stdout
    modules = set(done.stderr.decode().split())
    assert "quipu.memory.read" in modules, "otherwise nothing is proved here"
    others = {"httpx", "onnxruntime", "psycopg", "uvicorn", "mcp", "numpy", "cryptography"}
    assert not others.intersection(modules)
    rooms = {name.split(".")[1] for name in modules if name.count(".") > 1 and name.startswith("quipu.")}
    assert rooms == {"access", "bootstrap", "cli", "ledger", "memory", "model", "search", "telemetry"}


def test_the_version_is_shown(cli: Cli) -> None:
    assert cli.says("--version") == f"quipu {__import__('quipu').__version__}\n"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("quipu rem", {"remember"}),
        ("quipu store ", {"create", "list", "delete"}),
        ("quipu remember x --type ", {"semantic", "episodic", "procedural", "emotional"}),
    ],
)
def test_a_shell_completes_commands_and_choices(line: str, wanted: set[str]) -> None:
    count = str(len(line.split(" ")) - 1)
    done = process(_QUIPU_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=count)
    assert {word.partition(",")[2] for word in done.stdout.decode().split()} == wanted


# -- slips ------------------------------------------------------------------------------------------------------------

SLIPS = {
    "a slip": (["recal", "x"], "quipu recall"),
    "another": (["rember", "x"], "quipu remember"),
    "in capitals": (["RECALL", "x"], "quipu recall"),
    "one of a group": (["token", "creat"], "quipu token create"),
    "an option": (["recall", "x", "--jsn"], "--json"),
    "half an option": (["recall", "x", "--min-rel"], "--min-relevance"),
    "an option with a line under": (["recall", "x", "--min_relevance", "0"], "--min-relevance"),
    "an option of the program": (["--vers"], "--version"),
}


def test_a_misspelt_word_is_met_with_one_good_suggestion(cli: Cli) -> None:
    for name, (words, meant) in SLIPS.items():
        problem = cli.problem(*words)
        assert problem["hint"].startswith(f"Did you mean `{meant}`? `quipu"), name
        assert problem["reason"] == "usage"


def test_where_nothing_is_near_nothing_is_suggested(cli: Cli) -> None:
    for words in (["zzzzzz"], ["recall", "x", "--zzzz"], ["token", "zzzz"]):
        problem = cli.problem(*words)
        assert "Did you mean" not in problem["hint"], words
        assert problem["hint"].startswith("`quipu"), words


def test_what_may_be_a_memory_is_not_repeated(cli: Cli) -> None:
    for words in (
        ["hunter2 is secret"],
        ["it's hunter2"],
        ["remember", "my secret is hunter2", "extra hunter2"],
        ["remember", "hunter2", "--type", "nonsense"],
        ["recall", "--hunter2 is my secret"],
        ["remember", "hunter2", "--metadata", "{hunter2"],
        ["recall", "hunter2", "--filter", '{"$and": [], "$y": "hunter2 too"}'],
        ["remember", "hunter2", "--confidence", "9"],
    ):
        for more in ([], ["--json"], ["--verbose"]):
            result = cli(*more, *words)
            assert result.code == 1, words
            assert "hunter2" not in result.out + result.err, (words, more)


# -- options of every command -----------------------------------------------------------------------------------------


def test_shared_options_stand_before_and_after_the_command(cli: Cli) -> None:
    cli.remember("tea")
    for words in (["--json", "list"], ["list", "--json"], ["--quiet", "list", "--json"]):
        assert json.loads(cli(*words).out)["records"][0]["content"] == "tea", words
    for words in (["--json", "store", "list"], ["store", "--json", "list"], ["store", "list", "--json"]):
        assert cli(*words).out.startswith('{"stores"'), words


def test_a_value_that_looks_like_an_option_stays_a_value(cli: Cli) -> None:
    kept = json.loads(cli("remember", "--json", "--", "--json").out)
    assert cli.json("show", kept["id"])["content"] == "--json"
