"""What a document remembers of its past."""

from collections.abc import Collection

import pytest

from arco.iceberg import IllegalArgument, ValidationFailed
from arco.iceberg.metadata import Doc
from arco.iceberg.metadata._history import clean_snapshot_log
from tests.iceberg.metadata.examples import NOW, add, edit, grown, ref, snapshot, table

MOST = "write.metadata.previous-versions-max"


def entries(*ids: int) -> list[Doc]:
    return [{"timestamp-ms": NOW, "snapshot-id": one} for one in ids]


def clean(
    log: list[Doc],
    *,
    known: set[int],
    passing: Collection[int] = (),
    removing: bool = True,
    current: int | None = None,
) -> list[int]:
    made = clean_snapshot_log(log, known=known, passing=passing, removing=removing, current=current)
    return [entry["snapshot-id"] for entry in made]


def test_what_was_before_a_gap_goes() -> None:
    assert clean(entries(1, 2, 3), known={1, 3}, current=3) == [3]


def test_without_a_removal_only_the_unknown_goes() -> None:
    assert clean(entries(1, 2, 3), known={1, 3}, removing=False, current=3) == [1, 3]


def test_passing_snapshots_leave_no_gap() -> None:
    assert clean(entries(1, 2, 3), known={1, 2, 3}, passing={2}, current=3) == [1, 3]


def test_the_last_entry_is_the_current_snapshot() -> None:
    with pytest.raises(ValidationFailed, match="latest entry is not the current snapshot"):
        clean(entries(1, 2), known={1, 2, 3}, current=3)


def test_a_table_whose_writers_kept_no_log() -> None:
    assert clean([], known={1}, current=1) == []


@pytest.mark.parametrize(("most", "kept"), [("3", 3), ("1", 1), ("0", 1), ("-5", 1), (None, 6)])
def test_the_log_of_files_is_trimmed(most: str | None, kept: int) -> None:
    document = table(properties={} if most is None else {MOST: most})
    for number in range(6):
        document = edit(document, {"action": "set-properties", "updates": {"n": str(number)}})
    assert len(document["metadata-log"]) == kept


def test_the_default_is_a_hundred() -> None:
    document = table()
    for number in range(103):
        document = edit(document, {"action": "set-properties", "updates": {"n": str(number)}})
    assert len(document["metadata-log"]) == 100


def test_trimming_sees_the_new_property() -> None:
    document = table()
    for number in range(6):
        document = edit(document, {"action": "set-properties", "updates": {"n": str(number)}})
    assert len(edit(document, {"action": "set-properties", "updates": {MOST: "2"}})["metadata-log"]) == 2


def test_a_limit_that_is_no_number() -> None:
    with pytest.raises(ValidationFailed, match=f"{MOST} must be an integer, but is 'many'"):
        edit(table(), {"action": "set-properties", "updates": {MOST: "many"}})


def test_a_snapshot_of_long_ago() -> None:
    old = snapshot(2, number=2, parent=1, **{"timestamp-ms": NOW - 60_001})
    with pytest.raises(IllegalArgument, match="before last snapshot log entry"):
        edit(grown(2, 1), add(old), ref("main", 2))
    skewed = snapshot(2, number=2, parent=1, **{"timestamp-ms": NOW - 50_000})
    assert edit(grown(2, 1), add(skewed), ref("main", 2))["current-snapshot-id"] == 2


def test_a_snapshot_of_the_future() -> None:
    early = snapshot(1, **{"timestamp-ms": NOW + 1000 + 60_001})
    with pytest.raises(IllegalArgument, match=f"Invalid update timestamp {NOW + 1000}: before last snapshot log entry"):
        edit(table(), add(early), ref("main", 1))
