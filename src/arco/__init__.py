"""Arco: a data platform in a bucket.

What pipelines are written with is here: `from arco import asset, daily, check`. It is imported when it is used, so that
`import arco` alone costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arco.sdk import (
        Asset,
        Cancelled,
        Check,
        CheckResult,
        Context,
        GatingAction,
        GatingPolicy,
        Percent,
        Retries,
        SecretRef,
        Severity,
        accepted_values,
        all_partitions,
        anomaly,
        asset,
        between,
        check,
        cron_partitions,
        custom,
        daily,
        dep,
        dynamic,
        external_asset,
        fresh,
        hourly,
        identity,
        incremental,
        latest,
        matches,
        monthly,
        multi_asset,
        not_null,
        observable,
        offset,
        output,
        references,
        row_count,
        schema_matches,
        secret,
        sql_asset,
        sql_check,
        static,
        unique,
        weekly,
        window,
    )

__version__ = "0.1.0"

__all__ = [
    "Asset",
    "Cancelled",
    "Check",
    "CheckResult",
    "Context",
    "GatingAction",
    "GatingPolicy",
    "Percent",
    "Retries",
    "SecretRef",
    "Severity",
    "accepted_values",
    "all_partitions",
    "anomaly",
    "asset",
    "between",
    "check",
    "cron_partitions",
    "custom",
    "daily",
    "dep",
    "dynamic",
    "external_asset",
    "fresh",
    "hourly",
    "identity",
    "incremental",
    "latest",
    "matches",
    "monthly",
    "multi_asset",
    "not_null",
    "observable",
    "offset",
    "output",
    "references",
    "row_count",
    "schema_matches",
    "secret",
    "sql_asset",
    "sql_check",
    "static",
    "unique",
    "weekly",
    "window",
]

if not TYPE_CHECKING:  # A type checker knows the names from above, and that there are no others.

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from arco import sdk

        value = getattr(sdk, name)
        globals()[name] = value
        return value
