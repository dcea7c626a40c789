"""The capability put together: every operation of memory and the function that does it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quipu.memory import operations as ops
from quipu.memory.batch import Batch
from quipu.memory.change_feed import ChangeFeed, CommitSignal
from quipu.memory.drafts import Limits
from quipu.memory.expire import Expire
from quipu.memory.forget import ErasureReach, Forget
from quipu.memory.merge import Merge
from quipu.memory.pipeline import Pipeline, Write
from quipu.memory.read import Read, Related
from quipu.memory.read_log import ReadLog
from quipu.memory.recall.recall import Recall
from quipu.memory.remember import Remember
from quipu.memory.stores import Stores
from quipu.operation import AnyBinding, Binding


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryService:
    """What memory does."""

    remember: Remember
    batch: Batch
    recall: Recall
    forget: Forget
    merge: Merge
    expire: Expire
    read: Read
    related: Related
    stores: Stores
    feed: ChangeFeed
    read_log: ReadLog

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            *self.read.bindings,
            *self.recall.bindings,
            Binding(ops.REMEMBER, self.remember.remember),
            Binding(ops.UPDATE, self.remember.update),
            Binding(ops.REMEMBER_MANY, self.batch.remember_many),
            Binding(ops.FORGET, self.forget.forget),
            Binding(ops.MERGE, self.merge.merge),
            Binding(ops.EXPIRE, self.expire.expire),
            Binding(ops.RESTORE, self.forget.restore),
            Binding(ops.RELATED, self.related.related),
            Binding(ops.CREATE_STORE, self.stores.create),
            Binding(ops.LIST_STORES, self.stores.listed),
            Binding(ops.DELETE_STORE, self.stores.delete),
            Binding(ops.CHANGES, self.feed.changes),
        )

    @property
    def writes(self) -> Mapping[str, Write[Any, Any]]:
        """Every write that a person may have to approve, by operation: governance plans held ones again."""
        writes: tuple[Write[Any, Any], ...] = (
            self.remember.write,
            self.remember.update_write,
            self.batch.write,
            self.forget.write,
            self.forget.restore_write,
            self.merge.write,
            self.expire.write,
        )
        return {write.operation: write for write in writes}


def memory_service(
    *,
    read: Read,
    recall: Recall,
    pipeline: Pipeline,
    signal: CommitSignal,
    limits: Limits,
    reach: tuple[ErasureReach, ...] = (),
) -> MemoryService:
    """Everything of memory, over what only reads."""
    ledger, scopes, read_log = read.ledger, read.scopes, read.read_log
    embedding, engine = recall.embedding, recall.engine
    remember = Remember(
        ledger=ledger, pipeline=pipeline, scopes=scopes, embedding=embedding, engine=engine, limits=limits
    )
    forget = Forget(
        ledger=ledger, pipeline=pipeline, scopes=scopes, embedding=embedding, remember=remember, reach=reach
    )
    return MemoryService(
        remember=remember,
        batch=Batch(pipeline=pipeline, remember=remember),
        recall=recall,
        forget=forget,
        merge=Merge(
            ledger=ledger, pipeline=pipeline, scopes=scopes, embedding=embedding, forget=forget, limits=limits
        ),
        expire=Expire(ledger=ledger, pipeline=pipeline, scopes=scopes, read_log=read_log),
        read=read,
        related=Related(read=read, engine=engine),
        stores=Stores(ledger=ledger, pipeline=pipeline, scopes=scopes, forget=forget),
        feed=ChangeFeed(ledger=ledger, scopes=scopes, signal=signal),
        read_log=read_log,
    )
