"""Errors: the status, the type and the headers of each, which decide what a client does with its commit."""

import pytest

from arco import core
from arco.api.iceberg._errors import error_response
from arco.core import ArcoError
from arco.iceberg import (
    AlreadyExists,
    BadRequest,
    CommitFailed,
    IllegalArgument,
    MetadataMissing,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    NoSuchWarehouse,
    Unprocessable,
    Unsupported,
    ValidationFailed,
)
from tests.api.iceberg.world import error_of

TABLE: list[tuple[type[ArcoError], int, str]] = [
    (BadRequest, 400, "BadRequestException"),
    (IllegalArgument, 400, "IllegalArgumentException"),
    (ValidationFailed, 400, "ValidationException"),
    (core.Invalid, 400, "BadRequestException"),
    (core.Unauthenticated, 401, "NotAuthorizedException"),
    (core.Forbidden, 403, "ForbiddenException"),
    (NoSuchWarehouse, 404, "NoSuchWarehouseException"),
    (NoSuchNamespace, 404, "NoSuchNamespaceException"),
    (NoSuchTable, 404, "NoSuchTableException"),
    (NoSuchView, 404, "NoSuchViewException"),
    (MetadataMissing, 404, "NotFoundException"),
    (core.NotFound, 404, "NotFoundException"),
    (Unsupported, 406, "UnsupportedOperationException"),
    (AlreadyExists, 409, "AlreadyExistsException"),
    (CommitFailed, 409, "CommitFailedException"),
    (NamespaceNotEmpty, 409, "NamespaceNotEmptyException"),
    (core.Conflict, 409, "AlreadyExistsException"),
    (core.PreconditionFailed, 409, "CommitFailedException"),
    (core.Refused, 409, "ConflictException"),
    (core.TooLarge, 413, "PayloadTooLargeException"),
    (Unprocessable, 422, "UnprocessableEntityException"),
    (core.RateLimited, 429, "TooManyRequestsException"),
    (core.Corrupt, 500, "InternalServerError"),
    (core.LostObject, 500, "InternalServerError"),
    (core.Unavailable, 503, "ServiceUnavailableException"),
    (core.Stale, 503, "ServiceUnavailableException"),
    (core.Superseded, 503, "ServiceUnavailableException"),
    (core.StoreRefused, 503, "ServiceUnavailableException"),
]


@pytest.mark.parametrize(("kind", "status", "name"), TABLE, ids=[kind.__name__ for kind, _, _ in TABLE])
def test_each_error_has_its_status_and_type(kind: type[ArcoError], status: int, name: str) -> None:
    answer = error_response(kind("why"), commit=False, keyed=False)
    assert error_of(answer) == (status, name, "why")
    assert ("retry-after" in answer.headers) is (status in (429, 503))
    assert ("www-authenticate" in answer.headers) is (status == 401)


@pytest.mark.parametrize("kind", [core.Conflict, core.Refused, core.PreconditionFailed, CommitFailed])
def test_a_conflict_of_a_commit_says_that_it_failed(kind: type[ArcoError]) -> None:
    answer = error_response(kind("why"), commit=True, keyed=False)
    assert error_of(answer)[:2] == (409, "CommitFailedException")


def test_an_unknown_outcome_is_repeated_only_by_its_key() -> None:
    """Without a key a repetition would meet its own commit, be refused, and the client would delete live files."""
    error = core.OutcomeUnknown("it may have happened", operation="01JCTXR7GX0000000000000000")
    bare = error_response(error, commit=True, keyed=False)
    status, name, message = error_of(bare)
    assert (status, name) == (500, "CommitStateUnknownException")
    assert "01JCTXR7GX0000000000000000" in message
    assert "retry-after" not in bare.headers
    keyed = error_response(error, commit=True, keyed=True)
    assert keyed.status_code == 503
    assert keyed.headers["retry-after"] == "1"


def test_no_other_status_of_five_hundred_comes_without_a_time_to_wait_or_a_reason() -> None:
    for kind in vars(core).values():
        if isinstance(kind, type) and issubclass(kind, ArcoError) and kind is not ArcoError:
            answer = error_response(kind("why"), commit=True, keyed=True)
            assert answer.status_code < 500 or "retry-after" in answer.headers or issubclass(kind, core.Corrupt), kind


def test_an_answer_to_head_has_no_body() -> None:
    answer = error_response(NoSuchTable("why"), commit=False, keyed=False, head=True)
    assert (answer.status_code, answer.body) == (404, b"")
