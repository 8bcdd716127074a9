"""Loading a project: `python -m arco.sdk.load FOLDER`, a process of its own because it runs the project's code.

It imports the project's modules, collects what they define, and tells it on what was its standard output, one JSON
value a line: first each module as it is begun, last the result. Whatever the modules print goes nowhere, so that it can
neither disturb the result nor fill anything. `arco.sdk.load_project` is the other side.
"""

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from arco.assets import AssetDefinition, CheckDefinition, Engine, Lookup, Problem, Project, resolve, validate
from arco.core import Invalid, sha256_hex
from arco.sdk._asset import Asset
from arco.sdk._check import Check
from arco.sdk._code import Code
from arco.sdk._modules import Module, add_to_path, project_modules
from arco.sdk._registry import ASSETS, CHECKS
from arco.sdk._values import GATING

__all__ = ["main"]

_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.lock", "requirements.txt")
_MESSAGE_MAX = 2_000
_SCRIPT = "put what should only run as a script under if __name__ == '__main__'"
_DEFAULT_GATING = GATING["strict"]


class Placed(NamedTuple):
    """What a definition becomes once its project is known."""

    definition: AssetDefinition
    made: Asset[..., Any]


def main(arguments: Sequence[str] | None = None) -> None:
    """Load a project and tell the result. The process ends here, whatever the project left running."""
    parser = argparse.ArgumentParser(prog="python -m arco.sdk.load")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--module", action="append", default=[])
    options = parser.parse_args(arguments)
    answers = _take_output()
    result = load(options.folder.resolve(), options.module, answers)
    _tell(answers, result)
    os._exit(0)


def load(folder: Path, only: Sequence[str], answers: int) -> dict[str, Any]:
    """The project of a folder and its problems, as plain values."""
    modules = project_modules(folder)
    chosen = [module for module in modules if module[0] in only] if only else modules
    problems = [
        Problem("", 0, "", f"the project has no module {name}", "give the name under which it is imported")
        for name in only
        if name not in dict(modules)
    ]
    add_to_path(folder)
    process = os.getpid()
    for module in chosen:
        _tell(answers, {"importing": _relative(folder, str(module[1]))})
        problems += _import(folder, module)
        if os.getpid() != process:
            # The module forked and let its child go on: only the process that was started answers.
            os._exit(0)
    project, found = _collect(folder, modules)
    problems += found
    unique = sorted(set(problems), key=lambda problem: (problem.file, problem.line, problem.asset, problem.message))
    return {"project": msgspec.to_builtins(project), "problems": [msgspec.to_builtins(problem) for problem in unique]}


def _take_output() -> int:
    """Keep standard output to ourselves, and let the project's own output go nowhere."""
    sys.stdout.flush()
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    # A process that the project forks must not keep the other side waiting.
    os.register_at_fork(after_in_child=lambda: os.close(answers))
    return answers


def _tell(answers: int, value: object) -> None:
    data = memoryview(msgspec.json.encode(value) + b"\n")
    while data:
        data = data[os.write(answers, data) :]


# Importing


def _import(folder: Path, module: Module) -> Iterator[Problem]:
    name, path = module
    try:
        loaded = importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001  Whatever a module does, the others are still looked at.
        yield _problem(folder, path, error)
        return
    origin = getattr(loaded, "__file__", None)
    if origin is None or Path(origin).resolve() != path:
        message = f"its name {name} is taken by another module ({(origin and Path(origin).name) or 'built in'})"
        yield Problem(_relative(folder, str(path)), 1, "", message, "rename the file")


def _problem(folder: Path, path: Path, error: BaseException) -> Problem:
    file, line = _place(folder, path, error)
    kind = type(error).__name__
    if isinstance(error, Invalid) and "cure" in error.details:
        return Problem(file, line, "", str(error.details["problem"]), str(error.details["cure"]))
    text = _message(error)
    if isinstance(error, Invalid):
        message, _, cure = text.partition("; ")
        return Problem(file, line, "", message, cure or "correct it")
    if isinstance(error, SystemExit):
        return Problem(file, line, "", f"the module calls sys.exit({text}) when it is imported", _SCRIPT)
    if isinstance(error, ModuleNotFoundError):
        cure = f"install {error.name} where the project is loaded, or correct the name"
        return Problem(file, line, "", f"{kind}: {text}", cure)
    if isinstance(error, SyntaxError):
        return Problem(file, line, "", f"{kind}: {error.msg}", "correct the syntax")
    return Problem(file, line, "", f"the import failed: {kind}: {text}", f"correct the error, or {_SCRIPT}")


def _place(folder: Path, path: Path, error: BaseException) -> tuple[str, int]:
    """File and line of an error: the innermost line that belongs to the project."""
    if isinstance(error, Invalid) and "file" in error.details:
        return _relative(folder, str(error.details["file"])), int(error.details["line"])
    if isinstance(error, SyntaxError) and error.filename:
        return _relative(folder, error.filename), error.lineno or 1
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return _relative(folder, frame.filename), frame.lineno or 1
    return _relative(folder, str(path)), 1


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  An exception of the project may not be printable.
        text = "(its message cannot be shown)"
    return text if len(text) <= _MESSAGE_MAX else f"{text[:_MESSAGE_MAX]}..."


@lru_cache(1024)
def _relative(folder: Path, file: str) -> str:
    path = Path(file)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name


# Collecting


def _collect(folder: Path, modules: Sequence[Module]) -> tuple[Project, list[Problem]]:
    """What the modules of the project defined, with checks attached and code versions computed."""
    names = dict(modules)
    lock = _lock(folder)
    code = Code(modules, lock)
    placed: list[Placed] = []
    for made in ASSETS:
        if made.module in names:
            version = code.version(made.function, *_texts(made.definitions[0]))
            placed += [Placed(_placed(folder, definition, version), made) for definition in made.definitions]
    checks = [check for check in CHECKS if check.module in names]
    attached, problems = _attach(folder, placed, checks)
    project = Project(assets=attached, lock_sha256=lock, python=f"{sys.version_info.major}.{sys.version_info.minor}")
    project = resolve(project)
    return project, [*problems, *validate(project)]


def _texts(definition: AssetDefinition) -> list[str]:
    """What decides about the data beside the function. One function's definitions share it."""
    texts = [definition.sql]
    if definition.engine is Engine.SPARK:
        texts += [f"engine {definition.engine}", *(f"{name}={value}" for name, value in definition.spark_conf.items())]
    return texts


def _placed(folder: Path, definition: AssetDefinition, version: str) -> AssetDefinition:
    file = _relative(folder, definition.file)
    has_code = definition.function or definition.sql
    return msgspec.structs.replace(definition, file=file, code_version=version if has_code else "")


def _attach(
    folder: Path, placed: Sequence[Placed], checks: Sequence[Check[..., Any]]
) -> tuple[tuple[AssetDefinition, ...], list[Problem]]:
    """Definitions with their checks: those they name, and those that name them."""
    lookup = Lookup(definition for definition, _ in placed)
    by_key: dict[str, list[CheckDefinition]] = {}
    named: set[int] = set()
    for definition, made in placed:
        for check in made.checks.get(definition.key, ()):
            found = check if isinstance(check, CheckDefinition) else check.definition
            by_key.setdefault(definition.key, []).append(found)
            named.add(id(check))
    problems: list[Problem] = []
    for check in checks:
        file, line = _relative(folder, check.where.file), check.where.line
        if check.target:
            try:
                key = lookup.find(check.target, str(check.where.names.get("__namespace__", "")))
                by_key.setdefault(key, []).append(check.definition)
            except Invalid as error:
                message, _, cure = error.message.partition("; ")
                problems.append(Problem(file, line, "", f"the check {check.name}: {message}", cure))
        elif id(check) not in named:
            cure = "give @check(asset=...), or name it in the asset's checks="
            problems.append(Problem(file, line, "", f"the check {check.name} belongs to no asset", cure))
    return tuple(_with_checks(definition, by_key.get(definition.key, [])) for definition, _ in placed), problems


def _with_checks(definition: AssetDefinition, checks: Sequence[CheckDefinition]) -> AssetDefinition:
    unique = tuple(sorted(dict.fromkeys(checks), key=lambda check: (check.name, check.function)))
    gating = definition.gating or (_DEFAULT_GATING if unique else None)
    return msgspec.structs.replace(definition, checks=unique, gating=gating)


def _lock(folder: Path) -> str:
    for name in _LOCKS:
        path = folder / name
        if path.is_file():
            return sha256_hex(path.read_bytes())
    return ""


if __name__ == "__main__":
    main()
