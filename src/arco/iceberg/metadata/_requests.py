"""What clients send about tables and views, read into values. Fields nobody knows are let through unread."""

from typing import Any

from msgspec import field

from arco.iceberg._errors import BadRequest
from arco.iceberg.metadata._orders import parse_order
from arco.iceberg.metadata._reading import Shape, convert
from arco.iceberg.metadata._requirements import Requirement, parse_requirements
from arco.iceberg.metadata._schemas import parse_schema
from arco.iceberg.metadata._specs import parse_spec
from arco.iceberg.metadata._updates import Update, parse_updates
from arco.iceberg.metadata._versions import check_dialects, dialects, parse_version

__all__ = [
    "CommitRequest",
    "CreateRequest",
    "CreateViewRequest",
    "Identifier",
    "RegisterRequest",
    "RenameRequest",
    "parse_commit",
    "parse_create",
    "parse_create_view",
    "parse_register",
    "parse_rename",
    "parse_transaction",
    "parse_view_commit",
]


class Identifier(Shape, frozen=True):
    """A table's or view's namespace and name."""

    name: str
    namespace: tuple[str, ...] = ()


class CreateRequest(Shape, frozen=True):
    name: str
    schema: dict[str, Any]
    location: str | None = None
    partition_spec: dict[str, Any] | None = None
    write_order: dict[str, Any] | None = None
    stage_create: bool = False
    properties: dict[str, str] = field(default_factory=dict)


class CreateViewRequest(Shape, frozen=True):
    name: str
    schema: dict[str, Any]
    view_version: dict[str, Any]
    location: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


class RegisterRequest(Shape, frozen=True):
    name: str
    metadata_location: str
    overwrite: bool = False


class RenameRequest(Shape, frozen=True):
    source: Identifier
    destination: Identifier


class CommitRequest(Shape, frozen=True):
    """Updates of one table or view, and what must hold for them."""

    requirements: tuple[Requirement, ...] = ()
    updates: tuple[Update, ...] = ()
    identifier: Identifier | None = None


class _Commit(Shape, frozen=True):
    requirements: list[Any] | None = None
    updates: list[Any] | None = None
    identifier: Identifier | None = None


class _Transaction(Shape, frozen=True):
    table_changes: list[Any]


def parse_create(body: Any) -> CreateRequest:
    """A request to create or stage a table, or `BadRequest`."""
    request = convert(_without_nulls(body), CreateRequest, "create table request")
    parse_schema(request.schema, "create table request schema")
    if request.partition_spec is not None:
        parse_spec(request.partition_spec, "create table request partition-spec")
    if request.write_order is not None:
        parse_order(request.write_order, "create table request write-order")
    _check_location(request.location)
    return request


def parse_create_view(body: Any) -> CreateViewRequest:
    """A request to create a view, or `BadRequest`."""
    request = convert(_without_nulls(body), CreateViewRequest, "create view request")
    parse_schema(request.schema, "create view request schema")
    version = parse_version(request.view_version, "create view request view-version")
    strange = {one["type"] for one in version["representations"] if one["type"].lower() != "sql"}
    if strange:
        raise BadRequest(f"Found unsupported view representations: {', '.join(sorted(strange))}")
    if not dialects(version):
        raise BadRequest("Cannot create view without specifying a query")
    check_dialects(version)
    _check_location(request.location)
    return request


def parse_register(body: Any) -> RegisterRequest:
    """A request to take over a table or view by its metadata file, or `BadRequest`."""
    request = convert(_without_nulls(body), RegisterRequest, "register request")
    if not request.metadata_location:
        raise BadRequest("Cannot register an empty metadata file location")
    return request


def parse_rename(body: Any) -> RenameRequest:
    """A request to rename a table or view, or `BadRequest`."""
    return convert(body, RenameRequest, "rename request")


def parse_commit(body: Any) -> CommitRequest:
    """Updates of a table, or `BadRequest`."""
    return _parse_commit(body, "commit request", view=False)


def parse_view_commit(body: Any) -> CommitRequest:
    """Updates of a view, or `BadRequest`."""
    return _parse_commit(body, "view commit request", view=True)


def parse_transaction(body: Any) -> tuple[CommitRequest, ...]:
    """Updates of several tables, each named and named once, or `BadRequest`."""
    changes = convert(body, _Transaction, "commit transaction request").table_changes
    if not changes:
        raise BadRequest("Invalid table changes: empty")
    requests = tuple(
        _parse_commit(change, f"commit transaction request table-changes[{place}]", view=False)
        for place, change in enumerate(changes)
    )
    seen = set()
    for request in requests:
        if request.identifier is None:
            raise BadRequest("Invalid table changes: table identifier is required")
        if request.identifier in seen:
            name = ".".join((*request.identifier.namespace, request.identifier.name))
            raise BadRequest(f"Invalid table changes: {name} is changed twice; put its updates into one change")
        seen.add(request.identifier)
    return requests


def _parse_commit(body: Any, what: str, *, view: bool) -> CommitRequest:
    commit = convert(body, _Commit, what)
    return CommitRequest(
        parse_requirements(commit.requirements or (), view=view),
        parse_updates(commit.updates or (), view=view),
        commit.identifier,
    )


def _check_location(location: str | None) -> None:
    if location is not None and not location.strip("/"):
        raise BadRequest("Cannot parse create request: `location` is empty; leave it out")


def _without_nulls(body: Any) -> Any:
    """Fields that are null as if they were not there: clients send both."""
    return {name: value for name, value in body.items() if value is not None} if isinstance(body, dict) else body
