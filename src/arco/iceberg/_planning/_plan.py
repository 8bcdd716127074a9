"""Scan planning on the server: the files a scan has to read, answered at once.

A plan is complete when it is answered (`completed`, no plan tasks), so that nothing is kept for it: there is nothing to
fetch later, and cancelling one is always done. Manifests are read several at a time and judged beside the event loop.
Limits bound what one request may cost; over them it is refused, and the client plans itself as it always could.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, Protocol

from arco.core import Runtime, TooLarge, new_ulid, shown
from arco.iceberg._errors import BadRequest, NoSuchPlan, NoSuchPlanTask, Unsupported, ValidationFailed
from arco.iceberg._planning._answer import answer_of
from arco.iceberg._planning._deletes import Deletes
from arco.iceberg._planning._filters import ALWAYS
from arco.iceberg._planning._manifests import File, Manifest, Spec, read_files, read_manifests
from arco.iceberg._planning._pruning import PartitionField
from arco.iceberg._planning._request import ScanRequest, parse_scan
from arco.iceberg._planning._schema import Schema
from arco.iceberg._planning._transforms import parse_transform
from arco.iceberg._planning._types import UNKNOWN

__all__ = ["PlanFiles", "PlanLimits", "cancel_plan", "fetch_plan", "fetch_tasks", "plan_scan"]

_PLAN_ID = re.compile(r"arco-[0-9A-HJKMNP-TV-Z]{26}")


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """What one plan may cost."""

    manifests: int = 10_000
    bytes: int = 256 << 20
    """Of manifests, as they are stored."""
    files: int = 100_000
    seconds: float = 60.0
    at_once: int = 8


class PlanFiles(Protocol):
    """The table's files; `Locations` is one, which refuses those outside of the warehouse."""

    async def size(self, location: str) -> int: ...

    async def read(self, location: str) -> bytes: ...


def fetch_plan(plan_id: str) -> NoReturn:
    """Plans are answered at once and not kept."""
    raise NoSuchPlan(f"no plan {shown(plan_id)} is kept; its result came with the answer to the request")


def cancel_plan(plan_id: str) -> None:
    """Nothing is held for a plan, so one of ours is cancelled already."""
    if _PLAN_ID.fullmatch(plan_id) is None:
        raise NoSuchPlan(f"there is no plan {shown(plan_id)}")


def fetch_tasks(body: Any) -> NoReturn:
    """No plan has tasks to be fetched."""
    task = body.get("plan-task") if isinstance(body, dict) else None
    if not isinstance(task, str):
        raise BadRequest("tasks are fetched by the text plan-task")
    raise NoSuchPlanTask(f"there is no plan task {shown(task)}; plans have all their tasks in the answer")


async def plan_scan(
    metadata: dict[str, Any], body: Any, files: PlanFiles, runtime: Runtime, *, limits: PlanLimits | None = None
) -> dict[str, Any]:
    """The answer to `planTableScan`, without storage credentials.

    Args:
        metadata: the table's, as it is now.
        body: the decoded request.

    Raises:
        BadRequest: the request does not fit the table.
        TooLarge: it is over the limits.
        Unsupported: the table has something that cannot be planned here.
    """
    limits = limits or PlanLimits()
    request = parse_scan(metadata, body)
    try:
        tasks = await runtime.timeout(limits.seconds, _Planner(metadata, request, files, runtime, limits).run())
    except TimeoutError:
        raise TooLarge(
            f"planning took more than {limits.seconds:g} s; filter the scan, or plan in the client"
        ) from None
    answer = await runtime.offload(lambda: answer_of(tasks, request))
    return {"status": "completed", "plan-id": f"arco-{new_ulid(runtime, runtime)}", **answer}


class _Planner:
    """One plan."""

    def __init__(
        self, metadata: dict[str, Any], request: ScanRequest, files: PlanFiles, runtime: Runtime, limits: PlanLimits
    ) -> None:
        self._request, self._files, self._runtime, self._limits = request, files, runtime, limits
        self._specs = specs_of(metadata)
        self._room = limits.bytes

    async def run(self) -> list[tuple[File, list[File]]]:
        """Data files, each with the delete files that apply to it."""
        manifests = await self._manifests()
        node = self._request.filter
        wanted = [one for one in manifests if one.may_match(node, self._spec(one))]
        # Without deletes and a filter, every row counts, and enough of them are enough.
        stop = self._request.min_rows if node == ALWAYS and not any(one.deletes for one in wanted) else None
        found: list[File] = []
        await self._each([one for one in wanted if not one.deletes], found, stop)
        deletes: list[File] = []
        if found and not self._request.incremental:
            await self._each([one for one in wanted if one.deletes], deletes, None)
        index = Deletes(deletes)
        return [(file, index.of(file)) for file in found]

    async def _manifests(self) -> list[Manifest]:
        found: dict[str, Manifest] = {}
        added_by = self._added_by()
        for snapshot in self._request.snapshots:
            path = snapshot.get("manifest-list")
            if not isinstance(path, str):
                raise Unsupported(
                    "the snapshot has no manifest list (Iceberg before 0.8); plan this scan in the client"
                )
            read = partial(read_manifests, await self._read(path), path, self._limits.manifests)
            for manifest in await self._runtime.offload(read):
                if added_by is None or (manifest.snapshot_id in added_by and not manifest.deletes):
                    found[manifest.path] = manifest
        return list(found.values())

    async def _each(self, manifests: list[Manifest], found: list[File], stop: int | None) -> None:
        """Read manifests, several at a time, and keep their files in the manifests' order."""
        for at in range(0, len(manifests), self._limits.at_once):
            group = manifests[at : at + self._limits.at_once]
            for files in await self._together([self._reading(manifest) for manifest in group]):
                found += files
            if len(found) > self._limits.files:
                raise TooLarge(f"the scan has more than {self._limits.files} files; filter it, or plan in the client")
            if stop is not None and sum(file.rows for file in found) >= stop:
                return

    def _reading(self, manifest: Manifest) -> Callable[[], Awaitable[list[File]]]:
        spec, node = self._spec(manifest), self._request.filter
        limit, added_by = self._limits.files, self._added_by()

        async def reading() -> list[File]:
            data = await self._read(manifest.path)
            stats = bool(self._request.stats)
            return await self._runtime.offload(
                lambda: read_files(data, manifest, spec, node, limit=limit, stats=stats, added_by=added_by)
            )

        return reading

    async def _together(self, readings: list[Callable[[], Awaitable[list[File]]]]) -> list[list[File]]:
        results: list[list[File]] = [[] for _ in readings]

        async def one(number: int) -> None:
            results[number] = await readings[number]()

        tasks = [self._runtime.spawn(one(number), "plan a manifest") for number in range(len(readings))]
        try:
            for task in tasks:
                await task
        finally:
            for task in tasks:
                task.cancel()
        return results

    async def _read(self, location: str) -> bytes:
        self._room -= await self._files.size(location)
        if self._room < 0:
            raise TooLarge(
                f"the scan's manifests have more than {self._limits.bytes} bytes; filter it, or plan in the client"
            )
        return await self._files.read(location)

    def _added_by(self) -> frozenset[int] | None:
        if not self._request.incremental:
            return None
        return frozenset(snapshot["snapshot-id"] for snapshot in self._request.snapshots)

    def _spec(self, manifest: Manifest) -> Spec:
        if manifest.spec_id not in self._specs:
            raise ValidationFailed(f"the manifest {manifest.path} has a partition spec that the table has not")
        return self._specs[manifest.spec_id]


def specs_of(metadata: dict[str, Any]) -> dict[int, Spec]:
    """The partition specs by id. A source's type is that of the newest schema that has it."""
    current = metadata.get("current-schema-id")
    documents = list(metadata.get("schemas") or [metadata["schema"]])
    documents.sort(key=lambda schema: (schema.get("schema-id") == current, schema.get("schema-id", 0)), reverse=True)
    schemas = [Schema(document) for document in documents]
    specs = metadata.get("partition-specs") or [{"spec-id": 0, "fields": metadata.get("partition-spec", [])}]
    found: dict[int, Spec] = {}
    for spec in specs:
        fields = []
        for number, field in enumerate(spec["fields"]):
            column = next((one for schema in schemas if (one := schema.get(field["source-id"]))), None)
            source = column.type if column else UNKNOWN
            transform = parse_transform(str(field["transform"]))
            field_id = int(field.get("field-id", 1000 + number))
            fields.append(
                PartitionField(field_id, field["source-id"], source, transform, transform.result_type(source))
            )
        found[spec["spec-id"]] = Spec(spec["spec-id"], tuple(fields))
    return found
