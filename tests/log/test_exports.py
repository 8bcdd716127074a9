"""What `arco.log` offers is what its modules declare, sorted, and nothing slips in or out unseen."""

import importlib
import pkgutil

import arco.log

INTERNAL = {"FORMAT", "MAX_EVENTS", "Admitted", "Upcaster"}
"""Used inside the layer only."""


def test_the_package_exports_what_its_modules_declare() -> None:
    declared: set[str] = set()
    for module in pkgutil.iter_modules(arco.log.__path__, "arco.log."):
        declared |= set(importlib.import_module(module.name).__all__)
    assert set(arco.log.__all__) == declared - INTERNAL


def test_every_export_exists_once_and_in_order() -> None:
    names = arco.log.__all__
    constants = [name for name in names if name.isupper()]
    classes = [name for name in names if name[0].isupper() and not name.isupper()]
    functions = [name for name in names if name[0].islower()]
    assert names == [*sorted(constants), *sorted(classes), *sorted(functions)]
    assert len(set(names)) == len(names)
    assert all(hasattr(arco.log, name) for name in names)


def test_nothing_public_is_left_out() -> None:
    public = {
        name
        for name, value in vars(arco.log).items()
        if not name.startswith("_") and getattr(value, "__module__", "arco.log").startswith("arco.log")
    }
    assert public <= set(arco.log.__all__)
