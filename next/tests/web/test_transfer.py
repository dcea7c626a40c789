"""The page on which whole memories move."""

from tests.web.conftest import House


async def test_memories_are_taken_along_as_a_file_that_the_browser_saves(house: House) -> None:
    await house.remember("Ana likes tea")
    await house.remember("stays here", metadata={"exportable": False})
    person = await house.person("ana", "admin")
    page = await person.get("/transfer")
    given = {"format": "bundle", "include": "non_exportable"}
    sent = (await person.send(page, "export", **given)).response
    assert sent.headers["content-disposition"].endswith('.bundle.zip"')
    assert sent.content.startswith(b"PK")
    mem0 = (await person.send(await person.get("/transfer"), "export", format="mem0")).response
    assert "Ana likes tea" in mem0.text
    assert "stays here" not in mem0.text
    refused = await person.send(await person.get("/transfer"), "export", encrypt_to="nobody")
    assert refused.status == 400
    assert "age recipient" in refused.text
