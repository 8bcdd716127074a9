"""Same inputs, same plan: whatever the order of assets and keys, in whichever process, with whichever hash seed."""

import os
import subprocess
import sys
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import (
    AssetDefinition,
    Dependency,
    Engine,
    Graph,
    Project,
    Window,
    resolve,
    select,
)
from arco.domains.orchestration import check_plan
from arco.domains.orchestration.plan import Plan
from arco.servo._needed import find_needed
from arco.servo._planner import make_plan
from arco.servo._planning_state import PlanningState
from arco.servo._reasons import SkipKind, skip_kind
from arco.servo._request import Mode, RunRequest
from tests.servo.golden_plan import digest, golden
from tests.servo.projects import AT, DAILY, asset, dep, ids_of, made_by, plan

GOLDEN = (
    "80051d8dbf5626ae10534617eaa5280c6de2b771fd072d545ba8a40001c6310f/36/1 "
    "134f2949145dce276e1da7bec20c42988c79694161c490f4db79451842f292f0/3/7"
)
"""sha256, tasks and skips of two plans. It changes only if plans do: then one version plans otherwise than the next."""


def test_the_plan_is_the_same_in_every_process_and_the_same_as_ever() -> None:
    here = golden()
    command = [sys.executable, "-c", "from tests.servo.golden_plan import golden; print(golden())"]
    path = os.pathsep.join(part for part in sys.path if part)
    children = [
        subprocess.Popen(
            command, env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
        )
        for seed in ("1", "4242")
    ]
    assert [child.communicate()[0].strip() for child in children] == [here, here]
    assert here == GOLDEN


@st.composite
def projects(draw: st.DrawFn) -> Project:
    """Assets that depend on earlier ones; some are partitioned by day, some have a twin made by the same function."""
    assets: list[AssetDefinition] = []
    twins: list[AssetDefinition] = []
    for index in range(draw(st.integers(2, 8))):
        days = draw(st.booleans())
        needs: list[Dependency] = []
        for other in assets:
            if draw(st.booleans()):
                window = {"date": Window(-draw(st.integers(0, 2)))} if days and other.partitions else {}
                needs.append(dep(other.key, draw(st.sampled_from([f"p{len(needs)}", ""])), **window))
        made = asset(f"s.a{index}", *needs, partitions=[DAILY] if days else (), tags={"x": "1", "y": "2"})
        if draw(st.booleans()):
            made = msgspec.structs.replace(made, engine=Engine.SPARK)
        if draw(st.booleans()):
            made = msgspec.structs.replace(made, unit=f"s.a{index}")
            twins.append(msgspec.structs.replace(made, key=f"s.b{index}"))
        assets.append(made)
    return resolve(Project((*assets, *twins)))


def asked(of: Project, selection: str = "*", state: PlanningState | None = None, days: str = "*", **more: Any) -> Plan:
    """A plan of these days of all that is selected and has days."""
    units = Graph(of).units.values()
    chosen = set(select(selection, of))
    dated = any(made[0].partitions for made in units if chosen & {found.key for found in made})
    return plan(of, selection, state, partitions={"date": days} if dated else {}, **more)


@given(projects(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_the_order_of_assets_and_keys_does_not_matter(made: Project, chance: Random) -> None:
    def shuffled(values: dict[str, Any]) -> dict[str, Any]:
        items = list(values.items())
        chance.shuffle(items)
        return dict(items)

    assets = [msgspec.structs.replace(found, tags=shuffled(found.tags)) for found in made.assets]
    chance.shuffle(assets)
    state = made_by(asked(made), made)
    other = PlanningState(
        state.catalog_position,
        state.activity_position,
        shuffled({key: shuffled(dict(found)) for key, found in state.versions.items()}),
    )
    days = {"date": "2026-01-02..2026-01-04"} if any(found.partitions for found in assets) else {}
    for mode in Mode:
        request = RunRequest("*", days, mode, at=AT)
        one = make_plan(made, ids_of(made), state, request, "code_1")
        two = make_plan(Project(tuple(assets)), shuffled(ids_of(made)), other, request, "code_1")
        assert digest(one) == digest(two)


@given(projects(), st.sets(st.integers(0, 7), min_size=1), st.sampled_from(["", "+", "-"]))
@settings(deadline=None, max_examples=100)
def test_every_plan_is_sound(made: Project, chosen: set[int], how: str) -> None:
    """Whatever is selected: each task has a reason, comes after what it waits for, and reads what exists."""
    known = {found.key for found in made.assets}
    names = sorted(f"s.a{index}" for index in chosen if f"s.a{index}" in known) or ["s.a0"]
    selection = ",".join(f"+{name}" if how == "+" else f"{name}+" if how == "-" else name for name in names)
    half = made_by(asked(made, "s.a0", days="2026-01-02..2026-01-08"), made)
    found = asked(made, selection, half, "2026-01-03..2026-01-05")
    check_plan(found)
    stages = {task.task_key: task.stage for task in found.tasks}
    writes = {(output.asset_id, output.partition_id) for task in found.tasks for output in task.outputs}
    assert len(stages) == len(found.tasks)
    assert [(task.stage, task.task_key) for task in found.tasks] == sorted((s, key) for key, s in stages.items())
    for task in found.tasks:
        assert task.reason.startswith(("selected by", "s."))
        assert task.stage == max((stages[key] + 1 for key in task.upstream), default=0)
        for source in task.inputs:
            for pin in source.pins:
                planned = (source.asset_id, pin.partition_id) in writes
                version = half.versions.get(source.asset_id, {}).get(pin.partition_id)
                assert planned != bool(pin.materialization_id)
                assert planned or (version is not None and version.materialization_id == pin.materialization_id)
    skipped = {(skip.asset_key, skip.partition_key) for skip in found.skips}
    assert len(skipped) == len(found.skips)
    assert not skipped & {(output.asset_key, output.partition_key) for task in found.tasks for output in task.outputs}
    assert all(skip.reason for skip in found.skips)


@given(projects())
@settings(deadline=None, max_examples=60)
def test_after_a_run_only_what_cannot_be_compared_runs_again(made: Project) -> None:
    """What the first run made is up to date in the second, but for roots, what follows them, and what is not pinned."""
    state = made_by(asked(made), made)
    again = asked(made, state=state)
    definitions = {found.key: found for found in made.assets}
    running = {task.task_key for task in again.tasks}
    for task in again.tasks:
        own = definitions[task.outputs[0].asset_key]
        unpinned = not own.dependencies or any(not need.parameter for need in own.dependencies)
        assert unpinned or set(task.upstream) & running
    assert asked(made, state=state, mode=Mode.FORCE).skips == ()
    assert not any(skip_kind(skip) is SkipKind.CANNOT_RUN for skip in again.skips)


@given(projects(), st.sets(st.integers(0, 7), min_size=1), st.booleans())
@settings(deadline=None, max_examples=60)
def test_what_was_not_needed_would_have_changed_nothing(made: Project, chosen: set[int], whole: bool) -> None:
    """A plan of a state that holds only the needed partitions is the plan of all that is known."""
    known = {found.key for found in made.assets}
    selection = ",".join(sorted(f"s.a{index}" for index in chosen if f"s.a{index}" in known)) or "s.a0"
    state = made_by(asked(made), made)
    full = asked(made, selection, state, "*" if whole else "2026-01-03,2026-01-05")
    days = {"date": "*" if whole else "2026-01-03,2026-01-05"}
    graph = Graph(made)
    dated = any(graph.units[graph.unit_of[key]][0].partitions for key in selection.split(","))
    needed = find_needed(
        graph, select(selection, made, graph), ids_of(made), RunRequest(selection, days if dated else {}, at=AT), {}
    )
    few = {
        asset_id: {
            partition: version
            for partition, version in state.versions.get(asset_id, {}).items()
            if wanted is None or partition in wanted
        }
        for asset_id, wanted in needed.partitions.items()
    }
    assert asked(made, selection, msgspec.structs.replace(state, versions=few), days["date"]) == full
    assert needed.made <= set(needed.partitions)
