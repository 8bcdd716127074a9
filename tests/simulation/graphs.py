"""Random projects and requests: chains, diamonds, fans, layers; retries, time-outs, limits; partitions and batches."""

from dataclasses import dataclass
from random import Random

from arco.assets import (
    AssetDefinition,
    Backoff,
    Dependency,
    Dimension,
    Engine,
    Project,
    Retries,
    StaticPartitions,
)
from arco.domains.orchestration import FailurePolicy
from arco.servo import Mode, RunRequest

__all__ = ["draw_project", "draw_request"]


def _chain(random: Random) -> list[list[int]]:
    return [[index - 1] if index else [] for index in range(random.randrange(1, 8))]


def _diamonds(random: Random) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for _ in range(random.randrange(1, 4)):
        top = len(found) - 1
        width = random.randrange(2, 4)
        found += [[top] for _ in range(width)]
        found.append(list(range(top + 1, top + 1 + width)))
    return found


def _fan(random: Random) -> list[list[int]]:
    width = random.randrange(3, 12)
    found: list[list[int]] = [[], *([0] for _ in range(width))]
    return [*found, list(range(1, width + 1))] if random.random() < 0.7 else found


def _layers(random: Random) -> list[list[int]]:
    found: list[list[int]] = []
    before: list[int] = []
    for _ in range(random.randrange(2, 5)):
        layer = []
        for _ in range(random.randrange(1, 5)):
            known = before if random.random() < 0.8 else list(range(len(found)))
            layer.append(len(found))
            found.append(sorted(random.sample(known, random.randrange(0, min(len(known), 3) + 1))))
        before = layer
    return found


def _alone(random: Random) -> list[list[int]]:
    return [[] for _ in range(random.randrange(1, 7))]


SHAPES = (_chain, _diamonds, _fan, _layers, _layers, _alone)


@dataclass(frozen=True)
class Temper:
    """What the assets of one project have in common."""

    retries: int
    timeouts: float
    heartbeat: float
    partitions: tuple[Dimension, ...] = ()
    """Of those assets that have any; they are made by Spark, so that they run in batches."""


def draw_project(random: Random) -> Project:
    edges = random.choice(SHAPES)(random)
    keys = tuple(f"k{index}" for index in range(random.choice((2, 5, 9))))
    batched = random.random() < 0.7
    if batched:
        edges = edges[:4]  # each is many tasks
    temper = Temper(
        random.choice((0, 1, 3)),
        random.choice((0.0, 0.3)),
        random.choice((5.0, 15.0, 40.0)),
        (Dimension("k", StaticPartitions(keys)),) if batched else (),
    )
    return Project(
        tuple(_asset(random, temper, index, above) for index, above in enumerate(edges)), code_sha256="0" * 64
    )


def _asset(random: Random, temper: Temper, index: int, above: list[int]) -> AssetDefinition:
    is_batched = bool(temper.partitions) and random.random() < 0.7
    return AssetDefinition(
        key=_key(index),
        function="pipeline:make",
        dependencies=tuple(Dependency(_key(other), f"a{other:02d}" if index % 3 else "") for other in above),
        code_version=f"v{index}",
        retries=Retries(
            count=random.randrange(0, temper.retries + 1),
            delay_seconds=random.choice((0.5, 3.0, 20.0)),
            backoff=random.choice(tuple(Backoff)),
            max_delay_seconds=60.0,
            jitter=random.choice((0.0, 0.3)),
        ),
        timeout_seconds=random.choice((20.0, 120.0)) if random.random() < temper.timeouts else None,
        heartbeat_seconds=temper.heartbeat,
        partitions=temper.partitions if is_batched else (),
        engine=Engine.SPARK if is_batched else Engine.PYTHON,
    )


def _key(index: int) -> str:
    return f"n.a{index:02d}"


def draw_request(random: Random, project: Project, at: int) -> RunRequest:
    """Whoever uses the same run key mostly wants the same."""
    run_key = random.choice(("", "daily", "weekly"))
    if run_key and random.random() < 0.8:
        random = Random(run_key)
    keys = [asset.key for asset in project.assets]
    selection = "*" if random.random() < 0.8 else random.choice((f"+{random.choice(keys)}", f"{random.choice(keys)}+"))
    some = random.choice(("*", "*", "*", "k0..k1"))
    return RunRequest(
        selection=selection,
        partitions={"k": some} if any(asset.partitions for asset in project.assets) else {},
        batch=random.choice((0, 0, 0, 1, 2, 3)),
        mode=random.choice((Mode.STANDARD, Mode.FORCE)),
        failure_policy=random.choice(tuple(FailurePolicy)),
        max_parallelism=random.choice((0, 0, 1, 2)),
        timeout_seconds=random.choice((60.0, 400.0)) if random.random() < 0.2 else None,
        priority=random.choice((0, 0, 5)),
        run_key=run_key,
        at=at,
    )
