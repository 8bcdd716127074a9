"""Batches: which tasks of a unit run together, in one driver and as one job.

Tasks of one unit and one stage, neighbours in the order of partitions, are put together until there is enough for one
job: by what the same partitions held before, or, of what never ran, by a plain number. Who runs them may ask for
another number. The code of the asset does not change, and neither does what is recorded: a task stays one partition.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from arco.assets import AssetDefinition, Engine
from arco.domains.orchestration.plan import Batching, Output, Task
from arco.servo._planning_state import PlanningState, Size

__all__ = [
    "BATCH_BYTES",
    "BATCH_ROWS",
    "DEFAULT_BATCH",
    "MAX_BATCH",
    "NO_HELP",
    "MayBatch",
    "batches_of",
    "batching_of",
    "may_batch",
]

DEFAULT_BATCH: Final = 50
"""Tasks that run together if nothing is known about their size."""

MAX_BATCH: Final = 500
"""Tasks that run together at most, however small they are."""

BATCH_ROWS: Final = 50_000_000
BATCH_BYTES: Final = 2 << 30
"""What one job should have to write, by rows and by bytes."""

TOGETHER: Final = "together"
"""What versions say that one plan over many partitions made."""

NO_HELP: Final = "one_plan=True does not help: "
"""What the reason for a plan of its own begins with in versions of an asset whose author says one_plan=True."""

_WHOLE: Final = 1_000_000
"""A full batch; tasks are parts of it. Whole numbers, so that every machine cuts alike."""

MayBatch = Callable[[AssetDefinition], bool]


def may_batch(definition: AssetDefinition) -> bool:
    """Whether an engine makes several partitions of an asset as one job. A Python function is called for each."""
    return bool(definition.partitions) and definition.engine is Engine.SPARK


def batches_of(tasks: Sequence[Task], asked: int, state: PlanningState) -> dict[str, str]:
    """The batch of each task of one unit, by task key; those that run alone are not in it.

    `tasks` are in the order of partitions. `asked` is how many shall run together, 0 for as many as is good.
    """
    if asked == 1 or len(tasks) < 2:
        return {}
    whole, part = (asked, lambda task: 1) if asked else (_WHOLE, _Sizes(state).part)
    found: dict[str, str] = {}
    number = 0
    for _, same in groupby(sorted(tasks, key=lambda task: task.stage), lambda task: task.stage):
        for batch in _cut(same, whole, part):
            if len(batch) > 1:
                found |= {task.task_key: f"{task.unit}#{number}" for task in batch}
                number += 1
    return found


def _cut(tasks: Iterable[Task], whole: int, part: Callable[[Task], int]) -> Iterator[list[Task]]:
    """Neighbours, as many as fit."""
    batch: list[Task] = []
    left = whole
    for task in tasks:
        needed = part(task)
        if batch and needed > left:
            yield batch
            batch, left = [], whole
        batch.append(task)
        left -= needed
    if batch:
        yield batch


def batching_of(
    unit: str, outputs: Sequence[AssetDefinition], tasks: Sequence[Task], asked: int, state: PlanningState
) -> Batching | None:
    """Why tasks of a unit run together as they do; None if there is no question."""
    if len(tasks) < 2:
        return None
    if asked == 1:
        return Batching(unit, "one at a time, as asked for")
    return Batching(unit, f"{_how_many(tasks, asked, state)}; {_how(outputs[0], tasks[0], state)}")


def _how(asset: AssetDefinition, task: Task, state: PlanningState) -> str:
    """What a batch runs as. Whether partitions mix is in the plan that Spark makes, so it is known once one ran."""
    code_version, plan = state.plans.get(task.outputs[0].asset_id, ("", ""))
    if code_version != asset.code_version:
        plan = ""
    if asset.one_plan:
        return _how_vouched(plan)
    if not plan:
        return "one plan over all of them if Spark's plan proves that partitions do not mix, which shows when it runs"
    if plan == TOGETHER:
        return "one plan over all of them, because Spark's plan proves that partitions do not mix"
    return f"a plan for each partition, because {plan.removeprefix(NO_HELP)}"


def _how_vouched(plan: str) -> str:
    """The same if the author says one_plan=True, which is no part of the code version.

    So the last plan may be of before, and what kept partitions apart then is no reason now.
    """
    if plan.startswith(NO_HELP):
        return f"a plan for each partition, because {plan}"
    if plan == TOGETHER:
        return "one plan over all of them, as its author says"
    return "one plan over all of them, as its author says, if nothing else speaks against it, which shows when it runs"


def _how_many(tasks: Sequence[Task], asked: int, state: PlanningState) -> str:
    if asked:
        return f"{asked} at a time, as asked for"
    sizes = _Sizes(state)
    known = sum(sizes.of(task.outputs) is not None for task in tasks)
    if not known:
        return f"{DEFAULT_BATCH} at a time: none of it ran before, so nobody knows how large it is"
    less = "" if known == len(tasks) else f", {len(tasks) - known} of unknown size"
    return f"by the size it had before: up to {BATCH_ROWS:,} rows or {BATCH_BYTES >> 30} GiB a job{less}"


class _Sizes:
    """What partitions held before."""

    def __init__(self, state: PlanningState) -> None:
        self._state = state

    def of(self, outputs: Sequence[Output]) -> Size | None:
        """Of the partition itself, else what is usual for the asset; of all that one task writes."""
        rows = size = 0
        for output in outputs:
            version = self._state.versions.get(output.asset_id, {}).get(output.partition_id)
            found = version.size if version is not None else None
            found = found or self._state.usual_sizes.get(output.asset_id)
            if found is None:
                return None
            rows, size = rows + found.rows, size + found.bytes
        return Size(rows, size)

    def part(self, task: Task) -> int:
        """Which part of a full batch a task is."""
        found = self.of(task.outputs)
        if found is None:
            return _WHOLE // DEFAULT_BATCH
        return max(found.rows * _WHOLE // BATCH_ROWS, found.bytes * _WHOLE // BATCH_BYTES, _WHOLE // MAX_BATCH)
