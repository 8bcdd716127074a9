"""Mistakes in the lives of tables that the tests must catch."""

from collections.abc import Callable
from typing import Any

import pytest

from arco.core import ArcoError
from arco.iceberg import Current, Lifecycle, Named, Who, _lifecycle
from arco.iceberg._lifecycle import Dropped, _fence
from tests.iceberg import test_lifecycle as cases


async def _leave_it(self: Lifecycle, current: Current) -> None:
    """Nobody ends a drop for somebody else."""


async def _never(self: Lifecycle, named: Named) -> bool:
    """A name is taken as long as the log has it."""
    return False


async def _always(self: Lifecycle, table_id: str) -> bool:
    """A rename counts, whatever became of the table."""
    return True


async def _only_the_event(
    self: Lifecycle, table_id: str, kind: Any, current: Current, who: Who, purge: bool
) -> Dropped | None:
    """A drop is an event; no pointer says so."""
    assert current.held is not None
    receipt = await self._drop_event(table_id, _fence(table_id, current.held), who)
    return Dropped(table_id, current.metadata_location, receipt)


@pytest.mark.parametrize(
    ("where", "name", "mistake", "case"),
    [
        (Lifecycle, "_finish", _leave_it, cases.test_a_name_is_free_for_the_next_as_soon_as_its_table_is_gone),
        (Lifecycle, "_is_gone", _never, cases.test_a_name_is_free_for_the_next_as_soon_as_its_table_is_gone),
        (
            Lifecycle,
            "_is_live",
            _always,
            lambda: cases.test_a_rename_does_not_count_if_the_table_was_dropped_before_it(False),
        ),
        (Lifecycle, "_drop", _only_the_event, cases.test_no_commit_follows_a_drop),
        (
            _lifecycle,
            "identified",
            lambda who: who,
            lambda: cases.test_a_drop_that_dies_is_done_or_was_never_asked_for(True),
        ),
    ],
)
def test_mutant_is_caught(
    where: Any, name: str, mistake: Any, case: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, mistake)
    with pytest.raises((AssertionError, ArcoError, pytest.fail.Exception)):
        case()
