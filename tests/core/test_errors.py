"""One tree of errors, where the branch decides what a command ends with."""

import pytest

import arco.core
from arco.core import ArcoError, Invalid, TooLarge, _errors

# Only the tree of this layer: a test run imports other layers too.
ERRORS = [getattr(arco.core, name) for name in _errors.__all__]
BRANCHES = [error for error in ERRORS if error.__base__ is ArcoError]


def test_every_branch_has_an_exit_code_of_its_own() -> None:
    codes = [branch.exit_code for branch in BRANCHES]
    assert len(set(codes)) == len(codes)
    assert {0, ArcoError.exit_code}.isdisjoint(codes)


@pytest.mark.parametrize("error", [error for error in ERRORS if error is not ArcoError])
def test_an_error_ends_like_its_branch(error: type[ArcoError]) -> None:
    assert [error.exit_code] == [branch.exit_code for branch in BRANCHES if issubclass(error, branch)]


def test_an_error_carries_its_message_for_people_and_its_details_for_programs() -> None:
    error = TooLarge("the event has 2 MiB; split it", limit=1 << 20)
    assert (error.name, str(error), error.message) == ("TooLarge", error.message, "the event has 2 MiB; split it")
    assert error.details == {"limit": 1 << 20}
    assert isinstance(error, Invalid)
