"""`quipu borrow`: what somebody shares with you, as text."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from quipu.command import HandCommand, Session
from quipu.outbound import LOOPBACK
from quipu.sharing import readable

if TYPE_CHECKING:  # help is shown without loading the models
    from quipu.config import Settings


async def _borrow(session: Session, *, kinds: tuple[str, ...], **given: Any) -> None:
    from quipu.sharing.messages import BorrowRequest

    fields = {name: value for name, value in given.items() if value is not None}
    request = BorrowRequest.parse({**fields, "kinds": kinds} if kinds else fields)
    if session.server_of() is None:
        found = await _here(session, request)
    else:
        memory = session.memory("works")
        try:
            found = await memory.call("borrow", request.model_dump(exclude_unset=True))
        finally:
            await memory.close()
    body = found.to_dict()
    session.answer(body, readable.borrowed(body))
    if found.next_cursor is not None:
        session.note(f"There is more: repeat it with --cursor {found.next_cursor}")


async def _here(session: Session, request: Any) -> Any:
    """From the memory of this machine. A server of this machine is asked where a person has typed its address."""
    from quipu.model.principal import local
    from quipu.operation import dispatch
    from quipu.sharing.operations import BORROW

    settings = _with_typed(session.settings, request.link)
    async with session.container("works", settings) as container:
        return await dispatch(container.context(local(agent_id=settings.agent)), BORROW, request)


def _with_typed(settings: "Settings", link: str) -> "Settings":
    where = urlsplit(link)
    if where.scheme != "http" or where.hostname not in LOOPBACK:
        return settings
    allowed = (*settings.oap_allowed_hosts, f"http://{where.netloc}")
    return settings.model_copy(update={"oap_allowed_hosts": allowed})


BORROW = HandCommand(
    name="borrow",
    help="""Ask another server for memory that somebody shares with you, and show it as text.

    Everything that it answers is checked. It is kept apart from your memory, and only for as long as the grant says:
    `quipu borrowed` lists it, `quipu borrowed drop` gives it up.
    """,
    run=_borrow,
    parameters=(
        click.Argument(["link"], metavar="LINK", help="The link of the grant, as who shares sent it."),
        click.Argument(
            ["query"], required=False, metavar="QUERY", help="What to look for. Left out, the newest first."
        ),
        click.Option(
            ["--kind", "kinds"], multiple=True, help="Only items of this kind; may be given several times."
        ),
        click.Option(["--limit", "max_results"], type=int, metavar="N", help="Items at most."),
        click.Option(["--cursor"], metavar="CURSOR", help="Where the last answer ended."),
    ),
    examples=(
        'quipu borrow https://memory.example/oap/memory/grant/mgr_01HX2QFXR0Q4S8U9V3W7X2Y0Z1 "meeting days"',
        "quipu borrow https://memory.example/oap/memory/grant/mgr_01HX2QFXR0Q4S8U9V3W7X2Y0Z1 --kind preference",
    ),
)
