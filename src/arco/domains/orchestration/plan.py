"""A plan: what a run will do, as the planner decided it and as the log keeps it.

- `Task`: one unit of work: one function, one partition, all assets the function makes. Its key is readable and unique
  in the plan; its id is a hash that is the same in every plan of the same code version.
- `Output`: a partition of an asset that a task writes. `Input`: what it reads, pinned where the planner could.
- `Skip`: what was asked for and is not done, and why.
- *Batch*: tasks of one unit and one stage that are claimed together and run in one driver. Each keeps its own attempts,
  its own outcome and its own versions. `Batching` says how many of a unit run together, and why.

A plan is a pure function of two positions, a code version and a request. Every field is part of its fingerprint.
"""

import msgspec

from arco.assets import Retries
from arco.core import sha256_hex

__all__ = [
    "Batching",
    "Input",
    "Output",
    "Pin",
    "Plan",
    "Skip",
    "Task",
    "plan_fingerprint",
    "task_id_of",
    "task_key_of",
]


class Value(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A part of a plan."""


class Output(Value, frozen=True):
    asset_id: str
    asset_key: str
    partition_id: str
    partition_key: str = ""
    """Canonical text; empty for an asset without partitions."""


class Pin(Value, frozen=True):
    """One partition that a task reads."""

    partition_id: str
    partition_key: str = ""
    materialization_id: str = ""
    """The version to read. Empty if a task of this plan writes it: then the version that one wrote, known when it
    finished."""


class Input(Value, frozen=True):
    asset_id: str
    asset_key: str
    parameter: str = ""
    """Empty for what only comes earlier; its pins are then empty too."""
    mapping: str = ""
    """The partition mappings as text, for lineage."""
    pins: tuple[Pin, ...] = ()
    """In the order of the dependency's partitions."""
    is_partitioned: bool = False
    is_source: bool | None = None
    """True for files of others: its pins say which partitions are read, and nobody knows versions of them. Or None."""


class Task(Value, frozen=True):
    task_key: str
    """`namespace.name`, with the partition as `namespace.name[date=2025-01-01]`."""
    task_id: str
    unit: str
    """What runs: the key that the definitions of its outputs share."""
    partition_key: str
    outputs: tuple[Output, ...]
    upstream: tuple[str, ...] = ()
    """Keys of tasks of this plan that must succeed first, sorted."""
    inputs: tuple[Input, ...] = ()
    stage: int = 0
    """Tasks of one stage do not depend on each other; 0 comes first."""
    reason: str = ""
    retries: Retries = Retries()
    timeout_seconds: float | None = None
    heartbeat_seconds: float = 60.0
    estimated_seconds: float | None = None
    """From history; None if it never ran."""
    batch: str = ""
    """The tasks of the plan that have the same one run together; empty for one that runs alone."""


class Batching(Value, frozen=True):
    """Why tasks of a unit run together, or do not though they could."""

    unit: str
    reason: str


class Skip(Value, frozen=True):
    asset_key: str
    partition_key: str
    reason: str


class Plan(Value, frozen=True):
    code_version: str
    catalog_position: str
    activity_position: str
    """The pair of positions it was planned at, as text; `activity` was read first."""
    request: str
    """Fingerprint of the request."""
    tasks: tuple[Task, ...]
    """In topological order: by stage, then by key."""
    skips: tuple[Skip, ...] = ()
    batching: tuple[Batching, ...] = ()
    """Of the units whose tasks may run together, sorted by unit."""


def plan_fingerprint(plan: Plan) -> str:
    """The same for equal plans. Once through JSON: there a number given as 60 is 60.0, as everybody reads it."""
    read = msgspec.json.decode(msgspec.json.encode(plan), type=Plan)
    return f"plan_{sha256_hex(msgspec.json.encode(read, order='sorted'))[:32]}"


def task_key_of(unit: str, partition_text: str) -> str:
    """What people call a task; `partition_text` is the partition key as they write it."""
    return f"{unit}[{partition_text}]" if partition_text else unit


def task_id_of(unit: str, partition_key: str, code_version: str) -> str:
    """The same wherever it is planned. No part has a line break, so the joints are unambiguous."""
    return f"task_{sha256_hex(chr(10).join((unit, partition_key, code_version)).encode())[:32]}"
