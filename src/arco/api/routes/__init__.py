"""The public routes, one module a subject."""

from arco.api.routes._access import access
from arco.api.routes._assets import assets
from arco.api.routes._columns import columns
from arco.api.routes._deployments import deployments
from arco.api.routes._events import events
from arco.api.routes._lineage import lineage
from arco.api.routes._maintenance import maintenance
from arco.api.routes._namespaces import namespaces
from arco.api.routes._query import query
from arco.api.routes._runs import runs
from arco.api.routes._states import states
from arco.api.routes._tables import tables
from arco.api.routes._versions import versions

__all__ = ["ROUTERS"]

ROUTERS = (
    namespaces,
    tables,
    columns,
    lineage,
    assets,
    versions,
    maintenance,
    deployments,
    runs,
    events,
    query,
    states,
    access,
)
