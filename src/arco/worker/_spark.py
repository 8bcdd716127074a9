"""`SparkExecutor`: carries out tasks whose parameters and results are DataFrames, on one warm Spark application.

Spark starts with the first such task of a driver. Each task has a session of its own; what it starts carries the
attempt's id as a tag, by which it is ended when the attempt shall end. A frame is looked at before anything is written:
what cannot be kept costs no job. After the write the footers of the files tell rows, bytes and statistics. How a batch
of tasks runs is in `arco.worker._together`.

If the Java process of Spark dies, the driver is lost with it: the attempt was nobody's fault.
"""

import contextlib
import os
import re
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from arco.assets import AssetDefinition, AssetKind, CheckDefinition, Dialect, TimePartitions, window_of
from arco.core import SECOND, ArcoError, Invalid, PartitionKey
from arco.sdk import Cancelled, Context
from arco.spark import Progress, lineage_of
from arco.spark._errors import ReadFile, SparkUnreachable, translated
from arco.spark._files import BadRecords, explained, read_files
from arco.spark._inputs import SourceFile, Version, data_columns, files_of, read_versions
from arco.spark._measuring import Audit, Found
from arco.spark._outputs import arrow_schema, check_frame, empty_file, write_frame
from arco.spark._place import place_of
from arco.spark._session import Application, start_application
from arco.worker._errors import DriverLost, SchemaViolation
from arco.worker._executor import MadeOf, PythonExecutor, Signals, context_of, edges_of
from arco.worker._measuring import keep_samples, views_of
from arco.worker._messages import (
    CheckAnswer,
    InputPin,
    InputValue,
    MeasuredOutput,
    OutputPlace,
    ReadFiles,
    Report,
    Setup,
    Task,
    WrittenFile,
    WrittenOutput,
)
from arco.worker._sources import SourceFiles
from arco.worker._values import described, null_counts

__all__ = ["SparkExecutor"]

PROGRESS_SECONDS: Final = 1.0
FOOTER_BYTES: Final = 64 << 10
PREVIOUS: Final = "previous__"
"""What the version that is replaced is called among inputs."""

_WRITE: Final = re.compile(r"part-\d+-([0-9a-f-]{36})")


class SparkExecutor(PythonExecutor):
    """Implements `Executor`."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        root = f"{setup.tenant}/{setup.workspace}"
        self._place = place_of(setup.store, setup.store_options, root, environ=os.environ)
        self._application: Application | None = None
        self._busy = threading.Event()
        """A task runs."""
        self._tag = ""
        """What everything carries that Spark does for what runs."""
        self._progress: Progress | None = None
        self._scopes = threading.local()
        self._numbers = count(1)
        """Of scopes."""
        self.authors = threading.RLock()
        """Held while functions of the project run: they need not expect to run twice at once."""

    def run(self, task: Task, signals: Signals) -> Report:
        with self._working(task.attempt_id) as application:
            return self.run_one(application, task, signals)

    def run_batch(self, tasks: Sequence[Task], signals: Signals) -> Iterator[Report]:
        from arco.worker._together import Together

        with self._working(tasks[0].attempt_id) as application:
            yield from Together(self, application, tasks, signals).reports()

    @contextlib.contextmanager
    def _working(self, tag: str) -> Iterator[Application]:
        """Spark, and what is to be done once it has done its work."""
        application = self._application or self._start()
        try:
            self._tag = tag
            self._busy.set()
            yield application
        except Cancelled:
            # The signal may have come in the middle of an answer of Java's: what is left of it would be the next one.
            self.unfit = "its task was ended while it spoke with Spark"
            raise
        finally:
            self._busy.clear()
            self._tag, self._progress = "", None
            if not self.unfit:
                self._close(application)

    def run_one(self, application: Application, task: Task, signals: Signals) -> Report:
        """One task by a plan of its own. Several threads may do so at once."""
        with self.scope(application, task):
            try:
                with self.authors:
                    application.activate(self.session)
                    context = self.context(task, signals)
                    made = self.make(task, context)
                report = self._reported_on(task, context, made)
                return msgspec.structs.replace(report, read=self.files_read(task.inputs))
            except Cancelled:
                raise
            except BaseException as error:
                told = self.reported(application, error)
                if isinstance(told, BadRecords):
                    raise told from None  # Spark quotes the record
                raise told from error

    @contextlib.contextmanager
    def scope(self, application: Application, task: Task) -> Iterator[None]:
        """What is of one task alone, or of one plan for several, in this thread."""
        tag = f"{self._tag}/{next(self._numbers)}"
        try:
            session = application.open((self._tag, tag), task.definitions[0].key, task.definitions[0].spark_conf)
        except Exception as error:
            raise self.reported(application, error) from error
        self._scopes.now = Scope(session, SourceFiles(self._files.found), tag)
        try:
            yield
        finally:
            self._scopes.now = None

    @property
    def _scope(self) -> "Scope":
        found: Scope = self._scopes.now
        return found

    @property
    def session(self) -> Any:
        """The Spark session of what runs in this thread."""
        return self._scope.session

    @property
    def folder(self) -> str:
        """Where the code of the project is."""
        return self._setup.folder

    def interrupt(self) -> bool:
        application, tag = self._application, self._tag
        if application is None or not tag:
            return False
        with contextlib.suppress(Exception):  # what cannot be asked any more is ended as a whole
            application.interrupt(tag)
        return True

    def progress(self) -> Progress | None:
        return self._progress

    # The application

    def _start(self) -> Application:
        scratch = Path(self._setup.scratch or f"{self._setup.folder}.scratch")
        scratch.mkdir(parents=True, exist_ok=True)
        try:
            application = start_application(
                self._setup.spark, f"arco {self._setup.tenant}/{self._setup.workspace}", scratch, self._place.conf
            )
            application.add_code(str(_packed(Path(self._setup.folder), scratch)))
        except BaseException:
            self.unfit = "Spark did not start"
            raise
        self.children = frozenset({application.pid} - {0})
        self._application = application
        threading.Thread(target=self._watch, args=(application,), name="arco-progress", daemon=True).start()
        return application

    def _close(self, application: Application) -> None:
        """Whatever goes wrong here, the result of the task stands; the next one gets another driver."""
        try:
            gone = application.fate()
            if gone is None:
                application.close()
        except Exception as error:  # noqa: BLE001
            gone = error
        if gone is not None:
            self.unfit = f"its Spark is gone: {gone}"

    def reported(self, application: Application, error: BaseException) -> BaseException:
        """What is told of an error: the end of Spark itself is the cause of whatever came of it."""
        if isinstance(error, SparkUnreachable):
            return error  # nothing had begun that could be lost
        gone = application.fate(error) if isinstance(error, Exception) else None
        if gone is not None:
            self.unfit = str(gone)
        if isinstance(gone, ConnectionError):
            return DriverLost(str(gone))
        if isinstance(error, ArcoError):
            return error
        scope: Scope | None = getattr(self._scopes, "now", None)
        if gone is not None or scope is None:
            return gone or translated(error, {})
        read = scope.files.read
        bad = explained(scope.session, self._place, error, read) if read and isinstance(error, Exception) else None
        return bad or translated(error, scope.told)

    def _watch(self, application: Application) -> None:
        """Ask how far it is, in a thread of its own: Spark may be slow to answer, and beats must not wait for it.

        One thread for all tasks: each that speaks with Java keeps a connection, also after its end.
        """
        pause = threading.Event()
        while True:
            self._busy.wait()
            pause.wait(PROGRESS_SECONDS)
            try:
                found = application.progress() if self._busy.is_set() else None
            except Exception:  # noqa: BLE001 - nothing depends on it
                return
            self._progress = found if self._busy.is_set() else None

    # What a task gets

    def context(self, task: Task, signals: Signals) -> Context:
        replaced = {place.asset_key: place for place in task.outputs}
        return context_of(task, signals, self.session, lambda key: self._previous(replaced[key]))

    def _previous(self, place: OutputPlace) -> Any:
        """The version that this one replaces as a frame; None if there is none, or it has no data."""
        pin = place.previous
        if pin is None or not pin.files:
            return None
        version = _version(place.asset_id, place.asset_key, pin)
        self._scope.told |= files_of([version])
        return read_versions(self.session, self._place, PREVIOUS, [version], with_keys=False)

    def _arguments(self, task: Task) -> dict[str, Any]:
        found = {given.parameter: self.frame(given) for given in task.inputs if given.parameter}
        scope = self._scope
        scope.frames, scope.jobs = found, self._jobs()
        return dict(found)

    def _jobs(self) -> int:
        return self._application.jobs(self._scope.tag) if self._application is not None else 0

    def jobs_since_inputs(self) -> int:
        """How many Spark jobs the function ran while it made its plan."""
        return self._jobs() - self._scope.jobs

    def made_of(self, asset: AssetDefinition, frame: Any, inputs: Sequence[InputValue]) -> MadeOf:
        """What a frame is made of, as its plan shows it."""

        return edges_of(asset, lambda: lineage_of(frame, learned=self._scope.learned), inputs)

    def frame(self, given: InputValue) -> Any:
        """What a parameter gets. Its partitions are columns, however many there are: the same code serves for more."""
        if given.source is not None:
            return self._source(given)
        scope, versions = self._scope, versions_of(given)
        known = [_version(given.asset_id, given.asset_key, pin) for pin in given.pins if pin.seen and pin.files]
        scope.told |= files_of([*versions, *known])
        return read_versions(
            scope.session, self._place, given.parameter, versions, with_keys=given.is_partitioned, known=known
        )

    def _source(self, given: InputValue) -> Any:
        """Files of others, exactly those that are there now."""
        assert given.source is not None
        scope = self._scope
        parts = scope.files.parts(given)
        files = [file.path for part in parts for file in part.files]
        scope.told |= {path: ReadFile(f"{path} of {given.asset_key}", is_ours=False) for path in files}
        if not given.columns:
            print(
                f"the columns of {given.asset_key} are not declared: Spark reads its files once more to infer them; "
                "say schema={...}"
            )
        return read_files(scope.session, self._place, given.parameter, given.source, given.columns, parts)

    def has_files(self, task: Task) -> bool:
        """Whether there is something to read of each source; if not, the task says so itself."""
        files = SourceFiles(self._files.found)
        try:
            return all(files.parts(given) for given in task.inputs if given.source is not None)
        except ArcoError:
            return False

    def files_read(self, inputs: Sequence[InputValue]) -> tuple[ReadFiles, ...]:
        """What was read of files of others."""
        return tuple(self._scope.files.reports(inputs))

    def make(self, task: Task, context: Context) -> dict[str, Any]:
        """The frames by asset, all of which can be kept and are as declared."""
        first = task.definitions[0]
        made = self._query(task, first) if first.kind is AssetKind.SQL else super().make(task, context)
        self._scope.learned = self.jobs_since_inputs() > 0
        for asset in task.definitions:
            frame = check_frame(asset.key, made[asset.key])
            _check_declared(asset, arrow_schema(asset.key, frame, required_columns(asset)))
        return made

    def _query(self, task: Task, asset: AssetDefinition) -> dict[str, Any]:
        """The frame of a query, whose inputs are views by the names of their parameters."""
        for name, frame in self._arguments(task).items():
            frame.createOrReplaceTempView(name)
        return {asset.key: self.session.sql(asset.sql, args=_query_parameters(task))}

    # What a task returns

    def _keep(
        self, task: Task, asset: AssetDefinition, place: OutputPlace, value: Any
    ) -> tuple[WrittenOutput, MeasuredOutput | None]:
        """Write a frame; what rules ask for rides on the write as far as it can."""
        rules = rules_of(asset)
        audit = Audit(rules, value, views_of(task.inputs))
        schema = arrow_schema(asset.key, value, required_columns(asset))
        write_frame(asset.key, audit.frame, self._place.file(place.location.rstrip("/")))
        files = self.files_written(asset, place, self.listed(place.location.rstrip("/")), value)
        made = self.made_of(asset, value, task.inputs)
        output = WrittenOutput(asset.key, files, schema, made.columns, unread=made.unread)
        if not rules:
            return output, None
        written = self._checked(output, value)
        frames = {name: _opened(frame) for name, frame in self._scope.frames.items()}
        return output, self.sampled(task, asset, place, audit.values(self.session, written, frames), written)

    def sampled(
        self, task: Task, asset: AssetDefinition, place: OutputPlace, values: Found, written: Any
    ) -> MeasuredOutput:
        """What was measured, with samples of what fails. The data is what queries know as such."""
        samples = keep_samples(
            asset, place, values, written.columns, views_of(task.inputs), self._rows, Dialect.SPARK, self._files.write
        )
        return MeasuredOutput(asset.key, values, samples)

    def _rows(self, query: str) -> Any:
        return self.session.sql(query).toArrow()

    def check(
        self, asset: AssetDefinition, written: WrittenOutput, value: Any, context: Context
    ) -> Sequence[CheckAnswer]:
        with self.authors:
            if self._application is not None:
                self._application.activate(self.session)  # another one may have been since the data was made
            return super().check(asset, written, value, context)

    def listed(self, folder: str) -> list[tuple[str, int]]:
        """Path and size of what is below a folder of the workspace."""
        return self._files.listed(folder)

    def path(self, folder: str) -> str:
        """A folder of the workspace, as Spark writes to it."""
        return self._place.file(folder)

    def own_columns(self, versions: Sequence[Version]) -> list[str]:
        """The columns that the data of versions has, without those that are made of their keys."""
        return data_columns(self.session, self._place, versions)

    def files_written(
        self, asset: AssetDefinition, place: OutputPlace, present: Iterable[tuple[str, int]], frame: Any
    ) -> tuple[WrittenFile, ...]:
        """The files of the version by their footers. Of files without rows the first stands for all, if all are so."""
        listed = [one for one in present if _is_data(one[0], place.location)]
        if not listed:  # one job over many partitions writes nothing for one without rows
            data = empty_file(frame)
            listed = [(f"{place.location}part-00000-empty.parquet", len(data))]
            self._files.write(listed[0][0], data)
        if len({write_of(path) for path, _ in listed}) > 1:
            raise Invalid(
                f"files of several writers lie in the folder of the new version of {asset.key}; only the worker writes "
                "there: remove what else writes to it from the functions of the project"
            )
        found: list[WrittenFile] = []
        for path, size in listed:
            footer = self.footer(path, size)
            for name, nulls in null_counts(footer, required_columns(asset)).items():
                if nulls:
                    raise SchemaViolation(f"the column {name} of {asset.key} may not be null and is so in {nulls} rows")
            found.append(described(path, size, footer))
        kept = tuple(file for file in found if file.row_count) or tuple(found[:1])
        self._files.persist([file.path for file in kept])
        return kept

    def footer(self, path: str, size: int) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._place.is_local:
            return pq.read_metadata(self._place.file(path))
        end = self._files.read_end(path, size, FOOTER_BYTES)
        length = int.from_bytes(end[-8:-4], "little") + 8
        if length > len(end):
            end = self._files.read_end(path, size, length)
        return pq.read_metadata(pa.BufferReader(end))

    def _checked(self, written: WrittenOutput, value: Any) -> Any:
        """Checks see what was written: the frame would be computed once more."""
        return self.reading([file.path for file in written.files], value)

    def reading(self, paths: Sequence[str], frame: Any) -> Any:
        """What was written of a frame into these files. Its columns are known, so no job looks for them."""
        return self.session.read.schema(frame.schema).parquet(*(self._place.pattern(path) for path in paths))


@dataclass
class Scope:
    """What is of one task, or of one plan for several, while it runs."""

    session: Any
    files: SourceFiles
    tag: str
    """What Spark does for it and for nothing else carries this one too."""
    told: dict[str, ReadFile] = field(default_factory=dict)
    """The files that it reads, by path."""
    frames: dict[str, Any] = field(default_factory=dict)
    """What it reads, by parameter."""
    jobs: int = 0
    """That had run when these were ready."""
    learned: bool = False
    """The function ran jobs while it made its plan."""


def rules_of(asset: AssetDefinition) -> list[CheckDefinition]:
    return [check for check in asset.checks if check.rule is not None]


def write_of(path: str) -> str:
    """What the names of all files of one write of Spark's have in common."""
    found = _WRITE.match(path.rsplit("/", 1)[-1])
    return found[1] if found is not None else ""


def versions_of(given: InputValue) -> list[Version]:
    """What is read of an input."""
    return [_version(given.asset_id, given.asset_key, pin) for pin in given.pins if not pin.seen]


def _version(asset_id: str, asset_key: str, pin: InputPin) -> Version:
    return Version(
        asset_key,
        asset_id,
        pin.partition_id,
        PartitionKey.parse(pin.partition_key),
        pin.materialization_id,
        pin.schema_hash,
        tuple(SourceFile(file.path, file.size_bytes) for file in pin.files),
    )


def _opened(frame: Any) -> Callable[[], Any]:
    return lambda: frame


def required_columns(asset: AssetDefinition) -> list[str]:
    return [column.name for column in asset.schema if not column.nullable]


def _check_declared(asset: AssetDefinition, schema: bytes) -> None:
    from arco.worker._schemas import check_declared, columns_of

    check_declared(asset, columns_of(schema))


def _is_data(path: str, location: str) -> bool:
    parts = path.removeprefix(location).split("/")
    return path.endswith(".parquet") and not any(part.startswith(("_", ".")) for part in parts)


def _query_parameters(task: Task) -> dict[str, Any]:
    """What a query may name: `:date` for each dimension, `:date_start` and `:date_end` for one of time."""
    dimensions = {dimension.name: dimension.partitions for dimension in task.definitions[0].partitions}
    named: dict[str, Any] = {}
    for name, value in PartitionKey.parse(task.partition_key).dimensions:
        named[name] = value
        partitions = dimensions.get(name)
        if isinstance(partitions, TimePartitions) and isinstance(value, date):
            for edge, moment in zip(("start", "end"), window_of(partitions, value), strict=True):
                named[f"{name}_{edge}"] = datetime.fromtimestamp(moment / SECOND, UTC)
    return named


def _packed(folder: Path, scratch: Path) -> Path:
    """The modules of the project as executors import them: a zip, with what lies below `src` at its top."""
    target = scratch / "arco-code.zip"
    sources = folder / "src"
    has_sources = sources.is_dir() and not (sources / "__init__.py").exists()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        names: set[str] = set()
        for path in sorted(folder.rglob("*")):
            root = sources if has_sources and path.is_relative_to(sources) else folder
            name = path.relative_to(root).as_posix()
            if path.is_file() and "__pycache__" not in path.parts and name not in names:
                names.add(name)
                archive.write(path, name)
    return target
