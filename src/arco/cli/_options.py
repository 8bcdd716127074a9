"""Options and arguments that several commands share, each with one name, one help text and one meaning."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from arco.spark import CompactionEngine

__all__ = [
    "AllowedLocationsOption",
    "AsOfOption",
    "AssetArgument",
    "BatchOption",
    "CompactionMasterOption",
    "DescriptionOption",
    "EngineOption",
    "FolderArgument",
    "IfExistsOption",
    "IfNotExistsOption",
    "JsonOption",
    "LimitOption",
    "ListenOption",
    "LogArgument",
    "LogName",
    "LogOption",
    "MasterOption",
    "NamespaceArgument",
    "OwnersOption",
    "PartitionsOption",
    "PropertiesOption",
    "PublicUrlOption",
    "RemovePropertiesOption",
    "RequestKeyOption",
    "RunArgument",
    "SelectionArgument",
    "SlotsOption",
    "SparkConfOption",
    "StoreOption",
    "StoreOptionsOption",
    "TableArgument",
    "TableOrAssetArgument",
    "TagsOption",
    "TenantOption",
    "TracebackOption",
    "UrlOption",
    "WatchOption",
    "WorkspaceOption",
    "YesOption",
]

_PANEL = "Common options"


class LogName(StrEnum):
    CATALOG = "catalog"
    ACTIVITY = "activity"


LogArgument = Annotated[LogName | None, typer.Argument(help="Only this log; both if none is named.")]
LogOption = Annotated[LogName | None, typer.Option("--log", help="The log, where it does not follow from the table.")]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[*], spark://..., yarn, k8s://..., sc://...; ARCO_SPARK_MASTER, else local[*].",
    ),
]
SlotsOption = Annotated[
    int | None,
    typer.Option("--slots", min=1, max=256, help="Tasks at once; ARCO_SLOTS, else one a core and four at most."),
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf", metavar="NAME=VALUE", help="A setting of Spark, such as spark.driver.memory=4g. Repeatable."
    ),
]
CompactionMasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[*], spark://..., yarn, k8s://...; ARCO_SPARK_MASTER, else on this machine.",
    ),
]
EngineOption = Annotated[
    CompactionEngine,
    typer.Option("--engine", help="Where heavy work runs: here, on Spark, or wherever it is faster."),
]
LimitOption = Annotated[int, typer.Option("--limit", min=0, help="Rows at most; 0 for all.")]

NamespaceArgument = Annotated[
    str, typer.Argument(metavar="NAMESPACE", help="Its path, such as sales.eu, or id: and its id.", show_default=False)
]
TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="Its path, such as sales.orders, or id: and its id.", show_default=False)
]
TableOrAssetArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A table or an asset, such as sales.orders, or id: and its id.", show_default=False
    ),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="POINT",
        help="As it was then: a time (2026-11-15T20:45:00Z), a position (12:0) or a run (run:ID).",
    ),
]
DescriptionOption = Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What it is.")]
OwnersOption = Annotated[
    list[str] | None, typer.Option("--owner", metavar="NAME", help="Who answers for it. Repeatable.")
]
TagsOption = Annotated[list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="A tag. Repeatable.")]
PropertiesOption = Annotated[
    list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property. Repeatable.")
]
RemovePropertiesOption = Annotated[
    list[str] | None, typer.Option("--remove-property", metavar="NAME", help="Remove this property. Repeatable.")
]
IfExistsOption = Annotated[bool, typer.Option("--if-exists", help="It is no error if it does not exist.")]
IfNotExistsOption = Annotated[bool, typer.Option("--if-not-exists", help="It is no error if it exists already.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

FolderArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="FOLDER", help="The folder of the project; that of arco.toml, or the current one.", show_default=False
    ),
]
AssetArgument = Annotated[
    str, typer.Argument(metavar="ASSET", help="Its key, such as sales.orders.", show_default=False)
]
SelectionArgument = Annotated[
    str,
    typer.Argument(
        metavar="SELECTION",
        help="Assets: keys, +a with all it is made of, a+ with all made of it, tag:x, and, or, not.",
        show_default=False,
    ),
]
PartitionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        "-p",
        metavar="NAME=KEYS",
        help="Of a dimension: a key, several (a,b), a range (a..b) or all (*). Repeatable.",
    ),
]
BatchOption = Annotated[
    int,
    typer.Option(
        "--batch",
        min=0,
        max=1_000,
        metavar="N",
        help="Partitions of an asset that run together as one job, where Spark makes it; 1 for none.",
        show_default="as many as make one job",
    ),
]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id, or `last` for the newest one.", show_default=False)
]
WatchOption = Annotated[
    bool | None,
    typer.Option("--watch/--no-watch", help="Show its tasks until it ends; on a terminal that is the default."),
]

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The server to ask; `embedded` for none. Found by itself if left out.",
        rich_help_panel=_PANEL,
    ),
]
RequestKeyOption = Annotated[
    str | None,
    typer.Option(
        "--request-key",
        metavar="KEY",
        help="A ULID or UUIDv7: with the same one a repeated command is carried out once.",
        rich_help_panel=_PANEL,
    ),
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Where to listen; port 0 for any that is free. ARCO_LISTEN, else 127.0.0.1:8020.",
    ),
]
AllowedLocationsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-location",
        metavar="URL",
        help="Let Iceberg tables lie below this folder too, outside of the store. Repeatable.",
    ),
]
PublicUrlOption = Annotated[
    str | None,
    typer.Option("--public-url", metavar="URL", help="What others reach this server under, if not where it listens."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document for programs.", rich_help_panel=_PANEL)
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where the workspace lies: file://folder, s3://bucket/prefix, az://container/prefix, gs://bucket/prefix; "
        "ARCO_STORE, else file://.arco.",
        rich_help_panel=_PANEL,
    ),
]
TenantOption = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        "--tenant-id",
        metavar="NAME",
        help="The tenant; ARCO_TENANT_ID, else `default`.",
        rich_help_panel=_PANEL,
    ),
]
WorkspaceOption = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        "--workspace-id",
        metavar="NAME",
        help="The workspace; ARCO_WORKSPACE_ID, else `default`.",
        rich_help_panel=_PANEL,
    ),
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
