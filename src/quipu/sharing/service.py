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
from quipu.sharing.erasure.cascade import Cascade
from quipu.sharing.erasure.choice import Choice, HeldWrites
from quipu.sharing.erasure.erasures import Erasures
from quipu.sharing.grants import operations as grant_ops
from quipu.sharing.grants.admission import Admission
from quipu.sharing.grants.disclosures import Disclosures
from quipu.sharing.grants.incidents import Incidents
from quipu.sharing.grants.profiles import PROFILES
from quipu.sharing.grants.projection import FreeText
from quipu.sharing.grants.query import GrantQueries
from quipu.sharing.grants.rates import Rates
from quipu.sharing.grants.service import Grants
from quipu.sharing.grants.shown_items import ShownItems
from quipu.sharing.grants.view import GrantViews
from quipu.sharing.host import Host
from quipu.sharing.lenders import Lenders
from quipu.sharing.manifests import EXPORT_FORMATS
from quipu.sharing.returning import Returning


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What sharing does."""

    host: Host
    about: About
    grants: Grants
    views: GrantViews
    admission: Admission
    queries: GrantQueries
    disclosures: Disclosures
    borrowed: Borrowed
    returning: Returning
    shown_items: ShownItems
    incidents: Incidents
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
            Binding(ops.RETURN_BORROWED, self.returning.returned),
            Binding(grant_ops.SHARE, self.grants.share),
            Binding(grant_ops.LIST_GRANTS, self.grants.listed),
            Binding(grant_ops.GET_GRANT, self.grants.get),
            Binding(grant_ops.REVOKE_GRANT, self.grants.revoke),
            Binding(grant_ops.REVOKE_ALL_GRANTS, self.grants.revoke_all),
            Binding(grant_ops.REGISTER_GRANT, self.grants.register),
            Binding(grant_ops.WHO_SAW, self.disclosures.who_saw),
            Binding(grant_ops.LIST_RECEIPTS, self.disclosures.receipts),
            Binding(grant_ops.MINT_GRANT_TOKEN, self.admission.mint),
            Binding(grant_ops.EXCHANGE_GRANT, self.admission.exchange),
            Binding(grant_ops.QUERY_GRANT, self.queries.query),
            Binding(grant_ops.READ_ITEM_LOG, self.shown_items.own_log),
            Binding(grant_ops.READ_SHARED_LOG, self.shown_items.log),
            Binding(grant_ops.READ_SHARED_VECTOR, self.shown_items.vector),
            Binding(grant_ops.REPORT_INCIDENT, self.incidents.report),
            Binding(grant_ops.REPORT_GRANT_INCIDENT, self.incidents.report_under_grant),
            Binding(grant_ops.LIST_SHARED_RECEIPTS, self.disclosures.shown),
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
        about=About(host=host, pipeline=pipeline, profiles=tuple(PROFILES), formats=EXPORT_FORMATS),
        grants=grants,
        views=views,
        admission=Admission(host=host, grants=grants, noted=Rates(host.clock)),
        queries=queries,
        disclosures=Disclosures(host=host, queries=queries),
        shown_items=ShownItems(host=host, queries=queries),
        incidents=Incidents(host=host, queries=queries),
        borrowed=Borrowed(host=host, lenders=Lenders(host=host)),
        returning=Returning(host=host),
        erasures=Erasures(
            host=host,
            pipeline=pipeline,
            choice=Choice(ledger=host.ledger, keyring=host.keyring, forget=forget, held=held),
            cascade=Cascade(host=host),
        ),
    )
