"""Domain `catalog` (log `catalog`, decided): namespaces and their names."""

from arco.domains.catalog.commands import CreateNamespace, DropNamespace, RenameNamespace, UpdateNamespace
from arco.domains.catalog.fold import CATALOG
from arco.domains.catalog.tables import NAMES, NAMESPACES, Name, Namespace

__all__ = [
    "CATALOG",
    "NAMES",
    "NAMESPACES",
    "CreateNamespace",
    "DropNamespace",
    "Name",
    "Namespace",
    "RenameNamespace",
    "UpdateNamespace",
]
