"""Operations as commands, on a real memory in a file: answers, exit codes, input, tables."""

import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from quipu.cli.program import Surroundings
from quipu.errors import BackendUnavailableError, DeadlineError, ForbiddenError, QuipuError, TamperedError
from quipu.memory.model import RememberResponse
from quipu.operation import AnyOperation, Response
from tests.cli.conftest import Cli


class Memory:
    """Stands where a memory stands: answers always the same, or fails always alike."""

    def __init__(self, answer: Response | BaseException) -> None:
        self._answer = answer

    async def opened(self) -> "Memory":
        return self

    async def check(self) -> None:
        return

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer

    async def stream(self, operation: AnyOperation, given: Mapping[str, Any]) -> AsyncGenerator[Response]:
        yield await self.call(operation, given)

    async def close(self) -> None:
        return


def over(cli: Cli, answer: Response | BaseException) -> Cli:
    memory = Memory(answer)
    cli.surroundings = Surroundings(embedded=lambda *_, **__: memory.opened)
    return cli


# -- a life of a memory -----------------------------------------------------------------------------------------------


def test_what_is_remembered_is_found_changed_forgotten_and_restored(cli: Cli) -> None:
    name = cli.remember("Mara is vegetarian", "--user-id", "mara", "--tags", "food", "--tags", "home")
    assert cli.json("recall", "vegetarian")["results"][0]["id"] == name
    assert name in cli.says("recall", "vegetarian")
    assert cli.json("update", name, "--content", "Mara is vegan")["id"] == name
    assert [version["content"] for version in cli.json("history", name)["versions"]] == [
        "Mara is vegetarian",
        "Mara is vegan",
    ]
    assert cli.json("forget", name)["forgotten_ids"] == [name]
    assert cli.json("list")["records"] == []
    cli.says("restore", name)
    assert cli.json("show", name)["content"] == "Mara is vegan"


def test_the_json_of_a_command_is_the_answer_of_its_operation(cli: Cli) -> None:
    whole = cli.json("remember", "tea")
    assert whole == RememberResponse.model_validate(whole, strict=False).to_dict()
    assert cli.json("list").keys() >= {"records", "next_cursor"}
    assert cli.json("store", "list")["stores"][0]["name"] == "main"
    assert cli.json("whoami")["permissions"]


def test_standard_input_is_a_text_and_a_list_of_ids(cli: Cli, home: Path) -> None:
    names = [cli.remember(f"fact {number}") for number in range(4)]
    assert cli.json("show", cli.json("remember", "-", input="Mara är vegetarian\n")["id"])["content"] == (
        "Mara är vegetarian"
    )
    piped = "".join(f"{name}\n" for name in names[:2])
    assert cli.json("forget", "-", input=piped)["forgotten_ids"] == names[:2]
    (home / "ids").write_text(f"\n{names[2]}\n  {names[3]}  \n", "utf-8")
    assert cli.json("forget", f"@{home / 'ids'}")["forgotten_ids"] == names[2:]
    assert cli.problem("forget", "@nowhere")["reason"] == "no_file"
    assert cli.problem("forget", "-", input="\n")["reason"] == "no_scope"
    assert cli.problem("remember", "-", input=b"\xff\xfe")["reason"] == "bad_value"


def test_a_secret_is_read_and_never_typed(cli: Cli) -> None:
    made = cli.json("secret", "add", "codeword", input="swordfish-42-swordfish\n")
    assert "swordfish" not in json.dumps(made) + cli.says("secret", "list")
    kept = cli.json("show", cli.remember("the codeword is swordfish-42-swordfish"))
    assert "swordfish" not in kept["content"]
    assert cli.problem("secret", "add", "label", "hush hush")["reason"] == "usage"
    assert cli.problem("secret", "add", "label", "--value", "hush")["reason"] == "usage"
    assert cli.problem("secret", "add", "empty")["errors"][0]["pointer"] == "/value"


def test_a_list_of_objects_and_a_moment_are_typed_as_a_person_writes_them(cli: Cli) -> None:
    other = cli.remember("Lisbon")
    name = cli.remember(
        "Mara lives in Lisbon",
        *("--links", json.dumps([{"to": other, "rel": "about"}]), "--metadata", '{"n": 1}'),
        *("--valid-from", "2026-03-01T12:00:00Z"),
    )
    kept = cli.json("show", name)
    assert (kept["metadata"], kept["links"][0]["to"]) == ({"n": 1}, other)
    assert "2026-03-01T12:00:00+00:00" in cli.says("show", name)


def test_a_page_says_how_to_go_on(cli: Cli) -> None:
    for number in range(3):
        cli.remember(f"fact {number}")
    first = cli("list", "--limit", "2")
    cursor = first.err.rpartition("--cursor ")[2].strip()
    assert "fact 0" in cli.says("list", "--limit", "2", "--cursor", cursor)
    assert "fact 0" not in first.out


def test_changes_are_followed_one_line_each(cli: Cli) -> None:
    names = [cli.remember("tea"), cli.remember("cake")]
    result = cli("changes", "--since", "0", "--count", "2", "--types", "memory.remembered", "--json")
    events = [json.loads(text) for text in result.out.splitlines()]
    assert [event["record_ids"] for event in events] == [[name] for name in names]
    said = cli.says("changes", "--since", "0", "-n", "2", "--types", "memory.remembered")
    assert [text.split()[-1] for text in said.splitlines()] == names


def test_an_answer_ends_its_line(cli: Cli) -> None:
    """A prompt that stood behind the answer would be taken for a part of it."""
    name = cli.remember("tea")
    for words in (["show", name], ["list"], ["recall", "tea"], ["whoami"], ["store", "list"]):
        assert cli.says(*words).endswith("\n"), words


def test_what_is_final_is_not_done_where_nobody_can_be_asked(cli: Cli) -> None:
    name = cli.remember("tea")
    problem = cli.problem("forget", name, "--hard-delete")
    assert problem["reason"] == "confirmation_required"
    assert "--yes" in problem["hint"]
    assert cli.json("show", name)["content"] == "tea"
    assert cli.json("forget", name, "--hard-delete", "--yes")["forgotten_ids"] == [name]


# -- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_what_is_held_is_exit_code_3(cli: Cli, words: list[str]) -> None:
    held = RememberResponse(
        id="mem_1",
        stored_at=1,
        stores=(),
        pending_approval=True,
        approval_url="http://x/review/prop_1",
    )
    assert held.is_held
    result = over(cli, held)("remember", "pay 900 EUR", *words)
    assert result.code == 3
    assert "http://x/review/prop_1" in result.out
    assert bool(words) or "a person decides" in result.err


FAILURES: tuple[tuple[BaseException, int], ...] = (
    (ForbiddenError(), 1),
    (TamperedError(), 2),
    (DeadlineError(), 2),
    (BackendUnavailableError(), 2),
    (RuntimeError("what must not be shown"), 2),
    (OSError(28, "No space left on device", "/x"), 2),
    (KeyboardInterrupt(), 130),
)


def test_the_exit_code_says_whose_fault_it_was(cli: Cli) -> None:
    for error, code in FAILURES:
        for more in ([], ["--json"]):
            result = over(cli, error)("list", "--quiet", *more)
            assert result.code == code, error
            assert result.out == ""
            assert "what must not be shown" not in result.err
            if code == 130:
                assert result.err == "Interrupted\n"
            elif more:
                assert json.loads(result.err.splitlines()[-1])["hint"]
            else:
                lines = [text for text in result.err.splitlines() if "unforeseen" not in text]
                assert [text[:7] for text in lines] == ["Error: ", "Hint:  "], result.err


def test_a_traceback_is_shown_only_when_asked_for(cli: Cli) -> None:
    cli.remember("tea")
    assert "Traceback" not in cli("show", "mem_unknown").err
    assert "Traceback" in cli("show", "mem_unknown", "--verbose").err


BAD: dict[str, tuple[list[str], str]] = {
    "empty content": (["remember", ""], "bad_value"),
    "an unknown type": (["remember", "x", "--type", "olfactory"], "bad_value"),
    "no number": (["remember", "x", "--confidence", "nan"], "bad_value"),
    "no JSON": (["remember", "x", "--metadata", "{a: 1}"], "bad_json"),
    "a name twice": (["remember", "x", "--metadata", '{"a":1,"a":2}'], "bad_json"),
    "no list of objects": (["remember", "x", "--links", "mem_1"], "bad_json"),
    "too large": (["recall", "x", "--k", "1001"], "bad_value"),
    "no operator": (["recall", "x", "--filter", '{"tags": {"$like": 1}}'], "unknown_operator"),
    "no scope": (["forget"], "no_scope"),
    "no policy": (["expire", "--policy", "{}"], "empty_policy"),
    "no argument": (["show"], "missing_field"),
    "too many arguments": (["show", "a", "b"], "usage"),
    "no value": (["list", "--limit"], "usage"),
    "a URL for a store": (["list", "--store", "sqlite:///x.db"], "bad_value"),
    "no scheme": (["list", "--store-url", "carrier-pigeon://loft"], "bad_value"),
}


def test_bad_input_is_refused_with_a_reason_and_a_hint_and_nothing_is_kept(cli: Cli) -> None:
    cli.remember("tea")
    before = cli.json("changes", "--since", "0", "-n", "1")["seq"]
    for name, (words, reason) in BAD.items():
        problem = cli.problem(*words)
        assert (problem["code"], problem["reason"]) == ("validation_error", reason), name
        assert problem["hint"], name
        result = cli(*words)
        assert (result.code, result.out) == (1, ""), name
        assert [text[:7] for text in result.err.splitlines()] == ["Error: ", "Hint:  "], (name, result.err)
    assert cli.json("changes", "--since", "0", "-n", "1")["seq"] == before
    assert len(cli.json("list")["records"]) == 1


def test_what_is_missing_is_answered_with_an_example(cli: Cli) -> None:
    for words in (["remember"], ["token", "create"], ["merge", "mem_1"]):
        assert cli.problem(*words)["hint"].startswith(f"For example: `quipu {words[0]}"), words


def test_errors_of_a_memory_keep_their_own_hint(cli: Cli) -> None:
    error: QuipuError = ForbiddenError(hint="It needs the permission memory:review.")
    assert over(cli, error).problem("list")["hint"] == "It needs the permission memory:review."


# -- settings ---------------------------------------------------------------------------------------------------------


def test_a_wrong_setting_stops_a_command_and_a_misspelt_variable_does_not(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIPU_STOER", "zqvaluemark")
    result = cli("remember", "tea")
    assert result.code == 0
    assert "Warning: QUIPU_STOER sets nothing" in result.err
    assert "Did you mean QUIPU_STORE?" in result.err
    assert "zqvaluemark" not in result.err
    monkeypatch.setenv("QUIPU_PORT", "many")
    assert cli.problem("list")["reason"] == "bad_setting"
    assert cli.says("--version")
