"""Prices, loads and the model: sane at every scale, of nothing but what the tests of this version measure."""

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Invalid, Settings
from arco.cost import (
    CLASSES,
    Class,
    Estimate,
    Load,
    Scale,
    bill,
    load_prices,
    model,
    parse_model,
    prices_named,
    profile,
)
from arco.cost._backups import new_files
from arco.cost._replay import FAN_IN, replay
from arco.state import PackSize
from arco.storage import Operation
from tests.cost.profile import measure
from tests.runtime.test_requests import documented

S3 = prices_named(load_prices(), "s3")


def test_requests_of_operations_are_those_of_the_documentation() -> None:
    assert profile().requests == documented(), "run `make schemas`"


def test_tables_and_bytes_are_those_of_this_version() -> None:
    found, known = measure(), profile()
    for kind, one in found["kinds"].items():
        assert known.kinds[kind].tables == one["tables"], "run `make schemas`"
        for name in ("segment_bytes", "delta_bytes"):
            assert getattr(known.kinds[kind], name) == pytest.approx(one[name], rel=0.2)
    for name in (
        "fact_bytes",
        "index_bytes",
        "manifest_bytes",
        "layer_bytes",
        "entry_bytes",
        "file_bytes",
        "row_bytes",
    ):
        assert getattr(known, name) == pytest.approx(found[name], rel=0.25)
    assert known.backup == found["backup"], "run `make schemas`"
    assert known.prune == found["prune"]


def test_every_operation_has_a_class() -> None:
    assert set(CLASSES) == set(Operation)
    assert CLASSES[Operation.SIGN] is None


def test_every_table_of_prices_has_region_month_and_source() -> None:
    tables = load_prices()
    assert [table.name for table in tables] == ["s3", "gcs", "azure", "r2"]
    for table in tables:
        assert table.region
        assert table.source.startswith("https://")
        assert len(table.as_of) == 7
        assert table.read < table.write


def test_prices_that_nobody_looked_up_say_so() -> None:
    told = {table.name: table.dated for table in load_prices()}
    assert {name for name, text in told.items() if "not compared with https://" in text} == {"s3", "azure"}
    assert told["gcs"] == "2026-11"


def test_prices_are_for_a_thousand_requests_and_a_gigabyte() -> None:
    assert S3.of(Class.WRITE, 1_000_000) == pytest.approx(5.0)
    assert S3.of(Class.READ, 1_000_000) == pytest.approx(0.4)
    assert S3.storage(100 * 2**30) == pytest.approx(2.3)
    whole = bill({"x": {Operation.CREATE: 1000, Operation.SIGN: 5, Operation.DELETE: 9}}, {"data": 2**30}, S3, times=2)
    assert [line.what for line in whole.lines] == ["x: create", "x: delete", "stored: data"]
    assert whole.dollars_a_day == pytest.approx(0.01 + 2 * 0.023 / 30.4375)


def test_prices_can_be_given_anew(tmp_path: Path) -> None:
    assert prices_named(load_prices(), "gcs", {"write": 1.0}).write == 1.0
    own = {**{name: getattr(S3, name) for name in S3.__struct_fields__}, "name": "mine", "write": 2.0}
    file = tmp_path / "prices.json"
    file.write_text(json.dumps([own]))
    assert prices_named(load_prices(file), "mine").write == 2.0
    assert prices_named(load_prices(file), "azure").name == "azure"


@pytest.mark.parametrize("text", ["", "{}", "[{}]", '[{"name": "x"}]', "\xff"])
def test_a_file_that_holds_no_prices_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(text)
    with pytest.raises(Invalid, match="price tables"):
        load_prices(file)


def test_prices_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot read"):
        load_prices(tmp_path / "none")
    with pytest.raises(Invalid, match="s3, gcs, azure, r2"):
        prices_named(load_prices(), "ibm")
    with pytest.raises(Invalid, match="gb_month"):
        prices_named(load_prices(), "s3", {"writes": 1.0})
    for value in (-1.0, math.nan, math.inf):
        with pytest.raises(Invalid):
            prices_named(load_prices(), "s3", {"write": value})


@given(
    mix=st.dictionaries(st.sampled_from("abc"), st.floats(0.1, 100), min_size=1),
    tables=st.integers(1, 6),
    length=st.integers(1, 400),
)
def test_layers_of_a_table_stay_few_and_each_row_is_written_once_a_level(
    mix: dict[str, float], tables: int, length: int
) -> None:
    found = replay(mix, {kind: {f"t{n}": 1.0 for n in range(tables)} for kind in mix}, length)
    levels = math.log(max(length, 2), FAN_IN) + 1
    assert found.layers <= tables * (FAN_IN - 1) * (levels + 1)
    assert found.merges <= tables / (FAN_IN - 1)
    assert found.adoptions <= found.merges


def test_at_rest_it_costs_what_is_stored_and_nothing_else() -> None:
    nothing = Load(runs=0, posts=0, changes=0, reads=0)
    closed = model(nothing, Scale(open_hours=0, collections=0))
    assert closed.total.total() == 0
    idle = model(nothing, Scale(collections=0))
    assert {op.value: round(number) for op, number in idle.total.items() if number} == {"get": 48, "head": 48}


@settings(max_examples=30)  # each replays the merges of months
@given(
    tenants=st.sampled_from([1, 10, 10_000]),
    events=st.floats(0, 1e9),
    days=st.sampled_from([1, 30, 365]),
)
def test_the_model_holds_at_every_scale(tenants: int, events: float, days: int) -> None:
    load, scale = parse_model([f"tenants={tenants}", f"events_per_day={events}", f"days={days}"])
    assert load.events == pytest.approx(events / tenants, abs=1e-6)
    found = model(load, scale)
    assert all(number >= 0 and math.isfinite(number) for number in found.total.values())
    assert all(one.objects >= 0 and math.isfinite(one.bytes) for one in found.stored.values())
    assert found.segments <= 2 * 86_400 / scale.put_seconds
    assert found.publishes <= 2 * 4 * 86_400
    assert found.publishes <= found.segments + 1e-6


def test_cost_follows_activity_and_many_events_share_requests() -> None:
    def dollars(**given: float) -> float:
        load, scale = parse_model([f"{name}={value}" for name, value in given.items()])
        return bill(model(load, scale).requests, {}, S3, scale.workspaces).dollars_a_month

    assert dollars(tenants=100) == pytest.approx(100 * dollars(tenants=1))
    small, large = dollars(events_per_day=1e6), dollars(events_per_day=1e9)
    assert large < 300 * small, "group commit and the pace of publishing"


def packed(**given: float) -> tuple[float, Estimate]:
    """What packing costs a day beside the creates of what is packed, as a share; and the estimate."""
    load, scale = parse_model([f"{name}={value}" for name, value in given.items()])
    found = model(load, scale)
    lines = {purpose: bill({purpose: counts}, {}, S3).dollars_a_day for purpose, counts in found.requests.items()}
    return lines["pack"] / lines["append"], found


ONLY_POSTS = {"runs": 0, "changes": 0, "put_seconds": 0.01}


def test_packing_costs_what_adr_0034_says() -> None:
    share, _ = packed(posts=8.64e6, facts=1, **ONLY_POSTS)
    assert share == pytest.approx(0.08, abs=0.002), "at 100 segments a second"


def test_small_packs_cost_more_and_large_segments_fill_them_sooner() -> None:
    usual, few = packed(posts=1e6, facts=1, **ONLY_POSTS)
    assert packed(posts=1e6, facts=1, pack_segments=64, **ONLY_POSTS)[0] > 1.2 * usual
    _, large = packed(posts=1e6, facts=1000, **ONLY_POSTS)
    assert large.stored["packs"].objects > few.stored["packs"].objects
    share, smaller = packed(posts=1e6, facts=1000, pack_mib=1, **ONLY_POSTS)
    assert smaller.stored["packs"].objects > 30 * large.stored["packs"].objects
    assert share > usual


def test_nothing_is_packed_before_enough_has_gathered_and_nothing_deleted_without_collections() -> None:
    _, young = packed(posts=5119, days=1, **ONLY_POSTS)
    assert young.stored["packs"].objects == young.requests["pack"][Operation.GET] == 0
    _, due = packed(posts=5120, days=1, **ONLY_POSTS)
    assert due.stored["packs"].objects == 1
    assert due.requests["pack"][Operation.GET] > 4096
    assert due.stored["ledger"].objects < 5120
    _, kept = packed(posts=5120, days=1, collections=0, **ONLY_POSTS)
    assert kept.stored["ledger"].objects == 5120
    assert kept.requests["collect"][Operation.DELETE] == 0


def test_backups_cost_something_where_something_changes() -> None:
    def asked(load: Load, backups: float, **given: float) -> Counter[Operation]:
        return Counter(model(load, Scale(backups=backups, **given)).requests["backup"])

    assert asked(Load(), 0).total() == asked(Load(runs=0, posts=0, changes=0), 4).total() == 0
    one, four = asked(Load(), 1), asked(Load(), 4)
    assert one[Operation.GET] > model(Load(), Scale()).segments, "each segment is read once"
    assert one[Operation.CREATE] < four[Operation.CREATE] < 4 * one[Operation.CREATE], "what lasts is copied once"
    assert asked(Load(), 4, backup_days=7)[Operation.GET] < four[Operation.GET], "pruning reads those that are kept"


@given(publishes=st.floats(0.01, 1e6))
def test_new_files_are_some_of_those_a_revision_names(publishes: float) -> None:
    layers = replay({"x": 1.0}, {"x": {f"t{n}": 1.0 for n in range(3)}}, 512)
    found = new_files(layers, publishes)
    assert 0 < found <= sum(layers.held.values()) + 1e-9
    assert found <= publishes * sum(layers.made.values())
    assert new_files(layers, 2 * publishes) >= found - 1e-9


def test_packs_are_those_of_the_settings() -> None:
    assert (Scale().pack_segments, Scale().pack_mib, Scale().pack_keep) == (
        Settings().pack_segments,
        Settings().pack_mib,
        Settings().pack_keep,
    )


def test_only_the_log_and_rows_grow_after_a_month() -> None:
    load = Load()
    month, year = (model(load, Scale(days=days)) for days in (31, 365))
    logged = [sum(found.stored[name].bytes for name in ("ledger", "packs")) for found in (month, year)]
    assert logged[1] == pytest.approx(logged[0] * 365 / 31, rel=0.05)
    assert year.stored["ledger"].objects < 2 * (PackSize().keep + PackSize().segments) + year.segments
    assert year.stored["manifests"].objects < 1.2 * month.stored["manifests"].objects
    assert year.total[Operation.CREATE] < 1.1 * month.total[Operation.CREATE]
    assert replace(load, runs=0).events < load.events


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (["tenants"], "name=number"),
        (["tenants=many"], "name=number"),
        (["tenant=1"], "the model has no tenant"),
        (["tenants=1", "workspaces=2"], "one of the two"),
        (["tenants=0"], "more than 0"),
        (["posts=1", "events_per_day=5"], "one of the two"),
        (["runs=100", "events_per_day=5"], "more than 5"),
        (["runs=-1"], "0 or more"),
        (["runs=nan"], "0 or more"),
        (["pack_segments=0"], "1 or more"),
        (["pack_mib=0.5"], "1 or more"),
    ],
)
def test_what_the_model_does_not_understand_is_refused(values: list[str], says: str) -> None:
    with pytest.raises(Invalid, match=says):
        parse_model(values)
