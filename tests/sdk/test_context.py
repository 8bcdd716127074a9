"""The context: what a function sees of its task, and that secrets are named and never shown."""

from datetime import UTC, date, datetime

import pytest

from arco import Cancelled, Context, daily, hourly, secret, static
from arco.core import Invalid, NotFound, PartitionKey


class Signals:
    def __init__(self) -> None:
        self.beats = 0
        self.ended = False

    def heartbeat(self) -> None:
        self.beats += 1

    def cancelled(self) -> bool:
        return self.ended


def test_partition_and_window() -> None:
    key = PartitionKey({"date": date(2025, 3, 30), "region": "eu"})
    context = Context(
        partition_key=key, dimensions=(daily("2025-01-01", timezone="Europe/Berlin"), static("region", ["eu"]))
    )
    assert context.partition == {"date": date(2025, 3, 30), "region": "eu"}
    assert context.partition_key == "date=2025-03-30,region=eu"
    assert context.window.start == datetime(2025, 3, 29, 23, tzinfo=UTC)
    assert context.window.end == datetime(2025, 3, 30, 22, tzinfo=UTC)


def test_hours_have_windows_too() -> None:
    key = PartitionKey({"date": datetime(2025, 3, 30, 5, tzinfo=UTC)})
    context = Context(partition_key=key, dimensions=(hourly("2025-01-01"),))
    assert context.window == (datetime(2025, 3, 30, 5, tzinfo=UTC), datetime(2025, 3, 30, 6, tzinfo=UTC))


def test_without_partitions_there_is_no_window() -> None:
    context = Context()
    assert context.partition == {}
    assert context.partition_key == ""
    with pytest.raises(Invalid, match=r"no time partitions.*partitions=daily"):
        _ = context.window


def test_secrets_come_from_the_environment_and_are_not_shown() -> None:
    refs = (secret("token", "SALES_TOKEN"), secret("OTHER"))
    context = Context(secrets=refs, environ={"SALES_TOKEN": "hunter2"})
    assert context.secrets["token"] == "hunter2"
    assert sorted(context.secrets) == ["OTHER", "token"]
    assert "hunter2" not in repr(context.secrets) + str(context.secrets) + repr(context)
    with pytest.raises(NotFound, match="OTHER is missing; set the environment variable OTHER"):
        _ = context.secrets["OTHER"]
    with pytest.raises(Invalid, match="has not declared the secret 'SALES_TOKEN'"):
        _ = context.secrets["SALES_TOKEN"]


def test_signs_of_life_and_the_end() -> None:
    signals = Signals()
    context = Context(run_id="r", task_key="t", attempt=3, signals=signals, materialization_ids={"a.b": "m"})
    assert (context.run_id, context.task_key, context.attempt) == ("r", "t", 3)
    assert context.materialization_ids == {"a.b": "m"}
    context.heartbeat()
    assert signals.beats == 1
    context.check_cancelled()
    assert not context.cancelled
    signals.ended = True
    assert context.cancelled
    with pytest.raises(Cancelled):
        context.check_cancelled()
    assert not issubclass(Cancelled, Exception)


def test_of_several_assets_the_previous_version_is_asked_for_by_name() -> None:
    versions = {"n.a": "the frame of a", "n.b": None}
    context = Context(materialization_ids={"n.a": "m1", "n.b": "m2"}, previous=versions.__getitem__)
    assert context.previous_of("n.a") == "the frame of a"
    assert context.previous_of("n.b") is None
    with pytest.raises(Invalid, match=r"makes n\.a, n\.b; name one: context\.previous_of\("):
        _ = context.previous
    with pytest.raises(Invalid, match=r"'n\.c' is no asset on Spark that this function makes"):
        context.previous_of("n.c")
    assert Context(materialization_ids={"n.a": "m1"}, previous=versions.__getitem__).previous == "the frame of a"


def test_only_on_spark_there_is_a_previous_version() -> None:
    context = Context(materialization_ids={"n.a": "m1"})
    with pytest.raises(Invalid, match=r"only assets on Spark.*engine='spark'"):
        _ = context.previous
    with pytest.raises(Invalid, match=r"'n\.a' is no asset on Spark"):
        context.previous_of("n.a")


def test_a_context_for_tests_needs_nothing() -> None:
    context = Context()
    context.heartbeat()
    context.check_cancelled()
    context.log.debug("nobody listens")
