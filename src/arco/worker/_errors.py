"""Errors that end a task and have no exception of the user's behind them. Failures are classified by their names."""

from typing import Final

from arco.core import ArcoError, Invalid, Refused

__all__ = [
    "DRIVER_LOST",
    "ChecksFailed",
    "DriverLost",
    "ImportFailed",
    "NothingReturned",
    "SchemaViolation",
    "SecretMissing",
]


class SchemaViolation(Refused):
    """What the asset returned is not what it declares."""


class NothingReturned(SchemaViolation):
    """The asset declares columns, and its function returned None."""


class SecretMissing(Invalid):
    """A secret that the asset names is not in the environment of the worker."""


class ImportFailed(Invalid):
    """The code of the asset cannot be loaded."""


class ChecksFailed(Refused):
    """Checks found the output bad enough to fail the task."""


class DriverLost(ArcoError):
    """The process that ran the task is gone, or gives no sign of life."""


DRIVER_LOST: Final = f"{DriverLost.__module__}.{DriverLost.__qualname__}"
"""How a driver names it that lost what it needs, such as the process of Spark."""
