"""Values: exception classes by name, and the gating presets of the specification."""

import pytest

from arco import Retries
from arco.assets import GatingAction, Severity
from arco.sdk._values import GATING


class Slow(ConnectionError): ...


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ((), ()),
        (ValueError, ("builtins.ValueError",)),
        ("Slow", ("Slow",)),
        ((Slow, ValueError, "x.Y", ValueError), ("builtins.ValueError", f"{__name__}.Slow", "x.Y")),
    ],
)
def test_exception_classes_travel_as_names(given: type[BaseException] | str, names: tuple[str, ...]) -> None:
    definition = Retries(1, on=given, never=given).definition()
    assert definition.on == definition.never == tuple(sorted(names))


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("strict", "continue warn block_downstream fail_run"),
        ("lenient", "continue continue warn block_downstream"),
        ("quarantine", "continue continue quarantine quarantine"),
    ],
)
def test_presets_act_by_severity(name: str, actions: str) -> None:
    policy = GATING[name]
    assert [policy.actions[severity] for severity in Severity] == [GatingAction(action) for action in actions.split()]
    assert policy.name == name
