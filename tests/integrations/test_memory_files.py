"""Files under /memories: the six commands, and that a file is a memory like any other."""

from typing import Any

import pytest

from quipu.errors import ConflictError, InvalidError
from quipu.integrations.memory_files import FileError, MemoryFiles
from tests.integrations.conftest import World
from tests.requirement import requirement


@pytest.fixture
def files(world: World) -> MemoryFiles:
    return MemoryFiles(world.call)


async def run(files: MemoryFiles, command: str, /, **arguments: Any) -> str:
    """As a model sees it."""
    try:
        return await files.run({"command": command, **arguments})
    except FileError as error:
        return f"error: {error}"


async def made(files: MemoryFiles, **texts: str) -> None:
    for name, text in texts.items():
        await run(files, "create", path=f"/memories/{name}", file_text=text)


async def test_create(files: MemoryFiles) -> None:
    created = await run(files, "create", path="/memories/a.txt", file_text="one\ntwo\n")
    assert created == "File created successfully at: /memories/a.txt"
    again = await run(files, "create", path="/memories/a.txt", file_text="x")
    assert again == "error: File /memories/a.txt already exists"
    below = await run(files, "create", path="/memories/a.txt/b", file_text="x")
    assert below == "error: File /memories/a.txt already exists"
    await run(files, "create", path="/memories/empty.txt", file_text="")
    assert await run(files, "view", path="/memories/empty.txt") == (
        "Here's the content of /memories/empty.txt with line numbers:\n     1\t"
    )


async def test_view_of_a_file(files: MemoryFiles) -> None:
    await made(files, a="one\ntwo\nthree")
    head = "Here's the content of /memories/a with line numbers:\n"
    assert await run(files, "view", path="/memories/a") == head + "     1\tone\n     2\ttwo\n     3\tthree"
    assert await run(files, "view", path="/memories/a", view_range=[2, 2]) == head + "     2\ttwo"
    rest = await run(files, "view", path="/memories/a", view_range=[2.0, -1])
    assert rest == head + "     2\ttwo\n     3\tthree"
    assert await run(files, "view", path="/memories/no") == (
        "error: The path /memories/no does not exist. Please provide a valid path."
    )


async def test_view_of_a_directory_shows_two_levels_with_sizes_and_nothing_hidden(files: MemoryFiles) -> None:
    said = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:"
    assert (await run(files, "view", path="/memories")).split("\n") == [said, "0B\t/memories"]
    await run(files, "create", path="/memories/a.txt", file_text="one\ntwo\nthree")
    await run(files, "create", path="/memories/d/e/deep.txt", file_text="x" * 2048)
    await run(files, "create", path="/memories/.hidden", file_text="x")
    assert (await run(files, "view", path="/memories/")).split("\n")[1:] == [
        "2.0K\t/memories",
        "13B\t/memories/a.txt",
        "2K\t/memories/d/",
        "2K\t/memories/d/e/",
    ]


async def test_str_replace_wants_one_place(files: MemoryFiles) -> None:
    await made(files, a="one\ntwo\ntwo\nfour\nfive\nsix")
    edited = await run(files, "str_replace", path="/memories/a", old_str="one", new_str="uno")
    assert edited == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tuno\n     2\ttwo\n     3\ttwo"
    )
    for old, said in (
        ("nine", "No replacement was performed, old_str `nine` did not appear verbatim in /memories/a."),
        (
            "two",
            "No replacement was performed. Multiple occurrences of old_str `two` in lines: 2, 3. "
            "Please ensure it is unique",
        ),
    ):
        assert (
            await run(files, "str_replace", path="/memories/a", old_str=old, new_str="x") == f"error: {said}"
        )
    await run(files, "str_replace", path="/memories/a", old_str="uno\n")
    assert "     1\ttwo" in await run(files, "view", path="/memories/a")


async def test_insert_counts_lines_as_a_view_numbers_them(files: MemoryFiles) -> None:
    await made(files, a="one\u2028still one\ntwo\x0cstill two")
    done = await run(files, "insert", path="/memories/a", insert_line=1, insert_text="between\n")
    assert done == "The file /memories/a has been edited."
    seen = await run(files, "view", path="/memories/a")
    assert seen.endswith("     1\tone\u2028still one\n     2\tbetween\n     3\ttwo\x0cstill two\n     4\t")
    for line in (4, -1):
        wrong = await run(files, "insert", path="/memories/a", insert_line=line, insert_text="x")
        assert wrong == (
            f"error: Invalid `insert_line` parameter: {line}. It should be within the range [0, 3]."
        )


async def test_line_endings_are_kept(files: MemoryFiles) -> None:
    await made(files, a="one\r\ntwo\r\n")
    await run(files, "str_replace", path="/memories/a", old_str="one", new_str="uno")
    await run(files, "insert", path="/memories/a", insert_line=1.0, insert_text="more")
    assert (await run(files, "view", path="/memories/a")).endswith(
        "     1\tuno\r\n     2\tmore\r\n     3\ttwo\r\n     4\t"
    )


async def test_delete_takes_a_file_or_all_below_a_directory_and_never_the_root(files: MemoryFiles) -> None:
    for name in ("a.txt", "d/b.txt", "d/e/c.txt"):
        await run(files, "create", path=f"/memories/{name}", file_text="x")
    assert await run(files, "delete", path="/memories/d") == "Successfully deleted /memories/d"
    assert "does not exist" in await run(files, "delete", path="/memories/d/b.txt")
    for root in ("/memories", "/memories/", "/memories/a/.."):
        assert await run(files, "delete", path=root) == "error: Cannot delete the /memories directory itself"
    assert "a.txt" in await run(files, "view", path="/memories")
    assert await files.clear() == "All memory cleared"
    assert "a.txt" not in await run(files, "view", path="/memories")


async def test_rename_moves_a_file_or_a_directory(files: MemoryFiles) -> None:
    for name in ("a.txt", "d/b.txt", "d/e/c.txt"):
        await run(files, "create", path=f"/memories/{name}", file_text=name)
    done = await run(files, "rename", old_path="/memories/d", new_path="/memories/f")
    assert done == "Successfully renamed /memories/d to /memories/f"
    assert "e/c.txt" in await run(files, "view", path="/memories/f/e/c.txt")
    for old, new, said in (
        ("a.txt", "f", "The destination /memories/f already exists"),
        ("", "x", "Cannot rename the /memories directory itself"),
        ("no", "x", "The path /memories/no does not exist. Please provide a valid path."),
        ("f", "f/g", "The destination /memories/f/g is inside a file or inside /memories/f"),
    ):
        answer = await run(
            files, "rename", old_path=f"/memories/{old}".rstrip("/"), new_path=f"/memories/{new}"
        )
        assert answer == f"error: {said}"


@requirement("mcp:profiles.anthropic")
@pytest.mark.parametrize("command", ["view", "create", "str_replace", "insert", "delete", "rename"])
async def test_no_path_leads_out_of_the_root(files: MemoryFiles, command: str) -> None:
    rest: dict[str, dict[str, Any]] = {
        "create": {"file_text": "x"},
        "str_replace": {"old_str": "x", "new_str": "y"},
        "insert": {"insert_line": 0, "insert_text": "x"},
        "rename": {"new_path": "/memories/x"},
    }
    name = "old_path" if command == "rename" else "path"
    for path in ("/etc/passwd", "memories/a", "/memoriesx/a", ""):
        answer = await run(files, command, **{name: path}, **rest.get(command, {}))
        assert answer == f"error: Path must start with /memories, got: {path}"
    for path in ("/memories/../etc/passwd", "/memories/a/../../x", "/memories/.."):
        answer = await run(files, command, **{name: path}, **rest.get(command, {}))
        assert answer == f"error: Path {path} would escape /memories directory"


async def test_what_a_command_lacks_is_named(files: MemoryFiles) -> None:
    for given, said in (
        ({"command": "view"}, "/path: view needs it"),
        ({"command": "create", "path": "/memories/a"}, "/file_text"),
        ({"command": "read", "path": "/memories/a"}, "/command"),
        ({"command": "view", "path": "/memories/a", "view_range": [1]}, "/view_range"),
        (
            {"command": "insert", "path": "/memories/a", "insert_line": "1", "insert_text": "x"},
            "/insert_line",
        ),
        ({"command": "view", "path": "/memories/a", "colour": "red"}, "/colour"),
    ):
        with pytest.raises(InvalidError, match=said):
            await files.run(given)


@requirement("mcp:profiles.anthropic")
async def test_a_file_is_one_memory_with_a_history(files: MemoryFiles, world: World) -> None:
    await made(files, bees="Mara keeps bees")
    await run(files, "str_replace", path="/memories/bees", old_str="bees", new_str="ants")
    await run(files, "rename", old_path="/memories/bees", new_path="/memories/ants")
    (hit,) = await world.memory.recall("Mara ants")
    versions = (await world.memory.history(hit.id)).versions
    assert [version.content for version in versions] == ["Mara keeps bees", *["Mara keeps ants"] * 2]
    assert [version.metadata["path"] for version in versions] == [*["/memories/bees"] * 2, "/memories/ants"]
    await world.memory.forget(ids=[hit.id], hard_delete=True)
    assert "does not exist" in await run(files, "view", path="/memories/ants")


async def test_a_file_that_two_clients_made_at_the_same_time_goes_as_one(
    files: MemoryFiles, world: World
) -> None:
    """Neither saw the other's when it began to write, so two memories have the same path."""

    async def twice(name: str) -> None:
        await made(files, **{name: "the first"})
        await world.memory.remember("the second", metadata={"memory_file": True, "path": f"/memories/{name}"})
        assert (await run(files, "view", path=f"/memories/{name}")).endswith("the second")

    await twice("a")
    await run(files, "delete", path="/memories/a")
    assert "does not exist" in await run(files, "view", path="/memories/a")
    await twice("b")
    await run(files, "rename", old_path="/memories/b", new_path="/memories/c")
    assert "does not exist" in await run(files, "view", path="/memories/b")
    assert (await run(files, "view", path="/memories/c")).endswith("the second")


async def test_an_edit_of_what_has_changed_meanwhile_is_refused(files: MemoryFiles, world: World) -> None:
    await made(files, a="one two")
    call = world.call

    async def late(name: str, /, **given: Any) -> Any:
        answer = await call(name, **given)
        if name == "list":  # somebody else, after we have looked
            await files.run(
                {"command": "str_replace", "path": "/memories/a", "old_str": "one", "new_str": "uno"}
            )
        return answer

    with pytest.raises(ConflictError):
        await MemoryFiles(late).run(
            {"command": "str_replace", "path": "/memories/a", "old_str": "two", "new_str": "due"}
        )
    assert (await run(files, "view", path="/memories/a")).endswith("uno two")


async def test_an_edit_that_waits_for_a_person_says_that_nothing_has_changed(
    files: MemoryFiles, world: World
) -> None:
    await made(files, a="one")
    await world.memory.set_rules([{"id": "ask", "effect": "hold"}])
    for command in (
        {"command": "create", "path": "/memories/b", "file_text": "x"},
        {"command": "str_replace", "path": "/memories/a", "old_str": "one", "new_str": "x"},
        {"command": "delete", "path": "/memories/a"},
    ):
        with pytest.raises(ConflictError, match="Nothing has changed"):
            await files.run(command)
    assert (await run(files, "view", path="/memories/a")).endswith("one")
    assert "b" not in (await run(files, "view", path="/memories")).partition("\n")[2]


async def test_a_secret_in_a_file_is_not_kept(files: MemoryFiles, world: World) -> None:
    await world.memory.add_secret("door", "hunter2hunter2")
    await made(files, a="the code is hunter2hunter2")
    assert "hunter2" not in await run(files, "view", path="/memories/a")
