"""Rules on Python assets: DuckDB finds what the contract says."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from arco.assets import AssetDefinition, CheckDefinition, Facts, Values
from arco.worker._measuring import Table, measured
from arco.worker._messages import OutputPlace
from arco.worker._schemas import seen_columns
from tests.assets.rules import CASES, VIEWS, Case, RulesContract

PLACE = OutputPlace("A", "shop.orders", "part_1", "", "M", "data/A/part_1/M/")


class TestDuckdb(RulesContract):
    def values(
        self, checks: Sequence[CheckDefinition], table: pa.Table, inputs: Mapping[str, pa.Table]
    ) -> tuple[Values, Facts]:
        asset = AssetDefinition("shop.orders", checks=tuple(checks))
        seen = Table(table.column_names, lambda: table)
        found = measured(asset, PLACE, seen, VIEWS, inputs.__getitem__, lambda path, data: None)
        return found.values, Facts(seen_columns(table.schema.serialize().to_pybytes()))

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
