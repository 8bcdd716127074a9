"""Updates as they are sent."""

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from arco.core import Invalid
from arco.iceberg import BadRequest, CommitFailed
from arco.iceberg.metadata import Doc, parse_updates
from arco.iceberg.metadata._updates import TABLE_ACTIONS, VIEW_ACTIONS
from tests.iceberg.metadata.examples import edit, edit_view, grown, table_updates, view, view_updates

WRONG: tuple[Any, ...] = (None, True, 1.5, -(2**70), "", "é", [], [[]], {}, {"": 0}, [None], {"a": {}}, "x" * 100_000)


def test_there_is_an_example_of_each() -> None:
    assert table_updates().keys() == TABLE_ACTIONS.keys()
    assert len(TABLE_ACTIONS) == 23
    assert view_updates().keys() == VIEW_ACTIONS.keys()


@pytest.mark.parametrize("action", sorted(table_updates()))
def test_every_table_update_is_read(action: str) -> None:
    (parsed,) = parse_updates([table_updates()[action]])
    assert type(parsed) is TABLE_ACTIONS[action]


@pytest.mark.parametrize("action", sorted(view_updates()))
def test_every_view_update_is_read(action: str) -> None:
    (parsed,) = parse_updates([view_updates()[action]], view=True)
    assert type(parsed) is VIEW_ACTIONS[action]


def test_actions_are_read_in_any_case() -> None:
    parse_updates([{"action": "Set-Properties", "updates": {}}])


def test_fields_nobody_knows_are_let_through() -> None:
    parse_updates([{**update, "tomorrow": {"x": 1}} for update in table_updates().values()])


def test_all_unknown_actions_are_named() -> None:
    with pytest.raises(BadRequest, match=r"Unknown update: 'a', 'b'$"):
        parse_updates([{"action": "b"}, {"action": "a"}, {"action": "set-location"}, {"action": "b"}])


def test_updates_of_views_are_not_for_tables() -> None:
    with pytest.raises(BadRequest, match="Unknown update: 'x'; Cannot apply update to a table: add-view-version"):
        parse_updates([{"action": "add-view-version"}, {"action": "x"}])
    with pytest.raises(BadRequest, match="Cannot apply update to a view: add-snapshot, set-default-spec"):
        parse_updates([{"action": "set-default-spec"}, {"action": "add-snapshot"}], view=True)


@pytest.mark.parametrize("value", [5, None, "x", [], {}, {"action": None}, {"action": 5}, {"action": []}])
def test_what_is_no_update(value: Any) -> None:
    with pytest.raises(BadRequest, match=r"Cannot parse updates\[1\]"):
        parse_updates([{"action": "set-properties", "updates": {}}, value])


def required(action: str, view: bool) -> list[str]:
    body = (view_updates() if view else table_updates())[action]
    optional = {"action", "last-column-id", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"}
    optional |= {"snapshot-id"} if action == "set-statistics" else set()
    return [name for name in body if name not in optional]


CASES = [
    *((action, False) for action in sorted(TABLE_ACTIONS)),
    *((action, True) for action in sorted(VIEW_ACTIONS)),
]


@pytest.mark.parametrize(("action", "of_view"), CASES)
def test_a_missing_field_is_named(action: str, of_view: bool) -> None:
    body = (view_updates() if of_view else table_updates())[action]
    for name in required(action, of_view):
        without = {field: value for field, value in body.items() if field != name}
        with pytest.raises(BadRequest, match=rf"updates\[0\] {action}.*`{name}`"):
            parse_updates([without], view=of_view)


@pytest.mark.parametrize(("action", "of_view"), CASES)
def test_a_field_of_the_wrong_type_is_named(action: str, of_view: bool) -> None:
    body = (view_updates() if of_view else table_updates())[action]
    for name in required(action, of_view):
        wrong: Any = 5 if not isinstance(body[name], int) else "5"
        with pytest.raises(BadRequest, match=rf"updates\[0\] {action}.*`\$\.{name}`"):
            parse_updates([{**body, name: wrong}], view=of_view)


def corruptions(value: Any) -> Iterator[Any]:
    """The value with each of its parts, at any depth, left out or replaced by each wrong one."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {field: one for field, one in value.items() if field != name}
            for wrong in (*WRONG, *corruptions(inner)):
                yield {**value, name: wrong}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for wrong in (*WRONG, *corruptions(inner)):
                yield [*value[:place], wrong, *value[place + 1 :]]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("action", sorted(TABLE_ACTIONS))
def test_no_corruption_of_a_table_update_does_harm(action: str, version: int) -> None:
    base = grown(version)
    before = copy.deepcopy(base)
    for corrupt in corruptions(table_updates(version)[action]):
        with suppress(Invalid, CommitFailed):
            edit(base, corrupt)
    assert base == before


@pytest.mark.parametrize("action", sorted(VIEW_ACTIONS))
def test_no_corruption_of_a_view_update_does_harm(action: str) -> None:
    base = view()
    before = copy.deepcopy(base)
    for corrupt in corruptions(view_updates()[action]):
        with suppress(Invalid):
            edit_view(base, corrupt)
    assert base == before


def test_there_are_many_corruptions() -> None:
    assert sum(1 for update in table_updates(3).values() for _ in corruptions(update)) > 1500


def test_a_huge_update() -> None:
    names = {f"p{number}": "x" for number in range(100_000)}
    update: Doc = {"action": "set-properties", "updates": names}
    assert len(edit(grown(), update)["properties"]) == 100_001
