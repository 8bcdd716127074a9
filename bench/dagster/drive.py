"""Dagster's side of `python -m bench --only servo`, run in a project's folder by the interpreter of its environment.

    drive.py load                 import the project and make its asset graph
    drive.py run default|inside   run all assets of the project by one executor
    drive.py plan [DAY...]        the plan of all assets, for each of these days if any are given

The last line of the output is JSON. Storage is what DAGSTER_HOME has by default: SQLite, with every event kept. A run
is begun by calling the executor itself: neither a run queue nor a daemon nor a launched process is waited for.
"""

import json
import sys
import time
from typing import Any


def main() -> None:
    command, *rest = sys.argv[1:]
    print(json.dumps({"load": _load, "run": _run, "plan": _plan}[command](rest)))


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


if __name__ == "__main__":
    main()
