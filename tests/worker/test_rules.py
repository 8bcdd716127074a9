"""Rules on Python assets: DuckDB finds what the contract says."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco import not_null, references, row_count, sql_check, unique
from arco.assets import (
    AssetDefinition,
    CheckDefinition,
    Facts,
    GatingAction,
    GatingPolicy,
    Samples,
    Values,
    measures_of,
)
from arco.domains.execution import ColumnStats
from arco.domains.orchestration import FinishTask, Outcome
from arco.sdk._values import columns_of
from arco.worker._measuring import Table, measured, sample_path, told_by_footers
from arco.worker._messages import OutputPlace, WrittenFile, WrittenStats
from arco.worker._schemas import seen_columns
from tests.assets.rules import CASES, VIEWS, Case, RulesContract
from tests.worker.plane import World, definition, input_of, reads

PLACE = OutputPlace("A", "shop.orders", "part_1", "", "M", "data/A/part_1/M/")


class TestDuckdb(RulesContract):
    def values(
        self, checks: Sequence[CheckDefinition], table: pa.Table, inputs: Mapping[str, pa.Table]
    ) -> tuple[Values, Facts]:
        asset = AssetDefinition("shop.orders", checks=tuple(checks))
        seen = Table(table.column_names, lambda: table)
        found = measured(asset, PLACE, seen, VIEWS, inputs.__getitem__, lambda path, data: None)
        return found.values, Facts(seen_columns(table.schema.serialize().to_pybytes()))

    def samples(self, query: Samples, table: pa.Table, inputs: Mapping[str, pa.Table]) -> pa.Table:
        with duckdb.connect() as connection:
            for name, relation in {"data": table, **inputs}.items():
                connection.register(name, relation)
            return connection.sql(query.duckdb).to_arrow_table()

    @pytest.mark.parametrize("case", CASES, ids=[f"{place}-{case.check.name}" for place, case in enumerate(CASES)])
    def test_a_rule_alone_finds_the_same(self, case: Case) -> None:
        (verdict,) = self.verdicts([case.check], case.table, case.facts)
        assert self.faults(case, verdict) == []


class TestStream(TestDuckdb):
    """A stream can be read once, and is opened again for every query."""

    def values(
        self, checks: Sequence[CheckDefinition], table: pa.Table, inputs: Mapping[str, pa.Table]
    ) -> tuple[Values, Facts]:
        asset = AssetDefinition("shop.orders", checks=tuple(checks))
        seen = Table(table.column_names, table.to_reader)
        found = measured(asset, PLACE, seen, VIEWS, inputs.__getitem__, lambda path, data: None)
        return found.values, Facts(seen_columns(table.schema.serialize().to_pybytes()))


def test_footers_answer_counts_of_all_rows_and_of_nulls_as_far_as_they_tell() -> None:
    checks = (row_count(min=1, where="id > 1"), row_count(min=1, name="all"), not_null("id"), not_null("pair"))
    count, nulls = (measure.name for measure in measures_of(checks[2]))
    files = [WrittenFile("a", 1, 3, (WrittenStats("id", 2),)), WrittenFile("b", 1, 2, (WrittenStats("id", 1),))]
    assert told_by_footers(checks, files) == {count: 5, nulls: 3}
    assert told_by_footers(checks[:3], [*files, WrittenFile("c", 1, 4)]) == {count: 9}
    assert told_by_footers(checks[:3], [WrittenFile("d", 1, 0)]) == {count: 0, nulls: 0}
    assert told_by_footers(checks[:1], files) == {}


# Through a worker

SOURCE = """
    import pyarrow as pa
    from arco import between, not_null, references, row_count, sql_check, unique
    @asset(namespace="n")
    def customers(): return [{"id": 1, "email": "x@y.z"}, {"id": 2, "email": None}]
    @asset(namespace="n")
    def orders(customers):
        return [{"id": 1, "customer": 1, "email": "secret@x.de"}, {"id": 1, "customer": 9, "email": None}]
    @asset(namespace="n")
    def stream():
        table = pa.table({"id": [1, 1, 2]})
        return table.to_reader()
    @asset(namespace="n")
    def nothing(): return []
    @asset(namespace="n")
    def number(): return 5
"""
LEVELS = (
    row_count(min=1),
    unique("id", severity="critical", samples=5),
    not_null("email", warn=0, error=1, samples=5),
    references("customer", "n.customers", "id", samples=5),
    sql_check("odd", "SELECT * FROM data WHERE id = 1", warn=5, samples=5),
    not_null("emial"),
)
WARN = GatingPolicy("mine", {}, GatingAction.WARN)


def run_orders(world: World, *checks: CheckDefinition, pii: tuple[str, ...] = (), **fields: Any) -> FinishTask:
    made = world.run_one(world.envelope("customers"))
    orders = definition(
        "orders", dependencies=(reads("customers", "n.customers"),), checks=checks, gating=WARN, **fields
    )
    envelope = world.envelope(definitions=(orders,), inputs=(input_of(world, "customers", made),))
    places = tuple(msgspec.structs.replace(place, pii=pii) for place in envelope.outputs)
    return world.run_one(msgspec.structs.replace(envelope, outputs=places))


def samples_of(world: World, result: FinishTask, name: str) -> pa.Table | None:
    found = list((world.folder / "store").rglob(f"{result.outputs[0].materialization_id}/{sample_path(name)}"))
    return pq.read_table(found[0]) if found else None


def test_rules_become_results_with_the_severity_of_their_level(tmp_path: Path) -> None:
    result = run_orders(World(tmp_path, SOURCE), *LEVELS)
    found = {check.check_name: (check.check_type, check.passed, check.severity.value) for check in result.checks}
    assert found == {
        "row_count": ("row_count", True, "error"),
        "unique(id)": ("unique", False, "critical"),
        "not_null(email)": ("not_null", False, "warning"),
        "references(customer)": ("references", False, "error"),
        "odd": ("sql_check", True, "error"),
        "not_null(emial)": ("not_null", False, "error"),
    }
    typo = next(check for check in result.checks if check.check_name == "not_null(emial)")
    assert typo.message == "no result: the column emial is not there; did you mean email?"
    assert typo.gating is not None
    assert (typo.gating.action, result.gate) == (GatingAction.BLOCK_DOWNSTREAM, GatingAction.BLOCK_DOWNSTREAM)
    assert result.outcome is Outcome.SUCCEEDED


def test_two_checks_under_two_names_are_two_levels(tmp_path: Path) -> None:
    result = run_orders(World(tmp_path, SOURCE), row_count(1), row_count(9, severity="warning", name="few_rows"))
    found = {check.check_name: (check.passed, check.severity.value) for check in result.checks}
    assert found == {"row_count": (True, "error"), "few_rows": (False, "warning")}
    assert result.gate is GatingAction.WARN


def test_the_log_says_what_checks_find_unless_nothing_is_to_be_done(tmp_path: Path) -> None:
    actions = {"warning": GatingAction.WARN, "info": GatingAction.CONTINUE}
    gating = GatingPolicy("mine", actions, GatingAction.BLOCK_DOWNSTREAM)
    checks = (
        row_count(min=9, severity="info", name="few"),
        row_count(min=5, severity="warning"),
        not_null("id"),
        unique("id"),
        not_null("emial", severity="info"),
    )
    rows = "[{'id': 1, 'email': None}, {'id': 1, 'email': None}]"
    world = World(tmp_path, f"@asset(namespace='n')\ndef talks():\n    print('half', end='')\n    return {rows}")
    envelope = world.envelope(definitions=(definition("talks", checks=checks, gating=gating),))
    result = world.run_one(envelope)
    log = world.log_of(envelope)
    assert log.splitlines() == [
        "half",
        "n.talks: the check row_count failed with severity warning (warn): there are 2 rows; expected are at least 5",
        "n.talks: the check unique(id) failed with severity error (block downstream): id repeats what an earlier row "
        "has in 1 of 2 rows (50 %), and no row may be so",
        "n.talks: the check not_null(emial) gave no result (block downstream): no result: the column emial is not "
        "there; did you mean email?",
    ]
    assert result.log is not None
    assert result.log.byte_size == len(log)


def test_samples_are_kept_beside_the_data_and_nowhere_else(tmp_path: Path) -> None:
    world = World(tmp_path, SOURCE)
    result = run_orders(world, *LEVELS)
    kept = samples_of(world, result, "unique(id)")
    assert kept is not None
    assert kept.sort_by("customer").to_pylist() == [
        {"id": 1, "customer": 1, "email": "secret@x.de"},
        {"id": 1, "customer": 9, "email": None},
    ]
    matched = samples_of(world, result, "references(customer)")
    assert matched is not None
    assert matched.column("customer").to_pylist() == [9]
    assert samples_of(world, result, "odd") is not None
    assert samples_of(world, result, "row_count") is None
    assert all("samples/" not in file.path for file in result.outputs[0].files)
    told = msgspec.json.encode(result.checks)
    assert b"secret@x.de" not in told
    assert b"samples in samples/unique(id).parquet" in told


DECLARED = columns_of({"id": "long", "customer": "long", "email": "string pii"})


@pytest.mark.parametrize("fields", [{"schema": DECLARED}, {"pii": ("email",)}, {"pii": ("EMail",)}])
def test_samples_have_no_personal_columns(tmp_path: Path, fields: dict[str, Any]) -> None:
    """The names of columns are compared as engines compare them."""
    world = World(tmp_path, SOURCE)
    result = run_orders(world, *LEVELS[:-1], **fields)
    for name in ("unique(id)", "not_null(email)", "references(customer)"):
        kept = samples_of(world, result, name)
        assert kept is not None
        assert kept.column_names == ["id", "customer"]
    assert samples_of(world, result, "odd") is None
    odd = next(check for check in result.checks if check.check_name == "odd")
    assert "no samples: a query may give personal data any name" in odd.message


@pytest.mark.parametrize("fields", [{"schema": DECLARED}, {"pii": ("EMail",)}])
def test_bounds_of_personal_columns_are_told_to_nobody(tmp_path: Path, fields: dict[str, Any]) -> None:
    result = run_orders(World(tmp_path, SOURCE), **fields)
    (file,) = result.outputs[0].files
    assert file.stats == (ColumnStats("id", 0, "1", "1"), ColumnStats("customer", 0, "1", "9"), ColumnStats("email", 1))
    assert b"secret@x.de" not in msgspec.json.encode(result)


def test_streams_empty_lists_and_values_that_are_no_tables(tmp_path: Path) -> None:
    world = World(tmp_path, SOURCE)
    checks = (row_count(min=1), not_null("id", where="id > 0"), unique("id"))
    envelopes = [
        world.envelope(definitions=(definition(name, checks=checks, gating=WARN),))
        for name in ("stream", "nothing", "number")
    ]
    stream, nothing, number = asyncio.run(world.run(*envelopes))
    assert [check.passed for check in stream.checks] == [True, True, False]
    assert [check.passed for check in nothing.checks] == [False, True, True]
    assert {check.message for check in number.checks} == {
        "no result: the asset returned int and no table; check it with a function"
    }
    assert number.gate is GatingAction.BLOCK_DOWNSTREAM
