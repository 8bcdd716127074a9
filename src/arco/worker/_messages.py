"""What a worker and a driver say to each other, and how: a length of four bytes, then so many bytes of MessagePack.

    worker                          driver
      | Setup  ----------------------> | unpacks the code
      | <---------------------- Ready  |
      | Start  ----------------------> | runs one task, or the tasks of a batch
      | <----------------------- Beat  | again and again, as long as it lives
      | Cancel ----------------------> | (if it shall end early)
      | <--------------------- Report  | what became of a task; one for each, as soon as it is known
      | <----------------------- Idle  | whether it may run others

They talk over a socket of their own: standard output belongs to what users wrote.
"""

import struct
from typing import Final

import msgspec

from arco.assets import AssetDefinition, NoValue, SchemaColumn, Source
from arco.spark import Progress, SparkSettings

__all__ = [
    "HEAD",
    "MAX_MESSAGE_BYTES",
    "Beat",
    "Cancel",
    "CheckAnswer",
    "FromDriver",
    "FromWorker",
    "Idle",
    "InputPin",
    "InputValue",
    "MeasuredOutput",
    "OutputPlace",
    "PinnedFile",
    "RaisedError",
    "ReadFiles",
    "Ready",
    "Report",
    "SeenVersion",
    "Setup",
    "Start",
    "Task",
    "WrittenFile",
    "WrittenOutput",
    "WrittenStats",
    "decode_from_driver",
    "decode_from_worker",
    "pack",
]

HEAD: Final = struct.Struct(">I")
MAX_MESSAGE_BYTES: Final = 64 << 20


# The part of an envelope that a driver needs. The fields have the envelope's names and defaults, so that one is decoded
# as the other; a driver does not load the control plane's code to know them.


class PinnedFile(msgspec.Struct, frozen=True):
    path: str
    row_count: int
    size_bytes: int


class InputPin(msgspec.Struct, frozen=True):
    partition_id: str
    partition_key: str
    materialization_id: str
    files: tuple[PinnedFile, ...] = ()
    schema_hash: str = ""
    seen: bool = False


class OutputPlace(msgspec.Struct, frozen=True):
    asset_id: str
    asset_key: str
    partition_id: str
    partition_key: str
    materialization_id: str
    location: str
    pii: tuple[str, ...] = ()
    previous: InputPin | None = None


class InputValue(msgspec.Struct, frozen=True):
    asset_id: str
    asset_key: str
    parameter: str = ""
    is_partitioned: bool = False
    mapping: str = ""
    pins: tuple[InputPin, ...] = ()
    source: Source | None = None
    columns: tuple[SchemaColumn, ...] = ()


class Task(msgspec.Struct, frozen=True):
    """One attempt of one task."""

    run_id: str
    task_key: str
    attempt: int
    attempt_id: str
    unit: str
    code_version: str
    definitions: tuple[AssetDefinition, ...]
    outputs: tuple[OutputPlace, ...]
    inputs: tuple[InputValue, ...] = ()
    partition_key: str = ""
    window_start: int | None = None
    window_end: int | None = None
    heartbeat_seconds: float = 60.0


# From the worker


class Setup(msgspec.Struct, frozen=True, tag=True):
    archive: str
    """The file with the packed code."""
    folder: str
    """An empty folder of this driver alone."""
    store: str
    store_options: dict[str, str]
    tenant: str
    workspace: str
    scratch: str = ""
    """A folder of this driver alone, for what it need not keep."""
    spark: SparkSettings = SparkSettings()

    def __repr__(self) -> str:
        return f"Setup(archive={self.archive!r})"


class Start(msgspec.Struct, frozen=True, tag=True):
    tasks: tuple[msgspec.Raw, ...]
    """Each a `Task`, encoded once more: whoever sends it has an envelope."""


class Cancel(msgspec.Struct, frozen=True, tag=True):
    attempt_id: str
    """One of those that run; all of them end."""
    reason: str


FromWorker = Setup | Start | Cancel


# From the driver


class Ready(msgspec.Struct, frozen=True, tag=True):
    error: str = ""
    """Why the code cannot be unpacked; empty if it could."""


class Beat(msgspec.Struct, frozen=True, tag=True):
    """A sign of life."""

    progress: Progress | None = None


class WrittenStats(msgspec.Struct, frozen=True):
    column: str
    null_count: int
    min: str | None = None
    max: str | None = None


class WrittenFile(msgspec.Struct, frozen=True):
    path: str
    size_bytes: int
    row_count: int
    stats: tuple[WrittenStats, ...] = ()


class WrittenOutput(msgspec.Struct, frozen=True):
    asset_key: str
    files: tuple[WrittenFile, ...] = ()
    schema: bytes = b""
    """The Arrow schema, serialized; empty for what is not a table."""
    lineage: dict[str, bytes] = {}
    """What its columns are made of, by parameter: each a `ColumnLineage` as JSON."""
    plan: str = ""
    """How a batch made it: `together`, or why each partition had a plan of its own. Empty for what is no batch's."""
    unread: tuple[str, ...] = ()
    """Parameters that it is not made of, as its plan shows."""


class SeenVersion(msgspec.Struct, frozen=True):
    """What an observable asset's function saw."""

    asset_key: str
    data_version: str
    row_count: int | None = None
    metadata: dict[str, str] = {}


class ReadFiles(msgspec.Struct, frozen=True):
    """What was read of one partition of a source."""

    parameter: str
    partition_id: str
    data_version: str
    """Changes whenever a file is added, removed or changed."""
    files: int
    size_bytes: int
    names: tuple[str, ...] = ()
    """Of the first files."""


class CheckAnswer(msgspec.Struct, frozen=True):
    asset_key: str
    name: str
    passed: bool | None
    """None if it gave no result."""
    message: str = ""
    expected: str | None = None
    actual: str | None = None


class MeasuredOutput(msgspec.Struct, frozen=True):
    """What the rules of an asset need to know of an output."""

    asset_key: str
    values: dict[str, int | float | NoValue | None]
    """By the names of measures and queries."""
    samples: dict[str, str] = {}
    """What became of samples, by check."""


class RaisedError(msgspec.Struct, frozen=True):
    lineage: tuple[str, ...]
    """The classes of the exception, most special first, as `module.Class`."""
    message: str
    traceback: str = ""


class Report(msgspec.Struct, frozen=True, tag=True):
    attempt_id: str
    error: RaisedError | None = None
    is_cancelled: bool = False
    is_lost: bool = False
    """The batch broke with this error, and nobody can tell which of its tasks is to blame."""
    outputs: tuple[WrittenOutput, ...] = ()
    seen: tuple[SeenVersion, ...] = ()
    checks: tuple[CheckAnswer, ...] = ()
    """What functions answered."""
    measured: tuple[MeasuredOutput, ...] = ()
    read: tuple[ReadFiles, ...] = ()


class Idle(msgspec.Struct, frozen=True, tag=True):
    unfit: str = ""
    """Why no other task should run in this process; empty if one may."""


FromDriver = Ready | Beat | Report | Idle

_encoder: Final = msgspec.msgpack.Encoder()
_from_worker: Final = msgspec.msgpack.Decoder(FromWorker)
_from_driver: Final = msgspec.msgpack.Decoder(FromDriver)


def pack(message: FromWorker | FromDriver) -> bytes:
    """The frame of a message; `ValueError` for one that is too large."""
    data = _encoder.encode(message)
    if len(data) > MAX_MESSAGE_BYTES:
        raise ValueError(f"the result of the task takes {len(data)} bytes; it may take {MAX_MESSAGE_BYTES}")
    return HEAD.pack(len(data)) + data


def decode_from_worker(data: bytes) -> FromWorker:
    message: FromWorker = _from_worker.decode(data)
    return message


def decode_from_driver(data: bytes) -> FromDriver:
    message: FromDriver = _from_driver.decode(data)
    return message
