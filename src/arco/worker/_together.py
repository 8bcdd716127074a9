"""`Together`: how a batch of tasks runs on Spark.

    one plan over all partitions      if the analysed plan proves that they do not mix, or the author says so
      | the job breaks                  halves of it, until the bad partition stands alone
      | not proven                      a plan for each partition, several at a time; the log says what to change

Whichever it is, every task has its own outcome, files, checks and lineage, and one that fails does not fail others.
The functions of the project never run twice at once, and never know which of the two it is: if they ask for what only
one partition has, such as its key, each partition gets a plan of its own.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

import msgspec

from arco.assets import AssetDefinition, Measure, questions_of
from arco.core import ArcoError, Invalid, PartitionKey
from arco.sdk import Cancelled, Context
from arco.spark import Apart, Keys, key_columns, partition_mixing, write_together
from arco.spark._measuring import Found, answered, columns_of, grouped
from arco.spark._outputs import analysed_plan, arrow_schema
from arco.spark._session import Application
from arco.worker._executor import MadeOf, Signals, context_of, one_by_one
from arco.worker._measuring import told_by_footers, views_of
from arco.worker._messages import CheckAnswer, InputValue, MeasuredOutput, Report, Task, WrittenOutput
from arco.worker._raised import describe
from arco.worker._spark import SparkExecutor, required_columns, rules_of, versions_of

__all__ = ["TOGETHER", "Together"]

TOGETHER: Final = "together"
NO_HELP: Final = "one_plan=True does not help: "
"""What a reason begins with for which partitions have plans of their own although their author vouches for one."""

AT_ONCE: Final = 4
"""Plans of single partitions that run at the same time: each alone leaves cores idle at its begin and its end."""

_OF_ONE: Final = frozenset(
    {
        "attempt",
        "materialization_ids",
        "partition",
        "partition_key",
        "partitions_of",
        "previous",
        "previous_of",
        "task_key",
        "window",
    }
)


class Together:
    def __init__(
        self, executor: SparkExecutor, application: Application, tasks: Sequence[Task], signals: Signals
    ) -> None:
        self._executor = executor
        self._application = application
        self._tasks = tasks
        self._signals = signals

    def reports(self) -> Iterator[Report]:
        """One for each task, as soon as it is known."""
        has_files = {task.attempt_id: self._executor.has_files(task) for task in self._tasks}
        yield from self._alone([task for task in self._tasks if not has_files[task.attempt_id]])
        ready = [task for task in self._tasks if has_files[task.attempt_id]]
        left = [list(group) for _, group in groupby(sorted(ready, key=_columns_read), _columns_read)]
        may_break = 4 + 3 * math.ceil(math.log2(len(self._tasks)))
        why = ""
        while left and not why:
            group = left.pop(0)
            if len(group) == 1:
                yield from self._alone(group)
                continue
            try:
                yield from self._one_plan(group)
            except Apart as reason:
                left.insert(0, group)
                why = str(reason)
            except Misplaced as error:
                raised = describe(error, self._executor.folder)
                yield from (Report(task.attempt_id, error=raised) for task in group)
            except Exception as error:  # whatever the job raised
                if self._signals.cancelled():
                    raise Cancelled from error
                gone = self._application.fate(error)
                if gone is not None:
                    raise self._executor.reported(self._application, error) from error
                told = _told(group[0], error)
                print(f"one plan over {len(group)} partitions broke, and goes on in halves{told}")
                left[:0] = [group[: len(group) // 2], group[len(group) // 2 :]]
                may_break -= 1
                why = "" if may_break else "it broke too often"
        rest = [task for group in left for task in group]
        if rest:
            if all(asset.one_plan for asset in rest[0].definitions):
                why = f"{NO_HELP}{why}"
            print(f"a plan for each of {len(rest)} partitions, because {why}")
            yield from self._side_by_side(rest, why)

    # A plan for each

    def _alone(self, tasks: Sequence[Task]) -> Iterator[Report]:
        yield from one_by_one(self._run, tasks, self._signals, self._executor.folder)

    def _run(self, task: Task, signals: Signals) -> Report:
        return self._executor.run_one(self._application, task, signals)

    def _side_by_side(self, tasks: Sequence[Task], why: str) -> Iterator[Report]:
        """Plans run at the same time as far as Spark can tell them apart; reports come in the order of their ends."""
        if not self._application.concurrent:
            for report in self._alone(tasks):
                yield _with_plan(report, why)
            return
        waiting = list(reversed(tasks))
        running: set[Future[Report]] = set()
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="arco-partition")
        try:
            while waiting or running:
                while waiting and len(running) < AT_ONCE:
                    running.add(pool.submit(self._in_thread, waiting.pop()))
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield _with_plan(future.result(), why)
            pool.shutdown()  # no thread is left behind
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _in_thread(self, task: Task) -> Report:
        (report,) = self._alone([task])
        return report

    # One plan for all

    def _one_plan(self, tasks: Sequence[Task]) -> Iterator[Report]:
        """Make all partitions by one job; `Apart` if that is not known to give the same."""
        executor, application = self._executor, self._application
        merged = _merged(tasks)
        with executor.scope(application, merged):
            keys = self._keys(tasks)
            with executor.authors:
                application.activate(executor.session)
                context = context_of(merged, self._signals, executor.session, None, kind=SharedContext)
                made, jobs = self._made(merged, context)
                columns = {asset.key: self._proven(asset, made[asset.key], keys) for asset in merged.definitions}
                if jobs and not all(asset.one_plan for asset in merged.definitions):
                    raise Apart(
                        "the function ran Spark jobs while it made its plan, such as collect or count, and what it "
                        "learned may be of several partitions: use expressions instead, or say one_plan=True"
                    )
            written = {
                asset.key: self._written(tasks, asset, made[asset.key], columns[asset.key])
                for asset in merged.definitions
            }
            for task in tasks:
                yield self._reported(task, written)

    def _made(self, merged: Task, context: "SharedContext") -> tuple[dict[str, Any], int]:
        """The frames by asset, and how many jobs ran while they were made."""
        try:
            made = self._executor.make(merged, context)
        except Apart:
            raise
        except Cancelled:
            raise
        except Exception as error:
            if context.asked:
                raise Apart(context.asked) from error
            # Each partition finds out for itself, and one of them may be fine.
            raise Apart(f"it cannot be made for all at once{_told(merged, error)}") from error
        if context.asked:
            raise Apart(context.asked)
        return made, self._executor.jobs_since_inputs()

    def _keys(self, tasks: Sequence[Task]) -> Keys:
        """Which columns of each input hold the partition; none at all of an input that all partitions share."""
        if any(dependency.incremental for dependency in tasks[0].definitions[0].dependencies):
            raise Apart("each partition sees only what is new to it (incremental): nothing to change")
        found: dict[str, Mapping[str, str]] = {}
        for place, given in enumerate(tasks[0].inputs):
            if not given.parameter:
                continue
            read = [task.inputs[place] for task in tasks]
            if all(other.pins == given.pins for other in read):
                found[given.parameter] = {}
                continue
            for task, other in zip(tasks, read, strict=True):
                if not _reads_its_own(task, other):
                    raise Apart(
                        f"each partition reads other partitions of {given.asset_key} than its own: nothing to change, "
                        "unless it is to read only its own"
                    )
            if given.source is not None:
                found[given.parameter] = _keys_of_files(given)
                continue
            versions = [version for other in read for version in versions_of(other)]
            found[given.parameter] = key_columns(versions, self._executor.own_columns(versions), self._executor.footer)
        if not any(found.values()):
            raise Apart("it reads no partitioned input by its own partition: nothing tells rows of partitions apart")
        return found

    def _proven(self, asset: AssetDefinition, frame: Any, keys: Keys) -> Mapping[str, str]:
        """The columns of the output that tell the partition of a row, by dimension."""
        wanted = [dimension.name for dimension in asset.partitions]
        if asset.one_plan:
            missing = [name for name in wanted if name not in frame.columns]
            if missing:
                raise Apart(f"the output of {asset.key} has no column {', '.join(missing)}")
            return {name: name for name in wanted}
        plan = analysed_plan(frame)
        if plan is None:
            raise Apart("Spark Connect does not show its plans: say one_plan=True if partitions do not mix")
        verdict = partition_mixing(plan, keys)
        if not verdict.proven:
            raise Apart(verdict.reason)
        missing = [name for name in wanted if name not in verdict.columns]
        if missing:
            raise Apart(f"no input tells the partition of a row by {', '.join(missing)}")
        return {name: verdict.columns[name] for name in wanted}

    def _written(
        self, tasks: Sequence[Task], asset: AssetDefinition, frame: Any, columns: Mapping[str, str]
    ) -> "Written":
        """Write the partitions of one asset, and measure what its rules ask of each."""
        executor = self._executor
        places = {task.attempt_id: _place_of(task, asset) for task in tasks}
        folder, _, name = next(iter(places.values())).location.rstrip("/").rpartition("/")
        column = name.partition("=")[0]
        before = set(executor.listed(folder))
        versions = {PartitionKey.parse(place.partition_key): place.materialization_id for place in places.values()}
        write_together(frame, executor.path(folder), column, columns, versions)
        files: dict[str, list[tuple[str, int]]] = {place.location: [] for place in places.values()}
        for path, size in executor.listed(folder):
            if (path, size) in before or not path.endswith(".parquet"):
                continue
            location = f"{path.rsplit('/', 1)[0]}/"
            if location not in files:
                raise Misplaced(
                    f"rows of {asset.key} belong to no partition of the batch; what it returns must keep the columns "
                    f"{', '.join(columns.values())} as they were read, or must not say one_plan=True"
                )
            files[location].append((path, size))
        return Written(asset, frame, arrow_schema(asset.key, frame, required_columns(asset)), files, column)

    def _reported(self, task: Task, written: "Mapping[str, Written]") -> Report:
        try:
            return self._looked_at(task, written)
        except Cancelled:
            raise
        except Exception as error:  # noqa: BLE001 - one that fails by itself does not fail the others
            told = error if isinstance(error, ArcoError) else self._executor.reported(self._application, error)
            return Report(task.attempt_id, error=describe(told, self._executor.folder))

    def _looked_at(self, task: Task, written: "Mapping[str, Written]") -> Report:
        """What became of one task: its files, and what checks say of them."""
        executor = self._executor
        context = executor.context(task, self._signals)
        outputs: list[WrittenOutput] = []
        checks: list[CheckAnswer] = []
        measured: list[MeasuredOutput] = []
        for asset in task.definitions:
            place, done = _place_of(task, asset), written[asset.key]
            files = executor.files_written(asset, place, done.files[place.location], done.frame)
            made_of = done.made_of(executor, task.inputs)
            output = WrittenOutput(asset.key, files, done.schema, made_of.columns, TOGETHER, made_of.unread)
            outputs.append(output)
            if rules_of(asset):
                measured.append(self._measured(task, asset, output, done))
            checks.extend(executor.check(asset, output, done.frame, context))
        return Report(
            task.attempt_id,
            outputs=tuple(outputs),
            checks=tuple(checks),
            measured=tuple(measured),
            read=executor.files_read(task.inputs),
        )

    def _measured(self, task: Task, asset: AssetDefinition, output: WrittenOutput, done: "Written") -> MeasuredOutput:
        """What rules ask of one partition: the footers of its files are asked first, then its rows."""
        executor = self._executor
        questions = questions_of(rules_of(asset), columns_of(done.frame), views_of(task.inputs))
        place = _place_of(task, asset)
        data = executor.reading([file.path for file in output.files], done.frame)
        inputs = {given.parameter: _reading(executor, given) for given in task.inputs if given.parameter}
        known: Found = {**told_by_footers(rules_of(asset), output.files)}
        left = [measure for measure in (*questions.riding, *questions.measures) if measure.name not in known]
        if left:
            known |= done.measures(executor, left).get(place.location.rstrip("/").rpartition("/")[2], {})
        values = answered(executor.session, questions, data, inputs, known)
        return executor.sampled(task, asset, place, values, data)


class Misplaced(Invalid):
    """Partitions do mix, and whoever said that they do not was wrong: none of what was written is to be believed."""


class SharedContext(Context):
    """The context of a function that makes many partitions at once. What only one partition has ends that."""

    asked = ""

    def __getattribute__(self, name: str) -> Any:
        if name in _OF_ONE:
            self.asked = (
                f"the function asks for context.{name}, which is of one partition: take the partition from the columns "
                "of its inputs"
            )
            raise Apart(self.asked)
        return super().__getattribute__(name)


class Written:
    """One asset of a batch as it was written."""

    def __init__(
        self,
        asset: AssetDefinition,
        frame: Any,
        schema: bytes,
        files: Mapping[str, list[tuple[str, int]]],
        column: str,
    ) -> None:
        self.asset = asset
        self.frame = frame
        self.schema = schema
        self.files = files
        """By folder."""
        self._column = column
        self._made_of: MadeOf | None = None
        self._measures: dict[str, Found] | None = None

    def made_of(self, executor: SparkExecutor, inputs: Sequence[InputValue]) -> MadeOf:
        """The same for all partitions: they have the same plan."""
        if self._made_of is None:
            self._made_of = executor.made_of(self.asset, self.frame, inputs)
        return self._made_of

    def measures(self, executor: SparkExecutor, wanted: Sequence[Measure]) -> dict[str, Found]:
        """What rules ask of the rows of each partition, by the name of its folder, in one job over all of them.

        What is wanted of the first partition is mostly wanted of all. A measure that is not is asked for by itself.
        """
        if self._measures is None:
            paths = [path for files in self.files.values() for path, _ in files]
            self._measures = {}
            if paths:
                with suppress(Exception):  # what cannot be measured is asked for again, where its error is told
                    self._measures = grouped_by_folder(executor.reading(paths, self.frame), wanted)
        return self._measures


def grouped_by_folder(frame: Any, measures: Sequence[Measure]) -> dict[str, Found]:
    from pyspark.sql import functions as f

    path = f.col("_metadata.file_path")
    folder = f.substring_index(f.substring_index(path, "/", -2), "/", 1)
    name = "arco_folder"
    found = grouped(frame.select("*", folder.alias(name)), [name], measures)
    return {str(key[0]): values for key, values in found.items()}


def _merged(tasks: Sequence[Task]) -> Task:
    """One task that reads what all of them read, of no partition in particular."""
    inputs = []
    for place, given in enumerate(tasks[0].inputs):
        pins = {(pin.partition_id, pin.materialization_id): pin for one in tasks for pin in one.inputs[place].pins}
        inputs.append(msgspec.structs.replace(given, pins=tuple(pins.values())))
    return msgspec.structs.replace(tasks[0], inputs=tuple(inputs), partition_key="", window_start=None, window_end=None)


def _keys_of_files(given: InputValue) -> dict[str, str]:
    """The columns of a source that hold the partition of each row. They are made of its key when it is read."""
    if not given.columns:
        raise Apart(
            f"the columns of {given.asset_key} are inferred, so that each partition may have others: say schema="
        )
    names = [name for name, _ in PartitionKey.parse(given.pins[0].partition_key).dimensions]
    own = [name for name in names if name.lower() in {column.name.lower() for column in given.columns}]
    if own:
        raise Apart(
            f"{given.asset_key} has a column {own[0]} of its own that need not hold the partition of every row: "
            "rename it"
        )
    return {name: name for name in names}


def _reads_its_own(task: Task, given: InputValue) -> bool:
    """Whether a task reads one version, of a partition whose key is part of its own."""
    pins = given.pins
    if len(pins) != 1 or not (pins[0].files or given.source is not None):
        return False
    own = PartitionKey.parse(task.partition_key).to_dict()
    return all(own.get(name) == value for name, value in PartitionKey.parse(pins[0].partition_key).dimensions)


def _columns_read(task: Task) -> tuple[str, ...]:
    """What says whether tasks read the same columns: in one plan, one that only some have would be there for all."""
    return tuple(sorted({pin.schema_hash for pin in given.pins})[-1] for given in task.inputs if given.pins)


def _place_of(task: Task, asset: AssetDefinition) -> Any:
    return next(place for place in task.outputs if place.asset_key == asset.key)


def _reading(executor: SparkExecutor, given: InputValue) -> Callable[[], Any]:
    return lambda: executor.frame(given)


def _with_plan(report: Report, why: str) -> Report:
    outputs = tuple(msgspec.structs.replace(output, plan=why) for output in report.outputs)
    return msgspec.structs.replace(report, outputs=outputs)


def _told(task: Task, error: BaseException) -> str:
    """What is said of an error beside; nothing where files of others are read, whose records Spark quotes."""
    return "" if any(given.source for given in task.inputs) else f": {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
