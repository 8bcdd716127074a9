"""Deciders of contracts and SLAs: what a table promises, set and dropped as a whole."""

from typing import Final

from arco.core import Invalid, NotFound, Refused, format_path
from arco.domains.catalog.checks import check_choice, check_description, check_pairs, is_iceberg
from arco.domains.catalog.commands import DropContract, DropSla, SetContract, SetSla
from arco.domains.catalog.events import (
    CONTRACT_DROPPED,
    CONTRACT_SET,
    SLA_DROPPED,
    SLA_SET,
    ContractDropped,
    ContractSet,
    SlaDropped,
    SlaSet,
)
from arco.domains.catalog.resolve import known_table
from arco.domains.catalog.tables import CONTRACTS, SLAS, Contract, Sla
from arco.log import NewEvent
from arco.state import Decision, View, new_event

__all__ = ["drop_contract", "drop_sla", "set_contract", "set_sla"]

COMPATIBILITIES: Final = ("none", "backward", "forward", "full")
STATUSES: Final = ("draft", "active", "deprecated")
MAX_FRESHNESS: Final = 10 * 366 * 24 * 3600


async def set_contract(command: SetContract, view: View, decision: Decision) -> list[NewEvent]:
    row, path = await known_table(view, command.table)
    if is_iceberg(row.format):
        raise Refused(
            f"a contract on the Iceberg table {format_path(path)} would not be kept: its engines change its schema "
            "without asking for contracts"
        )
    event = ContractSet(
        table_id=row.table_id,
        compatibility=check_choice("compatibility", command.compatibility.lower(), COMPATIBILITIES),
        status=check_choice("status", command.status.lower(), STATUSES),
        description=check_description(command.description),
        terms=check_pairs("term", command.terms),
    )
    old: Contract | None = await view.get(CONTRACTS, row.table_id, row.table_id)
    if old is not None and event == ContractSet(
        old.table_id, old.compatibility, old.status, old.description, old.terms
    ):
        return []
    return [new_event(CONTRACT_SET, event, subject=format_path(path))]


async def drop_contract(command: DropContract, view: View, decision: Decision) -> list[NewEvent]:
    row, path = await known_table(view, command.table)
    if await view.get(CONTRACTS, row.table_id, row.table_id) is None:
        raise NotFound(f"the table {format_path(path)} has no contract; there is nothing to drop")
    return [new_event(CONTRACT_DROPPED, ContractDropped(row.table_id), subject=format_path(path))]


async def set_sla(command: SetSla, view: View, decision: Decision) -> list[NewEvent]:
    row, path = await known_table(view, command.table)
    freshness, availability = command.freshness_seconds, command.availability_percent
    if freshness is None and availability is None:
        raise Invalid("an SLA promises something; give freshness_seconds, availability_percent or both")
    if freshness is not None and not 1 <= freshness <= MAX_FRESHNESS:
        raise Invalid(f"freshness_seconds is {freshness}; give 1 to {MAX_FRESHNESS} seconds")
    if availability is not None and not 0 < availability <= 100:
        raise Invalid(f"availability_percent is {availability}; give a number above 0 and up to 100")
    event = SlaSet(row.table_id, freshness, availability, check_description(command.description))
    old: Sla | None = await view.get(SLAS, row.table_id, row.table_id)
    if old is not None and event == SlaSet(
        old.table_id, old.freshness_seconds, old.availability_percent, old.description
    ):
        return []
    return [new_event(SLA_SET, event, subject=format_path(path))]


async def drop_sla(command: DropSla, view: View, decision: Decision) -> list[NewEvent]:
    row, path = await known_table(view, command.table)
    if await view.get(SLAS, row.table_id, row.table_id) is None:
        raise NotFound(f"the table {format_path(path)} has no SLA; there is nothing to drop")
    return [new_event(SLA_DROPPED, SlaDropped(row.table_id), subject=format_path(path))]
