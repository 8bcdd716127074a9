"""Dagster's side of the bench, run in a project's folder by the interpreter of its environment.

    drive.py load                             import the project and make its asset graph
    drive.py run default|inside               run all assets of the project by one executor
    drive.py plan [DAY...]                    the plan of all assets, for each of these days if any are given
    drive.py partitions SETTINGS TIMES DAY... so often: a run for each day, and one run for all of them, on one warm
                                              Spark with the settings that a file has as JSON

The last line of the output is JSON. Storage is what DAGSTER_HOME has by default: SQLite, with every event kept. A run
is begun by calling the executor itself: neither a run queue nor a daemon nor a launched process is waited for.
"""

import json
import sys
import time
from typing import Any


def main() -> None:
    command, *rest = sys.argv[1:]
    commands = {"load": _load, "run": _run, "plan": _plan, "partitions": _partitions}
    print(json.dumps(commands[command](rest)))


def _load(_: list[str]) -> Any:
    import project  # type: ignore[import-not-found]

    graph = project.definitions.resolve_asset_graph()
    nodes = [graph.get(key) for key in graph.get_all_asset_keys()]
    spaces = {node.partitions_def for node in nodes if node.partitions_def is not None}
    return {"assets": len(nodes), "partitions": sum(len(space.get_partition_keys()) for space in spaces)}


def _run(rest: list[str]) -> Any:
    import project
    from dagster import DagsterInstance, execute_job, reconstructable  # type: ignore[import-not-found]

    with DagsterInstance.get() as instance:
        began = time.perf_counter()
        if rest[0] == "inside":
            result: Any = project.inside().execute_in_process(instance=instance)
        else:
            result = execute_job(reconstructable(project.default), instance=instance)
        return {"success": result.success, "seconds": time.perf_counter() - began}


def _plan(days: list[str]) -> Any:
    import project
    from dagster._core.execution.api import create_execution_plan  # type: ignore[import-not-found]

    job = project.default()
    began, steps = time.process_time(), 0
    for tags in [{"dagster/partition": day} for day in days] or [{}]:
        steps += len(create_execution_plan(job, tags=tags).get_all_steps_in_topo_order())
    return {"cpu_seconds": time.process_time() - began, "steps": steps}


def _partitions(rest: list[str]) -> Any:
    from pathlib import Path

    from pyspark.sql import SparkSession

    settings, times, *days = rest
    builder: Any = SparkSession.builder
    for name, value in json.loads(Path(settings).read_text()).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        return _times(int(times), days)
    finally:
        spark.stop()


def _times(times: int, days: list[str]) -> dict[str, list[float]]:
    """Seconds by job."""
    import project
    from dagster import DagsterInstance

    span = {"dagster/asset_partition_range_start": days[0], "dagster/asset_partition_range_end": days[-1]}
    found: dict[str, list[float]] = {"totals": [], "together": []}
    with DagsterInstance.get() as instance:
        each, all_at_once = (project.definitions.resolve_job_def(name) for name in found)
        for _ in range(times):
            began = time.perf_counter()
            for day in days:
                each.execute_in_process(instance=instance, partition_key=day)
            found["totals"].append(time.perf_counter() - began)
            began = time.perf_counter()
            all_at_once.execute_in_process(instance=instance, tags=span)
            found["together"].append(time.perf_counter() - began)
    return found


if __name__ == "__main__":
    main()
