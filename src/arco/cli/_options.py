"""Options and arguments that several commands share, each with one name, one help text and one meaning."""

from enum import StrEnum
from typing import Annotated

import typer

__all__ = [
    "JsonOption",
    "LimitOption",
    "LogArgument",
    "LogName",
    "LogOption",
    "StoreOption",
    "StoreOptionsOption",
    "TenantOption",
    "TracebackOption",
    "WorkspaceOption",
]

_PANEL = "Common options"


class LogName(StrEnum):
    CATALOG = "catalog"
    ACTIVITY = "activity"


LogArgument = Annotated[LogName | None, typer.Argument(help="Only this log; both if none is named.")]
LogOption = Annotated[LogName | None, typer.Option("--log", help="The log, where it does not follow from the table.")]
LimitOption = Annotated[int, typer.Option("--limit", min=0, help="Rows at most; 0 for all.")]

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document for programs.", rich_help_panel=_PANEL)
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where the workspace lies: file://folder, s3://bucket/prefix, az://container/prefix.",
        rich_help_panel=_PANEL,
    ),
]
TenantOption = Annotated[
    str | None, typer.Option("--tenant", "--tenant-id", metavar="NAME", help="The tenant.", rich_help_panel=_PANEL)
]
WorkspaceOption = Annotated[
    str | None,
    typer.Option("--workspace", "--workspace-id", metavar="NAME", help="The workspace.", rich_help_panel=_PANEL),
]
StoreOptionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--store-option",
        metavar="NAME=VALUE",
        help="Open the store with this option, such as region=eu-west-1. Repeatable.",
        rich_help_panel=_PANEL,
    ),
]
TracebackOption = Annotated[
    bool, typer.Option("--traceback", help="Show where an error arose.", rich_help_panel=_PANEL)
]
