"""Every operation and every table of the product."""

from typing import Any

from quipu.access.model import TABLES as ACCESS_TABLES
from quipu.access.operations import OPERATIONS as ACCESS_OPERATIONS
from quipu.audit.model import ANCHORS
from quipu.audit.operations import OPERATIONS as AUDIT_OPERATIONS
from quipu.consolidation.operations import OPERATIONS as CONSOLIDATION_OPERATIONS
from quipu.governance.model import TABLES as GOVERNANCE_TABLES
from quipu.governance.operations import OPERATIONS as GOVERNANCE_OPERATIONS
from quipu.http.health import OPERATIONS as HEALTH_OPERATIONS
from quipu.ledger.table import Table
from quipu.memory.operations import OPERATIONS as MEMORY_OPERATIONS
from quipu.memory.scope import STORES
from quipu.mirrors.model import TABLES as MIRROR_TABLES
from quipu.mirrors.operations import OPERATIONS as MIRROR_OPERATIONS
from quipu.procedures.operations import OPERATIONS as PROCEDURE_OPERATIONS
from quipu.router.ids import PEER_IDS
from quipu.runs.model import TABLES as RUN_TABLES
from quipu.runs.operations import OPERATIONS as RUN_OPERATIONS
from quipu.schemas import Operations
from quipu.secrets.model import SECRETS
from quipu.secrets.operations import OPERATIONS as SECRETS_OPERATIONS
from quipu.sharing.grants.operations import OPERATIONS as GRANT_OPERATIONS
from quipu.sharing.model import TABLES as SHARING_TABLES
from quipu.sharing.operations import OPERATIONS as SHARING_OPERATIONS
from quipu.transfer.model import TABLES as TRANSFER_TABLES
from quipu.transfer.operations import OPERATIONS as TRANSFER_OPERATIONS
from quipu.upkeep.operations import OPERATIONS as UPKEEP_OPERATIONS
from quipu.web.view_log import WEB_VIEWS

#: Every operation of the product, capability by capability. Importing a module adds nothing to it.
OPERATIONS: Operations = (
    *MEMORY_OPERATIONS,
    *SECRETS_OPERATIONS,
    *ACCESS_OPERATIONS,
    *GOVERNANCE_OPERATIONS,
    *AUDIT_OPERATIONS,
    *PROCEDURE_OPERATIONS,
    *CONSOLIDATION_OPERATIONS,
    *RUN_OPERATIONS,
    *SHARING_OPERATIONS,
    *MIRROR_OPERATIONS,
    *GRANT_OPERATIONS,
    *TRANSFER_OPERATIONS,
    *UPKEEP_OPERATIONS,
    *HEALTH_OPERATIONS,
)
#: Every table that a capability declares.
TABLES: tuple[Table[Any], ...] = (
    STORES,
    SECRETS,
    *ACCESS_TABLES,
    *GOVERNANCE_TABLES,
    *RUN_TABLES,
    *SHARING_TABLES,
    *MIRROR_TABLES,
    *TRANSFER_TABLES,
    ANCHORS,
    WEB_VIEWS,
    PEER_IDS,
)
