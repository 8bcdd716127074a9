"""What people write pipelines with: `from arco import asset, daily, check`.

Decorators make frozen definitions (`arco.assets`) from functions. A project is loaded in a process of its own, packed
by content, and run by drivers that look its functions up again.
"""

from typing import TYPE_CHECKING, Any

from arco.assets import GatingAction, GatingPolicy, Percent, SecretRef, Severity
from arco.sdk._asset import Asset
from arco.sdk._check import Check, CheckResult, check
from arco.sdk._context import Cancelled, Context, Signals, TimeWindow
from arco.sdk._decorators import asset, external_asset, multi_asset, observable, output, sql_asset
from arco.sdk._registry import find_asset, find_check
from arco.sdk._rules import (
    accepted_values,
    anomaly,
    between,
    fresh,
    matches,
    not_null,
    references,
    row_count,
    schema_matches,
    sql_check,
    unique,
)
from arco.sdk._values import (
    Dep,
    Retries,
    all_partitions,
    cron_partitions,
    custom,
    daily,
    dep,
    dynamic,
    hourly,
    identity,
    incremental,
    latest,
    monthly,
    offset,
    secret,
    static,
    weekly,
    window,
)

if TYPE_CHECKING:
    from arco.sdk._load import Loaded, load_project
    from arco.sdk._modules import add_to_path, project_files
    from arco.sdk._pack import code_name, pack_code, unpack_code

__all__ = [
    "Asset",
    "Cancelled",
    "Check",
    "CheckResult",
    "Context",
    "Dep",
    "GatingAction",
    "GatingPolicy",
    "Loaded",
    "Percent",
    "Retries",
    "SecretRef",
    "Severity",
    "Signals",
    "TimeWindow",
    "accepted_values",
    "add_to_path",
    "all_partitions",
    "anomaly",
    "asset",
    "between",
    "check",
    "code_name",
    "cron_partitions",
    "custom",
    "daily",
    "dep",
    "dynamic",
    "external_asset",
    "find_asset",
    "find_check",
    "fresh",
    "hourly",
    "identity",
    "incremental",
    "latest",
    "load_project",
    "matches",
    "monthly",
    "multi_asset",
    "not_null",
    "observable",
    "offset",
    "output",
    "pack_code",
    "project_files",
    "references",
    "row_count",
    "schema_matches",
    "secret",
    "sql_asset",
    "sql_check",
    "static",
    "unique",
    "unpack_code",
    "weekly",
    "window",
]

# Only the sides that load and pack need these, and what they import is slow: a driver should start at once.
_LATER = {
    "Loaded": "_load",
    "load_project": "_load",
    "add_to_path": "_modules",
    "project_files": "_modules",
    "code_name": "_pack",
    "pack_code": "_pack",
    "unpack_code": "_pack",
}

if not TYPE_CHECKING:  # A type checker knows the names from above, and that there are no others.

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
