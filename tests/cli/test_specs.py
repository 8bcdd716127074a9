"""What people write for a column, a pair or a duration is understood, or refused with the reason."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.cli._specs import parse_column, parse_columns, parse_duration, parse_expiry, parse_pairs, parse_retype
from arco.core import Invalid, format_time
from arco.wire import ColumnSpec

NOW = 1_794_700_000_000_000

plain_names = st.text(string.ascii_letters + string.digits + "_- ä", min_size=1).map(str.strip).filter(bool)
any_names = st.text(st.characters(exclude_characters='"', exclude_categories=("Cc", "Cs")), min_size=1)
types = st.recursive(
    st.sampled_from(["int", "bigint", "string", "decimal(10,2)", "decimal(38, 0)", "fixed(16)", "timestamp"]),
    lambda inner: st.one_of(
        inner.map("list<{}>".format),
        st.tuples(inner, inner).map(lambda pair: f"map<{pair[0]},{pair[1]}>"),
        st.lists(st.tuples(st.sampled_from("abc"), inner), min_size=1, max_size=3).map(
            lambda fields: f"struct<{','.join(f'{name}:{kind}' for name, kind in fields)}>"
        ),
    ),
    max_leaves=6,
)
suffixes = st.sampled_from(["", ":notnull", ":nullable", ":NOTNULL"])


@given(plain_names, types, suffixes)
def test_a_column_reads_back_as_it_was_written(name: str, kind: str, suffix: str) -> None:
    nullable = suffix.lower() != ":notnull"
    assert parse_column(f"{name}:{kind}{suffix}") == ColumnSpec(name=name, type=kind, nullable=nullable)


@given(any_names, types, suffixes)
def test_a_name_in_quotes_may_hold_anything(name: str, kind: str, suffix: str) -> None:
    found = parse_column(f'"{name}":{kind}{suffix}')
    assert (found.name, found.type) == (name, kind)


@given(st.text())
def test_any_other_text_is_refused_and_never_breaks(text: str) -> None:
    found: ColumnSpec | str
    try:
        found = parse_column(text)
    except Invalid as error:
        found = error.message
    if isinstance(found, str):
        assert "write it as name:type" in found
        assert len(found) < 500
    else:
        assert found.name
        assert found.type


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("id", "'id' is not a column: it has no type"),
        ("id:", "it has no type"),
        ("id: ", "it has no type"),
        ("id::notnull", "it has no type"),
        (":int", "it has no name"),
        ("", "it has no name"),
        ('"":int', "it has no name"),
        ("id:int:notnul", "did you mean :notnull?"),
        ("id:int:required", "only :notnull and :nullable may follow the type"),
        ("id:int:notnull:notnull", "follows its type"),
        ("id:decimal(10,2", "a ')' is missing"),
        ("id:map<string,int", "a '>' is missing"),
        ("id:int>", "a '>' closes nothing"),
        ("id:map<decimal(1>,2)", "a '>' closes nothing"),
        ('"id:int', "its quotes do not end before the colon"),
        ('"id"x:int', "its quotes do not end before the colon"),
    ],
)
def test_what_is_wrong_with_a_column_is_said(text: str, why: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_column(text)
    assert why in refusal.value.message


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(Invalid, match="the column 'a' is given twice"):
        parse_columns(["a:int", "b:int", "a:string"])


def test_a_new_type_cannot_ask_for_not_null() -> None:
    assert parse_retype("a:decimal(10,2)") == ("a", "decimal(10,2)")
    with pytest.raises(Invalid, match="asks for not null"):
        parse_retype("a:int:notnull")


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1), ("90m", 5400), ("2h", 7200), ("30d", 2_592_000), (" 5m ", 300)]
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "1.5h", "5 m", "5w", "9" * 12 + "d", "\u0665m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not a duration"):
        parse_duration(text)


def test_zero_is_a_duration_but_too_short() -> None:
    with pytest.raises(Invalid, match="'0s' is too short; write 1s at the least"):
        parse_duration("0s")
    assert parse_duration("0h", may_be_zero=True) == 0


def test_an_end_is_a_time_or_a_duration_from_now() -> None:
    assert parse_expiry("1d", NOW) == format_time(NOW + 86_400_000_000)
    assert parse_expiry("2027-01-01T01:00:00+01:00", NOW) == "2027-01-01T00:00:00.000000Z"
    for text in ("tomorrow", "", "30x", "2027-01-01"):
        with pytest.raises(Invalid):
            parse_expiry(text, NOW)


def test_pairs() -> None:
    assert parse_pairs("--tag", ["a=b", "c=d=e", "f="]) == {"a": "b", "c": "d=e", "f": ""}
    assert parse_pairs("--tag", None) == {}
    for wrong, why in ((["a"], "takes NAME=VALUE"), (["=b"], "takes NAME=VALUE"), (["a=1", "a=2"], "twice")):
        with pytest.raises(Invalid, match=f"--tag .*{why}"):
            parse_pairs("--tag", wrong)
