"""Health, people and tokens, webhooks, secrets, tenants: as pages."""

import asyncio
import re
from pathlib import Path

from quipu.access.operations import LIST_TENANTS, LIST_TOKENS
from quipu.errors import BackendUnavailableError
from quipu.governance.operations import LIST_WEBHOOKS
from quipu.http.jobs import Job, Jobs
from quipu.memory.operations import GET, REMEMBER
from quipu.secrets.operations import LIST_SECRETS
from tests.http.rig import until
from tests.mirrors.rig import mirror
from tests.mirrors.shelf import ShelfBackend
from tests.web.conftest import House, open_house
from tests.web.person import Seen

SECRET = "hunter2-nobody-knows"


def _once(seen: Seen) -> str:
    """What is shown this once."""
    (shown,) = (given["value"] for tag, given in seen.html.tags if tag == "input" and "data-select" in given)
    return shown


async def test_a_token_is_created_shown_once_and_signs_in(house: House) -> None:
    person = await house.person("ana", "admin")
    page = await person.get("/access")
    made = await person.send(
        page, "create", name="carla", roles=["reviewer"], agents="shop-*, support", expires_at="30d"
    )
    text = _once(made)
    assert "it is shown this once" in made.text
    assert text not in (await person.get("/access")).html.source
    carla = (await house(LIST_TOKENS)).tokens[-1]
    assert (carla.name, carla.agents, carla.permissions) == (
        "carla",
        ("shop-*", "support"),
        ("memory:read", "memory:review"),
    )
    assert carla.expires_at is not None
    stranger = house.stranger()
    assert "carla" in (await stranger.sign_in(text)).text


async def test_what_was_typed_for_a_token_survives_a_refusal(house: House) -> None:
    person = await house.person("ana", "admin")
    seen = await person.send(
        await person.get("/access"), "create", name="carla", agents="shop", user_id="mara"
    )
    assert seen.status == 400
    fields = dict(seen.html.form("create").fields)
    assert (fields["name"], fields["agents"], fields["user_id"]) == ("carla", "shop", "mara")


async def test_a_token_is_rotated_and_revoked(house: House) -> None:
    token = await house.token("carla", "reviewer")
    carla, person = house.stranger(), await house.person("ana", "admin")
    await carla.sign_in(token)
    page = await person.get("/access")
    (token_id,) = (one.id for one in (await house(LIST_TOKENS)).tokens if one.name == "carla")
    fresh = _once(await person.send(page, "rotate", token_id=token_id))
    assert fresh != token
    assert (await carla.get("/")).path.startswith("/signin"), "the old text has ended"
    await carla.sign_in(fresh)
    (token_id,) = (one.id for one in (await house(LIST_TOKENS)).tokens if one.name == "carla" and one.is_good)
    assert "is out" in (await person.send(page, "revoke", token_id=token_id)).text
    assert (await carla.get("/")).path.startswith("/signin")
    assert "2 tokens that have ended" in (await person.get("/access")).text


async def test_a_sign_in_link_is_made_for_somebody_else(house: House) -> None:
    await house.token("carla", "reviewer")
    person, carla = await house.person("ana", "admin"), house.stranger()
    (token_id,) = (one.id for one in (await house(LIST_TOKENS)).tokens if one.name == "carla")
    link = _once(await person.send(await person.get("/access"), "link", token_id=token_id))
    page = await carla.get(link)
    assert "carla" in (await carla.post("/signin", page.html.forms[0].fields)).text


async def test_a_webhook_is_added_and_taken_away(house: House) -> None:
    person = await house.person("ana", "admin")
    page = await person.get("/access")
    refused = await person.send(page, "add_webhook", url="ftp://hooks.example")
    assert refused.status == 400
    assert ("url", "ftp://hooks.example") in refused.html.form("add_webhook").fields
    made = await person.send(
        page, "add_webhook", url="https://nowhere.invalid/hook", events=["proposal.held"]
    )
    key = _once(made)
    (hook,) = (await house(LIST_WEBHOOKS)).webhooks
    assert hook.events == ("proposal.held",)
    page = await person.get("/access")
    assert key not in page.html.source
    assert "https://nowhere.invalid/hook" in page.text
    tested = await person.send(page, "test_webhook")
    assert tested.status >= 400
    assert "Nothing was done" in tested.text
    await person.send(page, "delete_webhook")
    assert (await house(LIST_WEBHOOKS)).webhooks == ()


async def test_a_registered_value_is_kept_out_and_never_shown(house: House) -> None:
    person = await house.person("ana", "admin")
    page = await person.send(await person.get("/secrets"), "add", label="mail-password", value=SECRET)
    assert "mail-password" in page.text
    assert SECRET not in page.html.source
    kept = await house(REMEMBER, content=f"The password is {SECRET}")
    assert SECRET not in (await house(GET, id=kept.id)).content
    page = await person.send(await person.get("/secrets"), "remove")
    assert "may be remembered again" in page.text
    assert (await house(LIST_SECRETS)).secrets == ()


async def test_a_value_that_was_refused_is_not_said_back(house: House) -> None:
    person = await house.person("ana", "admin")
    page = await person.get("/secrets")
    await person.send(page, "add", label="mail-password", value=SECRET)
    seen = await person.send(page, "add", label=SECRET, value="other-value-here")
    assert seen.status == 422
    assert SECRET not in seen.html.source
    seen = await person.send(page, "add", label="", value="yet-another-value")
    assert seen.status == 400
    assert "yet-another-value" not in seen.html.source


async def test_an_operator_creates_suspends_and_resumes_tenants(house: House) -> None:
    person = await house.person("op", "operator")
    page = await person.send(await person.get("/tenants"), "create", tenant="atelier")
    assert "Created the tenant atelier" in page.text
    form = next(
        form
        for form in page.html.forms
        if ("action", "token") in form.fields and ("tenant", "atelier") in form.fields
    )
    text = _once(await person.post("/tenants", [*form.fields, ("name", "zoe")]))
    zoe = house.stranger()
    assert "atelier" in (await zoe.sign_in(text)).text
    form = next(
        form
        for form in page.html.forms
        if ("action", "suspend") in form.fields and ("tenant", "atelier") in form.fields
    )
    assert (await person.post("/tenants", [*form.fields, ("confirm", "other")])).status == 400
    assert "Suspended atelier" in (await person.post("/tenants", [*form.fields, ("confirm", "atelier")])).text
    assert (await zoe.get("/")).path.startswith("/signin")
    assert "Resumed" in (await person.send(await person.get("/tenants"), "resume")).text
    assert "atelier" in (await zoe.sign_in(text)).text
    assert {one.tenant for one in (await house(LIST_TENANTS)).tenants} >= {"atelier"}


async def test_the_pages_of_the_system_are_for_those_who_run_it(house: House) -> None:
    for name, roles, offered in (
        ("ana", ("admin",), {"/health", "/access", "/secrets"}),
        ("ruth", ("reviewer",), {"/health"}),
        ("op", ("operator",), {"/health", "/tenants"}),
    ):
        person = await house.person(name, *roles)
        page = await person.get("/health")
        assert {
            link for link in page.html.links if link in {"/health", "/access", "/secrets", "/tenants"}
        } == offered
        for path in {"/access", "/secrets", "/tenants", *(() if name == "ana" else {"/transfer"})} - offered:
            assert (await person.get(path)).status == 403


async def test_health_says_how_the_server_is_and_who_looks(house: House) -> None:
    await house.remember("tea")
    seen = await (await house.person("ana", "admin")).get("/health")
    assert "Everything works" in seen.text
    assert re.search(r"Memories\s*1\b", seen.text)
    assert "memory:admin yes" in seen.text
    seen = await (await house.person("ruth", "reviewer", agents=("shop",))).get("/health")
    assert "Agents shop" in seen.text
    assert "Versions of them" not in seen.text
    seen = await (await house.person("op", "operator")).get("/health")
    assert "does not read memory" in seen.text


async def test_operators_see_how_mirrors_stand_and_bring_them_up_to_date() -> None:
    shelf = ShelfBackend()
    house = await open_house(mirrors=(mirror("shelf", shelf),))
    record = await house.remember("tea at noon")
    await house.container.mirrors.drained("default")
    person = await house.person("op", "operator")
    page = await person.get("/health")
    assert "shelf://here" in page.text
    assert "nothing waits" in page.text
    assert "0 differences" in (await person.send(page, "verify_mirror")).text
    shelf.kept.clear()
    seen = await person.send(page, "verify_mirror")
    assert "1 difference" in seen.text
    assert f"/memories/{record}" in seen.html.links
    assert shelf.kept == {}, "comparing changes nothing"
    assert "1 of them mended" in (await person.send(page, "resync_mirror")).text
    assert [copy.content for copy in shelf.kept.values()] == ["tea at noon"]
    others = await house.person("ana", "admin")
    seen = await others.get("/health")
    assert "shelf" not in seen.text
    assert not seen.html.has_form("resync_mirror")
    await house.close()


async def test_a_mirror_that_is_set_up_no_more_can_be_forgotten(tmp_path: Path) -> None:
    store = str(tmp_path / "memory.db")
    house = await open_house(store=store, mirrors=(mirror("shelf", ShelfBackend()),))
    await house.remember("tea at noon")
    await house.container.mirrors.drained("default")
    await house.close()
    house = await open_house(store=store)
    person = await house.person("op", "operator")
    page = await person.get("/health")
    assert "not set up here" in page.text
    seen = await person.send(page, "drop_mirror")
    assert "may still hold 1 copies" in seen.text
    assert not seen.html.has_form("drop_mirror")
    await house.close()


async def test_operators_see_what_the_server_does_by_itself(house: House) -> None:
    async def fails() -> None:
        raise BackendUnavailableError("The disk is full.", reason="disk_full")

    async def works() -> None:
        await asyncio.sleep(0)

    job_log = house.container.job_log
    jobs = Jobs(
        [Job(name="checkpoint", every_s=60, work=fails), Job(name="sweep", every_s=60, work=works)],
        job_log,
        pause=lambda _: asyncio.sleep(0),
    )
    person = await house.person("op", "operator")
    assert "not yet" in (await person.get("/health")).text
    async with jobs:
        await until(lambda: all(job_log.states[name].ended_at for name in ("checkpoint", "sweep")))
        seen = await person.get("/health")
    assert "Signs the journal checkpoint disk full 1 minute" in seen.text
    assert re.search(r"Removes what has expired sweep (works|running) 1 minute", seen.text)
    assert "disk full" not in (await (await house.person("ana", "admin")).get("/health")).text
