"""Names from rows: what each name means inside its namespace, which object last had it, and what each was called.

The inputs are changes of rows of `namespaces` and `tables`. Both have one name at a time, so that a name's key, the
namespace that holds it, the kind and the name itself, can be read off the row.
"""

from arco.domains.catalog.tables import (
    FORMER_NAMES,
    NAME_CHANGES,
    NAMES,
    FormerName,
    Name,
    NameChange,
    Namespace,
    TableRow,
)
from arco.state import Change, Group, Input

__all__ = ["fold_name", "fold_name_change", "named_of", "parents_of"]

_Row = Namespace | TableRow
_Key = tuple[str, str, str]


def _key_of(row: _Row) -> _Key:
    if isinstance(row, TableRow):
        return row.namespace_id, "table", row.name
    return row.parent_id, "namespace", row.name


def _id_of(row: _Row) -> str:
    return row.table_id if isinstance(row, TableRow) else row.namespace_id


def parents_of(item: Input) -> tuple[str, ...]:
    """The namespaces whose names a change concerns: where the object was and where it is."""
    change: Change = item.payload
    if change.before is None:
        return (_key_of(change.after)[0],)
    was = _key_of(change.before)[0]
    now = was if change.after is None else _key_of(change.after)[0]
    return (was,) if was == now else (was, now)


def fold_name(group: Group, item: Input) -> None:
    before, after = item.payload.before, item.payload.after
    was = None if before is None else _key_of(before)
    now = None if after is None else _key_of(after)
    if was is not None and was != now and was[0] == group.key:
        held: Name | None = group.get(NAMES, was)
        if held is not None and held.object_id == _id_of(before):
            group.delete(NAMES, was)
            group.put(FORMER_NAMES, FormerName(*was, _id_of(before), item.received))
    if now is not None and now[0] == group.key:
        kind = after.format if isinstance(after, TableRow) else None
        group.put(NAMES, Name(*now, _id_of(after), kind, after.description, after.updated_at))
        if was != now:
            group.delete(FORMER_NAMES, now)


def named_of(item: Input) -> tuple[str, ...]:
    """The object, if the change is one of its name."""
    before, after = item.payload.before, item.payload.after
    if before is not None and after is not None and _key_of(before) == _key_of(after):
        return ()
    return (_id_of(before or after),)


def fold_name_change(group: Group, item: Input) -> None:
    before, after = item.payload.before, item.payload.after
    change = "created" if before is None else "dropped" if after is None else "renamed"
    parent_id, kind, name = _key_of(after or before)
    # Of one object an event changes the name once; padded, positions as text sort like positions.
    key = f"{item.position:020d}"
    group.put(NAME_CHANGES, NameChange(key, group.key, kind, parent_id, name, change, item.event.actor, item.received))
