"""What an asset is, as plain frozen values: the form in which definitions travel and are stored.

- `AssetDefinition`: one asset: its key, how it is made, of what, in which parts, and what is asked of it.
- `Dependency`: an asset it is made of. With a `parameter` its data is handed to the function; without one it only
  comes earlier.
- `Dimension`: one axis of partitions: time windows, static keys, or dynamic ones that are added while it runs.
- `Mapping`: which partitions of a dependency a partition needs, for one dimension.
- `Project`: all definitions of one code version.

The SDK makes these from decorated functions, deploys store them, the planner reads them. Nothing here runs user code.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from arco.assets._rules import Rule
from arco.core import sha256_hex

__all__ = [
    "All",
    "AssetDefinition",
    "AssetKind",
    "Backoff",
    "CheckDefinition",
    "CorruptRecords",
    "Custom",
    "DataFormat",
    "Dependency",
    "Dimension",
    "DynamicPartitions",
    "Engine",
    "GatingAction",
    "GatingPolicy",
    "Identity",
    "Latest",
    "Mapping",
    "Offset",
    "PartitionsDefinition",
    "Project",
    "Retries",
    "SchemaColumn",
    "SecretRef",
    "Severity",
    "Source",
    "SourceFormat",
    "StaticPartitions",
    "TimePartitions",
    "Window",
    "project_fingerprint",
]


class Value(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A part of a definition."""


class AssetKind(StrEnum):
    ASSET = "asset"
    """A function makes it."""
    SQL = "sql"
    """A query makes it."""
    EXTERNAL = "external"
    """Somebody else makes it; it is only depended on."""
    OBSERVABLE = "observable"
    """Somebody else makes it, and a function looks at it and tells its data version."""


class Engine(StrEnum):
    """Where the data of an asset is made."""

    PYTHON = "python"
    """In the driver's own process, of plain values and tables in memory."""
    SPARK = "spark"
    """On Spark: its parameters and what it returns are Spark's DataFrames."""


class DataFormat(StrEnum):
    """As what others find the data of an asset."""

    PARQUET = "parquet"
    """Files of its versions, which Arco knows."""
    ICEBERG = "iceberg"
    """The same files, and an Iceberg table of the asset's name that names those of the current versions."""


class Severity(StrEnum):
    """How bad it is that a check failed, from harmless to worst."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class GatingAction(StrEnum):
    """What is done about it, from nothing to the end of the run."""

    CONTINUE = "continue"
    WARN = "warn"
    BLOCK_DOWNSTREAM = "block_downstream"
    QUARANTINE = "quarantine"
    FAIL_TASK = "fail_task"
    FAIL_RUN = "fail_run"


class GatingPolicy(Value, frozen=True):
    """What is done when a check of a severity fails."""

    name: str
    actions: dict[str, GatingAction]
    """By severity; a severity that is not named gets `default`."""
    default: GatingAction = GatingAction.WARN


class Backoff(StrEnum):
    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class Retries(Value, frozen=True):
    """How often and how a failed attempt is repeated. An attempt whose process died is repeated in any case."""

    count: int = 0
    """Attempts after the first one."""
    delay_seconds: float = 1.0
    backoff: Backoff = Backoff.EXPONENTIAL
    max_delay_seconds: float = 300.0
    jitter: float = 0.1
    """By which part of itself a delay may be longer or shorter."""
    on: tuple[str, ...] = ()
    """Exception classes, as `module.Class` or `Class`, that are worth another attempt; empty for all."""
    never: tuple[str, ...] = ()
    """Exception classes that are not."""


# Partitions


class TimePartitions(Value, frozen=True, tag="time"):
    """A partition per window between two ticks of a cron expression."""

    cron: str
    start: str
    """The first window's begin at the earliest: ISO date or local time in `timezone`."""
    end: str | None = None
    """No window ends after this; None if it goes on."""
    timezone: str = "UTC"
    exclusions: tuple[str, ...] = ()
    """Cron expressions and local ISO times: windows that begin then do not exist."""
    values: str = "date"
    """`date` if a window is named by its day, `time` if by its begin in UTC."""


class StaticPartitions(Value, frozen=True, tag="static"):
    keys: tuple[str, ...]


class DynamicPartitions(Value, frozen=True, tag="dynamic"):
    """Keys that are added and dropped while the workspace runs (`arco partitions`)."""

    name: str


PartitionsDefinition = TimePartitions | StaticPartitions | DynamicPartitions


class Dimension(Value, frozen=True):
    name: str
    partitions: PartitionsDefinition


# Mappings, each for one dimension


class Identity(Value, frozen=True, tag="identity"):
    """The same key; between time windows of different length, those that overlap."""


class All(Value, frozen=True, tag="all"):
    """Every partition."""


class Latest(Value, frozen=True, tag="latest"):
    """The newest partition that exists at the time of planning."""


class Window(Value, frozen=True, tag="window"):
    """Neighbours of the same key in the dependency's order: from `start` to `end`, both included."""

    start: int
    end: int = 0


class Offset(Value, frozen=True, tag="offset"):
    """The key so many places away; negative is earlier."""

    by: int


class Custom(Value, frozen=True, tag="custom"):
    """Keys of the dependency by key of the asset, written out."""

    keys: dict[str, tuple[str, ...]]


Mapping = Identity | All | Latest | Window | Offset | Custom


class Dependency(Value, frozen=True):
    key: str
    """The key of the other asset."""
    parameter: str = ""
    """Parameter of the function that gets its data; empty if it only comes earlier."""
    mappings: dict[str, Mapping] = {}
    """By dimension of the dependency. One that is not named: `Identity` if the asset has it too, else `All`."""
    incremental: bool = False
    """The parameter gets only those versions that the version which is replaced was not made of."""


class CheckDefinition(Value, frozen=True):
    """What looks at a fresh version of an asset and says whether it is good: a function, or a rule."""

    name: str
    function: str = ""
    """`module:qualname`; empty if it has a rule."""
    severity: Severity = Severity.ERROR
    """How bad it is that it fails. Where a rule has two levels, that of the worse one: the other is a warning."""
    description: str = ""
    rule: Rule | None = None
    samples: int = 0
    """How many of the rows that fail are kept beside the data, without those columns that hold personal data."""


class SecretRef(Value, frozen=True):
    """Names a secret; its value is looked up where the asset runs and stands nowhere else."""

    name: str
    """What the function calls it."""
    provider: str = "env"
    key: str = ""
    """What the provider calls it, such as the environment variable."""


class SchemaColumn(Value, frozen=True):
    name: str
    type: str
    nullable: bool = True
    pii: bool = False
    """Whether it holds personal data."""


class SourceFormat(StrEnum):
    CSV = "csv"
    JSON = "json"
    """A record per line, or with the option `multiLine` a document or a list of records per file."""


class CorruptRecords(StrEnum):
    """What is done about records that do not fit the columns."""

    FAIL = "fail"
    NULL = "null"
    """What cannot be read of a record is null. A declared text column `_corrupt_record` gets the record itself."""
    DROP = "drop"


class Source(Value, frozen=True):
    """Files that somebody else writes, of an external asset. `arco.assets._sources` says what paths look like."""

    path: str
    format: SourceFormat
    options: dict[str, str] = {}
    """Of Spark's reader."""
    corrupt: CorruptRecords = CorruptRecords.FAIL


Seconds = Annotated[float, msgspec.Meta(gt=0)]


class AssetDefinition(Value, frozen=True):
    key: str
    """`namespace.name`."""
    kind: AssetKind = AssetKind.ASSET
    function: str = ""
    """`module:qualname` of what makes or observes it; empty for an external asset."""
    source: Source | None = None
    """The files of an external asset, if others may read them."""
    unit: str = ""
    """The key under which it runs. Assets of one function share it: one task makes them all."""
    sql: str = ""
    engine: Engine = Engine.PYTHON
    spark_conf: dict[str, str] = {}
    """Settings of the Spark session that makes it."""
    one_plan: bool = False
    """Its author says that one plan over many partitions gives each of them what a plan over it alone would give."""
    format: DataFormat = DataFormat.PARQUET
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    dependencies: tuple[Dependency, ...] = ()
    partitions: tuple[Dimension, ...] = ()
    """Sorted by name; empty for an asset without partitions."""
    checks: tuple[CheckDefinition, ...] = ()
    gating: GatingPolicy | None = None
    retries: Retries = Retries()
    timeout_seconds: Seconds | None = None
    heartbeat_seconds: Seconds = 60.0
    """The process that makes it is taken for dead after so long without a sign of life."""
    secrets: tuple[SecretRef, ...] = ()
    schema: tuple[SchemaColumn, ...] = ()
    """The declared columns; empty if none are."""
    column_lineage: dict[str, tuple[str, ...]] = {}
    """What its author says columns are made of, by column: each source as `parameter.column`. It wins over plans."""
    renamed_from: tuple[str, ...] = ()
    code_version: str = ""
    """Hash of the function, what it calls and the lock file."""
    file: str = ""
    line: int = 0

    @property
    def is_on_spark(self) -> bool:
        """Whether Spark makes it. A query is Spark's, also in a definition that is older than engines."""
        return self.engine is Engine.SPARK or self.kind is AssetKind.SQL


class Project(Value, frozen=True):
    """The definitions of one code version, sorted by key."""

    assets: tuple[AssetDefinition, ...]
    code_sha256: str = ""
    """The archive of the code; empty before it was packed."""
    lock_sha256: str = ""
    """The lock file that pins what the code runs with; empty if there is none."""
    python: str = ""
    """The Python it was made with, such as 3.12."""


def project_fingerprint(project: Project) -> str:
    """The id of a code version: the same definitions and code have the same one everywhere.

    Once through JSON: there a number that was given as 60 is 60.0, as everybody reads it.
    """
    read = msgspec.json.decode(msgspec.json.encode(project), type=Project)
    return f"code_{sha256_hex(msgspec.json.encode(read, order='sorted'))[:32]}"
