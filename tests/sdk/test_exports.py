"""What `from arco import ...` offers, and that a driver which only needs that starts without the heavy packages."""

import subprocess
import sys

import arco
from arco import sdk

HEAVY = ("pyarrow", "pydantic", "duckdb", "obstore", "fastapi", "asyncio", "subprocess", "zipfile", "rich")


def test_every_name_offered_exists_and_is_the_sdks() -> None:
    for name in arco.__all__:
        assert getattr(arco, name) is getattr(sdk, name)
    for name in sdk.__all__:
        assert getattr(sdk, name) is not None
    assert set(arco.__all__) <= set(sdk.__all__)


def test_names_that_do_not_exist_are_refused() -> None:
    for module in (arco, sdk):
        assert not hasattr(module, "no_such_name")


def _modules_after(statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    return set(done.stdout.split())


def test_importing_the_sdk_is_light() -> None:
    assert not _modules_after("from arco import asset, check, Context") & set(HEAVY)


def test_importing_the_package_alone_imports_nothing_of_it() -> None:
    assert {name for name in _modules_after("import arco") if name.startswith("arco.")} == set()
