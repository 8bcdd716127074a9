"""What an erasure makes of one event, whatever the event says."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.backup._redact import Selection, redact, replace_texts
from arco.core import Refused
from arco.domains.execution import SchemaRecorded, WrittenColumn
from arco.domains.orchestration import TASK_FINISHED, Outcome, TaskFinished
from arco.log import EventRegistry, EventType, position_of

MARK = "jane"
WORD = "erased_12345678"
POSITION = position_of(3, 1)


class Anything(msgspec.Struct, frozen=True):
    """A payload that is what it is."""

    value: Any = None


class Outputs(msgspec.Struct, frozen=True):
    run_id: str
    outputs: tuple[dict[str, Any], ...] = ()
    lineage: dict[str, Any] | None = None


REGISTRY = EventRegistry([EventType("Anything", Anything), EventType("Outputs", Outputs)])

texts = st.text(max_size=6) | st.sampled_from([MARK, f"by {MARK}", f'"{MARK}\\', f"é{MARK}"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 60), 1 << 60) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def event_of(kind: str, data: Any, **more: Any) -> bytes:
    fields = {"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "time": "2026-01-01T00:00:00.000000Z", "operation": "op"}
    return msgspec.json.encode({**fields, "type": kind, "source": "arco", "actor": "ann", "data": data, **more})


def after(event: bytes, selection: Selection, words: dict[str, str] | None = None) -> Any:
    found = redact(event, POSITION, "activity", selection, words or {}, REGISTRY, "why")
    return msgspec.json.decode(event if found is None else found.data)


@given(values, texts, texts)
def test_a_text_is_gone_and_nothing_else_changes(value: Any, actor: str, subject: str) -> None:
    event = event_of("Anything", {"value": value}, actor=actor, subject=subject)
    changed = after(event, Selection(texts=(MARK,)), {MARK: WORD})
    assert MARK not in repr(changed)
    assert replace_texts(changed, {WORD: MARK}) == replace_texts(msgspec.json.decode(event), {WORD: MARK})
    assert after(msgspec.json.encode(changed), Selection(texts=(MARK,)), {MARK: WORD}) == changed


@given(values)
def test_an_escape_hides_nothing(value: Any) -> None:
    hidden = event_of("Anything", {"value": value}).replace(MARK.encode(), b"\\u006aane")
    assert MARK not in repr(after(hidden, Selection(texts=(MARK,)), {MARK: WORD}))


@given(values)
def test_an_event_that_goes_leaves_nothing_of_its_payload(value: Any) -> None:
    more = {"subject": MARK, "actor": MARK, "key": "k", "keyhash": "h", "correlation": "c", "traceparent": "t"}
    event = event_of("Anything", {"value": value}, span=2, blobs=["b"], command="Do", **more)
    selection = Selection(positions={"activity": ((POSITION, POSITION),)})
    assert after(event, selection) == {
        "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "time": "2026-01-01T00:00:00.000000Z",
        "operation": "op",
        "span": 2,
        "type": "EventErased",
        "source": "arco",
        "actor": "erased",
        "data": {"type": "Anything", "reason": "why"},
    }
    assert after(event, Selection(positions={"catalog": ((POSITION, POSITION),)})) == msgspec.json.decode(event)


@given(st.lists(st.sampled_from(["A", "B", "C"]), max_size=5), st.sampled_from(["A", "B", "R"]))
def test_of_an_event_that_tells_of_several_things_a_part_goes(assets: list[str], gone: str) -> None:
    outputs = [{"asset_id": asset, "row_count": 1} for asset in assets]
    edges = [{"source_id": "X", "target_id": asset} for asset in assets]
    event = event_of(
        "Outputs", {"run_id": "R", "outputs": outputs, "lineage": {"edges": edges}, "plan": {"a_id": gone}}
    )
    changed = after(event, Selection(ids=(gone,)))
    if gone == "R":
        assert changed["type"] == "EventErased", "the event is about the run itself"
        return
    left = [asset for asset in assets if asset != gone]
    assert [one["asset_id"] for one in changed["data"]["outputs"]] == left
    if assets and not left:
        assert "lineage" not in changed["data"], "lineage without an edge is none"
    else:
        assert [one["target_id"] for one in changed["data"]["lineage"]["edges"]] == left
    assert changed["data"]["plan"] == {"a_id": gone}, "plans stay"


@pytest.mark.parametrize(
    ("gone", "left"), [("M", [("A", "erased"), ("B", "N")]), ("A", [("B", "N")]), ("S", [("A", "M"), ("B", "N")])]
)
def test_columns_of_an_asset_stay_when_the_version_goes_with_which_they_were_told(
    gone: str, left: list[tuple[str, str]]
) -> None:
    columns = (WrittenColumn("id", "long"),)
    schemas = (SchemaRecorded("A", "n.a", "h", "M", columns), SchemaRecorded("B", "n.b", "h", "N", columns))
    end = TaskFinished("R", "n.a", 1, "T", Outcome.SUCCEEDED, 0, 1, schemas=schemas)
    event = event_of("TaskFinished", end, version=TASK_FINISHED.version)
    registry = EventRegistry([TASK_FINISHED])
    found = redact(event, POSITION, "activity", Selection(ids=(gone,)), {}, registry, "why")
    data = msgspec.json.decode(event if found is None else found.data)["data"]
    changed = registry.decode("TaskFinished", TASK_FINISHED.version, msgspec.json.encode(data))
    assert isinstance(changed, TaskFinished)
    assert [(one.asset_id, one.materialization_id) for one in changed.schemas] == left
    assert {one.columns for one in changed.schemas} == {columns}


@pytest.mark.parametrize("place", [f"data/a/{MARK}/f.parquet", f"s3://bucket/{MARK}/metadata/1.json"])
def test_a_place_is_not_renamed(place: str) -> None:
    with pytest.raises(Refused, match="cannot be renamed"):
        after(event_of("Anything", {"value": place}), Selection(texts=(MARK,)), {MARK: WORD})
    described = f"see https://wiki/{MARK} or s3://bucket/{MARK} there"
    assert MARK not in repr(after(event_of("Anything", {"value": described}), Selection(texts=(MARK,)), {MARK: WORD}))
