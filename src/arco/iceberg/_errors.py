"""What Iceberg's clients are told when something is refused: its exceptions by name, in Arco's error tree.

`type` is the name that stands in the answer's `error.type`; clients choose their own exception by it and by the status.
The texts of some are part of the protocol: clients and Iceberg's compatibility kit look for them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from arco.core import Conflict, Corrupt, Invalid, NotFound, Refused, Unavailable

__all__ = [
    "AlreadyExists",
    "BadRequest",
    "ClaimedElsewhere",
    "CommitFailed",
    "IllegalArgument",
    "MetadataMissing",
    "NamespaceNotEmpty",
    "NoSuchNamespace",
    "NoSuchPlan",
    "NoSuchPlanTask",
    "NoSuchTable",
    "NoSuchView",
    "NoSuchWarehouse",
    "Unprocessable",
    "Unsupported",
    "ValidationFailed",
    "damaged",
    "nothing_changed",
    "nothing_written",
]


class BadRequest(Invalid):
    """400: the request does not fit the protocol."""

    type: ClassVar = "BadRequestException"


class IllegalArgument(Invalid):
    """400: a value that cannot be; clients raise it as such."""

    type: ClassVar = "IllegalArgumentException"


class ValidationFailed(Invalid):
    """400: the table would not be valid afterwards."""

    type: ClassVar = "ValidationException"


class Unprocessable(Invalid):
    """422: the request contradicts itself."""

    type: ClassVar = "UnprocessableEntityException"


class Unsupported(Refused):
    """406: Arco does not do this, and says so rather than doing half of it."""

    type: ClassVar = "UnsupportedOperationException"


class NoSuchWarehouse(NotFound):
    type: ClassVar = "NoSuchWarehouseException"


class NoSuchNamespace(NotFound):
    type: ClassVar = "NoSuchNamespaceException"


class NoSuchTable(NotFound):
    type: ClassVar = "NoSuchTableException"


class NoSuchView(NotFound):
    type: ClassVar = "NoSuchViewException"


class NoSuchPlan(NotFound):
    type: ClassVar = "NoSuchPlanIdException"


class NoSuchPlanTask(NotFound):
    type: ClassVar = "NoSuchPlanTaskException"


class MetadataMissing(NotFound):
    """404: the name exists, the metadata file it leads to does not."""

    type: ClassVar = "NotFoundException"


class AlreadyExists(Conflict):
    type: ClassVar = "AlreadyExistsException"


class CommitFailed(Conflict):
    """409: nothing was written; read the table again and try on what it is now."""

    type: ClassVar = "CommitFailedException"


class ClaimedElsewhere(CommitFailed):
    """The key of a request was claimed for the table that had its name then. The request belongs there."""

    def __init__(self, table_id: str) -> None:
        super().__init__(f"the Idempotency-Key stands for a commit to the table {table_id}")
        self.table_id = table_id


class NamespaceNotEmpty(Refused):
    type: ClassVar = "NamespaceNotEmptyException"


def damaged(error: Corrupt) -> CommitFailed:
    """What a change is told that met damage before it wrote anything. A bare 500 would leave its caller in doubt."""
    return CommitFailed(f"nothing was written, because stored data is damaged: {error.message}; run `arco doctor`")


@contextmanager
def nothing_written() -> Iterator[None]:
    """Around what a change does before it writes: damage that it meets there is a refusal."""
    try:
        yield
    except Corrupt as error:
        raise damaged(error) from error


@contextmanager
def nothing_changed() -> Iterator[None]:
    """As `nothing_written`, where 409 would be read as an answer about names, that a namespace exists or is not empty,
    and where an earlier request with the same key may have written: they are told to come back. The log recognises a
    key once it can be read."""
    try:
        yield
    except Corrupt as error:
        raise Unavailable(
            f"this request wrote nothing, because stored data is damaged: {error.message}; run `arco doctor`",
            retry_after=30,
        ) from error
