"""Which columns hold the key of the partition that a row comes from: the state of a proof at one node of a plan.

A relation without marks is *shared*: made of no partitioned input, and the same for every partition. One with a mark is
*keyed*: each row comes from one partition, and the mark says which columns hold its key. An inner join of two keyed
relations has two marks until a condition makes their keys equal.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from arco.spark._plans import Expression

__all__ = ["Mark", "State", "linked", "made", "plain", "positional", "renamed"]

Ids = frozenset[int | None]


class Mark(NamedTuple):
    sure: Mapping[str, Ids]
    """By dimension: columns that hold the key in every row."""
    either: Mapping[str, tuple[Ids, Ids]] = {}
    """After a full outer join, of columns of the left and of the right: the first of both that is not null holds it."""


class State(NamedTuple):
    columns: tuple[int | None, ...]
    """Ids in order."""
    marks: tuple[Mark, ...] = ()

    @property
    def keyed(self) -> bool:
        return bool(self.marks)

    def with_columns(self, more: Iterable[int | None]) -> "State":
        return State((*self.columns, *more), self.marks)


def plain(expression: Expression) -> int | None:
    """The column that an expression only passes on, if it does."""
    while expression.kind == "Alias":
        (expression,) = expression.children
    return expression.id if expression.kind == "AttributeReference" else None


def made(state: State, items: Sequence[Expression]) -> State:
    """The state of what is made of these expressions over a relation."""
    return State(
        tuple(item.id for item in items),
        tuple(
            Mark(
                {
                    dimension: frozenset(item.id for item in items if _holds(item, mark, dimension))
                    for dimension in mark.sure
                },
                {
                    dimension: (_passed(items, left), _passed(items, right))
                    for dimension, (left, right) in mark.either.items()
                },
            )
            for mark in state.marks
        ),
    )


def _passed(items: Sequence[Expression], ids: Ids) -> Ids:
    return frozenset(item.id for item in items if (found := plain(item)) is not None and found in ids)


def _holds(item: Expression, mark: Mark, dimension: str) -> bool:
    """Whether an expression gives the key: as a column, or as the first of several that is not null."""
    found = plain(item)
    if found is not None:
        return found in mark.sure[dimension]
    while item.kind == "Alias":
        (item,) = item.children
    if item.kind != "Coalesce" or not item.children:
        return False
    ids = [plain(child) for child in item.children]
    if ids[0] is not None and ids[0] in mark.sure[dimension]:
        return True
    left, right = mark.either.get(dimension, (frozenset(), frozenset()))
    return None not in ids and left | right >= set(ids) and bool(left & set(ids)) and bool(right & set(ids))


def renamed(state: State, ids: Sequence[int | None]) -> State:
    """The same columns under other ids."""
    items = [
        Expression("Alias", (Expression("AttributeReference", (), old),), new)
        for old, new in zip(state.columns, ids, strict=False)
    ]
    return made(state, items)


def positional(states: Sequence[State]) -> dict[str, Ids]:
    """By dimension the columns of the first of keyed relations that hold the key at the same place in all of them."""
    marks = [state.marks[0] for state in states]
    return {
        dimension: frozenset(
            same[0]
            for same in zip(*(state.columns for state in states), strict=False)
            if all(id in mark.sure[dimension] for id, mark in zip(same, marks, strict=True))
        )
        for dimension in marks[0].sure
    }


def linked(marks: Sequence[Mark], conditions: Iterable[Expression]) -> tuple[Mark, ...]:
    """The marks where these conditions hold: a column equal to a key holds it too, and equal keys are one."""
    groups = _equal(conditions)
    found = [_widened(mark, groups) for mark in marks]
    at = 0
    while at < len(found):
        same = next((other for other in range(at + 1, len(found)) if _same_key(found[at], found[other])), None)
        if same is None:
            at += 1
            continue
        other = found.pop(same)
        sure = {dimension: found[at].sure[dimension] | other.sure[dimension] for dimension in other.sure}
        found[at] = Mark(sure, {**other.either, **found[at].either})
        at = 0
    return tuple(found)


def _widened(mark: Mark, groups: Sequence[set[int | None]]) -> Mark:
    sure = {dimension: ids.union(*(group for group in groups if group & ids)) for dimension, ids in mark.sure.items()}
    return mark._replace(sure=sure)


def _same_key(one: Mark, other: Mark) -> bool:
    return all(one.sure[dimension] & other.sure[dimension] for dimension in one.sure)


def _equal(conditions: Iterable[Expression]) -> list[set[int | None]]:
    """Columns that must be equal, in groups."""
    groups: list[set[int | None]] = []
    waiting = list(conditions)
    while waiting:
        part = waiting.pop()
        if part.kind == "And":
            waiting.extend(part.children)
        elif part.kind in ("EqualTo", "EqualNullSafe"):
            pair = {plain(child) for child in part.children}
            if None not in pair:
                touching = [group for group in groups if group & pair]
                groups = [group for group in groups if not group & pair]
                groups.append(pair.union(*touching))
    return groups
