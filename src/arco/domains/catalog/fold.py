"""The fold of the catalog, in stages: namespaces by id, tables with all that belongs to them by id, then names.

Names follow from the rows of the first two stages, under the id of the namespace that holds them. An event that does
not fit what is there (a second creation, a change of what does not exist) is rejected and changes nothing.
"""

import msgspec

from arco.domains.catalog.deciders import COMMANDS
from arco.domains.catalog.events import EVENTS, NamespaceCreated, NamespaceDropped, NamespaceRenamed, NamespaceUpdated
from arco.domains.catalog.fold_names import fold_name, fold_name_change, named_of, parents_of
from arco.domains.catalog.fold_tables import fold_table
from arco.domains.catalog.tables import (
    COLUMNS,
    CONTRACTS,
    FORMER_NAMES,
    NAME_CHANGES,
    NAMES,
    NAMESPACES,
    SCHEMA_VERSIONS,
    SLAS,
    TABLES,
    Namespace,
)
from arco.state import Domain, Group, Input, Reject, Stage

__all__ = ["CATALOG"]


def _fold_namespace(group: Group, item: Input) -> None:
    event, actor, now = item.payload, item.event.actor, item.received
    row: Namespace | None = group.get(NAMESPACES, group.key)
    if isinstance(event, NamespaceCreated):
        if row is not None:
            raise Reject(f"the namespace {group.key} exists already")
        group.put(
            NAMESPACES,
            Namespace(
                namespace_id=event.namespace_id,
                parent_id=event.parent_id,
                name=event.name,
                description=event.description,
                properties=event.properties,
                version=1,
                created_by=actor,
                created_at=now,
                updated_by=actor,
                updated_at=now,
            ),
        )
        return
    if row is None:
        raise Reject(f"the namespace {group.key} does not exist")
    if isinstance(event, NamespaceDropped):
        group.delete(NAMESPACES, group.key)
        return
    changes: dict[str, object] = {"version": row.version + 1, "updated_by": actor, "updated_at": now}
    if isinstance(event, NamespaceRenamed):
        changes |= {"parent_id": event.parent_id, "name": event.name}
    elif isinstance(event, NamespaceUpdated):
        changes |= {"description": event.description, "properties": event.properties}
    group.put(NAMESPACES, msgspec.structs.replace(row, **changes))


_NAMESPACE_EVENTS = tuple(kind.name for kind in EVENTS if kind.name.startswith("Namespace"))

CATALOG = Domain(
    name="catalog",
    log="catalog",
    version=1,
    events=EVENTS,
    stages=(
        Stage(
            "namespaces",
            (NAMESPACES,),
            lambda item: (item.payload.namespace_id,),
            _fold_namespace,
            events=_NAMESPACE_EVENTS,
        ),
        Stage(
            "tables",
            (TABLES, COLUMNS, SCHEMA_VERSIONS, CONTRACTS, SLAS),
            lambda item: (item.payload.table_id,),
            fold_table,
            events=tuple(kind.name for kind in EVENTS if kind.name not in _NAMESPACE_EVENTS),
        ),
        Stage("names", (NAMES, FORMER_NAMES), parents_of, fold_name, changes=(NAMESPACES, TABLES)),
        Stage("name changes", (NAME_CHANGES,), named_of, fold_name_change, changes=(NAMESPACES, TABLES)),
    ),
    commands=COMMANDS,
)
