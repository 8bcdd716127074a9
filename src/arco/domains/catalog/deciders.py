"""Which function decides which command. A refusal says why and what to do; nothing is written then.

A command that would change nothing is decided to no events. Names are resolved at the tail of the log (`resolve`),
values are checked before the state is (`checks`, `types`), and ids of what is created follow from the operation.
"""

import msgspec

from arco.domains.catalog import commands
from arco.domains.catalog.decide_columns import alter_table, describe_column, replace_schema
from arco.domains.catalog.decide_contracts import drop_contract, drop_sla, set_contract, set_sla
from arco.domains.catalog.decide_namespaces import create_namespace, drop_namespace, rename_namespace, update_namespace
from arco.domains.catalog.decide_tables import create_table, drop_table, rename_table, update_table
from arco.state import Decider

__all__ = ["COMMANDS"]

_DECIDERS: tuple[tuple[type[msgspec.Struct], Decider], ...] = (
    (commands.CreateNamespace, create_namespace),
    (commands.UpdateNamespace, update_namespace),
    (commands.RenameNamespace, rename_namespace),
    (commands.DropNamespace, drop_namespace),
    (commands.CreateTable, create_table),
    (commands.UpdateTable, update_table),
    (commands.RenameTable, rename_table),
    (commands.DropTable, drop_table),
    (commands.AlterTable, alter_table),
    (commands.ReplaceSchema, replace_schema),
    (commands.DescribeColumn, describe_column),
    (commands.SetContract, set_contract),
    (commands.DropContract, drop_contract),
    (commands.SetSla, set_sla),
    (commands.DropSla, drop_sla),
)

COMMANDS: dict[str, tuple[type[msgspec.Struct], Decider]] = {kind.__name__: (kind, f) for kind, f in _DECIDERS}
