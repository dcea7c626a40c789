"""A memory that is not there: who puts something in makes it, everybody else makes nothing and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from quipu.cli.serving import warn_if_nothing_is_kept
from quipu.config import Config
from tests.cli.conftest import Cli
from tests.cli.published import valid
from tests.cli.test_help import LEAVES

_GRANT = "urn:oap:grant:01J9V8B7HM3K8E2A0M9R8F0XZT"
#: Commands that only look, and how they are typed.
READS = [
    *("recall tea", "list", "show mem_1", "history mem_1", "graph mem_1", "capabilities", "whoami"),
    *("procedure show mem_1", "procedure draw mem_1", "procedure history mem_1"),
    *("run see run_1 notes", "run list", "run show run_1", "run events run_1", "run diff run_1 run_2"),
    *("store list", "review desk", "review list", "review show prp_1", "rules show", "rules suggested"),
    *("rules test rules.json", "imports list", "tenant list", "token list", "secret list", "webhook list"),
    *("mirror list", "mirror status", "did resolve did:key:z6Mk", "grant list", "grant receipts"),
    *(f"grant show {_GRANT}", "grant seen mem_1", "grant decisions", "grant held", "grant requests"),
]
#: Commands that work on what is there, or vouch for it.
NEEDS = [
    *("forget --id mem_1", "merge mem_1 mem_2", "expire --older-than-days 1", "restore mem_1", "sweep"),
    *("procedure step mem_1 go", "run put run_1 notes tea", "run complete run_1", "run fail run_1"),
    *("run cancel run_1", "run fork run_1", "run expire run_1", "run compact notes"),
    *(
        "store delete notes --yes",
        "review approve prp_1",
        "review edit prp_1 --content tea",
        "review reject prp_1",
    ),
    *("review merge prp_1 mem_1", "review supersede prp_1 mem_1", "rules accept rul_1"),
    *("rules dismiss rul_1", "recover --run run_1", "changes", "imports approve imp_1"),
    *("imports reject imp_1", "imports undo imp_1", "export", "verify", "audit verify", "audit log"),
    *(
        "audit keys",
        "audit export proof",
        "backup copy.db",
        "vacuum",
        "reembed --embedder fast",
        "consolidate",
        "health",
    ),
    *("mirror remove copy", "mirror verify copy", "mirror resync copy", "tenant suspend other"),
    *("tenant resume other", "token revoke tok_1", "token rotate tok_1", "secret remove sec_1"),
    *("webhook remove whk_1", "webhook ping whk_1", "did show", "did rotate", "erase mem_1 --yes"),
    *(f"grant revoke {_GRANT}", "grant revoke-all --yes", f"grant ask https://memory.example.org {_GRANT}"),
    *("grant approve req_1", "grant refuse req_1", "grant requested https://memory.example.org task"),
    f"grant vector https://memory.example.org {_GRANT} https://memory.example.org/oap/memory/vec/1 vector.bin",
    f"grant give-up https://memory.example.org {_GRANT}",
]
#: Commands that put something in.
MAKES = [
    *("init", "remember", "import", "run open", "store create", "rules set", "tenant create"),
    *("token create", "secret add", "webhook add", "did trust", "grant request", "share", "mirror add"),
    *("serve", "mcp install"),
]
#: Commands that open no memory, or one of their own, or answer in their own way.
ELSEWHERE = [
    *("demo", "procedure check", "bundle verify", "bundle show", "bundle key", "conformance", "doctor"),
    *(f"db {name}" for name in ("init", "migrate", "status", "distribute", "index", "copy")),
    *("mcp config", "config", "telemetry check"),
]


def name_of(line: str) -> str:
    """The command without its arguments."""
    words = line.split()
    return next(name for name in (" ".join(words[:2]), words[0]) if tuple(name.split()) in LEAVES)


@pytest.fixture
def rules(home: Path) -> None:
    (home / "rules.json").write_text("[]", "utf-8")


def files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def test_it_is_said_of_every_command_what_becomes_of_a_memory_that_is_not_there() -> None:
    told = [*map(name_of, READS + NEEDS), *MAKES, *ELSEWHERE]
    assert sorted(told) == sorted(" ".join(path) for path in LEAVES)


@pytest.mark.parametrize("line", READS + NEEDS)
def test_a_wrong_path_is_refused_and_nothing_is_made(cli: Cli, home: Path, rules: None, line: str) -> None:
    cli.remember("tea")  # the usual place does not stand in for the one that was named
    before, wrong = files(home), home / "wrong.db"
    told = cli.problem(*line.split(), "--store-url", f"sqlite://{wrong}")
    assert (told["code"], told["reason"]) == ("not_found", "no_memory_here")
    assert str(wrong) in told["detail"]
    assert "quipu init" in told["hint"]
    assert files(home) == before
    valid("problem", told)


@pytest.mark.parametrize("where", ["sqlite://", "sqlite://:memory:", ":memory:"])
@pytest.mark.parametrize("line", ["remember tea", "init", "store create notes", "recall tea", "verify"])
def test_a_memory_that_would_be_gone_with_the_command_is_refused(cli: Cli, line: str, where: str) -> None:
    told = cli.problem(*line.split(), "--store-url", where)
    assert (told["code"], told["reason"]) == ("validation_error", "in_memory")
    assert "--store-url sqlite:///" in told["hint"]
    assert "Remembered" not in cli(*line.split(), "--store-url", where).output


def test_what_would_happen_can_be_asked_of_a_memory_that_is_not_kept(cli: Cli, home: Path) -> None:
    (home / "notes.jsonl").write_text('{"content":"tea at noon"}\n', "utf-8")
    done = cli("import", str(home / "notes.jsonl"), "--dry-run", "--store-url", "sqlite://")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(("where", "is_told"), [("sqlite://", True), ("sqlite://./memory.db", False)])
def test_a_server_says_when_nothing_is_kept(
    caplog: pytest.LogCaptureFixture, where: str, *, is_told: bool
) -> None:
    warn_if_nothing_is_kept(Config(store_url=where))
    assert ("Nothing is kept" in caplog.text) is is_told


@pytest.mark.parametrize("line", NEEDS)
def test_nobody_works_on_or_vouches_for_a_memory_that_is_not_there(cli: Cli, home: Path, line: str) -> None:
    assert cli.problem(*line.split())["reason"] == "no_memory_here"
    assert files(home) == set()


@pytest.mark.parametrize("line", READS)
def test_whoever_looks_before_anything_is_remembered_makes_nothing(
    cli: Cli, home: Path, rules: None, line: str
) -> None:
    result = cli(*line.split())
    assert "Traceback" not in result.stderr
    assert result.exit_code in (0, 1), result.output
    assert "no_memory_here" not in cli(*line.split(), "--json").stderr
    assert files(home) == {"rules.json"}


def test_a_fresh_machine_answers_kindly(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUIPU_STORE")
    usual = home / "data" / "quipu" / "memory.db"
    for words in (["recall", "what does Mara eat?"], ["list"], ["store", "list"]):
        result = cli(*words)
        assert result.exit_code == 0
        said = result.stderr.replace("\n", "")
        assert "Nothing is remembered yet" in said
        assert usual.name in said
        assert "quipu remember" in said
    assert cli("list", "--quiet").stderr == ""
    assert cli.json("recall", "tea")["results"] == []
    assert not (home / "data").exists()


def test_a_model_is_not_loaded_to_search_nothing(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_CACHE", str(home / "cache"))
    assert cli.json("recall", "tea", "--embedder", "onnx")["results"] == []
    assert not (home / "cache").exists()


def test_a_near_name_in_the_same_folder_is_suggested(cli: Cli, home: Path) -> None:
    cli.remember("tea", "--store-url", f"sqlite://{home / 'notes.db'}")
    (home / "notesx.db").write_text("as near, and no memory", "utf-8")
    hint = cli.problem("list", "--store-url", f"sqlite://{home / 'notess.db'}")["hint"]
    assert f"Did you mean {home / 'notes.db'}?" in hint
    assert "notesx.db" not in hint
    assert "notes.db" in cli.problem("list", "--store-url", str(home / "notes"))["hint"]
    assert "Did you mean" not in cli.problem("list", "--store-url", str(home / "other.db"))["hint"]


def test_a_folder_that_is_not_there_is_named(cli: Cli, home: Path) -> None:
    hint = cli.problem("list", "--store-url", str(home / "nowhere" / "memory.db"))["hint"]
    assert f"no folder {home / 'nowhere'}" in hint
    assert not (home / "nowhere").exists()


def test_a_folder_that_cannot_be_listed_suggests_nothing(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said by a folder that refuses: root, who may run this, is refused by none."""

    def refuse(_folder: Path) -> None:
        raise PermissionError

    (home / "memory.db").write_bytes(b"SQLite format 3\x00")
    wrong = str(home / "memroy.db")
    assert "Did you mean" in cli.problem("list", "--store-url", wrong)["hint"]
    monkeypatch.setattr(Path, "iterdir", refuse)
    assert "Did you mean" not in cli.problem("list", "--store-url", wrong)["hint"]


def test_a_person_reads_it_in_two_lines(cli: Cli, home: Path) -> None:
    result = cli("list", "--store-url", str(home / "wrong.db"))
    first, second = result.stderr.strip().splitlines()
    assert first == f"Error: There is no memory at {home / 'wrong.db'}."
    assert second.startswith("Hint:  Check the path.")
    assert result.stdout == ""


def test_who_puts_something_in_makes_the_memory(cli: Cli, home: Path) -> None:
    (home / "in.ndjson").write_text('{"content": "tea"}\n', "utf-8")
    for number, words in enumerate(
        (
            ["remember", "tea"],
            ["import", "in.ndjson"],
            ["store", "create", "notes"],
            ["tenant", "create", "b"],
        )
    ):
        place = home / f"new-{number}.db"
        assert cli(*words, "--store-url", str(place)).exit_code == 0
        assert place.is_file()
        assert cli("list", "--store-url", str(place)).exit_code == 0


def test_a_dry_run_into_a_new_memory_makes_nothing(cli: Cli, home: Path) -> None:
    (home / "in.ndjson").write_text('{"content": "tea"}\n', "utf-8")
    told = cli.json("import", "in.ndjson", "--dry-run", "--store-url", str(home / "new.db"))
    assert told["summary"]["stored"] == 1
    assert files(home) == {"in.ndjson"}


def test_the_doctor_fails_a_path_that_was_named_and_warns_of_the_usual_one(cli: Cli, home: Path) -> None:
    def found(*words: str, code: int) -> tuple[str, str]:
        checks = cli.json("doctor", "--quick", *words, code=code)["checks"]
        return next((one["status"], one["advice"]) for one in checks if one["name"] == "file")

    cli.remember("tea", "--store-url", str(home / "notes.db"))
    before = files(home)
    status, advice = found("--store-url", str(home / "note.db"), code=1)
    assert status == "fail"
    assert "notes.db" in advice
    assert found(code=0)[0] == "warn"
    assert files(home) == before


def test_conformance_is_not_played_on_a_target_that_is_not_there(cli: Cli, home: Path) -> None:
    told = cli.problem("conformance", "nope", "--only", "basic_remember_recall")
    assert told["reason"] == "no_memory_here"
    assert files(home) == set()


def test_a_file_beside_a_mirror_that_was_named_is_no_reason_to_answer_for_it(cli: Cli, home: Path) -> None:
    told = cli.problem("list", "--store-url", "mem0://default")
    assert told["reason"] == "no_memory_here"
    assert files(home) == set()
