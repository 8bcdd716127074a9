"""Checks: functions that look at a fresh version of an asset and say whether it is good.

@check(asset="sales.orders", severity="critical")
def has_rows(orders): return len(orders) > 0
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from arco.assets import CheckDefinition, Severity
from arco.core import check_name, shown
from arco.sdk._registry import CHECKS
from arco.sdk._where import Where, refuse_unknown

if TYPE_CHECKING:
    from arco.sdk._asset import Asset

__all__ = ["Check", "CheckResult", "check"]

P = ParamSpec("P")
R = TypeVar("R")

_ARGUMENTS = ("asset", "severity", "name", "description")


@dataclass(frozen=True)
class CheckResult:
    """What a check found. A plain `True` or `False` says the same in short."""

    passed: bool
    message: str = ""
    expected: str = ""
    actual: str = ""


class Check(Generic[P, R]):
    """A check as defined; still the plain function when called."""

    def __init__(self, function: Callable[P, R], definition: CheckDefinition, target: str, where: Where) -> None:
        update_wrapper(self, function)
        self.function = function
        self.definition = definition
        self.target = target
        """The asset's key as written; empty if the asset names the check."""
        self.where = where
        self.module = function.__module__
        self.parameters = tuple(inspect.signature(function).parameters)

    @property
    def name(self) -> str:
        return self.definition.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


@overload
def check(function: Callable[P, R], /) -> Check[P, R]: ...


@overload
def check(
    *,
    asset: "Asset[..., Any] | str | None" = None,
    severity: Severity | str = Severity.ERROR,
    name: str = "",
    description: str = "",
) -> Callable[[Callable[P, R]], Check[P, R]]: ...


def check(function: Callable[..., Any] | None = None, /, **arguments: Any) -> Any:
    """Make a function a check of `asset`, or of the assets that name it in `checks=`.

    The function has one parameter for the data and may have another one, `context`. It returns whether the data is
    good, as a bool or a `CheckResult`. What is done about bad data depends on `severity` and the asset's gating policy.
    """

    def decorate(function: Callable[..., Any]) -> Check[..., Any]:
        where = Where.of_function(function)
        refuse_unknown(where, "check", arguments.keys() - set(_ARGUMENTS), _ARGUMENTS)
        made = _made(function, where, **arguments)
        CHECKS.append(made)
        return made

    return decorate if function is None else decorate(function)


def _made(
    function: Callable[..., Any],
    where: Where,
    asset: "Asset[..., Any] | str | None" = None,
    severity: Severity | str = Severity.ERROR,
    name: str = "",
    description: str = "",
) -> Check[..., Any]:
    name = name or function.__name__
    where.checked("the check", lambda: check_name("check name", name))
    if severity not in set(Severity):
        where.refuse(f"the check {name} has the severity {shown(str(severity))}", f"use {', '.join(Severity)}")
    data = [parameter for parameter in inspect.signature(function).parameters if parameter != "context"]
    if len(data) != 1:
        cure = "give it one parameter for the data, and if needed one called context"
        where.refuse(f"the check {name} has {len(data)} parameters for data", cure)
    target = "" if asset is None else asset if isinstance(asset, str) else asset.key
    definition = CheckDefinition(
        name=name,
        function=f"{function.__module__}:{function.__qualname__}",
        severity=Severity(severity),
        description=description or inspect.getdoc(function) or "",
    )
    return Check(function, definition, target, where)
