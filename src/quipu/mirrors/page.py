"""What the page of the server shows of mirrors, and does to them."""

from collections.abc import Mapping
from typing import Any

from quipu.mirrors import operations as ops
from quipu.mirrors.model import MirrorReport
from quipu.operation import Context, dispatch
from quipu.page import Action, Done, Fields, may_use


async def _verify(ctx: Context, form: Fields) -> Done:
    report: MirrorReport = await dispatch(ctx, ops.VERIFY_MIRROR, {"name": form.get("mirror", "")})
    return Done(once={"mirror": report})


async def _resync(ctx: Context, form: Fields) -> Done:
    report: MirrorReport = await dispatch(ctx, ops.RESYNC_MIRROR, {"name": form.get("mirror", "")})
    return Done(once={"mirror": report, "is_mended": True})


async def _drop(ctx: Context, form: Fields) -> Done:
    dropped = await dispatch(ctx, ops.DROP_MIRROR, {"name": form.get("mirror", "")})
    return Done(said=f"The mirror {dropped.name} is forgotten. It may still hold {dropped.copies:,} copies.")


class MirrorPart:
    """A part of the page of the server."""

    async def load(self, ctx: Context, query: Fields) -> dict[str, Any]:
        """`mirrors` is None where the visitor may not see them."""
        mirrors = None
        if may_use(ctx.principal, ops.LIST_MIRRORS):
            mirrors = (await dispatch(ctx, ops.LIST_MIRRORS, {})).mirrors
        return {"mirrors": mirrors}

    @property
    def actions(self) -> Mapping[str, Action]:
        return {"verify_mirror": _verify, "resync_mirror": _resync, "drop_mirror": _drop}
