"""How kinds combine along a path and over several paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.spark._traces import EMPTY, Certainty, Kind, Ledger, Source, Trace, kinds_of

KINDS = st.sampled_from(list(Kind))
PATHS = st.lists(KINDS, max_size=6)
STRENGTH = [Kind.IDENTITY, Kind.TRANSFORMATION, Kind.AGGREGATION]


def along(ledger: Ledger, path: list[Kind], column: str = "a") -> Trace:
    trace = ledger.source(Source("x", column))
    for kind in path:
        trace = ledger.after(trace, kind)
    return trace


def kinds(ledger: Ledger, trace: Trace) -> dict[str, tuple[Kind, ...]]:
    return {ledger.sources[number].column: kinds_of(mask) for number, mask in trace.masks.items()}


@given(PATHS)
def test_along_a_path_the_nearest_indirect_kind_wins_else_the_strongest_direct_one(path: list[Kind]) -> None:
    ledger = Ledger()
    indirect = [kind for kind in path if not kind.direct]
    wanted = indirect[-1] if indirect else max(path, key=STRENGTH.index, default=Kind.IDENTITY)
    assert kinds(ledger, along(ledger, path)) == {"a": (wanted,)}


@given(st.lists(PATHS, min_size=1, max_size=5))
def test_over_several_paths_all_indirect_kinds_count_and_the_strongest_direct_one(paths: list[list[Kind]]) -> None:
    ledger = Ledger()
    (found,) = kinds(ledger, ledger.merged([along(ledger, path) for path in paths])).values()
    each = [kinds(ledger, along(ledger, path))["a"][0] for path in paths]
    direct = sorted((kind for kind in each if kind.direct), key=STRENGTH.index)[-1:]
    assert set(found) == {*direct, *(kind for kind in each if not kind.direct)}
    assert [kind.direct for kind in found] == sorted((kind.direct for kind in found), reverse=True)


@given(st.lists(st.tuples(PATHS, st.sampled_from("abc")), max_size=5), KINDS)
def test_a_step_over_a_merge_is_the_merge_of_the_steps(made: list[tuple[list[Kind], str]], kind: Kind) -> None:
    ledger = Ledger()
    traces = [along(ledger, path, column) for path, column in made]
    before = kinds(ledger, ledger.after(ledger.merged(traces), kind))
    assert before == kinds(ledger, ledger.merged([ledger.after(trace, kind) for trace in traces]))


@given(PATHS, PATHS)
def test_a_shared_value_is_bound_by_the_kinds_it_was_used_with(inside: list[Kind], outside: list[Kind]) -> None:
    ledger = Ledger()
    value = along(ledger, inside)
    used = ledger.common()
    for kind in outside:
        used = ledger.after(used, kind)
    assert kinds(ledger, ledger.bound(used, value)) == kinds(ledger, along(ledger, [*inside, *outside]))


@given(st.lists(st.tuples(PATHS, PATHS, KINDS), min_size=1, max_size=4))
def test_a_field_of_one_of_several_structs_is_one_of_the_fields_there(
    made: list[tuple[list[Kind], list[Kind], Kind]],
) -> None:
    """And what is no struct, or only decides, counts for each of them."""
    ledger = Ledger()
    structs, steps = [], [kind for _, _, kind in made]
    for left, right, _ in made:
        fields = [
            ledger.after(along(ledger, path, name), Kind.TRANSFORMATION) for path, name in ((left, "a"), (right, "b"))
        ]
        whole = ledger.merged(fields)
        structs.append(Trace(whole.masks, whole.doubts, tuple(fields)))
    other = along(ledger, [], "c")
    found = ledger.alike([*structs, other], [*steps, Kind.IDENTITY])
    assert kinds(ledger, found) == kinds(ledger, ledger.merged([*map(ledger.after, structs, steps), other]))
    if not any(kind.direct for kind in steps):
        assert found.fields is None
        return
    assert found.fields is not None
    for place, field in enumerate(found.fields):
        parts = [
            ledger.after(struct.fields[place] if step.direct and struct.fields else struct, step)
            for struct, step in zip(structs, steps, strict=True)
        ]
        assert kinds(ledger, field) == kinds(ledger, ledger.merged([*parts, ledger.after(other, Kind.TRANSFORMATION)]))


def test_doubts_stay_whatever_is_made_of_a_value() -> None:
    ledger = Ledger()
    field = along(ledger, [])
    struct = ledger.doubted(Trace(field.masks, fields=(field,)), Certainty.UNKNOWN, "why")
    assert struct.fields is not None
    assert [doubt.reason for doubt in struct.fields[0].doubts] == ["why"]
    doubted = ledger.doubted(along(ledger, []), Certainty.APPROXIMATE, "why")
    made = ledger.merged([ledger.after(doubted, Kind.AGGREGATION), along(ledger, [], "b")])
    assert [doubt.reason for doubt in made.doubts] == ["why"]
    assert not EMPTY


@pytest.mark.parametrize("steps", [0, 3])
def test_what_is_too_much_is_said_and_leaves_the_rest_as_it_is(steps: int) -> None:
    ledger = Ledger(max_steps=steps)
    one = ledger.source(Source("x", "a"))
    wide = ledger.merged([ledger.source(Source("x", name)) for name in "abcd"])
    assert not wide.masks
    assert {doubt.certainty for doubt in wide.doubts} == {Certainty.UNKNOWN}
    assert ledger.merged([one]).masks == one.masks
