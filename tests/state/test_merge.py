"""Merging: whatever merges when, readers see the newest row of each key, and the work stays bounded."""

import asyncio
import random
from collections.abc import Iterable

import msgspec
import pyarrow as pa
import pytest

from arco.core import DAY, derive_ulid
from arco.domains.execution import MATERIALIZATIONS
from arco.domains.orchestration import ACTIVE_RUNS, ActiveRunRow
from arco.state import File, Kind, Layer, LayerReader, Layout, Manifest, Pending, Table, bucket_of, empty_manifest
from arco.state._codec import to_arrow
from arco.state._files import FileWriter, describe
from arco.state._fold import Rows
from arco.state._merge import adopt, can_adopt, inputs_of, merge_layers, plan_merges
from arco.state._view import scan
from arco.storage import MemoryStore
from tests.doubles import START, FakeRuntime
from tests.state.doubles import PLACE, replica_of, segments_of
from tests.state.histories import ACTIVITY, completed

Model = dict[tuple[str, str], str]


class Name(msgspec.Struct, frozen=True):
    parent: str
    name: str
    owner: str


NAMES = Table("names", Name, Kind.IMAGE, ("parent", "name"), "parent")


class Shelf(LayerReader):
    """Files that are never encoded: as reader and as writer of the merge under test."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.data: dict[str, pa.Table] = {}
        self.rows_written = 0

    async def read(self, table: Table, file: File, buckets: Iterable[int] | None = None) -> pa.Table:
        data = self.data[file.path]
        if buckets is None:
            return data
        return data.filter(pa.compute.is_in(data.column("_bucket"), pa.array(sorted(buckets), pa.uint8())))

    async def files(self, table: Table, data: pa.Table, name: str) -> tuple[File, ...]:
        if not data.num_rows:
            return ()
        path = f"{name}-{len(self.data)}"
        self.data[path] = data
        self.rows_written += data.num_rows
        return (describe(table, data, b"PAR1" + bytes(8), path, 0),)


def with_layers(layers: Iterable[Layer]) -> Manifest:
    from msgspec.structs import replace

    return replace(empty_manifest(PLACE), layers=tuple(layers))


def pending_for(run: list[Layer]) -> Pending:
    return Pending("m", "merge", "d", 0, run[0].table, tuple((layer.first, layer.last) for layer in run))


async def merge(
    layers: tuple[Layer, ...], run: list[Layer], shelf: Shelf, cutoff: int | None = None
) -> tuple[Layer, ...]:
    """What the compactor and the runner do with one planned merge."""
    pending, manifest = pending_for(run), with_layers(layers)
    assert can_adopt(manifest, pending)
    assert inputs_of(manifest, pending) == run
    files = await merge_layers(NAMES, run, manifest.layers_of("names")[0] == run[0], cutoff, shelf, shelf)  # type: ignore[arg-type]
    return adopt(layers, pending, files)


async def add_delta(
    layers: tuple[Layer, ...], shelf: Shelf, writer: "Shelf | FileWriter", chance: random.Random, at: int, model: Model
) -> tuple[Layer, ...]:
    """One more layer with some puts and deletes, noted in the model."""
    groups: dict[str, Rows] = {}
    for _ in range(chance.randint(1, 4)):
        parent, name = chance.choice("pq"), chance.choice("abcd")
        rows = groups.setdefault(parent, {})
        if chance.random() < 0.4:
            if (parent, name) in model or chance.random() < 0.2:
                rows[parent, name] = (at, None)
                model.pop((parent, name), None)
        else:
            rows[parent, name] = (at, Name(parent, name, str(at)))
            model[parent, name] = str(at)
    groups = {group: rows for group, rows in groups.items() if rows}
    if not groups:
        return layers
    files = await writer.files(NAMES, to_arrow(NAMES, groups.items()), f"delta-{at}")
    return (*layers, Layer("names", 0, str(at - 1), str(at), files))


async def seen(layers: tuple[Layer, ...], reader: LayerReader, buckets: set[int] | None = None) -> Model:
    data = await scan(reader, NAMES, layers, None, None, buckets)
    return {(row["parent"], row["name"]): row["owner"] for row in data.to_pylist()}


def any_neighbours(layers: tuple[Layer, ...], chance: random.Random) -> list[Layer]:
    first = chance.randrange(len(layers) - 1)
    return list(layers[first : chance.randint(first + 2, len(layers))])


def test_five_thousand_histories_of_puts_deletes_and_merges_show_the_newest_rows() -> None:
    """Tiered merges as planned and merges of any other neighbours, at random moments."""

    async def main() -> None:
        merges = 0
        for seed in range(5_000):
            chance, shelf = random.Random(seed), Shelf()
            model: Model = {}
            layers: tuple[Layer, ...] = ()
            for at in range(1, chance.randint(4, 9)):
                layers = await add_delta(layers, shelf, shelf, chance, at, model)
                if len(layers) > 1 and chance.random() < 0.35:
                    planned = plan_merges(with_layers(layers), 2)
                    run = planned[0] if planned and chance.random() < 0.7 else any_neighbours(layers, chance)
                    layers = await merge(layers, run, shelf)
                    merges += 1
            assert await seen(layers, shelf) == model, f"seed {seed}"
        assert merges > 5_000

    asyncio.run(main())


def test_histories_in_real_files_show_the_newest_rows_as_a_whole_and_by_bucket() -> None:
    async def main() -> None:
        for seed in range(60):
            chance = random.Random(seed)
            model: Model = {}
            store, runtime = MemoryStore(), FakeRuntime()
            reader = LayerReader(store)
            layers: tuple[Layer, ...] = ()
            for at in range(1, 10):
                writer = FileWriter(store, Layout(PLACE), f"{at}-a", runtime)
                layers = await add_delta(layers, Shelf(), writer, chance, at, model)
                for run in plan_merges(with_layers(layers), 3):
                    writer = FileWriter(store, Layout(PLACE), f"{at}-m", runtime)
                    oldest = layers[0] == run[0]
                    files = await merge_layers(NAMES, run, oldest, None, reader, writer)
                    layers = adopt(layers, pending_for(run), files)
            assert await seen(layers, reader) == model
            only_p = {key: value for key, value in model.items() if key[0] == "p"}
            assert await seen(layers, reader, {bucket_of("p")}) == only_p

    asyncio.run(main())


@pytest.mark.parametrize("fan_in", [2, 4, 8])
def test_each_row_is_written_once_a_level_and_layers_stay_few(fan_in: int) -> None:
    async def main() -> None:
        shelf = Shelf()
        layers: tuple[Layer, ...] = ()
        deltas, most = 200, 0
        for at in range(1, deltas + 1):
            files = await shelf.files(
                NAMES, to_arrow(NAMES, [("p", {("p", str(at)): (at, Name("p", str(at), "i"))})]), "d"
            )
            layers = (*layers, Layer("names", 0, str(at - 1), str(at), files))
            while runs := plan_merges(with_layers(layers), fan_in):
                layers = await merge(layers, runs[0], shelf)
            most = max(most, len(layers))
        levels = max(layer.level for layer in layers)
        assert fan_in**levels <= deltas
        assert shelf.rows_written <= deltas * (levels + 1)
        assert most <= (fan_in - 1) * (levels + 1)
        assert [(layers[0].first, layers[-1].last)] == [("0", str(deltas))]
        assert sum(layer.rows for layer in layers) == deltas

    asyncio.run(main())


def test_tombstones_fall_only_in_a_merge_with_the_oldest_layer() -> None:
    async def main() -> None:
        shelf = Shelf()

        async def delta(at: int, row: Name | None) -> Layer:
            files = await shelf.files(NAMES, to_arrow(NAMES, [("p", {("p", "n"): (at, row)})]), "d")
            return Layer("names", 0, str(at - 1), str(at), files)

        layers = (await delta(1, Name("p", "n", "x")), await delta(2, Name("p", "n", "y")), await delta(3, None))
        newer = await merge(layers, list(layers[1:]), shelf)
        assert [layer.rows for layer in newer] == [1, 1], "the tombstone must go on hiding the oldest row"
        assert await seen(newer, shelf) == {}
        everything = await merge(newer, list(newer), shelf)
        assert [layer.rows for layer in everything] == [0]
        assert everything[0].files == ()

    asyncio.run(main())


def test_expired_facts_fall_in_any_merge() -> None:
    async def main() -> None:
        events = [completed(f"m{i}", time=START + i) for i in range(4)]
        replica = await replica_of(ACTIVITY, [segments_of([events])])
        shelf = Shelf()
        data = to_arrow(MATERIALIZATIONS, replica.dirty["materializations"].items())
        layer = Layer("materializations", 0, "0", "9", await shelf.files(MATERIALIZATIONS, data, "d"))
        (merged,) = await merge_layers(MATERIALIZATIONS, [layer], False, START + 3, shelf, shelf)  # type: ignore[arg-type]
        assert merged.rows == 1

    asyncio.run(main())


def test_a_layer_of_which_half_expired_is_written_anew_at_its_level() -> None:
    async def main() -> None:
        events = [completed(f"m{i}", time=START + i * DAY) for i in range(10)]
        replica = await replica_of(ACTIVITY, [segments_of([events])])
        store, runtime = MemoryStore(), FakeRuntime()
        data = to_arrow(MATERIALIZATIONS, replica.dirty["materializations"].items())
        written = await FileWriter(store, Layout(PLACE), "1-a", runtime).files(MATERIALIZATIONS, data, "d")
        whole = Layer("materializations", 2, "0", "9", written)

        def planned(layer: Layer, days: int) -> list[list[Layer]]:
            manifest = with_layers([layer])
            reached = {"materializations": (("5", START + days * DAY),)}
            return plan_merges(msgspec.structs.replace(manifest, retention=reached), 8, ACTIVITY.tables)

        assert planned(whole, 4) == [], "less than half"
        (run,) = planned(whole, 6)
        assert run == [whole]
        writer = FileWriter(store, Layout(PLACE), "2-b", runtime)
        files = await merge_layers(MATERIALIZATIONS, run, True, START + 6 * DAY, LayerReader(store), writer)
        (left,) = adopt([whole], pending_for(run), files)
        assert (left.level, left.rows) == (2, 4)
        assert planned(left, 6) == planned(left, 7) == [], "not before half of what is left has expired"
        assert planned(left, 8) == [[left]]
        nothing_to_read = LayerReader(MemoryStore())
        assert await merge_layers(MATERIALIZATIONS, [left], True, START + 99 * DAY, nothing_to_read, writer) == ()

    asyncio.run(main())


def test_a_tombstone_that_does_not_say_its_age_outlives_retention() -> None:
    """Else the row that it hides would show again."""

    async def main() -> None:
        young, old = (derive_ulid(START + day * DAY, "run") for day in (9, 1))
        row = ActiveRunRow("workspace", "k", young, 0, "RUNNING", None, START)
        other = ActiveRunRow("workspace", "l", old, 0, "RUNNING", None, START)
        shelf = Shelf()
        layers = []
        told: list[Rows] = [{"k": (1, row)}, {"k": (2, None), "l": (2, other)}]
        for at, rows in enumerate(told, 1):
            files = await shelf.files(ACTIVE_RUNS, to_arrow(ACTIVE_RUNS, [("workspace", rows)]), "d")
            layers.append(Layer("active_runs", 0, str(at - 1), str(at), files))
        files = await merge_layers(ACTIVE_RUNS, layers[1:], False, START + 5 * DAY, shelf, shelf)  # type: ignore[arg-type]
        assert sum(file.rows for file in files) == 1, "the tombstone, without the run that expired"
        after = [layers[0], Layer("active_runs", 0, "1", "2", files)]
        assert (await shelf.rows(ACTIVE_RUNS, after)).num_rows == 0

    asyncio.run(main())


def layer(level: int, first: int, table: str = "names") -> Layer:
    return Layer(table, level, str(first), str(first + 1), ())


def test_a_merge_is_planned_once_and_only_of_neighbours_of_one_level() -> None:
    few = [layer(0, 1), layer(0, 2)]
    assert plan_merges(with_layers(few), 3) == []
    apart = [layer(0, 1), layer(1, 2), layer(0, 3), layer(1, 4), layer(0, 5)]
    assert plan_merges(with_layers(apart), 2) == []
    both = [layer(0, 1), layer(0, 2), layer(0, 1, "pins"), layer(0, 2, "pins")]
    runs = plan_merges(with_layers(both), 2)
    assert [run[0].table for run in runs] == ["names", "pins"]
    from msgspec.structs import replace

    busy = replace(with_layers(both), pending=(pending_for(runs[0]),))
    assert [run[0].table for run in plan_merges(busy, 2)] == ["pins"]


def test_a_result_whose_inputs_changed_is_not_adopted() -> None:
    layers = [layer(0, 1), layer(0, 2), layer(0, 3)]
    pending = pending_for(layers[:2])
    assert can_adopt(with_layers(layers), pending)
    assert not can_adopt(with_layers(layers[1:]), pending)
    assert not can_adopt(with_layers([layers[0], layers[2], layers[1]]), pending)
    assert len(inputs_of(with_layers(layers[1:]), pending)) == 1
