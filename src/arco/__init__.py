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
        Retries,
        SecretRef,
        Severity,
        all_partitions,
        asset,
        check,
        cron_partitions,
        custom,
        daily,
        dep,
        dynamic,
        external_asset,
        hourly,
        identity,
        latest,
        monthly,
        multi_asset,
        observable,
        offset,
        output,
        secret,
        sql_asset,
        static,
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
    "Retries",
    "SecretRef",
    "Severity",
    "all_partitions",
    "asset",
    "check",
    "cron_partitions",
    "custom",
    "daily",
    "dep",
    "dynamic",
    "external_asset",
    "hourly",
    "identity",
    "latest",
    "monthly",
    "multi_asset",
    "observable",
    "offset",
    "output",
    "secret",
    "sql_asset",
    "static",
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
