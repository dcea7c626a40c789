"""A filter that names a key which no memory has finds nothing, and says so: it may be a slip of the pen."""

from quipu.ledger.ledger import Ledger
from quipu.memory.scope import in_scope
from quipu.memory.views import is_secret
from quipu.model.search import Scope, Selection, Snapshot
from quipu.model.value import JsonObject
from quipu.search.filter_tree import Missing, metadata_at, paths
from quipu.search.filters import compiled

#: So many of the newest memories are looked at.
_MOST = 1000


async def warnings_of(
    ledger: Ledger, scope: Scope, snapshot: Snapshot, filter: JsonObject | None
) -> tuple[str, ...]:
    """Which keys of metadata that a filter names none of the newest memories in reach has.

    Asked where a filter found nothing. What is labelled secret counts as having none: nobody learns of it here.
    """
    if not filter:
        return ()
    missing = {path for path in paths(compiled(filter, plain_names="fields")) if path.field is None}
    selection = Selection(
        tenant=scope.tenant, agent_id=scope.agent_id, user_id=scope.user_id, store_id=scope.store_id
    )
    looked_at = 0
    if missing:
        async for record in ledger.scan(selection, snapshot):
            if not in_scope(record, scope):
                continue
            looked_at += 1
            if not is_secret(record):
                missing = {one for one in missing if isinstance(metadata_at(record.metadata, one), Missing)}
            if not missing or looked_at == _MOST:
                break
    names = sorted(".".join(("metadata", *path.segments)) for path in missing)
    where = f"None of the newest {_MOST:,} memories" if looked_at == _MOST else "No memory in reach"
    return tuple(f"{where} has {name}, which the filter asks for." for name in names)
