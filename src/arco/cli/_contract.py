"""Commands on what is promised of a table: its contract and its SLA."""

from enum import StrEnum
from typing import Annotated

import typer

from arco.cli._answers import confirm, written_out
from arco.cli._command import Session, changes
from arco.cli._connect import connect
from arco.cli._options import DescriptionOption, TableArgument, YesOption
from arco.cli._specs import parse_duration, parse_pairs
from arco.core import Invalid
from arco.wire import ContractSpec, SlaSpec

__all__ = ["contract", "sla"]

contract = typer.Typer(help="Promise how a table's schema may change.", no_args_is_help=True)
sla = typer.Typer(help="Promise how fresh and how available a table is.", no_args_is_help=True)


class Compatibility(StrEnum):
    NONE = "none"
    BACKWARD = "backward"
    FORWARD = "forward"
    FULL = "full"


class ContractStatus(StrEnum):
    DRAFT = "draft"
    ACTIVE = "active"
    DEPRECATED = "deprecated"


@changes(contract, "set")
async def set_contract(
    session: Session,
    table: TableArgument,
    compatibility: Annotated[Compatibility, typer.Option("--compatibility")] = Compatibility.BACKWARD,
    status: Annotated[ContractStatus, typer.Option("--status")] = ContractStatus.ACTIVE,
    description: DescriptionOption = None,
    terms: Annotated[
        list[str] | None, typer.Option("--term", metavar="NAME=VALUE", help="What else is promised. Repeatable.")
    ] = None,
) -> None:
    """Set the contract of a table, in place of the one it had.

    While it is active, a change of the schema that breaks it is refused.
    """
    request = ContractSpec(
        compatibility=compatibility.value,
        status=status.value,
        description=description,
        terms=parse_pairs("--term", terms),
    )
    async with connect(session) as client:
        written = await client.set_contract(table, request, key=session.request_key)
    written_out(session, written, f"{written.table.name} has a contract: {compatibility}, {status}.")


@changes(contract, "drop")
async def drop_contract(session: Session, table: TableArgument, yes: YesOption = False) -> None:
    """Take the contract of a table away."""
    confirm(session, f"Drop the contract of {table}?", yes)
    async with connect(session) as client:
        written = await client.drop_contract(table, key=session.request_key)
    written_out(session, written, f"{written.table.name} has no contract any more.")


@changes(sla, "set")
async def set_sla(
    session: Session,
    table: TableArgument,
    freshness: Annotated[
        str | None, typer.Option("--freshness", metavar="DURATION", help="At most so old, such as 90m or 1d.")
    ] = None,
    availability: Annotated[
        float | None, typer.Option("--availability", metavar="PERCENT", help="Available so much of the time.")
    ] = None,
    description: DescriptionOption = None,
) -> None:
    """Set the SLA of a table, in place of the one it had."""
    if freshness is None and availability is None:
        raise Invalid("an SLA promises something; give --freshness, --availability or both")
    if availability is not None and not 0 < availability <= 100:
        raise Invalid(f"--availability {availability:g} is no share of the time; give more than 0 and at most 100")
    seconds = parse_duration(freshness) if freshness is not None else None
    request = SlaSpec(freshness_seconds=seconds, availability_percent=availability, description=description)
    async with connect(session) as client:
        written = await client.set_sla(table, request, key=session.request_key)
    written_out(session, written, f"{written.table.name} has an SLA.")


@changes(sla, "drop")
async def drop_sla(session: Session, table: TableArgument, yes: YesOption = False) -> None:
    """Take the SLA of a table away."""
    confirm(session, f"Drop the SLA of {table}?", yes)
    async with connect(session) as client:
        written = await client.drop_sla(table, key=session.request_key)
    written_out(session, written, f"{written.table.name} has no SLA any more.")
