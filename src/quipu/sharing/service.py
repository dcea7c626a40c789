"""The capability put together: every operation of sharing and the function that does it."""

from dataclasses import dataclass

from quipu.embed.port import Embedder
from quipu.memory.forget import Forget
from quipu.memory.pipeline import Pipeline
from quipu.operation import AnyBinding, Binding
from quipu.secrets.sealing import Sealing
from quipu.sharing import operations as ops
from quipu.sharing.about import About
from quipu.sharing.borrowed import Borrowed
from quipu.sharing.cascade import Cascade
from quipu.sharing.erasures import Erasures, HeldWrites
from quipu.sharing.grants import operations as grant_ops
from quipu.sharing.grants.history import History
from quipu.sharing.grants.projection import FreeText
from quipu.sharing.grants.query import GrantQueries
from quipu.sharing.grants.service import Grants
from quipu.sharing.grants.tokens import Admission, Rates
from quipu.sharing.grants.view import GrantViews
from quipu.sharing.host import Host
from quipu.sharing.lenders import Lenders


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What sharing does."""

    host: Host
    about: About
    grants: Grants
    views: GrantViews
    admission: Admission
    queries: GrantQueries
    history: History
    borrowed: Borrowed
    erasures: Erasures

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.GET_IDENTITY, self.about.identity),
            Binding(ops.ROTATE_KEY, self.about.rotate),
            Binding(ops.DESCRIBE_SERVICE, self.about.describe),
            Binding(ops.BORROW, self.borrowed.borrow),
            Binding(ops.LIST_BORROWED, self.borrowed.listed),
            Binding(ops.GIVE_UP_BORROWED, self.borrowed.give_up),
            Binding(ops.RETURN_BORROWED, self.borrowed.returned),
            Binding(grant_ops.SHARE, self.grants.share),
            Binding(grant_ops.LIST_GRANTS, self.grants.listed),
            Binding(grant_ops.GET_GRANT, self.grants.get),
            Binding(grant_ops.REVOKE_GRANT, self.grants.revoke),
            Binding(grant_ops.REVOKE_ALL_GRANTS, self.grants.revoke_all),
            Binding(grant_ops.REGISTER_GRANT, self.grants.register),
            Binding(grant_ops.WHO_SAW, self.history.who_saw),
            Binding(grant_ops.LIST_RECEIPTS, self.history.receipts),
            Binding(grant_ops.MINT_GRANT_TOKEN, self.admission.mint),
            Binding(grant_ops.EXCHANGE_GRANT, self.admission.exchange),
            Binding(grant_ops.QUERY_GRANT, self.queries.query),
            Binding(grant_ops.READ_ITEM_LOG, self.history.own_log),
            Binding(grant_ops.READ_SHARED_LOG, self.history.log),
            Binding(grant_ops.READ_SHARED_VECTOR, self.queries.vector),
            Binding(grant_ops.REPORT_INCIDENT, self.history.report),
            Binding(grant_ops.REPORT_GRANT_INCIDENT, self.history.report_under_grant),
            Binding(grant_ops.LIST_SHARED_RECEIPTS, self.history.shared_receipts),
            Binding(ops.ERASE, self.erasures.erase),
            Binding(ops.LIST_ERASURES, self.erasures.listed),
        )


def sharing_service(
    *,
    host: Host,
    pipeline: Pipeline,
    forget: Forget,
    held: HeldWrites,
    sealing: Sealing,
    embedder: Embedder | None,
    free_text: FreeText,
) -> Sharing:
    views = GrantViews(host, free_text)
    grants = Grants(host=host, views=views)
    queries = GrantQueries(
        host=host, views=views, rates=Rates(host.clock), sealing=sealing, embedder=embedder
    )
    return Sharing(
        host=host,
        about=About(host=host, pipeline=pipeline),
        grants=grants,
        views=views,
        admission=Admission(host=host, grants=grants, noted=Rates(host.clock)),
        queries=queries,
        history=History(host=host, queries=queries),
        borrowed=Borrowed(host=host, lenders=Lenders(host=host)),
        erasures=Erasures(host=host, pipeline=pipeline, forget=forget, held=held, cascade=Cascade(host=host)),
    )
