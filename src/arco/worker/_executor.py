"""`Executor`: how tasks are carried out inside a driver. `PythonExecutor` calls a function in this process and hands it
plain values; `arco.worker._spark` has the one that hands it DataFrames.

A task is: load what it reads, call what makes it, store what that returned, look at it with the checks. Nothing is
visible to others until the worker has told of it.
"""

import asyncio
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from arco.assets import (
    All,
    AssetDefinition,
    AssetKind,
    Custom,
    Dependency,
    Window,
    partition_text,
)
from arco.core import Invalid, PartitionKey
from arco.sdk import Cancelled, CheckResult, Context, add_to_path, find_asset, find_check, unpack_code
from arco.spark import PlanLineage, Progress, column_lineage, no_plan, overridden
from arco.worker._errors import ImportFailed, SecretMissing
from arco.worker._files import Files
from arco.worker._measuring import EMPTY, Table, measured, views_of
from arco.worker._messages import (
    CheckAnswer,
    InputPin,
    InputValue,
    MeasuredOutput,
    OutputPlace,
    Report,
    SeenVersion,
    Setup,
    Task,
    WrittenOutput,
)
from arco.worker._raised import describe
from arco.worker._values import Stored, load_value, store_value

__all__ = [
    "Executor",
    "MadeOf",
    "PythonExecutor",
    "Signals",
    "context_of",
    "edges_of",
    "is_many",
    "one_by_one",
]

READ_AT_ONCE: Final = 8


class Signals(Protocol):
    """What a running task hears from and says to its worker."""

    def cancelled(self) -> bool: ...

    def heartbeat(self) -> None: ...


class Executor(Protocol):
    unfit: str
    """Why no other task should run here; empty if one may."""
    children: frozenset[int]
    """Processes it keeps between tasks."""

    def run(self, task: Task, signals: Signals) -> Report:
        """Carry a task out; raises what it raised."""
        ...

    def interrupt(self) -> bool:
        """Have what runs elsewhere for it end; whether there is such a place. Another thread calls this."""
        ...

    def progress(self) -> Progress | None:
        """How far what runs has come, as far as that is known. Another thread calls this."""
        ...

    def run_batch(self, tasks: Sequence[Task], signals: Signals) -> Iterable[Report]:
        """Carry several tasks of one unit out, and report on each as soon as it is known what became of it.

        A task that failed by itself is a report with its error, and the others go on. What this raises is nobody's
        fault in particular: the tasks of which nothing was said are tried again in smaller batches.
        """
        ...


def one_by_one(
    run: Callable[[Task, Signals], Report], tasks: Sequence[Task], signals: Signals, folder: str
) -> Iterator[Report]:
    """A batch for whoever cannot do better: its tasks one after the other, whatever becomes of each."""
    pid = os.getpid()
    for task in tasks:
        try:
            report = run(task, signals)
        except Cancelled:
            raise
        except BaseException as error:
            if os.getpid() != pid:
                raise  # a fork that the task made: it is not the one that reports
            report = Report(task.attempt_id, error=describe(error, folder))
        yield report


class PythonExecutor:
    """Runs functions of one code version in this process."""

    def __init__(self, setup: Setup) -> None:
        self.unfit = ""
        self.children: frozenset[int] = frozenset()
        self._setup = setup
        self._files = Files(setup)
        self._pid = os.getpid()

    def unpack(self) -> None:
        """Make the code of this driver, and make it importable."""
        with open(self._setup.archive, "rb") as file:
            unpack_code(file.read(), self._setup.folder)
        os.chdir(self._setup.folder)
        add_to_path(Path(self._setup.folder))
        importlib.invalidate_caches()

    def run(self, task: Task, signals: Signals) -> Report:
        context = self.context(task, signals)
        return self._reported_on(task, context, self.make(task, context))

    def _reported_on(self, task: Task, context: Context, values: Mapping[str, Any]) -> Report:
        """Keep what a function returned, and look at it."""
        first = task.definitions[0]
        if first.kind is AssetKind.OBSERVABLE:
            return Report(task.attempt_id, seen=(_seen(first.key, values[first.key]),))
        places = {place.asset_key: place for place in task.outputs}
        outputs: list[WrittenOutput] = []
        checks: list[CheckAnswer] = []
        measured: list[MeasuredOutput] = []
        for asset in task.definitions:
            made = values[asset.key]
            written, found = self._keep(task, asset, places[asset.key], made)
            outputs.append(written)
            checks.extend(self.check(asset, written, made, context))
            if found is not None:
                measured.append(found)
        return Report(task.attempt_id, outputs=tuple(outputs), checks=tuple(checks), measured=tuple(measured))

    def interrupt(self) -> bool:
        return False

    def progress(self) -> Progress | None:
        return None

    def run_batch(self, tasks: Sequence[Task], signals: Signals) -> Iterable[Report]:
        return one_by_one(self.run, tasks, signals, self._setup.folder)

    def context(self, task: Task, signals: Signals) -> Context:
        return context_of(task, signals)

    def make(self, task: Task, context: Context) -> dict[str, Any]:
        """What the function returns, by asset."""
        asset = task.definitions[0]
        found = self._load(asset.function, lambda module: find_asset(module, asset.key))
        arguments = self._arguments(task)
        if "context" in found.parameters:
            arguments["context"] = context
        value = _awaited(found.function(**arguments))
        if os.getpid() != self._pid:
            raise SystemExit(0)  # a fork that the function made came back from it: the original stores the value
        return _by_output([made.key for made in found.definitions], value)

    def _load(self, function: str, find: Callable[[str], Any]) -> Any:
        module = function.partition(":")[0]
        known = module in sys.modules
        try:
            return find(module)
        except BaseException as error:
            if known:
                raise
            self.unfit = "its code cannot be imported"
            if isinstance(error, Exception):
                raise
            raise ImportFailed(f"the import of {module} ended with {type(error).__name__}") from error

    def _arguments(self, task: Task) -> dict[str, Any]:
        found = {}
        for given in task.inputs:
            if given.parameter:
                keys = [partition_text(PartitionKey.parse(pin.partition_key)) for pin in given.pins]
                values = dict(zip(keys, self._values(given.pins), strict=True))
                found[given.parameter] = values if is_many(task, given) else next(iter(values.values()), None)
        return found

    def _values(self, pins: Sequence[InputPin]) -> list[Any]:
        if len(pins) < 2:
            return [load_value([file.path for file in pin.files], self._files.read) for pin in pins]
        with ThreadPoolExecutor(min(len(pins), READ_AT_ONCE)) as pool:
            return list(pool.map(lambda pin: load_value([file.path for file in pin.files], self._files.read), pins))

    def check(
        self, asset: AssetDefinition, written: WrittenOutput, value: Any, context: Context
    ) -> Sequence[CheckAnswer]:
        """What functions say of a value. One that raises gave no result, and is a result all the same."""
        answers = []
        for check in asset.checks:
            if check.rule is not None:
                continue
            try:
                seen = self._checked(written, value)
                found = find_check(check.function.partition(":")[0], asset.key, check.name)
                extra = {"context": context} if "context" in found.parameters else {}
                answers.append(_answer(asset.key, check.name, _awaited(found.function(seen, **extra))))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a check raises, it gave no result
                message = f"the check raised {type(error).__name__}: {str(error)[:1000]}"
                answers.append(CheckAnswer(asset.key, check.name, None, message))
        return answers

    def _keep(
        self, task: Task, asset: AssetDefinition, place: OutputPlace, value: Any
    ) -> tuple[WrittenOutput, MeasuredOutput | None]:
        """Write a value, and measure what its rules ask for."""
        stored = store_value(value, place.location, self._files.write, asset.schema)
        has_rules = any(check.rule is not None for check in asset.checks)
        found = self._measure(task, asset, place, value, stored) if has_rules else None
        made = edges_of(asset, lambda: no_plan(stored.columns), task.inputs) if asset.column_lineage else MadeOf({})
        return WrittenOutput(asset.key, stored.files, stored.schema, made.columns), found

    def _measure(
        self, task: Task, asset: AssetDefinition, place: OutputPlace, value: Any, stored: Stored
    ) -> MeasuredOutput:
        def load(parameter: str) -> Any:
            given = next(one for one in task.inputs if one.parameter == parameter)
            loaded = dict(enumerate(self._values(given.pins)))
            return _relation(parameter, loaded)

        table: Table | str = f"the asset returned {type(value).__name__} and no table; check it with a function"
        if stored.table is not None:
            table = Table(stored.table.schema.names, lambda: stored.table)
        elif _is_used_up(value):
            paths = [file.path for file in stored.files]
            table = Table(value.schema.names, lambda: load_value(paths, self._files.read))
        elif isinstance(value, list) and not value:
            table = EMPTY
        return measured(asset, place, table, views_of(task.inputs), load, self._files.write)

    def _checked(self, written: WrittenOutput, value: Any) -> Any:
        """What a check gets to see."""
        # A reader was used up by storing it.
        return load_value([file.path for file in written.files], self._files.read) if _is_used_up(value) else value


# What a task gets


C = TypeVar("C", bound=Context)


def context_of(
    task: Task,
    signals: Signals,
    spark: Any = None,
    previous: Callable[[str], Any] | None = None,
    kind: type[C] = Context,  # type: ignore[assignment]  # the default of a type variable
) -> C:
    """The context of a task. On Spark it has a session, and the versions that it replaces by asset."""
    first = task.definitions[0]
    for ref in first.secrets:
        if ref.provider == "env" and (ref.key or ref.name) not in os.environ:
            raise SecretMissing(
                f"the secret {ref.name} is not here: set the environment variable {ref.key or ref.name} of the worker"
            )
    return kind(
        run_id=task.run_id,
        task_key=task.task_key,
        attempt=task.attempt,
        partition_key=PartitionKey.parse(task.partition_key),
        dimensions=first.partitions,
        secrets=first.secrets,
        materialization_ids={place.asset_key: place.materialization_id for place in task.outputs},
        signals=signals,
        spark=spark,
        previous=previous,
        read={
            given.parameter: [PartitionKey.parse(pin.partition_key) for pin in given.pins if not pin.seen]
            for given in task.inputs
            if given.parameter
        },
    )


def is_many(task: Task, given: InputValue) -> bool:
    """Whether a parameter gets values by partition, or the value of the one partition.

    Decided by the mapping, so that a function does not get something else on the day there is a second partition.
    """
    if not given.is_partitioned:
        return False
    if len(given.pins) != 1:
        return True
    dependency = _dependency(task.definitions[0], given)
    own = {dimension.name for dimension in task.definitions[0].partitions}
    for name, _ in PartitionKey.parse(given.pins[0].partition_key).dimensions:
        mapping = dependency.mappings.get(name) if dependency is not None else None
        if isinstance(mapping, All | Window | Custom) or (mapping is None and name not in own):
            return True
    return False


def _dependency(asset: AssetDefinition, given: InputValue) -> Dependency | None:
    return next((d for d in asset.dependencies if d.parameter == given.parameter and d.key == given.asset_key), None)


# What a task returns


def _awaited(value: Any) -> Any:
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def _by_output(keys: Sequence[str], value: Any) -> dict[str, Any]:
    """The value of each asset. A function that makes several returns a dict by name or key, or a tuple in order."""
    if len(keys) == 1:
        return {keys[0]: value}
    if isinstance(value, tuple):
        if len(value) != len(keys):
            raise Invalid(
                f"the function makes {len(keys)} assets and returned {len(value)} values; return one for each"
            )
        return dict(zip(keys, value, strict=True))
    if not isinstance(value, Mapping):
        raise Invalid(
            f"the function makes {len(keys)} assets and returned {type(value).__name__}; return a dict by asset name, "
            "or a tuple"
        )
    names = {key: key.partition(".")[2] for key in keys}
    given = {key: key if key in value else name for key, name in names.items()}
    found = {key: value[name] for key, name in given.items() if name in value}
    missing = [key for key in keys if key not in found]
    unknown = [name for name in value if name not in keys and name not in names.values()]
    if missing or unknown:
        raise Invalid(
            f"the returned dict must have one value for each of {', '.join(keys)}; "
            f"missing: {', '.join(missing) or 'none'}, unknown: {', '.join(map(str, unknown)) or 'none'}"
        )
    return found


def _seen(key: str, value: Any) -> SeenVersion:
    if not isinstance(value, str) or not value:
        raise Invalid(
            f"the function of an observable asset returns its data version as text, not {type(value).__name__}"
        )
    return SeenVersion(key, value)


class MadeOf(NamedTuple):
    """What an output is made of, and what not."""

    columns: dict[str, bytes]
    """What its columns are made of, by parameter: each a `ColumnLineage` as JSON."""
    unread: tuple[str, ...] = ()
    """Parameters that occur nowhere in its plan."""


def edges_of(asset: AssetDefinition, found: Callable[[], PlanLineage], inputs: Sequence[InputValue]) -> MadeOf:
    """What an output is made of: what its author says, else what was found."""
    names = [given.parameter for given in inputs if given.parameter]
    if not names:
        return MadeOf({})
    plan = found()
    lineage = overridden(plan, asset.column_lineage)
    said = {source.partition(".")[0] for sources in asset.column_lineage.values() for source in sources}
    read = set(names) if plan.inputs is None else plan.inputs | said
    return MadeOf(
        {name: msgspec.json.encode(column_lineage(lineage, name)) for name in names if name in read},
        tuple(name for name in names if name not in read),
    )


def _is_used_up(value: Any) -> bool:
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(value, arrow.RecordBatchReader)


def _answer(key: str, name: str, value: Any) -> CheckAnswer:
    if isinstance(value, CheckResult):
        expected, actual = (str(part) if part not in (None, "") else None for part in (value.expected, value.actual))
        return CheckAnswer(key, name, bool(value.passed), value.message, expected, actual)
    if isinstance(value, bool):
        return CheckAnswer(key, name, value)
    if type(value).__name__ == "bool_" or type(value).__name__ == "bool":  # numpy's
        return CheckAnswer(key, name, bool(value))
    return CheckAnswer(key, name, None, f"the check returned {type(value).__name__} and not True, False or CheckResult")


def _relation(name: str, value: Any) -> Any:
    import pyarrow as pa

    if isinstance(value, dict):
        parts = [_relation(name, part) for part in value.values()]
        tables = [part if isinstance(part, pa.Table) else pa.table(part) for part in parts]
        return pa.concat_tables(tables, promote_options="default")
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return pa.Table.from_pylist(value)
    if isinstance(value, pa.RecordBatchReader):
        return value.read_all()
    if value is None or isinstance(value, str | int | float | bool | list):
        raise Invalid(f"the input {name} is {type(value).__name__} and no table, so that no query can read it")
    return value
