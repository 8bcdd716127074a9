"""The fold of the catalog: namespaces by id, then the names that follow from them."""

import msgspec

from arco.domains.catalog.commands import COMMANDS
from arco.domains.catalog.events import EVENTS, NamespaceCreated, NamespaceDropped, NamespaceRenamed, NamespaceUpdated
from arco.domains.catalog.tables import NAMES, NAMESPACES, Name, Namespace, joined
from arco.state import Change, Domain, Group, Input, Reject, Stage

__all__ = ["CATALOG"]


def _namespace_of(item: Input) -> tuple[str, ...]:
    return (item.payload.namespace_id,)


def _fold_namespace(group: Group, item: Input) -> None:
    event = item.payload
    row: Namespace | None = group.get(NAMESPACES, group.key)
    if isinstance(event, NamespaceCreated):
        if row is not None:
            raise Reject(f"the namespace {group.key} exists already")
        group.put(
            NAMESPACES,
            Namespace(
                namespace_id=event.namespace_id,
                path=list(event.path),
                description=event.description,
                properties=event.properties,
                created_by=item.event.actor,
                created_at=item.received,
                updated_at=item.received,
            ),
        )
        return
    if row is None:
        raise Reject(f"the namespace {group.key} does not exist")
    if isinstance(event, NamespaceDropped):
        group.delete(NAMESPACES, group.key)
    elif isinstance(event, NamespaceRenamed):
        group.put(NAMESPACES, msgspec.structs.replace(row, path=list(event.path), updated_at=item.received))
    elif isinstance(event, NamespaceUpdated):
        group.put(
            NAMESPACES,
            msgspec.structs.replace(
                row, description=event.description, properties=event.properties, updated_at=item.received
            ),
        )


def _name_of(row: Namespace | None) -> Name | None:
    return None if row is None else Name(joined(tuple(row.path[:-1])), row.path[-1], row.namespace_id)


def _parents_of(item: Input) -> tuple[str, ...]:
    change: Change = item.payload
    names = [name for name in (_name_of(change.before), _name_of(change.after)) if name is not None]
    return tuple(sorted({name.parent for name in names}))


def _fold_name(group: Group, item: Input) -> None:
    before, after = _name_of(item.payload.before), _name_of(item.payload.after)
    if before == after:
        return
    if before is not None and before.parent == group.key:
        group.delete(NAMES, (before.parent, before.name))
    if after is not None and after.parent == group.key:
        group.put(NAMES, after)


CATALOG = Domain(
    name="catalog",
    log="catalog",
    version=1,
    events=EVENTS,
    stages=(
        Stage("namespaces", (NAMESPACES,), _namespace_of, _fold_namespace, events=tuple(e.name for e in EVENTS)),
        Stage("names", (NAMES,), _parents_of, _fold_name, changes=(NAMESPACES,)),
    ),
    commands=COMMANDS,
)
