"""Column types: one text for each, in the words of every engine, and a clear refusal of everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Invalid, TooLarge
from arco.domains.catalog import parse_type, widens
from arco.domains.catalog.types import MAX_TYPE_DEPTH, MAX_TYPE_LENGTH

PLAIN = ["boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid"]
PLAIN += ["binary"]


@pytest.mark.parametrize(
    "text", [*PLAIN, "decimal(38,38)", "fixed(1)", "list<int>", "map<string,long>", "struct<a:int>"]
)
def test_a_canonical_type_stays_as_it_is(text: str) -> None:
    assert parse_type(text) == text
    assert parse_type(text.upper()) in (text, "struct<A:int>")
    assert parse_type(f"  {text} ") == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("bool", "boolean"),
        ("INTEGER", "int"),
        ("smallint", "int"),
        ("tinyint", "int"),
        ("bigint", "long"),
        ("Int64", "long"),
        ("real", "float"),
        ("FLOAT8", "double"),
        ("double  precision", "double"),
        ("numeric(10, 2)", "decimal(10,2)"),
        ("decimal(7)", "decimal(7,0)"),
        ("varchar", "string"),
        ("TEXT", "string"),
        ("character varying", "string"),
        ("timestamp_ntz", "timestamp"),
        ("datetime", "timestamp"),
        ("timestamp without time zone", "timestamp"),
        ("timestamp_ltz", "timestamptz"),
        ("Timestamp With Time Zone", "timestamptz"),
        ("blob", "binary"),
        ("bytea", "binary"),
        ("fixed[16]", "fixed(16)"),
        ("fixed(16)[]", "list<fixed(16)>"),
        ("array<int>", "list<int>"),
        ("int[]", "list<int>"),
        ("int[][]", "list<list<int>>"),
        ("list(varchar)", "list<string>"),
        ("map(varchar, int[])", "map<string,list<int>>"),
        ("struct(a integer, b varchar)", "struct<a:int,b:string>"),
        ("ROW(a integer)", "struct<a:int>"),
        ("struct<a: int, `b c`: array<bigint>>", 'struct<a:int,"b c":list<long>>'),
        ('struct<"x.y":int>', 'struct<"x.y":int>'),
        ('struct<"x":int>', "struct<x:int>"),
        ("struct<int:int,list:list<int>>", "struct<int:int,list:list<int>>"),
        ("struct<double double precision>", "struct<double:double>"),
        ("struct<Über:int>", "struct<Über:int>"),
    ],
)
def test_the_words_of_every_engine_are_read(text: str, canonical: str) -> None:
    assert parse_type(text) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the type '' ends where a type belongs; write it as int, decimal"),
        ("strng", r"the type 'strng' is not known; did you mean string\?"),
        ("bigit", r"did you mean long\?"),
        ("varchr", r"did you mean string\?"),
        ("qqqq", "known are boolean, int, long, .* struct<a:T>"),
        ("varchar(10)", r"the type 'varchar\(10\)' has a size, which string does not keep; write string"),
        ("timestamp(6)", "has a size, which timestamp does not keep"),
        ("decimal", r"has no valid digits; write decimal\(p,s\) with p from 1 to 38 and s from 0 to p"),
        ("decimal(0)", "has no valid digits"),
        ("decimal(39,1)", "has no valid digits"),
        ("decimal(3,4)", "has no valid digits"),
        ("decimal(3,1,1)", "has no valid digits"),
        ("decimal(x,1)", "has 'x' where a number belongs"),
        ("decimal(-1,1)", "has '-1' where a number belongs"),
        ("decimal(9999999,1)", "has '9999999' where a number belongs"),
        ("fixed", r"needs its bytes; write fixed\(n\), n from 1 to 65535"),
        ("fixed(0)", "needs its bytes"),
        ("fixed(65536)", "needs its bytes"),
        ("int8", "the type 'int8' is not used here: it has 8 bytes to SQL and 8 bits to Arrow; write long or int"),
        ("ubigint", r"it does not fit into long; write decimal\(20,0\)"),
        ("list", "has its end where < or [(] belongs"),
        ("list<int", "has its end where > belongs"),
        ("list<int)", r"has '\)' where > belongs"),
        ("list<int>>", "goes on after its end with '>'; remove that"),
        ("int not null", "goes on after its end with 'not'"),
        ("list<>", "the type '>' is not known"),
        ("list<int,int>", "gives list 2 types, it takes 1"),
        ("map<int>", "gives map 1 types, it takes 2"),
        ("struct<>", "has '>' where a field's name belongs"),
        ("struct<a>", "the type '>' is not known"),
        ("struct<a:int,A:int>", "has the field 'A' twice; rename one"),
        ("struct<a:int,>", "has '>' where a field's name belongs"),
        ('struct<"a*":int>', "the field name 'a[*]' has U"),
        ('struct<"":int>', "the field name is empty"),
        ("int; drop table", "cannot be read at '; drop table'"),
        ("int[", "has its end where ] belongs"),
        ("int[3]", "has '3' where ] belongs"),
        ("'int'", "cannot be read at"),
        ("in\x00t", "cannot be read at"),
    ],
)
def test_everything_else_is_refused_and_the_error_says_why(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as refusal:
        parse_type(text)
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "list<" * 40 + "int" + ">" * 40,
        "int" + "[]" * 40,
        "list<" * 15 + "int[]" + ">" * 15,
        "list<" * 5_000,
        "int" + "[]" * 8_000,
        "struct<a:" * 2_000,
        "x" * (MAX_TYPE_LENGTH + 1),
    ],
)
def test_depth_and_length_are_bounded(text: str) -> None:
    with pytest.raises(TooLarge, match=r"is nested more than 16 deep; flatten it|is longer than 16384 characters"):
        parse_type(text)


def test_the_deepest_type_there_may_be() -> None:
    nested = MAX_TYPE_DEPTH - 1
    text = "list<" * nested + "int" + ">" * nested
    assert parse_type("int" + "[]" * nested) == parse_type(text) == text


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_ .]{0,3}[a-z]", fullmatch=True)
leaves = st.sampled_from([*PLAIN, "fixed(3)", "fixed(4)"]) | st.builds(
    lambda p, s: f"decimal({p + s},{s})", st.integers(1, 19), st.integers(0, 19)
)


def struct(fields: dict[str, str]) -> str:
    return "struct<" + ", ".join(f'"{name}": {kind}' for name, kind in fields.items()) + ">"


types = st.recursive(
    leaves,
    lambda inner: (
        inner.map("list< {} >".format)
        | inner.map("{}[]".format)
        | st.builds("map<{} , {}>".format, inner, inner)
        | st.dictionaries(names, inner, min_size=1, max_size=3)
        .filter(lambda fields: len({name.lower() for name in fields}) == len(fields))
        .map(struct)
    ),
    max_leaves=8,
)


@given(types)
def test_the_canonical_text_reads_as_itself(text: str) -> None:
    canonical = parse_type(text)
    assert parse_type(canonical) == canonical
    assert not widens(canonical, canonical)


@given(st.text(max_size=40) | st.text('<>(),:[]"` intlsruc0123', max_size=40))
def test_any_text_is_a_type_or_invalid(text: str) -> None:
    message, canonical = "", ""
    try:
        canonical = parse_type(text)
    except Invalid as refusal:
        message = str(refusal)
    assert message.isprintable()
    assert message or parse_type(canonical) == canonical


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "long"),
        ("float", "double"),
        ("decimal(5,2)", "decimal(6,2)"),
        ("list<int>", "list<long>"),
        ("map<string,float>", "map<string,double>"),
        ("struct<a:int,b:string>", "struct<a:long,b:string>"),
        ("struct<a:int>", "struct<a:int,b:string>"),
        ("list<struct<a:map<int,int>>>", "list<struct<a:map<int,long>,b:int>>"),
    ],
)
def test_types_widen_and_never_narrow(old: str, new: str) -> None:
    assert widens(old, new)
    assert not widens(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "double"),
        ("int", "string"),
        ("long", "double"),
        ("date", "timestamp"),
        ("timestamp", "timestamptz"),
        ("string", "binary"),
        ("fixed(3)", "fixed(4)"),
        ("decimal(5,2)", "decimal(6,3)"),
        ("decimal(5,2)", "decimal(5,3)"),
        ("int", "decimal(10,0)"),
        ("map<int,string>", "map<long,string>"),
        ("struct<a:int>", "struct<b:int>"),
        ("struct<a:int,b:int>", "struct<b:int,a:int>"),
        ("list<int>", "int"),
        ("list<int>", "map<int,int>"),
    ],
)
def test_other_changes_do_not_widen(old: str, new: str) -> None:
    assert not widens(old, new)
    assert not widens(new, old)


ladder = st.recursive(
    st.sampled_from(["int", "long", "float", "double", "decimal(5,2)", "decimal(6,2)", "decimal(7,2)"]),
    lambda inner: (
        inner.map("list<{}>".format) | inner.map("struct<a:{}>".format) | inner.map("struct<a:{},b:int>".format)
    ),
    max_leaves=2,
)


@given(ladder, ladder, ladder)
def test_widening_is_an_order(a: str, b: str, c: str) -> None:
    if widens(a, b):
        assert not widens(b, a)
        assert not widens(b, c) or widens(a, c)
